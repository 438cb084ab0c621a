"""The command line itself: its name, its panels, how every command ends, and the options of commands.

Options of a RunConfig are made from the fields and help texts of its groups.
"""

import contextlib
import difflib
import functools
import importlib.metadata
import inspect
import re
import resource
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Concatenate, NoReturn, ParamSpec, TypeVar

import typer
from annotated_types import Ge
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from curriculum.pipeline.run_config import (
    GROUPS,
    NAMES,
    USED_GROUPS,
    BuildConfig,
    CorpusConfig,
    RunConfig,
)
from curriculum.stop_signals import terminating_signals
from flows import settings
from schemas.errors import CurriculumError
from schemas.visible import visible

R = TypeVar("R")
MAX_CALLS = 5
"""Calls that an error names which nothing foresaw."""
LEAKS, WRONG, CLOSED, INTERRUPTED = 1, 2, 3, 128 + signal.SIGINT
WORK, LOOK, KEEP = "Make", "Look", "Keep"


class _Suggesting(TyperGroup):
    """Commands of which a misspelt `help` means --help."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named."""
        if args[0] not in self.commands and difflib.get_close_matches(args[0], ["help"]):
            ctx.fail(f"No such command {args[0]!r}. Did you mean '--help'?")
        return super().resolve_command(ctx, args)


class _Commands(_Suggesting):
    """All commands end in the same ways: a mistake in a line and 2, a signal in 128 and its number."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, panel by panel."""
        panels = (WORK, LOOK, KEEP)
        names = super().list_commands(ctx)
        commands: Any = self.commands
        return sorted(names, key=lambda name: panels.index(commands[name].rich_help_panel))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""

        def run() -> Any:
            return super(_Commands, self).invoke(ctx)

        return _ended(run, ctx)


def exit_code(work: Callable[[], None]) -> int:
    """Look at what isn't trusted as a command does, and return its exit code: a mistake is a line and 2.

    So is any other error, which what was read may cause: its place follows, which a fault of ours needs.
    """
    try:
        _ended(work, None)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except Exception as failed:
        sys.stderr.write(f"error: {_unexpected(failed)}\n")
        return WRONG
    return 0


def _unexpected(failed: Exception) -> CurriculumError:
    """Return the error of a look that nothing foresaw, with the last calls that led to it."""
    calls = traceback.extract_tb(failed.__traceback__)[-MAX_CALLS:]
    return CurriculumError(
        "the workspace",
        f"{type(failed).__name__}: {failed}",
        cause="it holds what this version doesn't write, or the program has a fault",
        cure="Run curriculum check on it, which names a damaged file; for a report of a fault, the last "
        "calls are below",
        lines=[f"  {call.filename}:{call.lineno} in {call.name}" for call in calls],
    )


def _ended(work: Callable[[], R], ctx: Any) -> R:
    """Do the work of a command and return what it returns; of a mistake print a line and raise Exit."""
    try:
        with _terminable():
            return work()
    except CurriculumError as mistake:
        _end(f"error: {mistake}", WRONG)
    except OSError as failed:
        _end_at(failed)
        raise
    except _TerminatedError as ended:
        _end(f"\nterminated. {_how_to_resume(ctx)}".rstrip(), 128 + ended.number)
    except KeyboardInterrupt:
        _end(f"\ninterrupted. {_how_to_resume(ctx)}".rstrip(), INTERRUPTED)
    except Exception as failed:
        if _is_memory_short(failed):
            _end(f"error: {_short_memory()}", WRONG)
        if type(failed).__module__.partition(".")[0] not in _READERS:
            raise
        _end(f"error: {_unreadable(failed)}", WRONG)


def _end_at(failed: OSError) -> None:
    """End the command at an error of a file or disk; return where only the traceback says what is wrong.

    Raises:
        RuntimeError: for a broken pipe to another process; typer ends in silence at a broken pipe, which
            suits `| head` alone.
    """
    from curriculum.store import no_room, refusal

    if isinstance(failed, BrokenPipeError) and not _has_lost_its_reader():
        raise RuntimeError("a pipe to another process is broken") from failed
    # An error that names no file may be a mistake of ours: its traceback is needed.
    named = refusal(failed, Path()) if failed.filename else no_room(failed)
    is_of_a_reader = not failed.errno and type(failed) is OSError
    if named is not None or is_of_a_reader:
        _end(f"error: {named or _unreadable(failed)}", WRONG)


