"""Two claims about steps of training: what a scored document shares with others, and what an unscored leaves.

Sets of documents are changed together: every second document of each row, then the others, and every
second pair of documents, then the others. So each document is held against its neighbours on both sides
and, where a short one stands between, against the next.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from curriculum.leakcheck import claims
from curriculum.leakcheck.rows import Chosen, Rows
from curriculum.leakcheck.rows_file import RowsFile
from curriculum.leakcheck.step import ROWS, STEPS, Setting, StepSeen, run_steps
from curriculum.leakcheck.subject import dtype_name
from schemas.errors import NotFiniteError
from schemas.leak import Finding

LOSS_TOLERANCE = 1e-4
"""Of a step's loss, which is summed in another order than its token losses are here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    """A half of the documents: every second run of `run` of them, from the first or the second run on."""

    run: int
    first: int

    def __call__(self, row: int, document: int) -> bool:
        """Whether the half holds this document of this row."""
        return ((document // self.run) + row) % 2 == self.first


HALVES = tuple(Half(run=run, first=first) for run in (1, 2) for first in (0, 1))
PARITIES = HALVES[:2]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSubject:
    """Rows of two steps, and how the steps are computed."""

    name: str
    setting: Setting
    rows: Rows

    def finding(self, claim: str, detail: str) -> Finding:
        """A finding that holds where there is nothing to tell against it."""
        setting = self.setting
        documents = sum(len(row) for row in self.rows.rows)
        recompute = ", recompute" if setting.recompute else ""
        return Finding(
            subject=self.name,
            backend=setting.backend if "A" in setting.model.blocks else "",
            dtype=dtype_name(setting.dtype),
            row_length=setting.row_length,
            mode=f"train{recompute}, {documents} documents, {setting.model.vocab_size} ids",
            claim=claim,
            passed=not detail,
            detail=detail,
        )

    def steps(self, rows: Rows, *, steps: int, scaled: Tensor | None = None) -> list[StepSeen]:
        """Write these rows into a temporary folder and train on them."""
        with tempfile.TemporaryDirectory(prefix="leakcheck-") as folder:
            rows.write(Path(folder) / ROWS)
            return run_steps(self.setting, Path(folder), steps=steps, scaled=scaled)

    def file(self, rows: Rows) -> RowsFile:
        """The file that the writer makes of these rows."""
        with tempfile.TemporaryDirectory(prefix="leakcheck-") as folder:
            rows.write(Path(folder) / ROWS)
            return RowsFile.read(Path(folder) / ROWS)


def step_findings(subject: StepSubject) -> Iterator[Finding]:
    """Both claims, and those without which they would hold of nothing."""
    faults: list[str] = []
    unreached: list[str] = []
    yield subject.finding(claims.SCORED, _told(lambda: _scored(subject, faults, unreached)))
    yield subject.finding(claims.MUTED, _told(lambda: _muted(subject, faults, unreached)))
    yield subject.finding(claims.FED, "".join(faults[:1]))
    yield subject.finding(claims.CHANGES_REACH, "".join(unreached[:1]))


def _told(find: Callable[[], str]) -> str:
    try:
        return find()
    except NotFiniteError as failed:
        return str(failed)


def _scored(subject: StepSubject, faults: list[str], unreached: list[str]) -> str:
    """The first difference at another document, over all halves; "" without one."""
    (plain,) = subject.steps(subject.rows, steps=1)
    faults += _faults(plain)
    file = subject.file(subject.rows)
    unreached += _without_gradient(plain, file)
    detail = ""
    for seed, half in enumerate(HALVES):
        (other,) = subject.steps(subject.rows.changed(half, seed=seed), steps=1)
        faults += _faults(other)
        if plain.traces is None or other.traces is None:
            return detail or "the batches aren't the file's rows"
        changed = positions(file, half)
        unreached += _unchanged(plain, other, file, changed)
        detail = detail or _difference(plain, other, file, changed)
    return detail


def _muted(subject: StepSubject, faults: list[str], unreached: list[str]) -> str:
    """The first trace that an unscored document leaves in loss, gradients, weights or moments; "" if none."""
    detail = ""
    for seed, half in enumerate(PARITIES):
        chosen = mutable(subject.rows, half)
        plain_rows = subject.rows.muted(chosen)
        file = subject.file(plain_rows)
        changed = positions(file, chosen)
        plain = subject.steps(plain_rows, steps=STEPS)
        other = subject.steps(
            plain_rows.changed(chosen, seed=10 + seed),
            steps=STEPS,
            scaled=changed | (file.documents < 0),
        )
        for step, (one, two) in enumerate(zip(plain, other, strict=True)):
            faults += [*_faults(one), *_faults(two)]
            detail = detail or _trace(one, two, step)
        unreached += _unchanged(plain[0], other[0], file, changed)
    return detail


def mutable(rows: Rows, half: Chosen) -> Chosen:
    """The half without the rows that it would leave without any target, which no loader takes."""

    def kept(row: int) -> bool:
        documents = rows.rows[row]
        return any(each.loss_mask.any() and not half(row, at) for at, each in enumerate(documents))

    keep = [kept(row) for row in range(len(rows.rows))]
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
    far = abs(seen.loss - seen.counted_loss)
    if not far <= LOSS_TOLERANCE * abs(seen.counted_loss):
        return [f"the step's loss is {seen.loss:.6g}, and its tokens' {seen.counted_loss:.6g}"]
    return []


def _difference(one: StepSeen, two: StepSeen, file: RowsFile, changed: Tensor) -> str:
    assert one.traces is not None, "batches are the file's rows"
    assert two.traces is not None, "batches are the file's rows"
    for name in ("hidden", "losses", "gradients"):
        a, b = getattr(one.traces, name), getattr(two.traces, name)
        rows = slice(0, len(a))
        differs = (a != b).flatten(2).any(-1).cpu() & ~changed[rows]
        if differs.any():
            row, token = differs.nonzero()[0].tolist()
            far = float((a - b).abs().flatten(2).amax(-1).cpu()[differs].max())
            return (
                f"{name} differ by {far:.1e} at token {token} of row {row}, {_document(file, row, token)}, "
                f"and at {int(differs.sum())} positions in all"
            )
    return ""


def _document(file: RowsFile, row: int, token: int) -> str:
    number = int(file.documents[row, token])
    if number < 0:
        return "in padding"
    length = int((file.documents[row] == number).sum())
    return f"in document {number} of {length} tokens"


def _trace(one: StepSeen, two: StepSeen, step: int) -> str:
    if one.fault or two.fault:
        return "the batches aren't the file's rows"
    if one.loss != two.loss:
        return f"the loss of step {step + 1} is {one.loss!r} or {two.loss!r}"
    if one.norm != two.norm:
        return f"the gradient norm of step {step + 1} is {one.norm!r} or {two.norm!r}"
    for what, ours, theirs in (
        ("the gradient of", one.gradients, two.gradients),
        ("after the step", one.after, two.after),
    ):
        for name, value in ours.items():
            if name not in theirs or not torch.equal(value, theirs[name]):
                return f"step {step + 1}: {what} {name} differs"
    return ""


def _unchanged(one: StepSeen, two: StepSeen, file: RowsFile, changed: Tensor) -> list[str]:
    """Changed documents whose states are the same: the change would prove nothing."""
    if one.traces is None or two.traces is None:
        return ["the batches aren't the file's rows"]
    rows = slice(0, len(one.traces.hidden))
    differs = (one.traces.hidden != two.traces.hidden).any(-1).cpu()
    return _lacking(file, rows, changed[rows], differs, "is changed, and its states aren't")


def _without_gradient(seen: StepSeen, file: RowsFile) -> list[str]:
    if seen.traces is None:
        return ["the batches aren't the file's rows"]
    rows = slice(0, len(seen.traces.gradients))
    moved = seen.traces.gradients.ne(0).any(-1).cpu()
    return _lacking(file, rows, file.mask[rows], moved, "is scored, and its gradient is 0")


def _lacking(file: RowsFile, rows: slice, wanted: Tensor, found: Tensor, words: str) -> list[str]:
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
