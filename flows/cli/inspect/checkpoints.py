"""Checkpoints in `curriculum inspect`: the state of the run, the weights, and the rows of the last step."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from rich.console import RenderableType
from rich.text import Text

from curriculum import parquet
from curriculum.inspection.checkpoint_weights import Weights, groups, tensors
from curriculum.inspection.formats import Line, count, interval, number
from curriculum.inspection.line_selection import InspectOptions
from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.pipeline.attempts import Attempt
from curriculum.store import Store
from curriculum.train.checkpoint_files import SPEC, STATE, manifest_of, read_part, require_listed
from flows.cli.console import MUTED, table
from flows.cli.inspect.runs import ordered, origin_of
from flows.cli.inspect.text import bar
from schemas.job import Figure, Job, ModelSpec, TokenCounts
from schemas.manifest import FileRecord
from schemas.specialist import format_reference
from schemas.visible import one_line


class Saved(BaseModel):
    """Progress of a run at a checkpoint: those fields of state.json that are shown."""

    step: int = 0
    slot: int = 0
    tokens: TokenCounts = TokenCounts(positions=0, valid=0, scored=0, bytes=0)
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumedServing:
    """Number and tokens of the rows of one serving and domain that a run read before a checkpoint."""

    serving: str
    domain: str
    rows: int
    tokens: int
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointView:
    """Checkpoint with the values that are shown."""

    path: Path
    files: tuple[FileRecord, ...]
    state: Saved
    model: ModelSpec | None
    """None if another trainer wrote the checkpoint."""
    job: Job
    weights: tuple[Weights, ...]
    consumed: tuple[ConsumedServing, ...]
    """Empty if the plan was removed."""


def checkpoint_view(store: Store, path: Path) -> CheckpointView:
    """Read a checkpoint; only the names and shapes of its weights are read, not the weights."""
    require_listed(path)
    job, state = Attempt.at(path.parents[1]).job, read_part(Saved, path, STATE)
    return CheckpointView(
        path=path,
        files=tuple(manifest_of(path).files),
        state=state,
        model=read_part(ModelSpec, path, SPEC) if (path / SPEC).is_file() else None,
        job=job,
        weights=tuple(tensors(path)),
        consumed=tuple(_consumed(store, job, state.slot)),
    )


def _consumed(store: Store, job: Job, slot: int) -> Iterator[ConsumedServing]:
    """Yield the rows before the slot `slot` of the run's plan, counted by serving and domain."""
    folder = (store.root / job.plan).parent
    if not (folder / PLAN_NAME).is_file():
        return
    plan = parquet.read_table(folder / PLAN_NAME, columns=["slot", "stratum", "valid_tokens"])
    sums: dict[int, list[int]] = {}
    for line in plan.to_pylist():
        if line["slot"] < slot:
            sums.setdefault(line["stratum"], []).append(line["valid_tokens"])
    whole = sum(map(sum, sums.values()))
    for stratum in report_of(store.load(folder)).strata:
        if tokens := sums.get(stratum.stratum):
            yield ConsumedServing(
                serving=stratum.title,
                domain=stratum.domain,
                rows=len(tokens),
                tokens=sum(tokens),
                share=sum(tokens) / whole,
            )


def checkpoint_panels(
    store: Store, view: CheckpointView, options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield the progress of the run at a checkpoint, the weights, the consumed rows, and the metrics.

    With a filter, yield only the matching metrics.
    """
    job, state = view.job, view.state
    way = format_reference((job.specialist, job.branch), job.phase)
    yield Text.assemble(
        ("checkpoint ", "bold cyan"), (f"{one_line(way)} · step {state.step:,}", "bold")
    )
    size = sum(file.num_bytes for file in view.files)
    where = view.path.relative_to(store.root).as_posix()
    yield Text(f"{where} · {number(len(view.files), 'file')} · {count(size)}B", MUTED)
    if options.only.given:
        yield table(_figures(state, options))
        return
    yield ordered(job)
    yield Text(
        f"{count(state.tokens.valid)} tokens of this phase, {count(state.tokens.scored)} scored · "
        f"step {state.step:,} of {job.steps:,} · {origin_of(job)}"
    )
    yield ""
    yield _weights(view, full=options.full)
    if view.consumed:
        yield ""
        yield table(view.consumed, heads={"serving": "consumed in this phase"})
    yield ""
    yield table(_figures(state, options))


def _weights(view: CheckpointView, *, full: bool) -> RenderableType:
    """Return a table of the weights, one line per block; with `full`, one line per tensor."""
    if not view.weights:
        return Text(
            "Weights are not shown: the checkpoint is sharded by rank, or another trainer "
            "wrote it.",
            MUTED,
        )
    whole = sum(tensor.parameters for tensor in view.weights)
    lines: list[Line] = [
        {
            "weights": weights.name,
            "tensors": weights.tensors,
            "parameters": weights.parameters,
            "": bar(weights.parameters / max(whole, 1)).plain,
            "type": weights.kind,
            "shape": str(list(weights.shape)) if full else "",
        }
        for weights in (view.weights if full else groups(view.weights))
    ]
    every = {"weights": "all", "tensors": len(view.weights), "parameters": whole}
    return table([*lines, {**every, "": "", "type": "", "shape": ""}])


def _figures(state: Saved, options: InspectOptions) -> Iterator[Line]:
    """Yield the most recent metrics of each set that were measured before the checkpoint."""
    last = {figure.place: figure for figure in state.figures}
    for figure in last.values():
        if options.only.has_figure(figure.family, figure.domain):
            yield {
                "set": figure.set,
                "phase": figure.phase,
                "family": figure.family,
                "domain": figure.domain,
                "at step": figure.step,
                "val_bpb": f"{figure.val_bpb:.3f}",
                "interval": interval(figure.low, figure.high, is_sure=figure.is_sure),
                "documents": figure.documents,
                "lineages": figure.lineages,
            }
