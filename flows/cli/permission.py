"""`curriculum trust`: trust a workspace that comes from elsewhere, and list the commands in its diets."""

import shlex
from pathlib import Path

from rich.text import Text

from curriculum.exposure import exposure_below, real_path
from curriculum.mixing.diet_files import EXTENDS, FOLDERS, is_path
from curriculum.store import Store
from curriculum.store.inside import CLONES, require_plain
from flows.cli.console import MUTED, out
from flows.settings import trust
from schemas.errors import DietError, StoreError
from schemas.text import read_yaml, text_of
from schemas.visible import one_line, shortened

_YAML = {".yaml", ".yml"}


def trust_workspace(home: Path) -> None:
    """Print the trainer commands in a workspace's diets, and trust the workspace.

    Raises:
        StoreError: if the folder doesn't exist, if another user can change it, if it contains something other
            than plain files and folders, or if a diet extends a file outside of the folder of diets.
    """
    if not home.is_dir():
        raise StoreError(
            str(home), cause="the folder doesn't exist", cure="Give the folder of a workspace"
        )
    trust.require_unexposed(home)
    require_plain(home)
    if (cause := exposure_below(home)) is not None:
        raise StoreError(
            str(home),
            cause=f"{cause}: they could change the workspace after you trusted it",
            cure="Remove the access of other users: chown -R, chmod -R go-w and setfacl -R -k "
            f"{shlex.quote(str(home))}",
        )
    _print_commands(home)
    Store(home).open()
    trust.trust(home)
    words = "is trusted now: commands may write to it, and the commands in its diets run as you"
    out.print(f"{one_line(str(home))} {words}", soft_wrap=True)
    out.print(
        "Use your command line to give files, --repo, --configure or --unsandboxed; those in its "
        "records are ignored",
        soft_wrap=True,
    )


def forget_workspace(home: Path) -> None:
    """Stop trusting a workspace.

    Raises:
        StoreError: if the workspace wasn't trusted.
    """
    if not trust.forget(home):
        raise StoreError(
            str(home), cause="the workspace isn't trusted", cure="See curriculum trust --list"
        )
    out.print(f"{one_line(str(home))} is no longer trusted")


def list_trusted() -> None:
    """Print the trusted workspaces, and say which of them have been replaced since they were trusted."""
    listed = trust.trusted()
    for workspace in listed:
        words = (
            ""
            if trust.is_trusted(real_path(Path(workspace.path)))
            else "  now missing, replaced, or writable for other users"
        )
        out.print(Text(one_line(workspace.path)), Text(words, MUTED), sep="", soft_wrap=True)
    if not listed:
        out.print("No workspace is trusted.")


def _print_commands(home: Path) -> None:
    """Print the trainer commands in a workspace's YAML files, and the files that can't be read.

    Raises:
        StoreError: if a diet extends a file outside of the folder of diets.
    """
    is_clean = True
    for file in _possible_diets(home):
        try:
            diet = read_yaml(
                text_of(file, error=DietError), file=str(file), error=DietError
            ).content
        except DietError as broken:
            words = f"can't be read, so its trainer command is unknown: {shortened(broken.cause)}"
            line = Text(one_line(f"{file}  {words}"), MUTED)
        else:
            _require_inner_parent(file, diet.get(EXTENDS), home)
            if (trainer := diet.get("trainer")) is None:
                continue
            said = trainer.get("command", trainer) if isinstance(trainer, dict) else trainer
            line = Text.assemble((f"{one_line(str(file))}  ", MUTED), one_line(str(said)))
        is_clean = False
        out.print(line, soft_wrap=True)
    if is_clean:
        out.print("None of its diets names a trainer command.")


def _possible_diets(home: Path) -> list[Path]:
    """Return the files that may be diets.

    These are all files in the folder of diets, and the YAML files outside of it. A diet can't extend the
    latter.
    """
    diets, clones = home / FOLDERS["diet"], home / CLONES
    files = (file for file in home.rglob("*") if clones not in file.parents and file.is_file())
    return sorted(file for file in files if diets in file.parents or file.suffix in _YAML)


def _require_inner_parent(file: Path, parent: object, home: Path) -> None:
    """Raise if a diet extends a file outside of the workspace's folder of diets.

    That file could be changed after the workspace was trusted.

    Raises:
        StoreError: naming the diet's file.
    """
    diets = home / FOLDERS["diet"]
    if diets not in file.parents or not isinstance(parent, str) or not is_path(parent):
        return
    is_inner = real_path(diets) in real_path(file.parent / parent).parents
    if parent.startswith("~") or not is_inner:
        raise StoreError(
            str(file),
            f"extends: {parent}",
            cause="the extended file is outside of the folder of diets, so its content could change later",
            cure=f"Copy the extended file to {diets} and extend the copy, or move this diet out of {diets}",
        )
