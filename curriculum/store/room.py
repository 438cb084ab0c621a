"""A disk that is full, said in a line; it may be anybody who wanted to write."""

import errno
import os
import re

from schemas.errors import StoreError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""A full disk, a quota that is used up, and a limit on the size of files."""

_SHORT = re.compile(r"\d+ requested and \d+ written")
"""What numpy says of it, without the error's number."""


def no_room(failed: OSError) -> StoreError | None:
    """What to tell of an error that came of a full disk; None for any other."""
    if failed.errno not in _NO_ROOM and not _SHORT.fullmatch(str(failed)):
        return None
    return StoreError(
        str(failed.filename or "the workspace's disk"),
        os.strerror(failed.errno or errno.ENOSPC),
        cause="nothing more could be written",
        cure="Make room, and give the same command: it goes on from what stands",
    )
