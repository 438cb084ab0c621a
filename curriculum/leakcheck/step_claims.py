"""Two claims about steps of training: what a scored document shares, and what an unscored one leaves.

Sets of documents are changed together: every second document of each row, then the others, and every
second run of three documents, then the others. So each document is held against its neighbours on both
sides, where a short one stands between against the next, and against those that stand a power of two
further, which an index of few bits would take for it.
"""

import functools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from curriculum.leakcheck import claims
from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.rows import Chosen, Rows, RowsFile, random_rows
from curriculum.leakcheck.step import (
    FEW_SCORED,
    LOSS_TOLERANCE,
    ROWS,
    SCORED,
    STEPS,
    OurTrainer,
    Setting,
    Start,
    StepSeen,
    Traces,
    run_steps,
    thinned,
)
from curriculum.leakcheck.subject import (
    LONG_ROW,
    Sizes,
    dtype_name,
    muted_layouts,
    one_thread,
    same_bits,
    step_layouts,
)
from schemas.errors import NotFiniteError
from schemas.job import Backend, ModelSpec
from schemas.leak import Finding
from schemas.progress import Progress, ProgressCallback, ignore_progress

CPU = torch.device("cpu")
TRACES = ("hidden", "losses", "gradients")
NO_ROWS = "the batches aren't the rows of the file"


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentHalf:
    """A half of the documents: every second run of `run` of them, from the first or the second run on."""

    run: int
    first: int

    def __call__(self, row: int, document: int) -> bool:
        """Return True if the half holds this document of this row."""
        return ((document // self.run) + row) % 2 == self.first


HALVES = tuple(DocumentHalf(run=run, first=first) for run in (1, 3) for first in (0, 1))
PARITIES, THREES, MIXED = HALVES[:2], HALVES[2:], (HALVES[0], HALVES[3])


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSubject:
    """Rows for either claim, and the trainer whose steps over them are examined."""

    name: str
    backend: str
    setting: Setting
    start: Start
    rows: Rows
    """Rows of one step."""
    muted_rows: Rows
    """Rows of two steps; no row is one document."""

    @property
    def mode(self) -> str:
        """Training mode, with or without recomputed blocks."""
        return "train, recompute" if self.setting.recompute else "train"

    def finding(self, claim: str, detail: str, *, bound: float = 0.0) -> Finding:
        """A finding that holds where there is no detail against it."""
        documents = sum(len(row) for row in (*self.rows.rows, *self.muted_rows.rows))
        note = f"two identical runs differ by {bound:.1e}" if bound else ""
        return Finding(
            subject=self.name,
            backend=self.backend,
            dtype=dtype_name(self.setting.dtype),
            row_length=self.rows.row_length,
            mode=f"{self.mode}, {documents} documents, {self.rows.vocab_size} ids",
            claim=claim,
            passed=not detail,
            detail=detail or note,
        )

    def steps(self, rows: Rows, *, steps: int, scaled: Tensor | None = None) -> list[StepSeen]:
        """Write these rows into a temporary folder and train on them."""
        with tempfile.TemporaryDirectory(prefix="leakcheck-") as folder:
            rows.write(Path(folder) / ROWS)
            return run_steps(
                self.setting, Path(folder), steps=steps, start=self.start, scaled=scaled
            )

    def file(self, rows: Rows) -> RowsFile:
        """The file that the writer makes of these rows."""
        with tempfile.TemporaryDirectory(prefix="leakcheck-") as folder:
            rows.write(Path(folder) / ROWS)
            return RowsFile.read(Path(folder) / ROWS)


def step_subject(
    setting: Setting,
    rows: Rows,
    muted_rows: Rows,
    *,
    name: str | None = None,
    backend: str | None = None,
    start: Start = OurTrainer.start,
) -> StepSubject:
    """Rows of one step for either claim, thinned, and a trainer: ours, if no other is given.

    The second step over muted rows has the same documents with other ids.
    """
    again = muted_rows.changed(lambda _row, _document: True, seed=20)
    two_steps = replace(muted_rows, rows=(*muted_rows.rows, *again.rows))
    blocks = setting.model.blocks
    return StepSubject(
        name=f"step {blocks if name is None else name}",
        backend=(setting.backend if "A" in blocks else "") if backend is None else backend,
        setting=setting,
        start=start,
        rows=thinned(rows, len(rows.rows), SCORED),
        muted_rows=thinned(two_steps, len(muted_rows.rows), FEW_SCORED),
    )


def adversarial_rows(setting: Setting) -> tuple[Rows, Rows]:
    """Rows of one step for either claim, with documents of the lengths at which leaks hide."""
    sizes = Sizes.of(setting.model, setting.row_length)
    rows, muted = (
        random_rows(setting.model, setting.row_length, layouts)
        for layouts in (step_layouts(sizes), muted_layouts(sizes))
    )
    return rows, muted


@one_thread()
def prove_step(
    spec: ModelSpec,
    *,
    backend: Backend,
    row_length: int,
    dtype: torch.dtype = torch.float32,
    recompute: bool = False,
    structure: bool | None = None,
    device: torch.device = CPU,
    watch: ProgressCallback = ignore_progress,
) -> tuple[Finding, ...]:
    """Both claims about the step of a small model with these sizes, on adversarial rows.

    Vocabulary, kernel, chunk and streams are those of `spec`; width and depth are small. `structure` stands
    in for the model's own.
    """
    chosen = spec.structure if structure is None else structure
    setting = Setting(
        model=small_model(spec.model_copy(update={"structure": chosen})),
        backend=backend,
        recompute=recompute,
        dtype=dtype,
        device=device,
        row_length=row_length,
    )
    return step_findings(step_subject(setting, *adversarial_rows(setting)), watch)


def step_findings(
    subject: StepSubject, watch: ProgressCallback = ignore_progress
) -> tuple[Finding, ...]:
    """Both claims, and those without which they would hold of nothing."""
    with same_bits(subject.setting.device):
        return tuple(_findings(subject, watch))


def own_rows_findings(subject: StepSubject) -> tuple[Finding, ...]:
    """The claim about scored documents, on rows that a job will read, each against its neighbours."""
    with same_bits(subject.setting.device):
        found = _Found()
        try:
            detail = _scored(subject, found, PARITIES)
        except NotFiniteError as failed:
            detail = str(failed)
        scored = subject.finding(claims.SCORED, detail, bound=found.bound)
        return (scored, *_premises(subject, found))


def _findings(subject: StepSubject, watch: ProgressCallback) -> Iterator[Finding]:
    note = f"{subject.name} T={subject.rows.row_length} {subject.mode}"
    found = _Found()
    for done, (claim, find) in enumerate(((claims.SCORED, _scored), (claims.MUTED, _muted))):
        watch(Progress(stage="leakcheck", item="", done=done, total=2, unit="claims", note=note))
        try:
            detail = find(subject, found)
        except NotFiniteError as failed:
            detail = str(failed)
        yield subject.finding(claim, detail, bound=found.bound)
    yield from _premises(subject, found)


def _premises(subject: StepSubject, found: "_Found") -> Iterator[Finding]:
    """The findings without which the others would hold of nothing."""
    yield subject.finding(claims.FED, "".join(found.faults[:1]))
    yield subject.finding(claims.CHANGES_REACH, "".join(found.unreached[:1]))


@dataclass(kw_only=True, slots=True)
class _Found:
    """Intermediate results of both claims."""

    faults: list[str] = field(default_factory=list)
    """Differences of batches from the file."""
    unreached: list[str] = field(default_factory=list)
    """Places where a change changes nothing, so that the claims would hold of anything."""
    bound: float = 0.0
    """The largest difference of two identical runs."""


def _scored(
    subject: StepSubject, found: _Found, halves: tuple[DocumentHalf, ...] | None = None
) -> str:
    """The first difference at another document, over all halves; "" without one."""
    (plain,) = subject.steps(subject.rows, steps=1)
    found.faults += _faults(plain)
    file = subject.file(subject.rows)
    found.unreached += _without_gradient(plain, file)
    bounds = _bounds(subject, [plain], lambda: subject.steps(subject.rows, steps=1), found)
    detail = ""
    for seed, half in enumerate(halves or (PARITIES if _long(subject) else HALVES)):
        (other,) = subject.steps(subject.rows.changed(half, seed=seed), steps=1)
        found.faults += _faults(other)
        if plain.traces is None or other.traces is None:
            return detail or NO_ROWS
        changed = positions(file, half)
        found.unreached += _unchanged(plain, other, file, changed)
        detail = detail or _difference(plain.traces, other.traces, file, changed, bounds)
    return detail


def _muted(subject: StepSubject, found: _Found) -> str:
    """The first trace that an unscored document leaves in loss, gradients, weights or moments; "" if none."""
    rows = subject.muted_rows
    detail = ""
    for seed, half in enumerate(THREES if _long(subject) else MIXED):
        chosen = mutable(rows, half)
        muted = rows.muted(chosen)
        file = subject.file(muted)
        changed = positions(file, chosen)
        plain = subject.steps(muted, steps=STEPS)
        bounds = _bounds(
            subject, plain, functools.partial(subject.steps, muted, steps=STEPS), found
        )
        other = subject.steps(
            muted.changed(chosen, seed=10 + seed),
            steps=STEPS,
            scaled=changed | (file.documents < 0),
        )
        for step, (one, two) in enumerate(zip(plain, other, strict=True)):
            found.faults += [*_faults(one), *_faults(two)]
            detail = detail or _trace(one, two, step, bounds)
        found.unreached += _unchanged(plain[0], other[0], file, changed)
    return detail


def _long(subject: StepSubject) -> bool:
    """Return True if rows are so long that each claim is left to half of the halves."""
    return subject.rows.row_length > LONG_ROW


def _bounds(
    subject: StepSubject, plain: list[StepSeen], again: Callable[[], list[StepSeen]], found: _Found
) -> dict[str, float]:
    """Return the tolerance of each figure: the difference of two identical runs; 0 on a CPU."""
    if subject.setting.device.type == "cpu":
        return {}
    bounds: dict[str, float] = {}
    for one, two in zip(plain, again(), strict=True):
        others = dict(_step_results(two))
        for name, value in _step_results(one):
            bounds[name] = max(bounds.get(name, 0.0), _largest_difference(value, others[name]))
    found.bound = max(found.bound, *bounds.values())
    return bounds


def _step_results(seen: StepSeen) -> Iterator[tuple[str, Tensor]]:
    """All that a step leaves, by names."""
    yield "the loss", torch.tensor(seen.loss, dtype=torch.float64)
    yield "the gradient norm", torch.tensor(seen.norm, dtype=torch.float64)
    for name, value in seen.gradients.items():
        yield f"the gradient of {name}", value
    for name, value in seen.after.items():
        yield f"{name} after it", value
    if seen.traces is not None:
        for name in TRACES:
            yield name, getattr(seen.traces, name)


def _largest_difference(one: Tensor, two: Tensor) -> float:
    """The largest difference; infinite where shapes differ or it isn't a number."""
    if one.shape != two.shape:
        return math.inf
    difference = float((one.double() - two.double()).abs().max()) if one.numel() else 0.0
    return math.inf if math.isnan(difference) else difference


def mutable(rows: Rows, half: Chosen) -> Chosen:
    """The half without the rows that it would leave without any target, which no loader takes."""

    def has_targets(row: int) -> bool:
        documents = rows.rows[row]
        return any(each.loss_mask.any() and not half(row, at) for at, each in enumerate(documents))

    keep = [has_targets(row) for row in range(len(rows.rows))]
    return lambda row, document: keep[row] and half(row, document)


def positions(file: RowsFile, chosen: Chosen) -> Tensor:
    """Mark the positions [R, T] of the chosen documents."""
    found = torch.zeros(file.ids.shape, dtype=torch.bool)
    for row, documents_T in enumerate(file.documents):
        count = int(documents_T.max()) + 1
        is_chosen = torch.tensor([*(chosen(row, at) for at in range(count)), False])
        found[row] = is_chosen[documents_T]
    return found


def _faults(seen: StepSeen) -> list[str]:
    if seen.fault:
        return [seen.fault]
    difference = abs(seen.loss - seen.counted_loss)
    if not difference <= LOSS_TOLERANCE * abs(seen.counted_loss):
        return [f"the step's loss is {seen.loss:.6g}, and its tokens' {seen.counted_loss:.6g}"]
    return []


def _difference(
    one: Traces, two: Traces, file: RowsFile, changed: Tensor, bounds: Mapping[str, float]
) -> str:
    for name in TRACES:
        a, b = getattr(one, name), getattr(two, name)
        difference_RT = (a - b).abs().flatten(2).amax(-1).cpu()
        differs = ~(difference_RT <= bounds.get(name, 0.0)) & ~changed[: len(a)]
        if differs.any():
            row, token = differs.nonzero()[0].tolist()
            return (
                f"{name} differ by {float(difference_RT[differs].max()):.1e}, first at token {token} of row "
                f"{row}, {_document(file, row, token)}; at {int(differs.sum())} positions in all"
            )
    return ""


def _document(file: RowsFile, row: int, token: int) -> str:
    number = int(file.documents[row, token])
    if number < 0:
        return "in padding"
    length = int((file.documents[row] == number).sum())
    return f"in document {number} of {length} tokens"


def _trace(one: StepSeen, two: StepSeen, step: int, bounds: Mapping[str, float]) -> str:
    if one.traces is None or two.traces is None:
        return NO_ROWS
    others = dict(_step_results(two))
    for name, value in _step_results(one):
        if name in TRACES or torch.equal(value, others.get(name, value.new_empty(0))):
            continue
        difference = _largest_difference(value, others[name]) if name in others else math.inf
        if not difference <= bounds.get(name, 0.0):
            return f"step {step + 1}: {name} differs by {difference:.1e}"
    return ""


def _unchanged(one: StepSeen, two: StepSeen, file: RowsFile, changed: Tensor) -> list[str]:
    """Changed documents whose states are the same: the change would prove nothing."""
    if one.traces is None or two.traces is None:
        return [NO_ROWS]
    rows = slice(0, len(one.traces.hidden))
    differs = (one.traces.hidden != two.traces.hidden).any(-1).cpu()
    return _documents_without(
        file, rows, changed[rows], differs, "is changed, and its states aren't"
    )


def _without_gradient(seen: StepSeen, file: RowsFile) -> list[str]:
    if seen.traces is None:
        return [NO_ROWS]
    rows = slice(0, len(seen.traces.gradients))
    moved = seen.traces.gradients.ne(0).any(-1).cpu()
    return _documents_without(
        file, rows, file.mask[rows], moved, "is scored, and its gradient is 0"
    )


def _documents_without(
    file: RowsFile, rows: slice, wanted: Tensor, found: Tensor, words: str
) -> list[str]:
    """The documents with positions that are wanted and none that is found."""
    documents = file.documents[rows] + 1
    count = int(documents.max()) + 1
    flat = documents + torch.arange(len(documents))[:, None] * count
    total = len(documents) * count
    wants = torch.bincount(flat[wanted], minlength=total) > 0
    has = torch.bincount(flat[found], minlength=total) > 0
    return [
        f"document {at % count - 1} of row {at // count} {words}"
        for at in (wants & ~has).nonzero().flatten().tolist()
    ]
