"""`curriculum trust`: let the commands of a workspace run, after showing them."""

from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from curriculum.mixing.load import diet_files, diet_names, load_diet
from curriculum.store import Store
from flows.cli.console import MUTED, out
from flows.settings import trust
from schemas.errors import DietError, StoreError
from schemas.visible import one_line


def trust_workspace(home: Path) -> None:
    """Print the commands that a workspace names, diet by diet, and trust it.

    Raises:
        StoreError: where no folder is there.
    """
    if not home.is_dir():
        raise StoreError(
            str(home), cause="there is no such folder", cure="Name the folder of a workspace"
        )
    commands = [*_commands(home)]
    for file, command in commands:
        out.print(Text(f"{one_line(str(file))}  ", MUTED), Text(one_line(command)), soft_wrap=True)
    if not commands:
        out.print("No diet in it names a command.")
    Store(home).open()
    trust.trust(home)
    out.print(f"{one_line(str(home.resolve()))} is trusted: what its diets name runs as you")


def forget_workspace(home: Path) -> None:
    """Trust a workspace no more.

    Raises:
        StoreError: where it wasn't trusted.
    """
    if not trust.forget(home):
        raise StoreError(
            str(home.resolve()), cause="it isn't trusted", cure="See curriculum trust --list"
        )
    out.print(f"{one_line(str(home.resolve()))} isn't trusted any more")


def list_trusted() -> None:
    """Print the workspaces that are trusted, and which of them are others by now."""
    listed = trust.trusted()
    for each in listed:
        words = "" if trust.is_trusted(Path(each.path)) else "  another folder by now, or none"
        out.print(Text(one_line(each.path)), Text(words, MUTED), sep="", soft_wrap=True)
    if not listed:
        out.print("No workspace is trusted.")


def _commands(home: Path) -> Iterator[tuple[Path, str]]:
    for name in diet_names(home):
        try:
            files = [each for each in diet_files(name, home) if trust.is_inside(each, home)]
            trainer = load_diet(name, home=home).trainer if files else None
        except DietError as broken:
            out.print(Text(one_line(f"{name}: it can't be read ({broken.cause})"), MUTED))
            continue
        if trainer is not None:
            yield files[0], trainer.command
