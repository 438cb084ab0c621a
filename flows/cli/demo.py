"""`curriculum init` and `demo`: write a first diet and corpus, or train a small specialist."""

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
    """Write a new diet and its corpus into the workspace, and print the next commands.

    Raises:
        CurriculumError: if the workspace or the package has a diet or corpus of that name already.
    """
    if name in {*diet_names(), *corpus_names()}:
        raise CurriculumError(
            "init",
            repr(name),
            cause="the package has a diet or corpus of that name",
            cure=f"Give another name, such as: curriculum init my-{name}",
        )
    starter_files(home, name)
    make_trusted(home)
    for file in write_starter(home, name):
        out.print(Text(str(file)), soft_wrap=True)
    out.print(Text("Edit these files; until then they use the sample corpus."), soft_wrap=True)
    place = "" if home == settings.workspace_path() else f" --home {shlex.quote(str(home))}"
    for command, meaning in (
        (
            f"curriculum supply {name}{place} --phases-file phases.demo",
            "estimate the available tokens",
        ),
        (f"curriculum diet check {name}{place}", "check that the diet has enough tokens"),
        (f"curriculum build {name}{place} --explain", "list the steps of the build"),
        (f"curriculum run {name}{place}", "build, mix and train"),
    ):
        out.print(Text(command, ACCENT), Text(f" # {meaning}", MUTED), sep=" ", soft_wrap=True)


DIET = "templates.demo"
TABLE_NOTE = (
    "val_bpb: bits per byte on held-out documents; lower is better. Every phase has its own "
    "documents, so val_bpb jumps between phases. anchor: val_bpb on files that all phases share. "
    "yield: share of positions with a token; the rest is padding. time: training steps and "
    "evaluations"
)
MAX_COMMITS, MAX_VERSIONS = 200, 2
"""Maximum numbers of commits, and of versions per file, in repositories that the user gives.

With these limits the demo takes five minutes.
"""
QUESTIONS = (
    (
        "Which rows is the model trained on, and how full are they?",
        "SELECT family, row_length, count(*) AS rows, sum(valid_token_count) AS tokens, "
        "round(100 * avg(valid_token_count / row_length), 1) AS packed FROM rows "
        "WHERE split = 'train' GROUP BY ALL ORDER BY ALL",
    ),
    (
        "Which commits have the most text?",
        "SELECT repository, provenance[1].commit[:10] AS commit, count(*) AS documents, "
        "sum(num_bytes) AS bytes FROM documents GROUP BY ALL ORDER BY bytes DESC LIMIT 5",
    ),
    (
        "How did the loss change?",
        "SELECT phase, step // 10 * 10 AS step, round(avg(loss), 3) AS loss "
        "FROM metrics GROUP BY ALL ORDER BY phase DESC, step",
    ),
)


def demo(home: Path, repositories: tuple[str, ...]) -> None:
    """Build, mix and train the demo's diet; if it is run again, it reuses everything.

    Raises:
        CurriculumError: if a repository can't be read or is too small.
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
    if all(run.made for run in runs):
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
    """Describe the time that the demo took for building, training steps, evaluations and the rest."""
    building, training, steps, evaluating = 0.0, 0.0, 0.0, 0.0
    for run in runs:
        report, begun = report_of(run), _moment(read_job(run.path / JOB).begun)
        building += (begun - began).total_seconds()
        began = _moment(report.ended)
        training += (began - begun).total_seconds()
        steps += report.seconds
        evaluating += report.evaluation_seconds or 0.0
    return (
        f"{duration(building + training)} in total: {duration(building)} building and mixing, "
        f"{duration(steps)} training steps, {duration(evaluating)} evaluations, "
        f"{duration(training - steps - evaluating)} leakcheck and startup"
    )


def _moment(written: str) -> datetime:
    return datetime.fromisoformat(written)


def _next_steps(home: Path, rows: str) -> None:
    _print("\nEverything lies in")
    _print((f"  {home}", "bold"))
    exports = [*_exports(home)]
    if exports:
        _print("Before the commands below, run in this shell:")
        for line in exports:
            _print((f"  {line}", ACCENT))
    _print("\nThree questions to paste:")
    for question, sql in QUESTIONS:
        _print((f"  # {question}", MUTED))
        _print((f'  curriculum query "{sql}"\n', ACCENT))
    _print("The same in Python; results are DuckDB relations:")
    _print(("  from curriculum.catalog import open_catalog", ACCENT))
    _print(('  open_catalog().sql("FROM runs").show()\n', ACCENT))
    _print("Next: inspect a packed row, or start and watch runs in the browser:")
    _print((f"  curriculum inspect {rows}", ACCENT))
    for line in _serving():
        _print((f"  {line}", ACCENT))


def _serving() -> Iterator[str]:
    """Yield the command that serves the workspace with dashboards; `make serve` also installs them."""
    if not dashboard.is_installed():
        if Path.cwd() == CHECKOUT and is_checkout(CHECKOUT):
            yield "make serve"
            return
        yield dashboard.how_to_install()
    yield "curriculum serve"


def _exports(home: Path) -> Iterator[str]:
    """Yield the lines that make a shell find this `curriculum` and use this workspace by default."""
    ours = Path(sys.executable).parent
    found = shutil.which("curriculum")
    if found is None or Path(found).resolve() != (ours / "curriculum").resolve():
        yield f'export PATH={shlex.quote(str(ours))}:"$PATH"'
    if home != settings.workspace_path():
        yield f"export CURRICULUM_HOME={shlex.quote(str(home))}"


def _print(*parts: str | tuple[str, str]) -> None:
    """Print a line that can be copied as a whole, since it is neither wrapped nor shortened."""
    out.print(Text.assemble(*parts), soft_wrap=True)
