"""Paths that another user of the machine can change: folders of others, or folders that others may write."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

ROOT_USER = 0
MAX_LINKS = 40
"""Links that Linux follows on one way."""
ACCESS_LIST = "system.posix_acl_access"
"""Attribute of files with an access control list."""


def exposure(path: Path) -> str | None:
    """Return how another user could change or replace what lies at a real path, or None.

    The folder must belong to this user, and each folder above it to this user or to root. No other user may
    write to any of these folders; in folders above with the sticky bit, such as /tmp, others can't replace an
    entry of this user. A path that doesn't exist yet is judged by the folders above it.
    """
    words = (own_exposure(path), *map(_exposure_above, path.parents))
    return next(filter(None, words), None)


def exposure_of_entries(folder: Path) -> str | None:
    """Return how another user could rename or remove what this user has in a folder at a real path, or None.

    The folder and all above it are judged as those above in `exposure`: others may add files of their own to
    one with the sticky bit.
    """
    return next(filter(None, map(_exposure_above, (folder, *folder.parents))), None)


def exposure_below(folder: Path) -> str | None:
    """Return how another user could change something in a folder, at any depth, or None.

    Each entry must belong to this user or to root, and no other user may write to it. Links aren't followed.
    """
    inside = (
        Path(place, name)
        for place, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )
    owners = {ROOT_USER, os.getuid()}
    return next(
        filter(None, (_exposure_of(place, _status(place), owners) for place in inside)), None
    )


def exposure_of_links(path: Path, real: Path) -> str | None:
    """Return how another user could lead an absolute path elsewhere than to its real path, or None.

    Each link on the way, and each folder that holds one, must belong to this user or to root, and be safe
    from others as in `exposure`. Folders above the real path aren't judged.
    """
    way = dict.fromkeys(place for place in _way(path) if place not in {real, *real.parents})
    return next(filter(None, map(_exposure_above, way)), None)


def _way(path: Path, links: int = 0) -> Iterator[Path]:
    """Yield a path, all above it, and the ways to which the links among them lead."""
    for place in (path, *path.parents):
        yield place
        if links < MAX_LINKS and place.is_symlink():
            yield from _way(place.parent / place.readlink(), links + 1)


def real_path(path: Path) -> Path:
    """Return a path without links; where its links lead in a circle, the absolute path.

    Before Python 3.13, pathlib raises a RuntimeError for such a circle, and it is no user's error.
    """
    try:
        return path.resolve()
    except (RuntimeError, OSError):
        return path.absolute()


def own_exposure(folder: Path) -> str | None:
    """Return why a folder itself isn't this user's alone, or None; what doesn't exist is no one's."""
    found = _status(folder)
    if found is not None and not stat.S_ISDIR(found.st_mode):
        return f"{folder} is a link or a file, not a folder"
    return _exposure_of(folder, found, {os.getuid()})


def _exposure_above(place: Path) -> str | None:
    return _exposure_of(place, _status(place), {ROOT_USER, os.getuid()}, sticky_is_safe=True)


def _exposure_of(
    place: Path, found: os.stat_result | None, owners: set[int], *, sticky_is_safe: bool = False
) -> str | None:
    """Return how another user could change what was found at a place, or None."""
    if found is None:
        return None
    if found.st_uid not in owners:
        return f"{place} belongs to another user, {_user(found.st_uid)}"
    is_sticky = sticky_is_safe and bool(found.st_mode & stat.S_ISVTX)
    if is_sticky or stat.S_ISLNK(found.st_mode) or not _others_may_write(place, found):
        return None
    return f"users other than you may write to {place}"


def _status(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except OSError:
        return None  # It doesn't exist, or this user can't reach it and so can't use it either.


def _others_may_write(place: Path, found: os.stat_result) -> bool:
    """Return True for what all users may write, or a group with other members than the owner.

    Where each user has a group of its own, the umask is 002: that group grants nothing to others. Where a
    folder has an access control list, the bits of the group say what any user of the list may do at most.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    return _has_access_list(place) or not _is_group_of_one(found)


def _has_access_list(place: Path) -> bool:
    if not hasattr(os, "listxattr"):
        return False
    try:
        return ACCESS_LIST in os.listxattr(place)
    except OSError:
        return False  # This file system has no such attributes.


def _is_group_of_one(found: os.stat_result) -> bool:
    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and {*group.gr_mem} <= {owner.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"
