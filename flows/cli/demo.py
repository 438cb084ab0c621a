"""`curriculum init` and `demo`: a first diet and corpus, and the whole way to a trained specialist, small."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from curriculum.corpus.load import corpus_names
from curriculum.inspection.formats import Line, count, duration, percent
from curriculum.inspection.run_notes import finished_runs
from curriculum.inspection.runs import change, report_of
from curriculum.mixing.diet_files import diet_names
from curriculum.pipeline.execute import Scope, runs_of
from curriculum.pipeline.run_config import RunConfig
from curriculum.starter import starter_files, write_starter
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import JOB, read_job
from flows import settings
from flows.cli import phases
from flows.cli.console import ACCENT, MUTED, out, table
from flows.cli.run_summary import warn_of_rises
from flows.server import dashboard
from flows.settings.trust import make_trusted
from schemas.cures import CHECKOUT, is_checkout
from schemas.errors import CurriculumError
from schemas.job import Report


def init(home: Path, name: str) -> None:
    """Write the files into the workspace and print the commands that continue from there.

    Raises:
        CurriculumError: for a name that is taken, in the workspace or by what comes with the package.
    """
    if name in {*diet_names(), *corpus_names()}:
        raise CurriculumError(
            "init",
            repr(name),
            cause="a diet or corpus of that name comes with the package",
            cure=f"Give another name, such as: curriculum init my-{name}",
        )
    starter_files(home, name)
    make_trusted(home)
    for file in write_starter(home, name):
        out.print(Text(str(file)), soft_wrap=True)
    out.print(Text("They are yours to edit, and use the sample corpus until then."), soft_wrap=True)
    place = "" if home == settings.workspace_path() else f" --home {shlex.quote(str(home))}"
    for command, meaning in (
        (f"curriculum supply {name}{place} --phases-file phases.demo", "what there is to train on"),
        (f"curriculum diet check {name}{place}", "what the diet asks of it"),
        (f"curriculum build {name}{place} --explain", "what would be built"),
        (f"curriculum run {name}{place}", "build, mix and train"),
    ):
        out.print(Text(command, ACCENT), Text(f" # {meaning}", MUTED), sep=" ", soft_wrap=True)


DIET = "templates.demo"
TABLE_NOTE = (
    "val_bpb: bits per byte on held-out documents, lower is better; each phase has its own, so it jumps "
    "between phases. anchor: the same on files that all phases share. yield: share of positions that hold "
    "a token; the rest is padding. time: of steps and evaluations"
)
MAX_COMMITS, MAX_VERSIONS = 200, 2
"""Limits on given repositories: a demo is five minutes, whatever they hold."""
QUESTIONS = (
    (
        "What is trained on, and how full is it?",
        "SELECT family, row_length, count(*) AS rows, sum(valid_token_count) AS tokens, "
        "round(100 * avg(valid_token_count / row_length), 1) AS packed FROM rows "
        "WHERE split = 'train' GROUP BY ALL ORDER BY ALL",
    ),
    (
        "Which commits gave the most text?",
        "SELECT repository, provenance[1].commit[:10] AS commit, count(*) AS documents, "
        "sum(num_bytes) AS bytes FROM documents GROUP BY ALL ORDER BY bytes DESC LIMIT 5",
    ),
    (
        "How did the loss fall?",
        "SELECT phase, step // 10 * 10 AS step, round(avg(loss), 3) AS loss "
        "FROM metrics GROUP BY ALL ORDER BY phase DESC, step",
    ),
)


def demo(home: Path, repositories: tuple[str, ...]) -> None:
    """Build, mix and train the demo's diet; a second one finds everything done.

    Raises:
        CurriculumError: for repositories that can't be read or hold too little.
    """
    config = RunConfig.of(
        specialist=DIET,
        workspace=home,
        repositories=repositories,
        max_commits=MAX_COMMITS if repositories else None,
        versions_per_path=MAX_VERSIONS if repositories else None,
    )
    if repositories:
        out.print(
            f"Reads the newest {MAX_COMMITS} commits of each repository and at most "
            f"{MAX_VERSIONS} versions of a file; `curriculum run {DIET} --repo …` reads all."
        )
    began = datetime.now(UTC)
    runs = runs_of(phases.flow(config, Scope()))
    out.print()
    finished = finished_runs(Store(home), runs)
    out.print(table(_summary(run.report) for run in finished))
    out.print(Text(TABLE_NOTE, MUTED))
    warn_of_rises(finished)
    if all(each.made for each in runs):
        out.print(Text(_where_time_went(runs, began), MUTED))
    _next_steps(home, _some_rows(Store(home)).key[:KEY_DIGITS])


def _some_rows(store: Store) -> Artefact:
    return next(
        artefact
        for artefact in store.artefacts("rows")
        if artefact.manifest.labels["split"] == "train"
    )


def _summary(report: Report) -> Line:
    return {
        "phase": report.phase,
        "val_bpb before → after": change(report, "phase"),
        "anchor": change(report, "anchor"),
        "yield": percent(report.tokens.valid / report.tokens.positions),
        "tokens": count(report.tokens.valid),
        "steps": report.steps,
        "time": duration(report.seconds + (report.evaluation_seconds or 0.0)),
    }


def _where_time_went(runs: tuple[Artefact, ...], began: datetime) -> str:
    """Time of building and mixing, of steps, of evaluations, and of what else a run does."""
    building, training, steps, evaluating = 0.0, 0.0, 0.0, 0.0
    for run in runs:
        report, begun = report_of(run), _moment(read_job(run.path / JOB).begun)
        building += (begun - began).total_seconds()
        began = _moment(report.ended)
        training += (began - begun).total_seconds()
        steps += report.seconds
        evaluating += report.evaluation_seconds or 0.0
    return (
        f"{duration(building + training)} in all: {duration(building)} building and mixing, "
        f"{duration(steps)} in steps, {duration(evaluating)} in evaluations, "
        f"{duration(training - steps - evaluating)} in leakcheck and starting"
    )


def _moment(written: str) -> datetime:
    return datetime.fromisoformat(written)


def _next_steps(home: Path, rows: str) -> None:
    _print("\nEverything lies in")
    _print((f"  {home}", "bold"))
    exports = [*_exports(home)]
    if exports:
        _print("For the commands below, in this shell:")
        for line in exports:
            _print((f"  {line}", ACCENT))
    _print("\nThree questions to paste:")
    for question, sql in QUESTIONS:
        _print((f"  # {question}", MUTED))
        _print((f'  curriculum query "{sql}"\n', ACCENT))
    _print("The same in Python, where every answer is a DuckDB relation:")
    _print(("  from curriculum.catalog import open_catalog", ACCENT))
    _print(('  open_catalog().sql("FROM runs").show()\n', ACCENT))
    _print("Next: look at a packed row, or start runs from a form and watch them:")
    _print((f"  curriculum inspect {rows}", ACCENT))
    for line in _serving():
        _print((f"  {line}", ACCENT))


def _serving() -> Iterator[str]:
    """Yield the command that serves with dashboards: of the Makefile, which installs them where they lack."""
    if not dashboard.is_installed():
        if Path.cwd() == CHECKOUT and is_checkout(CHECKOUT):
            yield "make serve"
            return
        yield dashboard.how_to_install()
    yield "curriculum serve"


def _exports(home: Path) -> Iterator[str]:
    """Yield the lines after which a shell finds this `curriculum`, and this workspace."""
    ours = Path(sys.executable).parent
    found = shutil.which("curriculum")
    if found is None or Path(found).resolve() != (ours / "curriculum").resolve():
        yield f'export PATH={shlex.quote(str(ours))}:"$PATH"'
    if home != settings.workspace_path():
        yield f"export CURRICULUM_HOME={shlex.quote(str(home))}"


def _print(*parts: str | tuple[str, str]) -> None:
    """A line that can be copied whole: never broken, never shortened."""
    out.print(Text.assemble(*parts), soft_wrap=True)
