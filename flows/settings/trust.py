"""Workspaces that this user trusts: commands may write to them and run the commands in their diets.

A workspace from somebody else is read in a sandbox until the user runs `curriculum trust`. A workspace that
this user's commands created is trusted from the start. A workspace that another user of the machine can
change is never trusted unless $CURRICULUM_TRUST names it, because the other user could add a diet with a
command.

A workspace that replaces a trusted one isn't trusted. It is recognised by the ctime of its workspace.json,
which is later. The kernel sets ctime, to the nanosecond, and users can't set it back. No secret in the
workspace is needed, which other readers of the workspace could copy.
"""

import contextlib
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import filelock

from curriculum.exposure import (
    claim,
    exposure,
    exposure_below,
    exposure_inside,
    is_trusted_by_environment,
    own_exposure,
    real_path,
)
from curriculum.store import Store
from curriculum.store.inside import LOCKS, WORKSPACE_NAME
from curriculum.store.store import when_made
from flows import settings
from schemas.errors import StoreError
from schemas.json_text import Sealed, read_json
from schemas.manifest import MANIFEST_NAME
from schemas.regular_files import expanded
from schemas.text import Strict

RECORD = "trusted.json"
CONFIGURED = ("diets", "corpora", "phases", "ablations")
"""Folders of a workspace with YAML files that control what commands do and execute."""


class TrustedWorkspace(Strict):
    """Record of a trusted workspace; it identifies the workspace, so that a replacement is noticed."""

    path: str
    """Real path."""
    uuid: str
    changed: int
    """ctime of workspace.json in nanoseconds, which an archive can't set."""


class Trusted(Sealed):
    """Content of trusted.json in the user's state folder."""

    workspaces: tuple[TrustedWorkspace, ...] = ()


@contextlib.contextmanager
def trusting_new_workspace(home: Path) -> Iterator[None]:
    """Trust the workspace that the block creates at `home`, if nothing existed there before.

    The workspace is recorded as soon as its workspace.json is written, so that it is trusted even if the
    process is killed later. If a child process creates the workspace, it is recorded at the end of the block.
    Workspaces of $CURRICULUM_TRUST need no record, and get none if other users may write to them.
    """
    is_fresh = is_new(home)

    def trust_made(made: Path) -> None:
        is_shared = is_trusted_by_environment(home) and workspace_exposure(home)
        if is_fresh and made == home and not is_shared:
            trust(made)

    try:
        with when_made(trust_made):
            yield
    finally:
        if is_fresh and (home / WORKSPACE_NAME).is_file() and not is_trusted(home):
            trust(home)


def is_new(home: Path) -> bool:
    """Return True if only this user can change a workspace, and it is empty or has only this user's locks.

    Each command writes workspace.json before anything but locks. A workspace with other contents therefore
    comes from elsewhere.
    """
    # Check the folder before its contents: if nobody else can change it, the contents stay as found.
    if exposure(home) is not None:
        return False
    entries = home.iterdir() if home.exists() else ()
    return all(entry.name == LOCKS and _holds_locks(entry) for entry in entries)


def claim_home(home: Path) -> None:
    """Create the folder of a workspace now if another user could create it first, as in /tmp.

    Workspaces that $CURRICULUM_TRUST names are left alone.
    """
    if not is_trusted_by_environment(home):
        claim(home)


def _holds_locks(folder: Path) -> bool:
    """Return True if `folder` is this user's folder of locks and contains only empty regular files."""
    if own_exposure(folder) is not None:
        return False
    found = [entry.lstat() for entry in folder.iterdir()]
    return all(stat.S_ISREG(status.st_mode) and status.st_size == 0 for status in found)


def make_trusted(home: Path) -> None:
    """Create a workspace unless it exists; a new workspace is trusted."""
    with trusting_new_workspace(home):
        Store(home).open()


def is_trusted(home: Path) -> bool:
    """Return True if a workspace is recorded as trusted, or $CURRICULUM_TRUST names it.

    A recorded workspace must still have the same path, uuid and workspace.json, and no other user may be able
    to change it.

    Raises:
        SettingError: if the record is a link or other users may write to it.
    """
    if is_trusted_by_environment(home):
        return True
    try:
        return workspace_exposure(home) is None and _identity(home) in trusted()
    except (FileNotFoundError, StoreError):
        return False


def require_trusted(home: Path, *named: str | Path | None) -> None:
    """Raise unless all workspaces that a command writes to or executes are trusted or new.

    `named` are words of the command line. A word that is a path may lie in a workspace other than `home`;
    that workspace is checked too.

    Raises:
        StoreError: if a workspace isn't trusted, or if another user can change it.
    """
    for opened in untrusted(home, named):
        require_unexposed(opened)
        if not (opened / WORKSPACE_NAME).exists():
            raise StoreError(
                str(opened),
                cause="the folder isn't empty and has no workspace.json, so it isn't a workspace",
                cure="Give a new or empty folder with --home; or, if you trust its files and "
                f"their commands may run as you: curriculum trust {shlex.quote(str(opened))}",
            )
        raise StoreError(
            str(opened),
            cause="the workspace isn't trusted, and this command would write to it or run its "
            "commands as you",
            cure="Read it first (query, status, inspect, lineage, report, check); to trust it: "
            f"curriculum trust {shlex.quote(str(opened))}",
        )


