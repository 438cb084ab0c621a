"""The command line: `curriculum build | mix | train | run`, and the ways to look at what they made.

Only `run`, `demo` and `serve` import Prefect; the others call the same functions as the flows do.
"""

from flows import settings
from flows.commands import asking, diets, keeping, looking, making, models
from flows.commands.app import app

__all__ = ["app", "asking", "diets", "keeping", "looking", "main", "making", "models"]


def main() -> None:
    """The entry point; no process that it starts imports what lies in the current directory."""
    settings.apply({settings.SAFE_PATH: "1"})
    app()


if __name__ == "__main__":
    main()
