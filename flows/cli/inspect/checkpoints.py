"""A checkpoint in the terminal: its state, its weights, and what its last step read."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from curriculum import parquet
from curriculum.inspection.checkpoint_weights import Group, Tensor, groups, tensors
from curriculum.inspection.formats import Line, count, interval, number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.pipeline.attempts import Attempt
from curriculum.store import Store
from curriculum.train.checkpoint_files import SPEC, STATE, manifest_of, read_part, require_listed
from flows.cli.console import MUTED, plain_table, table
from flows.cli.inspect.runs import fits, ordered, origin_of
from flows.cli.inspect.text import bar
from schemas.job import Figure, Job, ModelSpec, TokenCounts
from schemas.specialist import spelled
from schemas.visible import one_line


class Saved(BaseModel):
    """Progress of a run at a checkpoint; the part of state.json that is shown."""

    step: int = 0
    slot: int = 0
    tokens: TokenCounts = TokenCounts(positions=0, valid=0, scored=0, bytes=0)
    figures: tuple[Figure, ...] = ()


def checkpoint(store: Store, path: Path, options: InspectOptions) -> Iterator[RenderableType]:
    """A checkpoint: its progress, its weights, the rows consumed until then, and its figures.

    Where figures are chosen, those figures alone.
    """
    require_listed(path)
    job, saved, files = Attempt.at(path.parents[1]).job, saved_at(path), manifest_of(path).files
    way = spelled((job.specialist, job.branch), job.phase)
    yield Text.assemble(
        ("checkpoint ", "bold cyan"), (f"{one_line(way)} · step {saved.step:,}", "bold")
    )
    size = sum(each.num_bytes for each in files)
    where = path.relative_to(store.root).as_posix()
    yield Text(f"{where} · {number(len(files), 'file')} · {count(size)}B", MUTED)
    if options.only.given:
        yield table(_checkpoint_figures(saved, options))
        return
    yield ordered(job)
    yield Text(
        f"{count(saved.tokens.valid)} tokens of this phase, {count(saved.tokens.scored)} scored · "
        f"step {saved.step:,} of {job.steps:,} · {origin_of(job)}"
    )
    yield ""
    yield _weights(path, full=options.full)
    consumed = _consumed(store, job, saved.slot)
    if consumed is not None:
        yield ""
        yield consumed
    yield ""
    yield table(_checkpoint_figures(saved, options))


def saved_at(path: Path) -> Saved:
    """Return the progress of a run at a checkpoint."""
    return read_part(Saved, path, STATE)


def spec_at(path: Path) -> ModelSpec | None:
    """The model of a checkpoint; None where another trainer wrote it."""
    return read_part(ModelSpec, path, SPEC) if (path / SPEC).is_file() else None


def _weights(path: Path, *, full: bool) -> Table | Text:
    """The tensors of a checkpoint by what they belong to, or one by one."""
    found = tensors(path)
    if not found:
        return Text("Its weights are in parts, one a rank, or another trainer's.", MUTED)
    drawn = plain_table(
        "weights", "tensors", "parameters", "", "type", *(["shape"] if full else [])
    )
    for at in (1, 2):
        drawn.columns[at].justify = "right"
    whole = sum(each.parameters for each in found)
    listed: list[Tensor] | list[Group] = found if full else groups(found)
    for each in listed:
        drawn.add_row(
            Text(one_line(each.name)),
            f"{each.tensors:,}",
            f"{each.parameters:,}",
            bar(each.parameters / max(whole, 1)),
            Text(each.kind, MUTED),
            *([str(list(each.shape))] if isinstance(each, Tensor) else []),
        )
    drawn.add_row(Text("all", "bold"), f"{len(found):,}", f"{whole:,}")
    return drawn


def _consumed(store: Store, job: Job, slot: int) -> Table | None:
    """Return the rows of the plan before a slot, by stratum; None where the plan is gone."""
    folder = (store.root / job.plan).parent
    if not (folder / PLAN_NAME).is_file():
        return None
    mixture = store.load(folder)
    plan = parquet.read_table(folder / PLAN_NAME, columns=["slot", "stratum", "valid_tokens"])
    sums: dict[int, list[int]] = {}
    for each in plan.to_pylist():
        if each["slot"] < slot:
            counted = sums.setdefault(each["stratum"], [0, 0])
            counted[0] += 1
            counted[1] += each["valid_tokens"]
    whole = sum(tokens for _, tokens in sums.values())
    drawn = plain_table("consumed in this phase", "domain", "rows", "tokens", "share")
    for at in (2, 3, 4):
        drawn.columns[at].justify = "right"
    for stratum in report_of(mixture).strata:
        rows, tokens = sums.get(stratum.stratum, (0, 0))
        if rows:
            serving = f"{stratum.family} {stratum.objective} {stratum.row_length}"
            drawn.add_row(
                Text(serving),
                Text(one_line(stratum.domain)),
                f"{rows:,}",
                f"{tokens:,}",
                percent(tokens / whole),
            )
    return drawn


def _checkpoint_figures(saved: Saved, options: InspectOptions) -> Iterator[Line]:
    """The figures that were taken last before the checkpoint."""
    last: dict[tuple[str, ...], Figure] = {}
    for each in saved.figures:
        last[each.set, each.phase, each.family, each.domain] = each
    for each in last.values():
        said: Line = {
            "set": each.set,
            "phase": each.phase,
            "family": each.family,
            "domain": each.domain,
            "at step": each.step,
            "val_bpb": f"{each.val_bpb:.3f}",
            "interval": interval(each.low, each.high, is_sure=each.is_sure),
            "documents": each.documents,
            "lineages": each.lineages,
        }
        if fits(said, options):
            yield said
