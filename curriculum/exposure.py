"""Paths that another user of the machine can change: folders of other users, or writable by others."""

import contextlib
import grp
import os
import pwd
import stat
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from schemas.errors import StoreError

ROOT_USER = 0
MAX_LINKS = 40
"""Maximum number of links to follow in a path; Linux has the same limit."""
ACCESS_LIST = "system.posix_acl_access"
"""Extended attribute of files with an access control list."""
DEFAULT_LIST = "system.posix_acl_default"
"""Extended attribute of folders whose new entries get an access control list, regardless of umask."""
_OTHERS_WRITE = 0o022
_WRITE = 2
"""Write permission in an entry of an access control list."""
_USER, _OWN_GROUP, _GROUP, _MASK, _OTHERS = 2, 4, 8, 16, 32
"""Kinds of entries in an access control list, except the owner's: other users, groups, and the mask."""


def keep_others_out() -> None:
    """Set the umask so that other users can't write to files that this process and its children create.

    Raises:
        StoreError: if another user could rename entries of $TMPDIR, for instance because it isn't sticky.
    """
    os.umask(os.umask(0o077) | _OTHERS_WRITE)
    folder = real_path(Path(tempfile.gettempdir()))
    if (cause := exposure_above(folder / "made")) is not None:
        raise StoreError(
            "$TMPDIR",
            folder,
            cause=f"{cause}: other users could replace the temporary folders of a command",
            cure="Set $TMPDIR to a folder of your own, or make this folder sticky: chmod +t",
        )


def is_trusted_by_environment(path: Path) -> bool:
    """Return True if a path is $CURRICULUM_TRUST or inside; such paths are trusted without a record."""
    given = os.environ.get("CURRICULUM_TRUST") or None
    return given is not None and path.is_relative_to(real_path(Path(given)))


def exposure(path: Path) -> str | None:
    """Return a sentence on how another user could change or replace a path without links; None if it is safe.

    The folder must belong to this user, and each parent folder to this user or root. No other user may
    write to any of them, except to sticky parent folders like /tmp, where others can't replace an entry of
    this user. A path that doesn't exist is safe only if just this user and root can create it, and no other
    user may write to it afterwards.
    """
    return _words(*_judged(path, (*reversed(path.parents), path)))


def exposure_above(path: Path) -> str | None:
    """Return how another user could replace a path without links through its parent folders, or None."""
    return _words(*_judged(path, reversed(path.parents)))


def claim(path: Path) -> None:
    """Create the first missing folder of a path without links, if other users could create it as well.

    So nobody can put another folder in its place. This concerns folders directly in a shared folder like
    /tmp. If another user created the folder before, `exposure` reports it. Nothing is created if another
    user can change a parent folder.
    """
    words, missing = _judged(path, (*reversed(path.parents), path))
    if words is None and missing is not None:
        with contextlib.suppress(OSError):
            missing.mkdir(mode=0o755)


def _judged(path: Path, folders: Iterable[Path]) -> tuple[str | None, Path | None]:
    """Return how another user could change one of `folders`, and the first that others could create.

    `folders` lead down to `path`, each followed by a folder inside. Each is checked once, after its
    parents: if these are safe, nobody else can replace the folder afterwards.
    """
    is_shared, inherited = False, None
    for place in folders:
        found = _status(place)
        if found is None:
            return (None, place) if is_shared else (inherited, None)
        if (words := _exposure_of_folder(place, found, is_above=place != path)) is not None:
            return words, None
        is_shared, inherited = _others_may_write(place, found), _exposure_by_default(place, found)
    return None, None


def _words(words: str | None, missing: Path | None) -> str | None:
    """Return how another user could change a path, given the two results of `_judged`."""
    if missing is not None:
        return f"{missing} doesn't exist, and users other than you may create it first"
    return words


def exposure_below(folder: Path) -> str | None:
    """Return how another user could change something in a folder, at any depth; None if nobody could.

    Each entry must belong to this user or root, and no other user may write to it. Links aren't followed.
    """
    return _exposure_of_entries(_entries_below(folder))


def exposure_inside(folder: Path) -> str | None:
    """Return how another user could change a direct entry of a folder, by the rules of `exposure_below`."""
    return _exposure_of_entries(_entries_in(folder))


def _exposure_of_entries(entries: Iterable["os.DirEntry[str]"]) -> str | None:
    owners = {ROOT_USER, os.getuid()}
    places = (Path(entry.path) for entry in entries)
    found = (_exposure_of(place, _status(place), owners) for place in places)
    return next(filter(None, found), None)


def leaves_below(folder: Path, *, without: str = "") -> Iterator[Path]:
    """Yield all paths below a folder except folders and links to folders, in no particular order.

    Folders named `without` are skipped with their contents.
    """
    for entry in _entries_below(folder, without):
        leaf = Path(entry.path)
        is_link = entry.is_symlink()
        if not (leaf.is_dir() if is_link else entry.is_dir()):
            yield leaf


def _entries_below(folder: Path, without: str = "") -> Iterator["os.DirEntry[str]"]:
    """Yield all entries of a folder at any depth. `os.walk` would fail at Python's recursion limit."""
    pending = [folder]
    while pending:
        for entry in _entries_in(pending.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False) and entry.name != without:
                pending.append(Path(entry.path))


