"""`curriculum trust`: permission for a workspace from elsewhere, with the commands that its diets name."""

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
    """Print the commands that a workspace names, diet by diet, and trust it.

    Raises:
        StoreError: where no folder is there, for one that another user can change, for what is no plain
            file or folder in it, and for a diet that extends a file outside of the folder of diets.
    """
    if not home.is_dir():
        raise StoreError(
            str(home), cause="there is no such folder", cure="Name the folder of a workspace"
        )
    trust.require_unexposed(home)
    require_plain(home)
    if (cause := exposure_below(home)) is not None:
        raise StoreError(
            str(home),
            cause=f"{cause}: they could change it after you have trusted it",
            cure=f"Make all of it yours alone: chown -R, chmod -R go-w and setfacl -R -k "
            f"{shlex.quote(str(home))}",
        )
    _print_commands(home)
    Store(home).open()
    trust.trust(home)
    words = "is trusted: commands write to it, and what its diets name runs as you"
    out.print(f"{one_line(str(home))} {words}", soft_wrap=True)
    out.print(
        "Its records choose no file, --repo, --configure or --unsandboxed: your command line does",
        soft_wrap=True,
    )


def forget_workspace(home: Path) -> None:
    """Trust a workspace no more.

    Raises:
        StoreError: where it wasn't trusted.
    """
    if not trust.forget(home):
        raise StoreError(str(home), cause="it isn't trusted", cure="See curriculum trust --list")
    out.print(f"{one_line(str(home))} isn't trusted any more")


def list_trusted() -> None:
    """Print the workspaces that are trusted, and which of them are others by now."""
    listed = trust.trusted()
    for workspace in listed:
        words = (
            ""
            if trust.is_trusted(real_path(Path(workspace.path)))
            else "  now missing, replaced, or open to other users"
        )
        out.print(Text(one_line(workspace.path)), Text(words, MUTED), sep="", soft_wrap=True)
    if not listed:
        out.print("No workspace is trusted.")


def _print_commands(home: Path) -> None:
    """Print each trainer's command of a workspace's YAML files, and those files that can't be read.

    Raises:
        StoreError: for a diet that extends a file outside of the folder of diets.
    """
    is_clean = True
    for file in _possible_diets(home):
        try:
            diet = read_yaml(
                text_of(file, error=DietError), file=str(file), error=DietError
            ).content
        except DietError as broken:
            words = (
                f"can't be read, so its trainer's command isn't known: {shortened(broken.cause)}"
            )
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
        out.print("No diet in it names a command.")


def _possible_diets(home: Path) -> list[Path]:
    """List all files in the folder of diets, and YAML files elsewhere, which a diet can't extend."""
    diets, clones = home / FOLDERS["diet"], home / CLONES
    files = (file for file in home.rglob("*") if clones not in file.parents and file.is_file())
    return sorted(file for file in files if diets in file.parents or file.suffix in _YAML)


def _require_inner_parent(file: Path, parent: object, home: Path) -> None:
    """Raise where a diet extends a file that isn't among the workspace's diets: it may change later.

    Raises:
        StoreError: with the diet's file.
    """
    diets = home / FOLDERS["diet"]
    if diets not in file.parents or not isinstance(parent, str) or not is_path(parent):
        return
    is_inner = real_path(diets) in real_path(file.parent / parent).parents
    if parent.startswith("~") or not is_inner:
        raise StoreError(
            str(file),
            f"extends: {parent}",
            cause="it lies outside of the folder of diets, so what it names could change later",
            cure=f"Copy what it extends to {diets}, and name it there; or move the diet away",
        )