def require_unexposed(home: Path) -> None:
    """Raise unless only this user and root can change a workspace, or the folder for a new one.

    Raises:
        StoreError: naming the folder that another user owns or may write to.
    """
    if (cause := workspace_exposure(home)) is not None:
        quoted = shlex.quote(str(home))
        raise StoreError(
            str(home),
            cause=f"{cause}: other users could change the files of commands and run code as you",
            cure="Give a folder of your own with --home, or remove the access of other users "
            "(chown, chmod go-w, setfacl -k; with -R inside of a workspace). If everybody "
            f"with write access may run code as you: export CURRICULUM_TRUST={quoted}",
        )


def workspace_exposure(home: Path) -> str | None:
    """Describe how another user could change a workspace, its entries or its YAML files; None if nobody can.

    Files further down and the targets of links are not checked. The entries are checked because they show
    whether others could once write to the workspace, for instance under a umask of 002 or a default ACL.
    """
    folders = (home / name for name in CONFIGURED)
    configured = (exposure_below(folder) for folder in folders if not folder.is_symlink())
    return exposure(home) or exposure_inside(home) or next(filter(None, configured), None)


def untrusted(home: Path, named: Iterable[str | Path | None]) -> list[Path]:
    """Return the real paths of those workspaces that a command opens and that are neither trusted nor new."""
    paths = [path for word in named if word and path_exists(path := expanded(word))]
    # A link may lead out of the workspace in its path, or into another workspace; both are opened.
    candidates = (place for path in paths for place in (path.absolute(), real_path(path)))
    within = filter(None, (Store.root_of(place / MANIFEST_NAME) for place in candidates))
    places = dict.fromkeys((home, *map(real_path, within)))
    return [place for place in places if not (is_new(place) or is_trusted(place))]


def outside_workspaces(named: Iterable[str | Path]) -> list[Path]:
    """List the real paths that exist and lie neither in a workspace nor below $CURRICULUM_TRUST."""
    paths = dict.fromkeys(real_path(path) for word in named if path_exists(path := expanded(word)))
    return [
        path
        for path in paths
        if Store.root_of(path / MANIFEST_NAME) is None and not is_trusted_by_environment(path)
    ]


def path_exists(path: Path) -> bool:
    """Return True if the path exists; False also for a text that is too long for a path."""
    try:
        return path.exists()
    except OSError:
        return False  # The word is a query or another text too long for a path.


def trusted() -> tuple[TrustedWorkspace, ...]:
    """Return the records of the workspaces that this user trusts.

    Raises:
        SettingError: if the file of records is a link or other users may write to it.
    """
    file = settings.state_folder() / RECORD
    try:
        found = file.lstat()
    except FileNotFoundError:
        return ()
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(
            file, "the file is a link, belongs to another user, or is writable for others"
        )
    return read_json(
        Trusted,
        file,
        error=settings.SettingError,
        cause="the file was changed, or another version wrote it",
        cure="Delete the file and trust your workspaces again",
    ).workspaces


def trust(home: Path) -> None:
    """Record a workspace as trusted, replacing an earlier record of its path.

    Raises:
        StoreError: if another user can change the workspace.
    """
    require_unexposed(home)
    workspace = _identity(home)
    with _changing() as others:
        _write((*(other for other in others if other.path != workspace.path), workspace))


def forget(home: Path) -> bool:
    """Stop trusting a path; return True if it was trusted."""
    with _changing() as before:
        _write(tuple(workspace for workspace in before if workspace.path != str(home)))
    return any(workspace.path == str(home) for workspace in before)


def is_inside(file: Path, home: Path) -> bool:
    """Return True if a file is in a workspace, either by the path as given or by its real path."""
    return home in file.absolute().parents or home in real_path(file).parents


def shadows(home: Path) -> tuple[str, ...]:
    """Return the files of a workspace that commands use instead of the package's file of the same name."""
    # --help must be fast, and diets are slow to import.
    from curriculum.mixing.diet_files import PACKAGE

    pairs = (("diets", "diets/*.yaml"), ("corpora", "corpora/*.yaml"), ("phases", "phases*.yaml"))
    return tuple(
        f"{folder}/{path.name}"
        for folder, shipped in pairs
        for path in sorted(PACKAGE.glob(shipped))
        if (home / folder / path.name).is_file()
    )


def shadow_words(home: Path) -> Iterator[str]:
    """Yield one line per file of the workspace that is used instead of a file of the package."""
    for name in shadows(home):
        yield f"{name} of the workspace is used instead of the package's"


def _identity(home: Path) -> TrustedWorkspace:
    return TrustedWorkspace(
        path=str(home),
        uuid=Store(home, dry=True).workspace().uuid,
        changed=(home / WORKSPACE_NAME).lstat().st_ctime_ns,
    )


@contextlib.contextmanager
def _changing() -> Iterator[tuple[TrustedWorkspace, ...]]:
    with filelock.FileLock(settings.state_folder() / f"{RECORD}.lock"):
        yield trusted()


def _write(workspaces: tuple[TrustedWorkspace, ...]) -> None:
    text = Trusted(workspaces=workspaces).model_dump_json(indent=1)
    settings.write_secret(settings.state_folder() / RECORD, text)


def _refused(file: Path, cause: str) -> settings.SettingError:
    return settings.SettingError(
        str(file), cause=cause, cure="Delete the file and trust your workspaces again"
    )
