"""`curriculum report`: write a specialist's report anew, say where it is, open it."""

import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.pipeline.attempts import (
    Attempt,
    SpecialistRef,
    attempts_in,
    names_of,
    specialist_of,
    spelled,
)
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.recorded_config import course_of
from curriculum.store import Store
from dashboards.report.write import write
from flows import settings
from flows.cli.console import MUTED, out, warn
from flows.settings.contexts import resources
from schemas.errors import CurriculumError, StoreError


def report(home: Path, specialist: str | None, *, show: bool) -> None:
    """Write the report of one specialist, or of all that have begun; `show` opens the first in a browser.

    Raises:
        CurriculumError: where nobody of that name has begun and no diet has it, or nothing has begun.
    """
    files = [_written(plan) for plan in _courses(home, specialist)]
    for file in files:
        out.print(str(file), soft_wrap=True)
        address = settings.reports_at(home)
        if address:
            out.print(Text(f"{address}/{file.name}", MUTED), soft_wrap=True)
    if show and files and not webbrowser.open(files[0].as_uri()):
        warn("there is no browser to open it with; the path above leads to it")


def _courses(home: Path, specialist: str | None) -> Iterator[RunPlan]:
    store = Store(home, dry=True)
    begun = attempts_in(store)
    ways = {(each.job.specialist, each.job.branch) for each in begun}
    ways |= {specialist_of(each) for each in store.artefacts("mixtures")}
    meant = sorted((each for each in ways if specialist in {None, *_names(each)}), key=spelled)
    if not meant and specialist is not None:
        # It has built at most; its diet says what.
        yield resolve_plan(RunConfig.of(specialist=specialist, workspace=home), dry=True)
    elif not meant:
        raise StoreError(
            str(home), cause="nobody has begun here", cure="Begin with: curriculum demo"
        )
    for way in meant:
        yield from _course(store, way, begun, must=specialist is not None)


def _course(
    store: Store, way: SpecialistRef, begun: Sequence[Attempt], *, must: bool
) -> Iterator[RunPlan]:
    """Resolve the plan of a specialist; one whose diet is gone is reported and skipped."""
    mine = [each for each in begun if (each.job.specialist, each.job.branch) == way]
    try:
        yield course_of(store, way, mine)
    except CurriculumError as wrong:
        if must:
            raise
        warn(f"{spelled(way)} has no report: {wrong}")


def _names(way: SpecialistRef) -> set[str]:
    """Return the names of a specialist: templates/demo, templates.demo, templates."""
    return {*names_of(way), way[0]}


def _written(plan: RunPlan) -> Path:
    if not plan.store.root.is_dir():
        raise StoreError(
            str(plan.store.root), cause="there is no workspace", cure="Begin with: curriculum demo"
        )
    try:
        return write(plan, resources(), warn)
    except OSError as failed:
        raise StoreError(
            str(failed.filename or plan.store.root),
            failed.strerror,
            cause="the report can't be written",
            cure="See who may write there",
        ) from None
