"""Common parts of all commands: the program's name, the panels of the help, exit codes, and shared options.

The options that set fields of a RunConfig are generated from the fields and their help texts.
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
from typer.core import TyperCommand, TyperGroup

from curriculum.pipeline.run_config import (
    COMMON_FIELDS,
    GROUPS,
    NAMES,
    USED_GROUPS,
    YAML_FIELDS,
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
"""Maximum number of function calls that the message of an unexpected error lists."""
LEAKS, WRONG, CLOSED, INTERRUPTED = 1, 2, 3, 128 + signal.SIGINT
DATA, TRAIN, LOOK, SHARE, SERVE = "Data", "Train", "Look", "Share", "Serve"
ADVANCED = "Advanced"
"""Panel of the options that only --help-all shows."""
_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")


class _HelpfulGroup(TyperGroup):
    """Group of commands that suggests --help if the user misspells `help` as a command.

    It also removes the line breaks from the help texts of its commands, so that they fit the terminal.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for command in self.commands.values():
            # Typer keeps the line breaks of docstrings in all paragraphs but the first.
            command.help = _LINE_BREAK.sub(" ", command.help or "")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and difflib.get_close_matches(args[0], ["help"]):
            ctx.fail(f"No such command {args[0]!r}. Did you mean '--help'?")
        return super().resolve_command(ctx, args)


class _Commands(_HelpfulGroup):
    """Commands with common exit codes: 2 for a mistake, printed in one line; 128 + number for a signal."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of their panels."""
        panels = (DATA, TRAIN, LOOK, SHARE, SERVE)
        names = super().list_commands(ctx)
        commands: Any = self.commands
        return sorted(names, key=lambda name: panels.index(commands[name].rich_help_panel))

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn its errors into messages and exit codes."""

        def run() -> Any:
            return super(_Commands, self).invoke(ctx)

        return _run_command(run, ctx)


class ConfiguredCommand(TyperCommand):
    """Command whose --help leaves out the options of the Advanced panel; its --help-all shows all options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help.

        Advanced options are hidden only here, so that shells still complete them.
        """
        for parameter in self.params:
            if getattr(parameter, "rich_help_panel", None) == ADVANCED:
                parameter.hidden = not ctx.meta.get(ADVANCED, False)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def exit_code(work: Callable[[], None]) -> int:
    """Run `work`, which reads an untrusted workspace, and return the exit code of the command.

    Every error is printed and gives exit code 2. Files of the workspace may cause unexpected errors. These
    are printed with the last function calls, so that the user can report them.
    """
    try:
        _run_command(work, None)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except Exception as failed:
        sys.stderr.write(f"error: {_unexpected(failed)}\n")
        return WRONG
    return 0


def _unexpected(failed: Exception) -> CurriculumError:
    """Return an error that describes an unexpected exception and lists the last function calls."""
    calls = traceback.extract_tb(failed.__traceback__)[-MAX_CALLS:]
    return CurriculumError(
        "the workspace",
        f"{type(failed).__name__}: {failed}",
        cause="the workspace contains unexpected data, or the program has a bug",
        cure="Run curriculum check on the workspace to find damaged files. To report a bug, "
        "include the calls below",
        lines=[f"  {call.filename}:{call.lineno} in {call.name}" for call in calls],
    )


def _run_command(work: Callable[[], R], ctx: Any) -> R:
    """Run a command and return its result.

    An expected error is printed in one line and ends the command with an exit code.
    """
    try:
        with _raise_at_signals():
            return work()
    except CurriculumError as mistake:
        _exit(f"error: {mistake}", WRONG)
    except OSError as failed:
        _exit_at_os_error(failed)
        raise
    except _TerminatedError as ended:
        _exit(f"\nterminated. {_how_to_resume(ctx)}".rstrip(), 128 + ended.number)
    except KeyboardInterrupt:
        _exit(f"\ninterrupted. {_how_to_resume(ctx)}".rstrip(), INTERRUPTED)
    except Exception as failed:
        if _is_memory_short(failed):
            _exit(f"error: {_short_memory()}", WRONG)
        if type(failed).__module__.partition(".")[0] not in _READERS:
            raise
        _exit(f"error: {_unreadable(failed)}", WRONG)


def _exit_at_os_error(failed: OSError) -> None:
    """Print a file or disk error and exit; return if the error may be a bug that needs its traceback.

    Raises:
        RuntimeError: for a broken pipe to a child process. Typer would exit silently, as it should for `|
            head`.
    """
    from curriculum.store import no_room, refusal

    if isinstance(failed, BrokenPipeError) and not _has_lost_its_reader():
        raise RuntimeError("a pipe to another process is broken") from failed
    # An error without a file name may be a bug, so its traceback is shown.
    named = refusal(failed, Path()) if failed.filename else no_room(failed)
    is_of_a_reader = not failed.errno and type(failed) is OSError
    if named is not None or is_of_a_reader:
        _exit(f"error: {named or _unreadable(failed)}", WRONG)


def _has_lost_its_reader() -> bool:
    """Return True if nobody can read standard output or standard error any more.

    That is so if one of them is closed, or is a pipe whose reader has ended.
    """
    streams = select.poll()
    for number in (1, 2):
        streams.register(number, 0)
    return bool(streams.poll(0))


_UNMAPPED = re.compile("failed to map segment|annot allocate memory")
"""Pattern of the messages of import errors that are caused by lack of memory."""


def _is_memory_short(failed: Exception) -> bool:
    """Return True for an error that is caused by lack of memory."""
    is_unmapped = isinstance(failed, ImportError) and _UNMAPPED.search(str(failed)) is not None
    return is_unmapped or isinstance(failed, MemoryError) or "OutOfMemory" in type(failed).__name__


def _short_memory() -> CurriculumError:
    """Return the error for lack of memory; it names the address space limit of this process if one is set."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return CurriculumError(
            "memory",
            cause="the system refused to give this process more memory",
            cure="Lower --workers or close other programs",
        )
    return CurriculumError(
        "memory",
        f"ulimit -v {limit >> 10}",
        cause=f"the limit of {limit / 1e9:.1f} GB of address space for this process is too low",
        cure="Raise the limit: ulimit -v unlimited",
    )


