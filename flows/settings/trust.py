"""The workspaces that this user trusts: commands write to them, and run what their diets name.

A workspace that somebody else sent is looked at from within a sandbox until `curriculum trust`. One that this
user's commands made from nothing is trusted from then on. A workspace that another user of the machine can
change is never trusted, but by $CURRICULUM_TRUST: its owner could add a diet that names a command.

What is put in a trusted workspace's place isn't trusted: its workspace.json changed later (ctime). The system
sets that time, to the nanosecond, and it only moves on; so no secret is kept beside it, which whoever may
read the workspace could copy.
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
"""Folders of a workspace with the YAML files that say what commands do and run."""


class TrustedWorkspace(Strict):
    """A workspace as it was when it was trusted: what is put in its place is another workspace."""

    path: str
    """Without links."""
    uuid: str
    changed: int
    """Nanoseconds of workspace.json's last change (ctime), which no archive and no sender can set."""


class Trusted(Sealed):
    """trusted.json in the user's folder of state."""

    workspaces: tuple[TrustedWorkspace, ...] = ()


@contextlib.contextmanager
def trusting_new_workspace(home: Path) -> Iterator[None]:
    """Trust the workspace that is made within the block, where nothing was there before.

    It is recorded as soon as its workspace.json is written, so that a process that is killed later leaves a
    trusted workspace; one that another process of the command made is recorded at the end. One of
    $CURRICULUM_TRUST needs no record, and gets none where others may write to it.
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
    """Return True where a workspace has nothing yet but this user's locks, and is this user's.

    Each command writes workspace.json before anything but locks. So what else lies there was put there.
    """
    # Before its contents: where nobody else can change it, they stay as they are found.
    if exposure(home) is not None:
        return False
    entries = home.iterdir() if home.exists() else ()
    return all(entry.name == LOCKS and _holds_locks(entry) for entry in entries)


def claim_home(home: Path) -> None:
    """Make the folder of a workspace that other users could make first, but below $CURRICULUM_TRUST."""
    if not is_trusted_by_environment(home):
        claim(home)


def _holds_locks(folder: Path) -> bool:
    """Return True for this user's folder of locks: regular files, with nothing in them."""
    if own_exposure(folder) is not None:
        return False
    found = [entry.lstat() for entry in folder.iterdir()]
    return all(stat.S_ISREG(each.st_mode) and each.st_size == 0 for each in found)


def make_trusted(home: Path) -> None:
    """Make a workspace before anything is served of it; one made from nothing is trusted."""
    with trusting_new_workspace(home):
        Store(home).open()


def is_trusted(home: Path) -> bool:
    """Return True for a workspace of the record, with the same path, uuid and file, or of $CURRICULUM_TRUST.

    A workspace of the record counts as long as no other user can change it.

    Raises:
        SettingError: for a record that is a link, or that others may write.
    """
    if is_trusted_by_environment(home):
        return True
    try:
        return workspace_exposure(home) is None and _identity(home) in trusted()
    except (FileNotFoundError, StoreError):
        return False


def require_trusted(home: Path, *named: str | Path | None) -> None:
    """Let a command pass that writes to a workspace or executes what it says: it is trusted, or new.

    `named` are words of the command line: those that are paths may lie in other workspaces.

    Raises:
        StoreError: for a workspace that isn't trusted, or that another user can change.
    """
    for opened in untrusted(home, named):
        require_unexposed(opened)
        if not (opened / WORKSPACE_NAME).exists():
            raise StoreError(
                str(opened),
                cause="the folder isn't empty, and is no workspace: it has no workspace.json",
                cure="Name a new or an empty folder with --home; or, if all in it may be used, and what "
                f"its diets name may run as you: curriculum trust {shlex.quote(str(opened))}",
            )
        raise StoreError(
            str(opened),
            cause="you haven't trusted this workspace, and the command would write to it, or run as you "
            "what it says",
            cure="Look at it (query, status, inspect, lineage, report, check); if it may be used: "
            f"curriculum trust {shlex.quote(str(opened))}",
        )


