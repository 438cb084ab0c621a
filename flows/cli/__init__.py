"""The command line `curriculum`.

Only `run`, `demo` and `serve` import Prefect. The other commands call the functions of the curriculum package
that the flows call too.
"""

import gc
import os
import sys

# With Python's default threshold, garbage collection takes a tenth of a short command's time.
gc.set_threshold(50_000, 20, 50)

from flows import settings  # noqa: E402 - after the threshold
from flows.cli.app import app  # noqa: E402
from flows.cli.commands import data, look, look_at_models, serve, share, training  # noqa: E402
from flows.settings.proxies import direct_to_loopback  # noqa: E402

__all__ = ["app", "data", "look", "look_at_models", "main", "serve", "share", "training"]


def main() -> None:
    """Run the command line; its child processes never import modules from the current directory.

    Requests to servers on this machine bypass proxies, also in child processes.
    """
    for word in sys.argv[1:]:
        _require_text(word)
    settings.apply({settings.SAFE_PATH: "1", **direct_to_loopback()})
    app()


def _require_text(word: str) -> None:
    """Exit with code 2 unless a word of the command line is valid UTF-8, as all file names here are."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(word).decode(errors="backslashreplace")
        sys.stderr.write(
            f"error: {shown!r}: not UTF-8. Rename the file, or type the text in UTF-8\n"
        )
        raise SystemExit(2) from None
