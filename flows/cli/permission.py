"""`curriculum trust`: permission for a workspace from elsewhere, with the commands that its diets name."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from curriculum.mixing.load import diet_files, diet_names, load_diet
from curriculum.store import Store
from curriculum.store.inside import require_plain
from flows.cli.console import MUTED, out
from flows.settings import trust
from flows.settings.exposure import exposure_below, real_path
from schemas.errors import DietError, StoreError
from schemas.visible import one_line, shortened


def trust_workspace(home: Path) -> None:
    """Print the commands that a workspace names, diet by diet, and trust it.

    Raises:
        StoreError: where no folder is there, for one that another user can change, and for what is no plain
            file or folder in it.
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
            cure=f"Make all of it yours alone: chown -R and chmod -R go-w {shlex.quote(str(home))}",
        )
    commands = [*_commands(home)]
    for file, command in commands:
        out.print(Text(f"{one_line(str(file))}  ", MUTED), Text(one_line(command)), soft_wrap=True)
    if not commands:
        out.print("No diet in it names a command.")
    Store(home).open()
    trust.trust(home)
    words = "is trusted: commands write to it, and what its diets name runs as you"
    out.print(f"{one_line(str(home))} {words}")


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


def _commands(home: Path) -> Iterator[tuple[Path, str]]:
    for name in diet_names(home):
        try:
            files = [file for file in diet_files(name, home) if trust.is_inside(file, home)]
            trainer = load_diet(name, home=home).trainer if files else None
        except DietError as broken:
            why = shortened(broken.cause)
            out.print(Text(one_line(f"{name}: it can't be read ({why})"), MUTED))
            continue
        if trainer is not None:
            yield files[0], trainer.command
