"""Cost of masks: identical rows masked and as one document each, and the same documents not packed.

A round runs masked, unmasked and masked passes of forward and backward over rows that no round before
had, then a pass over padded rows. Boundaries and masks are built inside the clock of masked and padded
passes. Tokens are useful ones: padding counts in no figure.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from benchmarks.on_device import rows
from benchmarks.on_device.fake import built
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.models import Subject, families, model_of, wholes
from benchmarks.on_device.schedule import Measurement, Outcome, release
from benchmarks.on_device.setting import Setting
from benchmarks.on_device.stops import TooLong
from curriculum.model.decoder import Decoder
from curriculum.model.masks import Boundaries
from curriculum.train.batch import Batch
from curriculum.train.device import mixed_precision
from curriculum.train.masking_cost import (
    Loss,
    Round,
    compare,
    masked_pass,
    now,
    seconds_of,
)
from curriculum.train.metrics import StepWork, mfu, peak_of, step_flops
from schemas.job import Backend, ModelSpec

SECTION = "masking"
ONE_DOCUMENT = "one a row"
_RECOMPUTED = "blocks computed anew in backward: without that the memory is full"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Rows of one kind."""

    length: int
    mean: int | None
    """The mean length of documents; None for one document a row."""

    def batch(self, setting: Setting, seed: int) -> Batch:
        """A batch of them that follows from the seed."""
        count = setting.rows(self.length)
        return rows.packed(count, self.length, self.mean, vocab=setting.vocab, seed=seed)

    def __str__(self) -> str:
        return ONE_DOCUMENT if self.mean is None else f"mean {self.mean:,}"


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Whole models first, then layer by layer; the first mean before one document a row and others."""
    first, *others = setting.means
    for subjects, waves in ((wholes, (1, 3)), (families, (2, 4))):
        for subject, length in itertools.product(subjects(setting), setting.lengths):
            for mean in (first, None, *others):
                # One document over the longest row is where masks can cost most.
                is_worst = mean is None and length == max(setting.lengths)
                wave = waves[0] if mean == first or is_worst else waves[1]
                yield measurement(setting, subject, Rows(length=length, mean=mean), wave=wave)


def measurement(setting: Setting, subject: Subject, kind: Rows, *, wave: int) -> Measurement:
    """The cost of masks for one subject on rows of one kind."""
    return Measurement(
        wave=wave,
        line=ResultLine(
            section=SECTION, subject=subject.name, row_length=kind.length, documents=str(kind)
        ),
        # Layers of one family cost a fraction of a model, and attention grows with the row.
        weight=(1.0 if subject.is_whole else 0.2) * (1 + kind.length / 16384),
        work=lambda share: measured(setting, subject, kind, share),
        build=lambda: built_rows(setting, subject.spec, setting.backend, kind),
    )


def built_rows(setting: Setting, spec: ModelSpec, backend: Backend, kind: Rows) -> str:
    """Build a model and its pass over rows of one kind on fake tensors."""
    return built(spec, backend, kind.batch(setting, seed=0).boundaries)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One round, and the seconds of its padded pass; None for rows of one document, which aren't padded."""

    batch: Batch
    round: Round
    padded: float | None
    useful: int
    """Tokens of documents in the padded rows."""


def measured(
    setting: Setting, subject: Subject, kind: Rows, share: float, *, pads: bool = True
) -> Outcome:
    """Medians of rounds after a warm-up, as many as fit into `share` seconds.

    Where the limit ends it, those rounds count that were over.
    """
    pads = pads and kind.mean is not None
    ends = time.monotonic() + share
    model, note = _warm(setting, subject, kind, pads=pads)
    samples: list[Sample] = []
    try:
        while len(samples) < setting.least_rounds or (
            len(samples) < setting.most_rounds and time.monotonic() < ends
        ):
            batch = kind.batch(setting, seed=len(samples) + 1)
            samples.append(_sample(setting, model, subject, batch, pads=pads))
    except TooLong:
        if not samples:
            raise
        model.zero_grad(set_to_none=True)
    building = statistics.median(_building(model, each.batch) for each in samples)
    return Outcome(figures=tuple(_figures(subject, setting, samples, building)), note=note)


