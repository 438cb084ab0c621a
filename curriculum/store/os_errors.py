"""Errors of the operating system, each named as what it is: a full disk, a missing right, a long name."""

import errno
import os
import re
from pathlib import Path

from schemas.errors import StoreError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""A full disk, a quota that is used up, and a limit on the size of files."""

_SHORT = re.compile(r"\d+ requested and \d+ written")
"""Numpy's message for it, without the error's number."""


_REFUSALS = {
    errno.EACCES: (
        "this user may not do that there",
        "Change the rights, or name a place of yours",
    ),
    errno.EPERM: ("this user may not do that there", "Change the rights, or name a place of yours"),
    errno.EROFS: ("the file system is read-only", "Mount it writable, or name another place"),
    errno.ENOENT: (
        "it isn't there, or was removed meanwhile",
        "Check the path, and run again",
    ),
    errno.ENOTDIR: ("a part of the path is no folder", "Move away the file that is in its place"),
    errno.EISDIR: ("it is a folder where a file is expected", "Move the folder away"),
    errno.ENAMETOOLONG: ("the name is longer than the file system takes", "Choose shorter names"),
    errno.EEXIST: ("a file or a link is in its place", "Move it away, or name another place"),
    errno.ELOOP: (
        "it is a link where none may be, or its links lead in a circle",
        "Remove or correct the link",
    ),
    errno.EMFILE: ("this process has too many files open", "Raise `ulimit -n`, or lower --workers"),
    errno.ENFILE: ("this machine has too many files open", "End other programs, and run again"),
    errno.ENOMEM: ("there is no memory left", "Lower --workers, or end other programs"),
    errno.EIO: ("the disk or its connection is at fault", "Check the disk, and run again"),
    errno.ESTALE: ("the network storage lost the file", "Mount it anew, and run again"),
}
"""Cause and cure of other errors, by number."""


_NUMBERS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}
"""The numbers of errors that pyarrow raises without one."""


def refusal(failed: OSError, place: Path) -> StoreError | None:
    """An error of the operating system by its number; None for one that isn't of a file.

    `place` is named where the error names no file. A number is also lacking where pyarrow reads what isn't
    of its format.
    """
    if (full := no_room(failed)) is not None:
        return full
    number = failed.errno or _NUMBERS.get(type(failed), 0)
    if type(failed) is OSError and not number:
        found = (
            "a file is damaged, or isn't of its format",
            "Run curriculum check on the workspace",
        )
    elif number in _REFUSALS:
        found = _REFUSALS[number]
    else:
        return None
    message = os.strerror(number) if failed.filename else str(failed)
    return StoreError(str(failed.filename or place), message, cause=found[0], cure=found[1])


def no_room(failed: OSError) -> StoreError | None:
    """Return the error to raise after a full disk; None for any other cause."""
    if failed.errno not in _NO_ROOM and not _SHORT.fullmatch(str(failed)):
        return None
    return StoreError(
        str(failed.filename or "the workspace's disk"),
        os.strerror(failed.errno or errno.ENOSPC),
        cause="nothing more could be written",
        cure="Free some space and run the same command again: it continues from what is finished",
    )
