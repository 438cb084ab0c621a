"""A workspace of three specialists, made in a second: real plans, reports and rows of few columns."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import marimo
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from curriculum.mixing.diet_files import load_diet
from curriculum.mixing.mix import mix
from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.pipeline.context import Resources
from curriculum.pipeline.status import PhaseStatus, State, StatusInputs
from curriculum.pipeline.status_table import write_status
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from dashboards import workspace
from flows import settings
from schemas.job import METRICS_SCHEMA, Figure, Job, OptimizerSpec, TokenCounts
from schemas.phase_status import ClosedGate
from schemas.reports import RowsReport
from schemas.specialist import SpecialistRef, file_stem
from tests import factories
from tests.dashboards.looking import PATIENCE_MS, log_in
from tests.flows.tiny_workspace import job

EVIL = "<img src=x onerror=alert(1)>"
"""The name of a repository."""
REPOSITORIES = ("leveldb", "fmt", EVIL)
DOMAINS = {"templates": 24, "testing": 12, "general": 40}
"""Rows of each."""
STEP = 4096
COURSES: dict[tuple[str, str | None], tuple[tuple[str, float], ...]] = {
    ("templates", None): (("syntax", 2.9), ("file_graph", 2.4), ("structure", 2.1)),
    ("testing", None): (("syntax", 3.1), ("file_graph", 2.5), ("structure", 2.7)),
    ("systems_c", "wide"): (("syntax", 2.8), ("file_graph", float("nan"))),
}
"""val_bpb after each phase; nan where it is mixed and not trained."""
NOT_FINITE = "the loss isn't finite at step 10"
CLOSED: dict[tuple[str, str], tuple[Literal["holds", "waits"], str, str]] = {
    ("templates", "structure"): (
        "holds",
        "its budget ended before its gate opened (10 steps; val_bpb fell by 0.2500)",
        "curriculum run templates",
    ),
    ("systems_c", "syntax"): (
        "waits",
        "trained val_bpb 3.900 → 2.800",
        "curriculum approve systems_c.wide syntax",
    ),
}
"""Gates that a walk stopped at."""


def _documents(store: Store, family: str) -> Artefact:
    recipe = Recipe(
        stage="documents",
        labels=(("family", family), ("repository", "all")),
        revision=1,
        config={"family": family},
    )
    ids = [f"{family}{number:028d}" for number in range(60)]
    places = pa.struct([(name, pa.string()) for name in ("repository", "commit", "path", "blob")])
    found = [
        [
            {
                "repository": REPOSITORIES[min(2, number % 5)],
                "commit": f"{number:040x}",
                "path": f"src/{number}.cpp",
                "blob": "",
            }
        ]
        for number in range(len(ids))
    ]

    def write(drafts: Sequence[StagingDirectory]) -> None:
        table = pa.table(
            {
                "document_id": ids,
                "family": [family] * len(ids),
                "provenance": pa.array(found, pa.list_(places)),
            }
        )
        pq.write_table(table, factories.shard_path(drafts[0].path))

    return store.produce([recipe], write)[0]


def _rows(store: Store, family: str, length: int, documents: Artefact) -> Artefact:
    recipe = Recipe(
        stage="rows",
        labels=(
            *(("family", family), ("objective", "causal"), ("variant", "0")),
            *(("row_length", str(length)), ("split", "train")),
        ),
        revision=1,
        config={},
        inputs=(documents.as_input("documents"),),
    )
    rng = np.random.default_rng(length)
    listed = [
        (domain, int(rng.integers(length // 2, length)))
        for domain, n in DOMAINS.items()
        for _ in range(n)
    ]

    def write(drafts: Sequence[StagingDirectory]) -> None:
        of = range(len(listed))
        valid = pa.array([each for _, each in listed], pa.int32())
        table = pa.table(
            {
                "pack_id": [f"{recipe.key[:12]}-{number:010d}" for number in of],
                "family": [family] * len(listed),
                "objective": ["causal"] * len(listed),
                "domain": [domain for domain, _ in listed],
                "split": ["train"] * len(listed),
                "valid_token_count": valid,
                "attention_pairs": pa.array([each * 9 for _, each in listed], pa.int64()),
                "loss_token_count": valid,
                "num_docs": pa.array([2] * len(listed), pa.int32()),
                "document_ids": [
                    [f"{family}{at:028d}" for at in (number % 60, (7 * number + 1) % 60)]
                    for number in of
                ],
                "doc_starts": pa.array(
                    [[0, each // 4] for _, each in listed], pa.list_(pa.int32())
                ),
            }
        )
        pq.write_table(table, factories.shard_path(drafts[0].path))
        windows = {
            f"{recipe.key[:12]}-{number:010d}": range(10_000 * number, 10_000 * number + each)
            for number, (_, each) in enumerate(listed)
        }
        drafts[0].record(RowsReport(windows=factories.write_windows(drafts[0].path, windows)))

    return store.produce([recipe], write)[0]


def _phase(way: tuple[str, str | None], name: str, families: Mapping[str, int]) -> ResolvedPhase:
    shares: dict[str, float] = {"v3_simple": 0.6, "v3_doxygen": 0.25, "v4_context_graph": 0.15}
    served = [
        ResolvedServing(
            index=at,
            family=family,
            objective="causal",
            row_length=length,
            share=shares[family],
            tokens=0,
            domains=(("templates", 2.0), ("*", 1.0)),
            repositories=(),
        )
        for at, (family, length) in enumerate(families.items())
    ]
    return ResolvedPhase(
        specialist=way[0],
        branch=way[1],
        name=name,
        tokens=60_000 + 1000 * len(name) + 10 * list(COURSES).index(way),
        rope_base=5e5,
        servings=tuple(served),
        max_token_repetition=4,
        max_repetition=4.0,
        on_shortage="stop",
        advance_when=None,
        on_budget="advance",
        require=(),
        why="",
    )


def _job(way: tuple[str, str | None], plan: Artefact) -> Job:
    """Return the job of a run; `testing` has a higher learning rate than the others."""
    return job(
        plan,
        plan.path.parents[len(plan.manifest.labels) + 1],
        specialist=way[0],
        branch=way[1],
        run_key="a" * 64,
        steps=10,
        optimizer=OptimizerSpec(
            learning_rate=3e-3 if way[0] == "testing" else 1e-3, warmup_steps=2
        ),
    )


def _run(
    store: Store, way: tuple[str, str | None], plan: Artefact, before: float, after: float
) -> Artefact:
    phase = plan.manifest.labels["phase"]
    failed = (way[0], phase) == ("testing", "structure")
    recipe = Recipe(
        stage="runs",
        labels=tuple(plan.manifest.labels.items()),
        revision=1,
        config={"after": after},
        inputs=(plan.as_input("plan"),),
    )
    steps = 10

    def figures(step: int, value: float) -> tuple[Figure, ...]:
        return tuple(
            factories.figure(
                value + (name == "anchor") * 0.1,
                set=name,
                phase=phase,
                step=step,
                low=value - 0.05,
                high=value + 0.15,
                scored_tokens=900,
                scored_bytes=2700,
            )
            for name in ("phase", "anchor")
        )

    report = factories.run_report(
        specialist=way[0],
        phase=phase,
        stopped="failed" if failed else "budget",
        reason=NOT_FINITE if failed else f"{steps} steps",
        steps=steps,
        tokens=TokenCounts(positions=steps * STEP, valid=30_000, scored=29_000, bytes=90_000),
        before=figures(0, before),
        after=figures(steps, after),
        history=(
            *figures(0, before),
            *figures(5, (before + 2 * after) / 3),
            *figures(steps, after),
        ),
        tokens_per_second=500.0,
        seconds=60.0,
        gpu_seconds=60.0,
        cost=0.05,
        device="cuda",
        backend="sdpa",
    )

    def write(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        (draft.path / "report.json").write_text(report.model_dump_json())
        (draft.path / "job.json").write_text(_job(way, plan).model_dump_json())
        draft.report.update(report.model_dump(mode="json"))
        (draft.path / "metrics").mkdir()
        lines = [
            {
                field.name: (
                    step if field.name == "step" else 3000 if field.name == "valid_tokens" else 1
                )
                for field in METRICS_SCHEMA
            }
            for step in range(1, steps + 1)
        ]
        pq.write_table(
            pa.Table.from_pylist(lines, schema=METRICS_SCHEMA), draft.path / "metrics/0.parquet"
        )

    return store.produce([recipe], write)[0]


def _close(home: Path, run: Artefact, kind: Literal["holds", "waits"], why: str, cure: str) -> None:
    """The gate behind a run is closed."""
    labels = run.manifest.labels
    closed = ClosedGate(
        kind=kind,
        run=run.path.relative_to(home).as_posix(),
        content=run.content,
        specialist=labels["specialist"],
        branch=labels.get("branch"),
        phase=labels["phase"],
        why=why,
        cure=cure,
    )
    file = home / "gates" / f"{run.key[:12]}-1.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(closed.model_dump_json())


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace, to look at."""
    home = tmp_path_factory.mktemp("dashboards") / "lab"
    store = Store(home)
    lengths: dict[str, int] = {"v3_simple": 512, "v3_doxygen": 512, "v4_context_graph": 1024}
    documents = {family: _documents(store, family) for family in lengths}
    rows = {
        family: _rows(store, family, length, documents[family])
        for family, length in lengths.items()
    }
    diet = load_diet("templates")
    for way, course in COURSES.items():
        before = 3.9
        for name, after in course:
            phase = _phase(way, name, lengths)
            plan = mix(
                store, diet, phase, [[rows[family]] for family in lengths], tokens_per_step=STEP
            )
            mark = f"{file_stem(way)}+{name}"
            store.mark(f"mixtures+{mark}", [plan])
            if after == after:
                run = _run(store, way, plan, before, after)
                store.mark(f"runs+{mark}", [run])
                before = after
                if (way[0], name) in CLOSED:
                    _close(home, run, *CLOSED[way[0], name])
    write_status(StatusInputs.read(Store(home, dry=True), Resources()), _standings())
    return home