def _has_lost_its_reader() -> bool:
    """Return True if standard output or standard error is closed, or a pipe that nobody reads any more."""
    streams = select.poll()
    for number in (1, 2):
        streams.register(number, 0)
    return bool(streams.poll(0))


_UNMAPPED = re.compile("failed to map segment|annot allocate memory")
"""Words of an import whose library doesn't fit into what memory is left."""


def _is_memory_short(failed: Exception) -> bool:
    """Return True for an error that a process without more memory raises."""
    is_unmapped = isinstance(failed, ImportError) and _UNMAPPED.search(str(failed)) is not None
    return is_unmapped or isinstance(failed, MemoryError) or "OutOfMemory" in type(failed).__name__


def _short_memory() -> CurriculumError:
    """Return the error of a process that gets no more memory, with the limit that it runs under."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return CurriculumError(
            "memory",
            cause="this process got no more of it",
            cure="Lower --workers, or end other programs",
        )
    return CurriculumError(
        "memory",
        f"ulimit -v {limit >> 10}",
        cause=f"this process may use {limit / 1e9:.1f} GB of address space, which is too little",
        cure="Raise the limit: ulimit -v unlimited",
    )


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


_MAKES = frozenset(("build", "mix", "train", "run", "ablate", "demo"))
"""Commands whose finished steps are kept when they are stopped."""


def _how_to_resume(ctx: Any) -> str:
    """Say that a stopped command can be continued, of one that makes something; of others nothing."""
    is_dry = not {"--dry-run", "--explain"}.isdisjoint(sys.argv)
    if is_dry or ctx is None or ctx.invoked_subcommand not in _MAKES:
        return ""
    return "Finished work is kept; run the same command again to continue."


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP: workers and training end as at an interrupt, also where SIGINT is ignored."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Raise at SIGTERM, and when the terminal is closed; a command may put its own handler in place."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TerminatedError(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may handle signals.
        return
    before = {number: signal.signal(number, stop) for number in terminating_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(message: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):  # A terminal that was closed takes no words.
        sys.stdout.flush()
        sys.stderr.write(f"{visible(message)}\n")
        sys.stderr.flush()
    raise typer.Exit(code)


app = typer.Typer(
    name="curriculum",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Curriculum training for code models: build packed rows, mix them by a diet, train, inspect.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(importlib.metadata.version("curriculum"))  # noqa: T201 - a line for scripts
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that need no command."""


tokenizer_app = typer.Typer(cls=_Suggesting, no_args_is_help=True, help="Train a tokenizer.")
app.add_typer(tokenizer_app, name="tokenizer", rich_help_panel=WORK)
diet_app = typer.Typer(
    cls=_Suggesting, no_args_is_help=True, help="Check a diet before anything is built."
)
app.add_typer(diet_app, name="diet", rich_help_panel=LOOK)


Home = Annotated[
    Path | None,
    typer.Option(
        help="Workspace folder; default: $CURRICULUM_HOME, else ./workspace.", show_default=False
    ),
]


def existing_home(given: Path | None) -> Path:
    """The workspace of a command that makes none: one that --home names is there.

    Raises:
        StoreError: otherwise.
    """
    home = settings.home(given)
    if given is not None and not home.is_dir():
        # Help must be there at once, and the store is slow to import.
        from schemas.errors import StoreError

        raise StoreError(
            "--home",
            given,
            cause="there is no workspace",
            cure="Name another, or begin one: curriculum demo",
        )
    return home


def own_home(given: Path | None, *named: str | Path | None, there: bool = False) -> Path:
    """The workspace of a command that writes or executes: a new one, or a trusted one.

    So are those that `named` words of the command line lead into. `there`: it makes none. Else a folder that
    other users could make first, as in /tmp, is made here, before anything is judged.

    Raises:
        StoreError: for one that isn't trusted, or that should be there.
    """
    from flows.settings import trust

    home = existing_home(given) if there else settings.home(given)
    if not there:
        trust.claim_home(home)
    trust.require_trusted(home, *named)
    return home