def _warm(setting: Setting, subject: Subject, kind: Rows, *, pads: bool) -> tuple[Decoder, str]:
    """A model whose kernels for these shapes are compiled; where memory is full, one that recomputes."""
    for recomputes, note in ((False, ""), (True, _RECOMPUTED)):
        try:
            model = model_of(subject.spec, setting.backend, setting.device, recomputes=recomputes)
            batch = kind.batch(setting, seed=0)
            compare(model, batch, subject.loss)
            if pads:
                _padded(model, rows.unpacked(batch, vocab=setting.vocab), subject.loss)
        except torch.OutOfMemoryError:
            model_of.cache_clear()
            if recomputes:
                raise
        else:
            return model, note
        release()
    raise AssertionError("the second attempt returns or raises")


def _sample(
    setting: Setting, model: Decoder, subject: Subject, batch: Batch, *, pads: bool
) -> Sample:
    round_ = compare(model, batch, subject.loss)
    if not pads:
        return Sample(batch=batch, round=round_, padded=None, useful=0)
    alone = rows.unpacked(batch, vocab=setting.vocab)
    seconds = _padded(model, alone, subject.loss)
    return Sample(batch=batch, round=round_, padded=seconds, useful=alone.valid_tokens)


def _padded(model: Decoder, batch: Batch, loss: Loss) -> float:
    here = batch.to(model.head.weight.device)
    return seconds_of(model, lambda: masked_pass(model, batch, here, loss))


def _building(model: Decoder, batch: Batch) -> float:
    """Seconds of a batch's boundaries, masks, rotations and chunks by themselves."""
    device = model.head.weight.device
    ids = batch.input_ids.to(device)
    began = now(device)
    with mixed_precision(device):
        model.inputs_of(ids, Boundaries.from_doc_ids(batch.boundaries.doc_ids).to(device))
    return now(device) - began


def _figures(
    subject: Subject, setting: Setting, samples: list[Sample], building: float
) -> Iterator[Figure]:
    median = statistics.median
    masked = median(each.round.positions / each.round.masked for each in samples)
    yield Figure(name="masked tokens/s", value=masked)
    yield Figure(
        name="unmasked tokens/s",
        value=median(each.round.positions / each.round.unmasked for each in samples),
    )
    yield Figure(name="masked ÷ unmasked", value=median(each.round.ratio for each in samples))
    padded = [each.useful / each.padded for each in samples if each.padded is not None]
    if padded:
        yield Figure(name="padded tokens/s", value=median(padded))
        yield Figure(name="masked ÷ padded", value=masked / median(padded))
    yield from _shares_of_peak(subject, setting, samples)
    yield Figure(name="density", value=median(_density(each.batch) for each in samples))
    yield Figure(name="building ms", value=1000 * building)
    yield Figure(name="rounds", value=len(samples))


def _shares_of_peak(subject: Subject, setting: Setting, samples: list[Sample]) -> Iterator[Figure]:
    """MFU of forward and backward, masked and unmasked; of a known GPU and whole models only."""
    peak = peak_of(setting.device)
    if peak is None or not subject.is_whole:
        return
    works = [work_of(each.batch) for each in samples]
    wide = [
        replace(work, attention_pairs=_causal_pairs(each.batch))
        for work, each in zip(works, samples, strict=True)
    ]
    for name, sides, seconds in (
        ("MFU masked", works, [each.round.masked for each in samples]),
        ("MFU unmasked", wide, [each.round.unmasked for each in samples]),
    ):
        shares = [
            mfu(step_flops(subject.spec, work), each, peak) or 0.0
            for work, each in zip(sides, seconds, strict=True)
        ]
        yield Figure(name=name, value=statistics.median(shares))


def work_of(batch: Batch) -> StepWork:
    """Counts that the formula of operations takes."""
    return StepWork(
        tokens=batch.valid_tokens,
        attention_pairs=batch.attention_pairs,
        scored=int(batch.loss_mask.sum()),
    )


def _causal_pairs(batch: Batch) -> int:
    rows, length = batch.input_ids.shape
    return int(rows * length * (length + 1) // 2)


def _density(batch: Batch) -> float:
    return batch.attention_pairs / _causal_pairs(batch)