def _standings() -> Iterator[PhaseStatus]:
    """Yield the statuses that a run would record, in order."""
    for way in sorted(COURSES, key=lambda way: way[0]):
        for name, after in COURSES[way]:
            kind, why, _ = CLOSED.get((way[0], name), ("", "10 steps", ""))
            state: State = "done" if after == after else "missing"
            if kind:
                state = "holds" if kind == "holds" else "waiting"
            if (way[0], name) == ("testing", "structure"):
                state, why = "failed", NOT_FINITE
            yield PhaseStatus(ref=SpecialistRef(*way), phase=name, state=state, why=why)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Path]:
    """An empty workspace that the pages show."""
    before = workspace.home()
    workspace.show(tmp_path / "new")
    yield tmp_path / "new"
    workspace.show(before)


def said(app: marimo.App) -> str:
    """The output of the cells of a page; one that fails raises."""
    outputs, _ = app.run()
    return "".join(each.text for each in outputs if each is not None)


@contextmanager
def dashboard_of(home: Path, said: Path) -> Iterator[str]:
    """The address below which a workspace's dashboards are shown, with the path that lets a browser in.

    What the server prints goes to the file `said`, and holds nothing else in the end.
    """
    command = [sys.executable, "-m", "flows.cli", "dashboard", "--no-open", "--home", str(home)]
    with said.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--port", str(_free())],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=settings.environment({}),
        )
    try:
        while "Ctrl-C" not in said.read_text():
            assert process.poll() is None, said.read_text()
            time.sleep(0.1)
        login = next(line.split()[1] for line in said.read_text().splitlines() if "#" in line)
        yield f"{login.replace('#', '')}/"
    finally:
        process.terminate()
        assert process.wait(120) == 0, said.read_text()
    # Marimo drops a cell that fails from the page, and tells the server's output alone.
    assert len(said.read_text().splitlines()) == 3, said.read_text()


@pytest.fixture(scope="session")
def address(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the workspace's dashboards."""
    with dashboard_of(home, tmp_path_factory.mktemp("said") / "dashboard.txt") as shown:
        yield shown


def _free() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind((settings.HOST, 0))
        return int(probe.getsockname()[1])


class Watched:
    """A page of the browser, and all that it asked for and complained of."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type == "error" else None,
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def expect_calm(self, address: str) -> None:
        """No request went to another host, and nothing was complained of."""
        assert self.asked
        strangers = [url for url in self.asked if not url.startswith((address, "data:", "blob:"))]
        assert strangers == []
        assert self.complaints == []


@pytest.fixture(scope="module")
def watched(browser: Browser, address: str) -> Iterator[Watched]:
    """A window of a browser that is logged in."""
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    log_in(context, address)
    yield Watched(context)
    context.close()
