"""The command line: `curriculum build | mix | train | run`, and the ways to look at what they made.

Only `run`, `demo` and `serve` import Prefect; the others call the same functions as the flows do.
"""

import gc
import os
import sys

# Imported objects stay: with Python's own threshold, collecting garbage is a tenth of a short command.
gc.set_threshold(50_000, 20, 50)

from flows import settings  # noqa: E402 - after the threshold
from flows.cli.app import app  # noqa: E402
from flows.cli.commands import keep, look, look_at_models, make  # noqa: E402
from flows.settings.proxies import direct_to_loopback  # noqa: E402

__all__ = ["app", "keep", "look", "look_at_models", "main", "make"]


def main() -> None:
    """Run the command line; no process that it starts imports what lies in the current directory.

    Requests of all of them to servers on this machine go through no proxy.
    """
    for word in sys.argv[1:]:
        _require_text(word)
    settings.apply({settings.SAFE_PATH: "1", **direct_to_loopback()})
    app()


def _require_text(word: str) -> None:
    """Exit with code 2 unless a word of the command line is UTF-8, as every file name and text here is."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(word).decode(errors="backslashreplace")
        sys.stderr.write(
            f"error: {shown!r}: not UTF-8. Rename the file, or type the text in UTF-8\n"
        )
        raise SystemExit(2) from None