_READERS = ("pyarrow", "pydantic_core", "_duckdb", "duckdb")
"""Libraries that parse input files; an exception of one of them is blamed on a file."""


def _unreadable(failed: Exception) -> CurriculumError:
    """Return an error with the message of a library that could not read a file; save the traceback.

    A bug in our code may raise the same exception. Only the traceback tells the two cases apart.
    """
    kept = _traceback_file(failed)
    return CurriculumError(
        "an input file",
        " ".join(str(failed).split())[:500],
        cause="the file is damaged or has another format",
        cure="Run curriculum check on its folder to find the file"
        + (f"; to report a bug, include the traceback in {kept}" if kept else ""),
    )


def _traceback_file(failed: Exception) -> Path | None:
    """Write the traceback of an error to a file in the user's state folder; return None if that fails."""
    from flows.settings import state_folder

    text = "".join(traceback.format_exception(failed))
    with contextlib.suppress(OSError, CurriculumError):
        file = state_folder() / "traceback.txt"
        file.write_text(visible(text), encoding="utf-8", errors="backslashreplace")
        return file
    return None


_MAKES = frozenset(("build", "mix", "train", "run", "ablate", "demo"))
"""Commands that can be resumed after they were stopped."""


def _how_to_resume(ctx: Any) -> str:
    """Return the sentence on how to resume a stopped command; empty for commands that make nothing."""
    is_dry = not {"--dry-run", "--explain"}.isdisjoint(sys.argv)
    if is_dry or ctx is None or ctx.invoked_subcommand not in _MAKES:
        return ""
    return "Finished work is kept; run the same command again to continue."