def look(
    given: Path | None,
    work: Callable[[Path, Path | None], None],
    *,
    named: Iterable[str | Path] = (),
    output: Path | None = None,
    folder: Callable[[Path], Path] | None = None,
) -> None:
    """Do the work of a command that only looks, in a sandbox where a workspace isn't trusted.

    `work` gets the workspace, and the path to write to: `output`, or a draft of it; or a folder that isn't in
    the workspace.

    Raises:
        StoreError: for a workspace that isn't there, or can't be looked at.
    """
    from flows.cli import received

    home = existing_home(given)
    code = received.look(
        home,
        lambda place: work(home, place),
        exit_code,
        named=named,
        output=output,
        folder=folder,
    )
    if code:
        raise typer.Exit(code)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class AnswerFormat(StrEnum):
    """Format of an answer."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


class NamedKind(StrEnum):
    """A kind of what commands take by its name."""

    DIETS = "diets"
    CORPORA = "corpora"
    MODELS = "models"
    PHASES = "phases"
    RUNS = "runs"
    ROWS = "rows"
    DOCUMENTS = "documents"


Explain = Annotated[
    bool, typer.Option("--explain", help="Print what would be made and why; make nothing.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print what would run, on how many tokens, and how long it would take; make nothing.",
    ),
]
FromPhase = Annotated[
    str | None,
    typer.Option(
        "--from-phase",
        help="Retrain this phase and continue with the phases after it.",
        show_default=False,
    ),
]
OnlyPhase = Annotated[
    str | None,
    typer.Option(
        "--phase", help="Run only this phase; default: all phases in order.", show_default=False
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Build only this many documents (at most 8 MB) of each family and repository, from the newest "
        "commits, to look at.",
        show_default=False,
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Build only part I of N of what is missing, such as 1/4. Other parts can be built at the same "
        "time or later, in this workspace or in workspaces to merge.",
        show_default=False,
    ),
]
Share = Annotated[
    float,
    typer.Option(
        min=0.0001,
        max=1.0,
        help="Fraction of each repository's commits to read; at least 192 are read, and at least 4 for v4 "
        "and v5, which parse whole trees. A corpus of more than three repositories reads fewer of each.",
    ),
]
PhasesFile = Annotated[
    str | None,
    typer.Option(help=BuildConfig.model_fields["phases_file"].description, show_default=False),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help=CorpusConfig.model_fields["workers"].description, show_default=False),
]
Repositories = Annotated[
    list[str] | None,
    typer.Option(
        "--repo",
        help="Read this repository (path or URL) instead of the corpus. Repeatable.",
        show_default=False,
    ),
]
Specialist = Annotated[
    str,
    typer.Argument(
        help="Diet of the specialist: a name, or the path of a YAML file.", show_default=False
    ),
]
P = ParamSpec("P")


def configured(
    name: str,
) -> "Callable[[Callable[Concatenate[RunConfig, P], None]], Callable[..., None]]":
    """Give a command that takes a RunConfig an option for each field of the groups that it uses."""
    fields = [
        each
        for group, kind in GROUPS
        if group in USED_GROUPS[name]
        for each in kind.model_fields.items()
    ]

    def decorate(command: "Callable[Concatenate[RunConfig, P], None]") -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(**given: Any) -> None:
            # Help must be there at once, and what makes artefacts is slow to import.
            from curriculum.pipeline.recorded_config import resolved
            from flows.cli.console import warn
            from flows.settings.trust import shadow_words, trusting_new_workspace

            changes = {field: given.pop(field) for field, _ in fields}
            changes["repositories"] = tuple(changes["repositories"] or ())
            specialist = given.pop("specialist")
            home = own_home(given.pop("home"), specialist)
            take: Callable[..., None] = command
            for line in shadow_words(home):
                warn(line)
            with trusting_new_workspace(home):
                config = RunConfig.of(specialist=specialist, workspace=home, **changes)
                take(resolved(config, name), **given)

        own = list(inspect.signature(command).parameters.values())[1:]
        first = _parameter("specialist", Specialist, default=inspect.Parameter.empty)
        home = _parameter("home", Home)
        parameters = [first, home, *own, *(_option(*each) for each in fields)]
        # Python wants what must be given before what may be.
        parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return with_options

    return decorate


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    # A switch says its one name: a column of --no-… would cut the longer names short.
    is_switch = field.annotation is bool
    names = [f"--{name}"] if is_switch else NAMES.get(name, [])
    least: Any = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    filled = typer.Option(*names, help=field.description, show_default=False, min=least)
    kind = Repositories if name == "repositories" else Annotated[field.annotation, filled]
    return _parameter(name, kind, default=False if is_switch else None)


def _parameter(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
