"""The command line: `curriculum build | mix | train | run`, and the ways to look at what they made.

Only `run`, `demo` and `serve` import Prefect; the others call the same functions as the flows do.
"""

from flows import settings
from flows.cli.app import app
from flows.cli.commands import keep, look, make

__all__ = ["app", "ask", "diets", "keep", "look", "main", "make", "models"]


def main() -> None:
    """Run the command line; no process that it starts imports what lies in the current directory."""
    settings.apply({settings.SAFE_PATH: "1"})
    app()
