"""Errors of the operating system, with cause and hint: a full disk, a missing right, a long name."""

import errno
import os
import re
from pathlib import Path

from schemas.errors import StoreError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""errno of a full disk, of an exhausted quota, and of a limit on file sizes."""

_SHORT = re.compile(r"\d+ requested and \d+ written")
"""Message of numpy's error for a full disk, which has no errno."""


_REFUSALS = {
    errno.EACCES: (
        "this user has no permission for it",
        "Change the permissions, or choose another folder",
    ),
    errno.EPERM: (
        "this user has no permission for it",
        "Change the permissions, or choose another folder",
    ),
    errno.EROFS: ("the file system is read-only", "Mount it writable, or choose another folder"),
    errno.ENOENT: (
        "it doesn't exist, or was removed in the meantime",
        "Check the path, and run again",
    ),
    errno.ENOTDIR: ("a part of the path is not a folder", "Move away the file in its place"),
    errno.EISDIR: ("it is a folder where a file is expected", "Move the folder away"),
    errno.ENAMETOOLONG: ("the name is too long for the file system", "Choose shorter names"),
    errno.EEXIST: ("a file or a link is in its place", "Move it away, or choose another folder"),
    errno.ELOOP: (
        "it is a link where links aren't allowed, or its links form a cycle",
        "Remove or correct the link",
    ),
    errno.EMFILE: ("this process has too many files open", "Raise `ulimit -n`, or lower --workers"),
    errno.ENFILE: ("this machine has too many files open", "End other programs, and run again"),
    errno.ENOMEM: ("out of memory", "Lower --workers, or end other programs"),
    errno.EIO: ("the disk or its connection failed", "Check the disk, and run again"),
    errno.ESTALE: ("the network storage lost the file", "Mount it again, and repeat the command"),
}
"""Cause and hint of errors other than a full disk, by errno."""


_NUMBERS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}
"""errno to assume for errors that pyarrow raises without one."""


def refusal(failed: OSError, place: Path) -> StoreError | None:
    """Return the StoreError for an error of the operating system; None for errors that don't concern files.

    The StoreError names `place` if the error names no file. A plain OSError without errno is pyarrow's error
    about a malformed file; it also gets a StoreError.
    """
    if (full := no_room(failed)) is not None:
        return full
    number = failed.errno or _NUMBERS.get(type(failed), 0)
    if type(failed) is OSError and not number:
        found = (
            "a file is damaged, or has another format",
            "Run curriculum check on the workspace",
        )
    elif number in _REFUSALS:
        found = _REFUSALS[number]
    else:
        return None
    message = os.strerror(number) if failed.filename else str(failed)
    return StoreError(str(failed.filename or place), message, cause=found[0], cure=found[1])


def no_room(failed: OSError) -> StoreError | None:
    """Return the StoreError for a full disk; None for any other cause."""
    if failed.errno not in _NO_ROOM and not _SHORT.fullmatch(str(failed)):
        return None
    return StoreError(
        str(failed.filename or "the workspace's disk"),
        os.strerror(failed.errno or errno.ENOSPC),
        cause="nothing more could be written",
        cure="Free some space and run the same command again; it continues from the finished artefacts",
    )