def _entries_in(folder: Path) -> list["os.DirEntry[str]"]:
    """Return the entries of a folder; empty if it can't be listed."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def led_path(path: Path) -> tuple[Path, str | None]:
    """Return the path that an absolute path leads to through links, and how another user could redirect it.

    The second value is None if nobody could. Each link on the way, and each folder that contains one, must
    belong to this user or root, and be safe as in `exposure`. Parents of the resolved path aren't checked.
    A link is judged at the moment when it is followed; removing it later doesn't matter.
    """
    way: dict[Path, os.stat_result | None] = {}
    real = _followed(path, way)
    if real is None:
        return path, "its links form a cycle"
    owners = {ROOT_USER, os.getuid()}
    words = (
        _exposure_of(place, found, owners, is_above=True)
        for place, found in way.items()
        if place not in {real, *real.parents}
    )
    return real, next(filter(None, words), None)


def _followed(path: Path, way: dict[Path, os.stat_result | None]) -> Path | None:
    """Return a path with all links followed, or None if there are too many.

    The status of each place on the way is stored in `way`.
    """
    place, pending, links = Path(path.anchor), [*reversed(path.parts[1:])], 0
    while pending:
        name = pending.pop()
        if name == os.pardir:
            place = place.parent
            continue
        found = way[place / name] = _status(place / name)
        if found is None or not stat.S_ISLNK(found.st_mode):
            place /= name
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        target = _target(place / name)
        place = Path(target.anchor) if target.is_absolute() else place
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return place


def _target(link: Path) -> Path:
    """Return the target of a link, or the link itself if it was replaced in the meantime."""
    try:
        return link.readlink()
    except OSError:
        return link


def real_path(path: Path) -> Path:
    """Return a path with all links followed; for a cycle of links, the absolute path.

    Before Python 3.13, pathlib raises RuntimeError for a cycle.
    """
    try:
        return path.resolve()
    except (RuntimeError, OSError):
        return path.absolute()


def own_exposure(folder: Path) -> str | None:
    """Return why other users can change a folder itself; None if they can't or the folder doesn't exist."""
    found = _status(folder)
    return None if found is None else _exposure_of_folder(folder, found, is_above=False)


def _exposure_of_folder(place: Path, found: os.stat_result, *, is_above: bool) -> str | None:
    """Return how another user could change a folder, or None; with `is_above`, how one could replace it.

    Links count as unsafe.
    """
    if not stat.S_ISDIR(found.st_mode):
        return f"{place} is a link or a file, not a folder"
    owners = {os.getuid(), *((ROOT_USER,) if is_above else ())}
    return _exposure_of(place, found, owners, is_above=is_above)


def _exposure_of(
    place: Path, found: os.stat_result | None, owners: set[int], *, is_above: bool = False
) -> str | None:
    """Return how another user could change a place whose status is `found`; None if nobody could."""
    if found is None:
        return None
    if found.st_uid not in owners:
        return f"{place} belongs to another user, {_user(found.st_uid)}"
    is_sticky = is_above and bool(found.st_mode & stat.S_ISVTX)
    if is_sticky or stat.S_ISLNK(found.st_mode):
        return None
    if _others_may_write(place, found):
        return f"users other than you may write to {place}"
    return None if is_above else _exposure_by_default(place, found)


def _exposure_by_default(place: Path, found: os.stat_result) -> str | None:
    """Return how another user could change new entries of a folder because of its default access list."""
    if not (stat.S_ISDIR(found.st_mode) and _others_may_write_inside(place, found)):
        return None
    return f"users other than you may write to what is made in {place}, by its default access control list"


def _status(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except OSError:
        return None  # The place doesn't exist, or this user can't reach it and so can't use it.


def _others_may_write(place: Path, found: os.stat_result) -> bool:
    """Return True if all users may write, or a group that has other members than the owner.

    On systems with a group for each user, the umask is 002, and the group's permissions concern nobody
    else. With an access control list, the bits of the group are the maximum permissions of any user in it.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    return _has_access_list(place) or not _is_group_of_one(found.st_gid, found.st_uid)


def _others_may_write_inside(folder: Path, found: os.stat_result) -> bool:
    """Return True if a folder's default access list lets others write to entries that this user creates."""
    entries = [*struct.iter_unpack("<HHI", (_attribute(folder, DEFAULT_LIST) or b"")[4:])]
    mask = next((rights for kind, rights, _ in entries if kind == _MASK), _WRITE)
    kinds = {kind for kind, rights, _ in entries if rights & _WRITE and kind != _USER}
    users = {user for kind, rights, user in entries if rights & _WRITE and kind == _USER}
    if _OTHERS in kinds:
        return True
    owner = found.st_uid
    groups = {found.st_gid, os.getegid()} if _OWN_GROUP in kinds else set()
    is_granted = (
        _GROUP in kinds
        or bool(users - {owner, ROOT_USER})
        or not all(_is_group_of_one(group, owner) for group in groups)
    )
    return bool(mask & _WRITE) and is_granted


def _has_access_list(place: Path) -> bool:
    return _attribute(place, ACCESS_LIST) is not None


def _attribute(place: Path, name: str) -> bytes | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(place, name)
    except OSError:
        return None  # The file system has no extended attributes, or the place has no attribute of this name.


def _is_group_of_one(group_id: int, owner_id: int) -> bool:
    try:
        group, owner = grp.getgrgid(group_id), pwd.getpwuid(owner_id)
    except KeyError:
        return False
    # The member list of a group omits users whose primary group it is.
    members = {
        *group.gr_mem,
        *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group.gr_gid),
    }
    return group.gr_name == owner.pw_name and members <= {owner.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"