class _TerminatedError(KeyboardInterrupt):
    """Exception for SIGTERM or SIGHUP. It is handled like an interrupt, even if SIGINT is ignored."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def _raise_at_signals() -> Iterator[None]:
    """Raise _TerminatedError at SIGTERM and SIGHUP within the block.

    A command may install its own handlers of these signals instead.
    """

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


def _exit(message: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):  # A closed terminal can't be written to.
        sys.stdout.flush()
        sys.stderr.write(f"{visible(message)}\n")
        sys.stderr.flush()
    raise typer.Exit(code)


app = typer.Typer(
    name="curriculum",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Curriculum training for code models: build packed rows, mix rows by a diet, train, inspect.",
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
    """Parse the options that may be given without a command."""


tokenizer_app = typer.Typer(cls=_HelpfulGroup, no_args_is_help=True, help="Train a tokenizer.")
app.add_typer(tokenizer_app, name="tokenizer", rich_help_panel=DATA)
diet_app = typer.Typer(
    cls=_HelpfulGroup,
    no_args_is_help=True,
    help="Check that a diet has enough tokens, before anything is built.",
)
app.add_typer(diet_app, name="diet", rich_help_panel=DATA)


Home = Annotated[
    Path | None,
    typer.Option(
        help="Workspace folder; default: $CURRICULUM_HOME, else ./workspace.", show_default=False
    ),
]


def existing_home(given: Path | None) -> Path:
    """Return the workspace of a command that doesn't create one.

    Raises:
        StoreError: if --home names a folder that doesn't exist.
    """
    home = settings.home(given)
    if given is not None and not home.is_dir():
        # --help must be fast, and the store is slow to import.
        from schemas.errors import StoreError

        raise StoreError(
            "--home",
            given,
            cause="the workspace doesn't exist",
            cure="Name an existing workspace, or create one: curriculum demo",
        )
    return home


def own_home(given: Path | None, *named: str | Path | None, there: bool = False) -> Path:
    """Return the workspace of a command that writes to it or executes commands in its files.

    Args:
        given: Value of --home.
        named: Words of the command line. If one is a path in another workspace, that workspace must be
            trusted too.
        there: True if the workspace must exist. Otherwise its folder is created now if another user could
            create it first, as in /tmp; then trust is checked.

    Raises:
        StoreError: if a workspace is neither trusted nor new, or if a required workspace doesn't exist.
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
    outside: Iterable[str | Path] = (),
    output: Path | None = None,
    folder: Callable[[Path], Path] | None = None,
) -> None:
    """Run a command that only reads; run it in a sandbox if the workspace isn't trusted.

    `work` is called with the workspace and the path to write to. That path is `output` or a draft of it, or
    the folder outside of the workspace that `folder` returns. The work may read the paths `named` if they are
    in a workspace, and the paths `outside` wherever they are.

    Raises:
        StoreError: if the workspace doesn't exist or can't be read safely.
    """
    from flows.cli import received

    home = existing_home(given)
    code = received.look(
        home,
        lambda place: work(home, place),
        exit_code,
        named=named,
        outside=outside,
        output=output,
        folder=folder,
    )
    if code:
        raise typer.Exit(code)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class AnswerFormat(StrEnum):
    """Output format of a query."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


class NamedKind(StrEnum):
    """Kind of things whose names `curriculum ls` lists."""

    DIETS = "diets"
    CORPORA = "corpora"
    MODELS = "models"
    PHASES = "phases"
    RUNS = "runs"
    ROWS = "rows"
    DOCUMENTS = "documents"


Explain = Annotated[
    bool,
    typer.Option("--explain", help="Print which artefacts would be made and why; make nothing."),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the steps that would run, with tokens and estimated time; make nothing.",
    ),
]
FromPhase = Annotated[
    str | None,
    typer.Option(
        "--from-phase",
        help="Retrain this phase, then run all later phases.",
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
        help="Build a sample to look at: this many documents (at most 8 MB) per family and repository, "
        "from the newest commits.",
        show_default=False,
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Build only part I of N of the missing artefacts, such as 1/4. The other parts can be built at "
        "the same time or later, in this workspace or in workspaces to merge.",
        show_default=False,
    ),
]
CommitFraction = Annotated[
    float,
    typer.Option(
        min=0.0001,
        max=1.0,
        help="Fraction of each repository's commits to read, but at least 192 commits (4 for v4 and v5, "
        "which parse whole trees; fewer in a corpus of more than three repositories).",
    ),
]
_ALSO_PATHS = " Or the path of a YAML file."
PhasesFile = Annotated[
    str | None,
    typer.Option(
        help=f"{BuildConfig.model_fields['phases_file'].description}{_ALSO_PATHS}",
        show_default=False,
    ),
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
        help="Diet of the specialist: a name or the path of a YAML file.", show_default=False
    ),
]


def _print_full_help(context: typer.Context, asked: bool) -> None:
    if asked:
        context.meta[ADVANCED] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        callback=_print_full_help,
        is_eager=True,
        help="Show this message with the advanced options and exit.",
    ),
]
P = ParamSpec("P")


def configured(
    name: str,
) -> "Callable[[Callable[Concatenate[RunConfig, P], None]], Callable[..., None]]":
    """Return a decorator that gives the command `name` one option per field of its RunConfig groups.

    The decorated function gets the RunConfig that the options describe.
    """
    fields = [
        field
        for group, kind in GROUPS
        if group in USED_GROUPS[name]
        for field in kind.model_fields.items()
    ]

    def decorate(command: "Callable[Concatenate[RunConfig, P], None]") -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(**given: Any) -> None:
            # --help must be fast, and the modules of the pipeline are slow to import.
            from curriculum.pipeline.recorded_config import resolved
            from flows.cli.console import warn
            from flows.settings.trust import shadow_words, trusting_new_workspace

            changes = {field: given.pop(field) for field, _ in fields}
            changes["repositories"] = tuple(changes["repositories"] or ())
            del given["help_all"]  # Its callback has ended the command if it was given.
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
        help_all = _parameter("help_all", HelpAll, default=False)
        parameters = [first, home, *own, *(_option(*field) for field in fields), help_all]
        # A signature needs its required parameters first.
        parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return with_options

    return decorate


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    # A switch has no --no-… name: a column of them would truncate the longer names.
    is_switch = field.annotation is bool
    names = [f"--{name}"] if is_switch else NAMES.get(name, [])
    minimum: Any = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    panel = None if name in COMMON_FIELDS else ADVANCED
    text = f"{field.description}{_ALSO_PATHS if name in YAML_FIELDS else ''}"
    given = typer.Option(*names, help=text, show_default=False, min=minimum, rich_help_panel=panel)
    kind = Repositories if name == "repositories" else Annotated[field.annotation, given]
    return _parameter(name, kind, default=False if is_switch else None)


def _parameter(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
