"""Options of the command line, made from the fields and help texts of a RunConfig's groups."""

import functools
import inspect
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from annotated_types import Ge
from pydantic.fields import FieldInfo

from curriculum.pipeline.config import (
    GROUPS,
    NAMES,
    USED_GROUPS,
    BuildConfig,
    CorpusConfig,
    RunConfig,
)
from flows import settings

Home = Annotated[
    Path | None,
    typer.Option(
        help="The workspace; by default $CURRICULUM_HOME, else ./workspace.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Form(StrEnum):
    """Format of an answer."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


Explain = Annotated[
    bool, typer.Option("--explain", help="Make nothing; print what would be made, and why.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Make nothing; print what would run, on how many tokens, how long."
    ),
]
FromPhase = Annotated[
    str | None,
    typer.Option(
        "--from-phase", help="Train this phase anew, then those after it.", show_default=False
    ),
]
OnlyPhase = Annotated[
    str | None,
    typer.Option("--phase", help="Only this phase; by default each in order.", show_default=False),
]
Sample = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Only make so many documents (at most 8 MB) of each family and repository, of the newest "
        "commits, to look at.",
        show_default=False,
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Make only the I-th of N parts of what is missing in each stage, 1/4 to 4/4; others make "
        "theirs at the same time or later, in this workspace or in ones to merge.",
        show_default=False,
    ),
]
Share = Annotated[
    float,
    typer.Option(
        min=0.0001,
        max=1.0,
        help="Of each repository's commits that are read, some dozens at least.",
    ),
]
Phases = Annotated[
    str | None,
    typer.Option(
        "--phases", help=BuildConfig.model_fields["phases"].description, show_default=False
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
        help="Read this repository instead of the corpus: a path or a URL. Repeatable.",
        show_default=False,
    ),
]
Specialist = Annotated[
    str,
    typer.Argument(
        help="Whose diet is served: a name, or the path of a diet's YAML.", show_default=False
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
            from flows.cli.console import warn
            from flows.settings.trust import known_config, shadow_words, trusting_new_workspace

            changes = {field: given.pop(field) for field, _ in fields}
            changes["repositories"] = tuple(changes["repositories"] or ())
            specialist, home = given.pop("specialist"), settings.home(given.pop("home"))
            take: Callable[..., None] = command
            for line in shadow_words(home):
                warn(line)
            with trusting_new_workspace(home):
                config = RunConfig.of(specialist=specialist, workspace=home, **changes)
                take(known_config(config), **given)

        own = list(inspect.signature(command).parameters.values())[1:]
        parameters = [*_first_options(), *own, *(_option(*each) for each in fields)]
        # Python wants what must be given before what may be.
        parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_options

    return decorate


def _first_options() -> Iterator[inspect.Parameter]:
    yield _parameter("specialist", Specialist, default=inspect.Parameter.empty)
    yield _parameter("home", Home)


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
