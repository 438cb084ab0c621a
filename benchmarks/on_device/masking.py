"""Cost of masks: speed of the same rows with masks, without masks, and of padded rows.

Without masks, each row counts as one document. Padded rows contain one document each instead of packed
documents. A round generates new rows, then runs forward and backward passes over them: with masks, without
masks, with masks again, and over padded rows. Passes with masks and over padded rows include the time to
build boundaries and masks. Only tokens of documents are counted, never padding.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from benchmarks.on_device import rows
from benchmarks.on_device.fake import run_forward
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.models import Subject, layer_families, model_of, whole_models
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
ONE_DOCUMENT = "one per row"
_RECOMPUTED = "with recomputation, because the device ran out of memory without it"


@dataclass(frozen=True, kw_only=True, slots=True)
class RowKind:
    """Row length and mean document length of generated rows."""

    length: int
    mean: int | None
    """Mean length of documents, in tokens; None for one document per row."""

    def batch(self, setting: Setting, seed: int) -> Batch:
        """Generate a batch of these rows from a seed."""
        count = setting.rows(self.length)
        return rows.packed(count, self.length, self.mean, vocab=setting.vocab, seed=seed)

    def __str__(self) -> str:
        return ONE_DOCUMENT if self.mean is None else f"mean {self.mean:,}"


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield measurements of whole models and of single layer types.

    The first waves contain rows with the first mean document length, and the longest row with a single
    document. Rows of other kinds follow. Whole models come before layer types.
    """
    first, *others = setting.means
    for subjects, waves in ((whole_models, (1, 3)), (layer_families, (2, 4))):
        for subject, length in itertools.product(subjects(setting), setting.lengths):
            for mean in (first, None, *others):
                # Masks can cost most if one document fills the longest row.
                is_worst = mean is None and length == max(setting.lengths)
                wave = waves[0] if mean == first or is_worst else waves[1]
                yield measurement(setting, subject, RowKind(length=length, mean=mean), wave=wave)


def measurement(setting: Setting, subject: Subject, kind: RowKind, *, wave: int) -> Measurement:
    """Return the measurement of the cost of masks for one subject on rows of one kind."""
    return Measurement(
        wave=wave,
        line=ResultLine(
            section=SECTION, subject=subject.name, row_length=kind.length, documents=str(kind)
        ),
        # Layers of one type cost a fraction of a whole model. The cost of attention grows with the row.
        weight=(1.0 if subject.is_whole else 0.2) * (1 + kind.length / 16384),
        work=lambda share: measure(setting, subject, kind, share),
        build=lambda: build_on_rows(setting, subject.spec, setting.backend, kind),
    )


def build_on_rows(setting: Setting, spec: ModelSpec, backend: Backend, kind: RowKind) -> str:
    """Run a model's forward pass over rows of one kind on fake GPU tensors."""
    return run_forward(spec, backend, kind.batch(setting, seed=0).boundaries)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Result of one round."""

    batch: Batch
    round: Round
    padded: float | None
    """Seconds of the pass over padded rows; None for rows of one document, which need no padding."""
    useful: int
    """Tokens of documents in the padded rows."""


def measure(
    setting: Setting, subject: Subject, kind: RowKind, share: float, *, pads: bool = True
) -> Outcome:
    """Return the medians of as many rounds as fit into `share` seconds, after a warm-up.

    If the time limit of the measurement interrupts a round, the finished rounds count.
    """
    pads = pads and kind.mean is not None
    ends = time.monotonic() + share
    model, note = _warm_up(setting, subject, kind, pads=pads)
    samples: list[Sample] = []
    try:
        while len(samples) < setting.min_rounds or (
            len(samples) < setting.max_rounds and time.monotonic() < ends
        ):
            batch = kind.batch(setting, seed=len(samples) + 1)
            samples.append(_run_round(setting, model, subject, batch, pads=pads))
    except TooLong:
        if not samples:
            raise
        model.zero_grad(set_to_none=True)
    building = statistics.median(_building_seconds(model, sample.batch) for sample in samples)
    return Outcome(figures=tuple(_figures(subject, setting, samples, building)), note=note)


def _warm_up(
    setting: Setting, subject: Subject, kind: RowKind, *, pads: bool
) -> tuple[Decoder, str]:
    """Return a model with kernels compiled for these shapes, and a note for the result.

    If the device runs out of memory, the model recomputes its blocks in the backward pass.
    """
    for recomputes, note in ((False, ""), (True, _RECOMPUTED)):
        try:
            model = model_of(subject.spec, setting.backend, setting.device, recomputes=recomputes)
            batch = kind.batch(setting, seed=0)
            compare(model, batch, subject.loss)
            if pads:
                _padded_seconds(model, rows.unpacked(batch, vocab=setting.vocab), subject.loss)
        except torch.OutOfMemoryError:
            model_of.cache_clear()
            if recomputes:
                raise
        else:
            return model, note
        release()
    raise AssertionError("the second attempt returns or raises")


def _run_round(
    setting: Setting, model: Decoder, subject: Subject, batch: Batch, *, pads: bool
) -> Sample:
    round_ = compare(model, batch, subject.loss)
    if not pads:
        return Sample(batch=batch, round=round_, padded=None, useful=0)
    alone = rows.unpacked(batch, vocab=setting.vocab)
    seconds = _padded_seconds(model, alone, subject.loss)
    return Sample(batch=batch, round=round_, padded=seconds, useful=alone.valid_tokens)


def _padded_seconds(model: Decoder, batch: Batch, loss: Loss) -> float:
    here = batch.to(model.head.weight.device)
    return seconds_of(model, lambda: masked_pass(model, batch, here, loss))


def _building_seconds(model: Decoder, batch: Batch) -> float:
    """Return the seconds that the boundaries, masks, rotations and chunks of a batch take."""
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
    masked = median(sample.round.positions / sample.round.masked for sample in samples)
    yield Figure(name="masked tokens/s", value=masked)
    yield Figure(
        name="unmasked tokens/s",
        value=median(sample.round.positions / sample.round.unmasked for sample in samples),
    )
    yield Figure(name="masked ÷ unmasked", value=median(sample.round.ratio for sample in samples))
    padded = [sample.useful / sample.padded for sample in samples if sample.padded is not None]
    if padded:
        yield Figure(name="padded tokens/s", value=median(padded))
        yield Figure(name="masked ÷ padded", value=masked / median(padded))
    yield from _mfu_figures(subject, setting, samples)
    yield Figure(name="density", value=median(_density(sample.batch) for sample in samples))
    yield Figure(name="mask building ms", value=1000 * building)
    yield Figure(name="rounds", value=len(samples))


def _mfu_figures(subject: Subject, setting: Setting, samples: list[Sample]) -> Iterator[Figure]:
    """Yield the MFU with and without masks; only for whole models on a GPU with a known peak."""
    peak = peak_of(setting.device)
    if peak is None or not subject.is_whole:
        return
    works = [work_of(sample.batch) for sample in samples]
    wide = [
        replace(work, attention_pairs=_causal_pairs(sample.batch))
        for work, sample in zip(works, samples, strict=True)
    ]
    for name, sides, seconds in (
        ("MFU masked", works, [sample.round.masked for sample in samples]),
        ("MFU unmasked", wide, [sample.round.unmasked for sample in samples]),
    ):
        shares = [
            mfu(step_flops(subject.spec, work), duration, peak) or 0.0
            for work, duration in zip(sides, seconds, strict=True)
        ]
        yield Figure(name=name, value=statistics.median(shares))


def work_of(batch: Batch) -> StepWork:
    """Return the counts from which the operations of a batch are computed."""
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
