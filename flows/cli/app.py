"""The command line itself: its name, its panels, and how every command ends."""

import contextlib
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from schemas.errors import CurriculumError
from schemas.visible import visible

LEAKS, WRONG, CLOSED, INTERRUPTED = 1, 2, 3, 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
WORK, LOOK, KEEP = "Make", "Look", "Keep"


class _Commands(TyperGroup):
    """All commands end in the same ways: a mistake in a line and 2, Ctrl-C in 130, SIGTERM in 143."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, panel by panel."""
        panels = (WORK, LOOK, KEEP)
        named = super().list_commands(ctx)
        return sorted(named, key=lambda name: panels.index(_panel(self.commands[name])))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with _terminable():
                return super().invoke(ctx)
        except CurriculumError as mistake:
            _end(f"error: {mistake}", WRONG)
        except OSError as failed:
            from curriculum.store import no_room, refusal

            # An error that names no file may be a mistake of ours: its traceback is needed.
            named = refusal(failed, Path()) if failed.filename else no_room(failed)
            if named is None and (failed.errno or type(failed) is not OSError):
                raise
            _end(f"error: {named or _unreadable(failed)}", WRONG)
        except _TerminatedError:
            _end(f"\nterminated. {_KEPT}", TERMINATED)
        except KeyboardInterrupt:
            _end(f"\ninterrupted. {_KEPT}", INTERRUPTED)
        except Exception as failed:
            if type(failed).__module__.partition(".")[0] not in _READERS:
                raise
            _end(f"error: {_unreadable(failed)}", WRONG)


_READERS = ("pyarrow", "pydantic_core", "_duckdb", "duckdb")
"""Libraries that read what may come from elsewhere; pyarrow's errors of files are also plain OSErrors."""


def _unreadable(failed: Exception) -> CurriculumError:
    """The error of a file that its reader refuses, in the reader's words; its traceback is kept.

    A mistake of ours may look the same: only the traceback distinguishes the two.
    """
    kept = _traceback_file(failed)
    return CurriculumError(
        "a file that was read",
        " ".join(str(failed).split())[:500],
        cause="it is damaged, or isn't of its format",
        cure="Run curriculum check on its folder, which names it"
        + (f"; for a report of a fault, {kept} holds the traceback" if kept else ""),
    )


def _traceback_file(failed: Exception) -> Path | None:
    """Write the traceback of an error to the user's folder of state; None where that can't be written."""
    from flows.settings import state_folder

    text = "".join(traceback.format_exception(failed))
    with contextlib.suppress(OSError, CurriculumError):
        file = state_folder() / "traceback.txt"
        file.write_text(visible(text), encoding="utf-8", errors="backslashreplace")
        return file
    return None


_KEPT = "What is finished is kept; the same command goes on from there."


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM: workers and training end as at an interrupt, also where SIGINT is ignored."""


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Raise at SIGTERM within the block; a command may put its own handler in place."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TerminatedError

    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may handle signals.
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _panel(command: Any) -> str:
    return str(command.rich_help_panel)


def _end(message: str, code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(f"{visible(message)}\n")
    raise typer.Exit(code)


app = typer.Typer(
    name="curriculum",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Curriculum training for code models: build packed rows, mix them by a diet, train, look.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
tokenizer_app = typer.Typer(no_args_is_help=True, help="Train a tokenizer.")
app.add_typer(tokenizer_app, name="tokenizer", rich_help_panel=WORK)
diet_app = typer.Typer(no_args_is_help=True, help="Check a diet, or compare two.")
app.add_typer(diet_app, name="diet", rich_help_panel=LOOK)
