"""All commands of the command line, as it has them: a list in a test can be held against it."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from flows.cli import app

GROUP = typer.main.get_command(app)


def _leaves(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _leaves(below, *words, name)
    else:
        yield " ".join(words), command


COMMANDS: dict[str, Any] = dict(_leaves(GROUP))
"""Commands by name, such as `diet check`."""