def require_unexposed(home: Path) -> None:
    """Raise unless this user and root alone can change a workspace, or the folder that it will be made in.

    Raises:
        StoreError: naming the folder that another user owns or may write to.
    """
    if (cause := workspace_exposure(home)) is not None:
        quoted = shlex.quote(str(home))
        raise StoreError(
            str(home),
            cause=f"{cause}: they could change what commands write, and what they run as you",
            cure="Name a folder of your own with --home, or make what is named here yours alone (chown, "
            "chmod go-w, setfacl -k; with -R for what lies in a workspace); if all who can write there may "
            f"run code as you: export CURRICULUM_TRUST={quoted}",
        )


def workspace_exposure(home: Path) -> str | None:
    """Return how another user could change a workspace, an entry of it, or a YAML file of it; or None.

    What lies deeper isn't looked at, nor behind links. Workspaces that others could write to once, under a
    umask of 002 or a default access control list, are found by their entries.
    """
    folders = (home / name for name in CONFIGURED)
    configured = (exposure_below(folder) for folder in folders if not folder.is_symlink())
    return exposure(home) or exposure_inside(home) or next(filter(None, configured), None)


def untrusted(home: Path, named: Iterable[str | Path | None]) -> list[Path]:
    """List the workspaces that a command opens and that aren't trusted, by their real paths."""
    paths = [path for word in named if word and is_there(path := expanded(word))]
    # A link may lead out of the workspace whose name stands before it, or into another one: both are opened.
    format_reference = (place for path in paths for place in (path.absolute(), real_path(path)))
    within = filter(None, (Store.root_of(place / MANIFEST_NAME) for place in format_reference))
    places = dict.fromkeys((home, *map(real_path, within)))
    return [place for place in places if not (is_new(place) or is_trusted(place))]


def is_there(path: Path) -> bool:
    """Return True for a path at which something is."""
    try:
        return path.exists()
    except OSError:
        return False  # It is a question, or another text too long for a path.


def trusted() -> tuple[TrustedWorkspace, ...]:
    """The workspaces that this user trusts.

    Raises:
        SettingError: for a record that is a link, or that others may write.
    """
    file = settings.state_folder() / RECORD
    try:
        found = file.lstat()
    except FileNotFoundError:
        return ()
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(file, "it is a link, another user's, or others may write it")
    return read_json(
        Trusted,
        file,
        error=settings.SettingError,
        cause="it was changed since it was written, or another version wrote it",
        cure="Delete it, and trust your workspaces again",
    ).workspaces


def trust(home: Path) -> None:
    """Record a workspace as trusted, in place of what was trusted at its path before.

    Raises:
        StoreError: for a workspace that another user can change.
    """
    require_unexposed(home)
    workspace = _identity(home)
    with _changing() as others:
        _write((*(other for other in others if other.path != workspace.path), workspace))


def forget(home: Path) -> bool:
    """Trust a path no more, and return whether it was trusted."""
    with _changing() as before:
        _write(tuple(each for each in before if each.path != str(home)))
    return any(each.path == str(home) for each in before)


def is_inside(file: Path, home: Path) -> bool:
    """Return True for what lies in a workspace, by its path or behind links."""
    return home in file.absolute().parents or home in real_path(file).parents


def shadows(home: Path) -> tuple[str, ...]:
    """Files of a workspace that are found before those of the package with the same name: diets/mine.yaml."""
    # Help must be there at once, and diets are slow to import.
    from curriculum.mixing.diet_files import PACKAGE

    pairs = (("diets", "diets/*.yaml"), ("corpora", "corpora/*.yaml"), ("phases", "phases*.yaml"))
    return tuple(
        f"{folder}/{path.name}"
        for folder, shipped in pairs
        for path in sorted(PACKAGE.glob(shipped))
        if (home / folder / path.name).is_file()
    )


def shadow_words(home: Path) -> Iterator[str]:
    """A line for each file of the workspace that hides one of the package."""
    for name in shadows(home):
        yield f"{name} of the workspace is read in place of the package's"


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
    return settings.SettingError(str(file), cause=cause, cure="Delete it, and trust again")
