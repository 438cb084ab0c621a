"""The workspaces that this user trusts, so that commands that their diets name may run.

A workspace that somebody else sent is data. What it names to be executed, a diet's `trainer.command`, runs
only after `curriculum trust`. A workspace that this user's commands made from nothing is trusted from then
on, and so is a diet that lies outside of the workspace and is named by its path.
"""

import contextlib
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import filelock

from curriculum.mixing.load import PACKAGE, diet_files, load_diet
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.recorded_config import resolved
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from curriculum.store.inside import CLONES, LOCKS, WORKSPACE_NAME
from curriculum.store.store import when_made
from curriculum.train.run_directory import replace_whole
from flows import settings
from schemas.errors import DietError, StoreError
from schemas.json_text import Sealed, read_json
from schemas.text import Strict

RECORD = "trusted.json"
_BEFORE = {CLONES, LOCKS}
"""Folders that a command may leave behind before it makes a workspace; clones name nothing to be executed."""


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
    trusted workspace; one that another process of the command made is recorded at the end.
    """
    place = home.absolute()
    is_fresh = not home.exists() or (
        home.is_dir() and {each.name for each in home.iterdir()} <= _BEFORE
    )

    def trust_made(made: Path) -> None:
        if is_fresh and made == place:
            trust(made)

    try:
        with when_made(trust_made):
            yield
    finally:
        if is_fresh and (home / WORKSPACE_NAME).is_file() and not is_trusted(home):
            trust(home)


def make_trusted(home: Path) -> None:
    """Make a workspace before anything is served of it; one made from nothing is trusted."""
    with trusting_new_workspace(home):
        Store(home).open()


def is_trusted(home: Path) -> bool:
    """Return True for a workspace of the record, with the same path, uuid and file, or $CURRICULUM_TRUST.

    Raises:
        SettingError: for a record that is a link, or that others may write.
    """
    try:
        return home.resolve() == settings.trusted_by_environment() or _identity(home) in trusted()
    except (FileNotFoundError, StoreError):
        return False


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
    """Record a workspace as trusted, in place of what was trusted at its path before."""
    workspace = _identity(home)
    with _changing() as others:
        _write((*(each for each in others if each.path != workspace.path), workspace))


def forget(home: Path) -> bool:
    """Trust a path no more, and return whether it was trusted."""
    path = str(home.resolve())
    with _changing() as before:
        _write(tuple(each for each in before if each.path != path))
    return any(each.path == path for each in before)


def permitted(plan: RunPlan) -> str | None:
    """Return the trainer's command that may run for a plan; None where its diet names none.

    Asked just before the run, as well as before anything is built for it.

    Raises:
        DietError: for one that only a workspace names which isn't trusted.
    """
    command = None if plan.diet.trainer is None else plan.diet.trainer.command
    if command is None or is_trusted(plan.store.root) or _is_own(plan, command):
        return command
    raise refused(plan.store.root, plan.config.specialist, command)


def refused(home: Path, specialist: str, command: str) -> DietError:
    """The error of a command that may not run."""
    named = specialist
    with contextlib.suppress(DietError):
        # A diet that was laid down with its order may be gone by now.
        named = str(_naming(specialist, home))
    return DietError(
        named,
        f"trainer.command = {command!r}",
        cause=f"it would run as you, and you haven't trusted the workspace {home}",
        cure=f"Read it; if it may run: curriculum trust {shlex.quote(str(home))}",
    )


def known_config(config: RunConfig) -> RunConfig:
    """Return the config whose specialist is a diet, or that a branch without one was made by.

    Raises:
        DietError: for another trainer's command that an untrusted workspace's records name.
    """
    return resolved(
        config,
        is_trusted=is_trusted(config.workspace),
        refuse=lambda recorded, command: refused(recorded.workspace, recorded.specialist, command),
    )


def is_inside(file: Path, home: Path) -> bool:
    """Return True for what lies in a workspace, by its path or behind links."""
    if not home.exists():
        return False
    places = (*file.absolute().parents, *file.resolve().parents)
    return any(each.exists() and each.samefile(home) for each in places)


def _is_own(plan: RunPlan, command: str) -> bool:
    """Return True where a file outside of the workspace names the command now."""
    specialist, home = plan.config.specialist, plan.store.root
    try:
        trainer = load_diet(specialist, home=home).trainer
        files = diet_files(specialist, home)
    except DietError:
        return False
    is_outside = not any(is_inside(each, home) for each in files)
    return is_outside and trainer is not None and trainer.command == command


def _naming(specialist: str, home: Path) -> Path:
    """The file of a diet that lies in the workspace: its own, or that of the one that it extends."""
    files = diet_files(specialist, home)
    return next((each for each in files if is_inside(each, home)), files[0])


def shadows(home: Path) -> tuple[str, ...]:
    """Files of a workspace that are found before those of the package with the same name: diets/mine.yaml."""
    pairs = (("diets", "diets/*.yaml"), ("corpora", "corpora/*.yaml"), ("phases", "phases*.yaml"))
    return tuple(
        f"{folder}/{each.name}"
        for folder, shipped in pairs
        for each in sorted(PACKAGE.glob(shipped))
        if (home / folder / each.name).is_file()
    )


def shadow_words(home: Path) -> Iterator[str]:
    """A line for each file of the workspace that hides one of the package."""
    for name in shadows(home):
        yield f"{name} of the workspace is read in place of the package's"


def _identity(home: Path) -> TrustedWorkspace:
    real = home.resolve(strict=True)
    return TrustedWorkspace(
        path=str(real),
        uuid=Store(real, dry=True).workspace().uuid,
        changed=(real / WORKSPACE_NAME).lstat().st_ctime_ns,
    )


@contextlib.contextmanager
def _changing() -> Iterator[tuple[TrustedWorkspace, ...]]:
    with filelock.FileLock(settings.state_folder() / f"{RECORD}.lock"):
        yield trusted()


def _write(workspaces: tuple[TrustedWorkspace, ...]) -> None:
    text = Trusted(workspaces=workspaces).model_dump_json(indent=1)

    def write(draft: Path) -> None:
        draft.touch(0o600)
        draft.write_text(text)

    replace_whole(settings.state_folder() / RECORD, write)


def _refused(file: Path, cause: str) -> settings.SettingError:
    return settings.SettingError(str(file), cause=cause, cure="Delete it, and trust again")
