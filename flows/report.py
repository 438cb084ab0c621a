"""`curriculum status`, `query`, `check` and `gc`: what the workspace holds, and whether it is sound."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock
import typer
from rich.table import Table
from rich.text import Text

from curriculum import catalog
from curriculum.rows.check import check as check_rows
from curriculum.store import Artefact, Store, collect, garbage
from flows.lines import Line, change, count, report_of
from flows.show import MUTED, err, out, plain_table, table
from schemas.errors import StoreError
from schemas.job import Job
from schemas.manifest import MANIFEST_NAME

MOST_LINES = 40
"""Lines of an answer that a terminal shows; --json gives all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run as it stands: closed, running, or interrupted."""

    specialist: str
    phase: str
    attempt: int
    state: str
    val_bpb: str
    anchor: str
    why: str
    path: str


def status(home: Path, *, as_json: bool) -> None:
    """Artefacts by stage, and the runs with what is stale."""
    store = Store(home, dry=True)
    artefacts = list(store.artefacts())
    runs = list(_runs(store, artefacts))
    stages = list(_stages(artefacts, len(garbage(store))))
    if as_json:
        out.print_json(
            json.dumps({"home": str(home), "stages": stages, "runs": [*map(asdict, runs)]})
        )
        return
    out.print(Text(str(store.root), "bold"))
    if not artefacts and not runs:
        out.print("Nothing here yet. Begin with: curriculum demo")
        return
    out.print(table(stages))
    if runs:
        out.print()
        out.print(table(asdict(run) for run in runs))


def _stages(artefacts: list[Artefact], dead: int) -> Iterator[Line]:
    for stage in dict.fromkeys(each.manifest.stage for each in artefacts):
        ours = [each for each in artefacts if each.manifest.stage == stage]
        size = sum(record.num_bytes for each in ours for record in each.manifest.files)
        newest = max(each.manifest.created for each in ours)
        yield {
            "stage": stage,
            "artefacts": len(ours),
            "size": f"{count(size)}B",
            "newest": newest[:16].replace("T", " "),
        }
    if dead:
        yield {"stage": "unused", "artefacts": dead, "size": "", "newest": "curriculum gc"}


def _runs(store: Store, artefacts: list[Artefact]) -> Iterator[Run]:
    closed = [each for each in artefacts if each.manifest.stage == "runs"]
    current = {each.key: each for each in sorted(closed, key=lambda run: report_of(run).attempt)}
    for run in closed:
        yield _closed(store, run, current)
    for file in sorted((store.root / "runs").rglob("job.json")):
        if not (file.parent / MANIFEST_NAME).is_file():
            yield _open(store, file)


def _closed(store: Store, run: Artefact, current: dict[str, Artefact]) -> Run:
    report = report_of(run)
    state = "done" if current[run.key] is run else "superseded"
    why = report.reason
    for record in run.manifest.inputs:
        if record.key in current and current[record.key].content != record.content:
            state = "stale"
            why = f"{record.name} was trained anew since"
    return Run(
        specialist=report.specialist,
        phase=report.phase,
        attempt=report.attempt,
        state=state,
        val_bpb=change(report, "phase", report.phase),
        anchor=change(report, "anchor", "anchor"),
        why=why,
        path=run.path.relative_to(store.root).as_posix(),
    )


def _open(store: Store, file: Path) -> Run:
    job = Job.model_validate_json(file.read_text())
    running = _held(store.root / ".locks" / f"{job.run_key}-{job.attempt}.train.lock")
    return Run(
        specialist=job.specialist,
        phase=job.phase,
        attempt=job.attempt,
        state="running" if running else "interrupted",
        val_bpb="",
        anchor="",
        why="" if running else "the same command goes on from its last checkpoint",
        path=file.parent.relative_to(store.root).as_posix(),
    )


def _held(lock: Path) -> bool:
    if not lock.is_file():
        return False
    try:
        with filelock.FileLock(lock, timeout=0):
            return False
    except filelock.Timeout:
        return True


def query(home: Path, sql: str, *, as_json: bool) -> None:
    """The answer to a question, as a table or as JSON lines."""
    answer = catalog.query(home, sql)
    if as_json:
        for row in answer.rows:
            line = dict(zip(answer.columns, row, strict=True))
            typer.echo(json.dumps(line, ensure_ascii=False, default=str))
        return
    out.print(_drawn(answer))
    rest = len(answer.rows) - MOST_LINES
    more = f"; {rest:,} more: --json shows all" if rest > 0 else ""
    err.print(Text(f"{len(answer.rows):,} lines{more}", MUTED))


def _drawn(answer: catalog.Answer) -> Table:
    """A line a row; where that is wider than the terminal, a line a value."""
    rows = [[_shown(value) for value in row] for row in answer.rows[:MOST_LINES]]
    columns = list(zip(*rows, strict=True)) or [()] * len(answer.columns)
    widths = [
        max(map(len, (name, *cells))) for name, cells in zip(answer.columns, columns, strict=True)
    ]
    if sum(widths) + 2 * len(widths) <= out.width:
        drawn = plain_table(*answer.columns)
        for column, values in zip(drawn.columns, zip(*answer.rows, strict=True), strict=False):
            numeric = all(isinstance(value, int | float) or value is None for value in values)
            column.justify = "right" if numeric else "left"
        for row in rows:
            drawn.add_row(*row)
        return drawn
    drawn = plain_table("column", "value")
    for row in rows:
        for name, value in zip(answer.columns, row, strict=True):
            drawn.add_row(Text(name, MUTED), value)
        drawn.add_row("", "")
    return drawn


def _shown(value: object) -> Text:
    if isinstance(value, float):
        return Text(f"{value:,.4g}")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    text = "" if value is None else str(value)
    return Text(text if len(text) <= 200 else f"{text[:199]}…")


def check(paths: list[Path]) -> None:
    """Hold every artefact's files against its manifest, and every packed row against the contract.

    Raises:
        SchemaError, StoreError: after all faults have been printed.
    """
    for path in paths:
        artefacts = list(_artefacts(path))
        for artefact in artefacts:
            Store.containing(artefact.path).verify(artefact)
        rows = [each.path for each in artefacts if each.manifest.stage == "rows"]
        for folder in rows or ([] if artefacts else [path]):
            _check_rows(folder)
        out.print(f"{path}: {len(artefacts)} artefacts are what their manifests say")


def _artefacts(path: Path) -> Iterator[Artefact]:
    if not path.exists():
        raise StoreError(str(path), cause="there is no such path", cure="Give an artefact's folder")
    files = sorted(path.rglob(MANIFEST_NAME)) if path.is_dir() else []
    for file in files:
        if "checkpoints" not in file.parts:
            yield Store.containing(file).load(file.parent)


def _check_rows(folder: Path) -> None:
    report = check_rows(folder)
    for fault in report.faults[1:]:
        err.print(Text(str(fault)))
    report.raise_first()
    if report.fallbacks:
        err.print(Text(f"inferred: {', '.join(report.fallbacks)}", MUTED))
    out.print(
        f"{folder}: {report.rows:,} rows of {report.files} files keep the contract "
        f"({count(report.valid_tokens)} valid tokens, {count(report.scored_tokens)} scored)"
    )


def gc(home: Path, *, sure: bool) -> None:
    """Remove what nothing refers to, once somebody said yes."""
    store = Store(home)
    dead = garbage(store)
    if not dead:
        out.print("Nothing to remove: everything is in use.")
        return
    size = sum(record.num_bytes for each in dead for record in each.manifest.files)
    for each in dead[:MOST_LINES]:
        out.print(Text(each.path.relative_to(store.root).as_posix(), MUTED))
    if sure or typer.confirm(f"Remove {len(dead)} artefacts, {count(size)}B?"):
        out.print(f"{count(collect(store, dead))}B freed")
