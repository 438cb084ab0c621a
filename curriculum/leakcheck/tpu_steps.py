"""Proof of the claim REPACKED for the JAX decoder, from packed rows to gradients and the AdamW update.

The packings and documents are the same as for our own trainer. model/tpu.py and model/tpu_decoder.py
compute loss, masks and gradients. There is no trainer for TPUs; numpy computes the update.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.packings import Packing, packings
from curriculum.leakcheck.proof import CPU, finding_of
from curriculum.leakcheck.proof_documents import many_documents, proof_documents
from curriculum.leakcheck.recorder import Recorder, by_segment, train_plainly
from curriculum.leakcheck.repacked import ROUNDED, ProofSetting, disagreements
from curriculum.leakcheck.subject import one_thread, spread_constant_weights
from curriculum.model import tpu, tpu_decoder
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.tpu import RowInputs
from curriculum.train.batch import Batch
from schemas.job import Job, ModelSpec, OptimizerSpec
from schemas.leak import Finding

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
ROW_LENGTH = 256
STEPS = 2
LANES = 128
"""Number of features per head on a TPU, which fills a register. In interpreted mode heads may have fewer."""


@one_thread()
def prove_tpu_step(spec: ModelSpec, *, row_length: int = ROW_LENGTH) -> tuple[Finding, ...]:
    """Prove REPACKED for a small model with the blocks of `spec`, on JAX's default device.

    Raises:
        JobError: if the model reads structure, or the device is neither a TPU nor a CPU.
    """
    model = small_model(spec)
    return repacked_in_jax(model, compiled(model), row_length=row_length)


def repacked_in_jax(
    model: ModelSpec, compute: "Compute", *, row_length: int = ROW_LENGTH
) -> tuple[Finding, ...]:
    """Train a compiled model on every packing; return one REPACKED finding per packing except the first."""
    setting = _setting(model)
    few = proof_documents(setting.model, longest=row_length, steps=STEPS)
    steps = (*few, *many_documents(setting.model))
    ways = packings(steps, row_length)

    def train(_: ProofSetting, job: Job, workspace: Path, recorder: Recorder, __: Packing) -> None:
        train_plainly(_TpuSteps(setting, compute), job, workspace, recorder)

    return tuple(
        replace(
            finding_of(setting, steps, ways[0], way, found, name="jax"),
            backend="splash" if "A" in model.blocks else "",
        )
        for way, found in disagreements(setting, steps, ways, train=train, tolerance=ROUNDED)
    )


def _setting(model: ModelSpec) -> ProofSetting:
    if jax.default_backend() == "tpu":
        model = model.model_copy(update={"width": model.heads * LANES})
    return ProofSetting(
        model=model, backend="math", recompute=False, dtype=torch.float32, device=CPU
    )


Compute = Callable[..., Any]


def compiled(model: ModelSpec) -> Compute:
    """Return a compiled function that computes the token losses of a micro-batch and the gradients.

    The gradients are those of the step's loss. The function is compiled once per input shape.
    """
    setting = _setting(model)
    spec, z_weight = setting.model, setting.optimizer.z_loss

    def loss(
        weights: dict[str, jax.Array], inputs: RowInputs[jax.Array], count: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        x_BTD = tpu_decoder.embed(weights, inputs)
        hidden_BTD = tpu_decoder.hidden(weights, x_BTD, inputs, spec, rope_base=setting.rope_base)
        sums = tpu.loss_sums(hidden_BTD, weights["head.weight"], inputs, z_weight=z_weight)
        return sums.total / count, sums.nll

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


class _TpuSteps:
    """AdamW steps in numpy, from fresh weights with noise on constant weights like in our trainer."""

    def __init__(self, setting: ProofSetting, compute: Compute) -> None:
        self.setting = setting
        self.compute = compute
        self.number = 0
        model = spread_constant_weights(initialise(Decoder(setting.model, "math"), setting.seed))
        self.arrays = {
            name: weight.detach().numpy().copy() for name, weight in model.named_parameters()
        }
        self.moments = {
            moment: {name: np.zeros_like(weight) for name, weight in self.arrays.items()}
            for moment in ("first", "second")
        }

    def step(self, batches: Sequence[Batch]) -> tuple[list[list[float]], Mapping[str, Tensor]]:
        """Accumulate the gradients of all batches, clip them and update the weights once."""
        count = max(sum(int(batch.loss_mask.sum()) for batch in batches), 1)
        gradients = {name: np.zeros_like(weight) for name, weight in self.arrays.items()}
        nll = [by_segment(batch, self._micro_batch(batch, count, gradients)) for batch in batches]
        _clip(gradients, self.setting.optimizer.gradient_clip)
        self._update(self.number, gradients, self.setting.optimizer)
        self.number += 1
        return nll, {name: _tensor(gradient) for name, gradient in gradients.items()}

    def _micro_batch(self, batch: Batch, count: int, gradients: Arrays) -> Tensor:
        """Return the losses nll [N] of a batch's targets, and add the batch to `gradients`.

        Two rows are computed at a time.
        """
        found = []
        for first in range(0, len(batch.input_ids), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            inputs = tpu.inputs_of(_columns(batch, rows), self.setting.model)
            (_, nll), part = self.compute(self.arrays, inputs, np.float32(count))
            for name, gradient in part.items():
                gradients[name] += np.asarray(gradient)
            mask_BT = batch.loss_mask[rows].numpy().astype(bool)
            found.append(np.asarray(nll)[: len(mask_BT)][mask_BT])
        return _tensor(np.concatenate(found))

    def weights(self) -> Mapping[str, Tensor]:
        """Return an empty mapping, since weights are compared only in float64."""
        return {}

    def _update(self, number: int, gradients: Arrays, spec: OptimizerSpec) -> None:
        first, second = self.moments["first"], self.moments["second"]
        for name, gradient in gradients.items():
            first[name] = spec.beta1 * first[name] + (1 - spec.beta1) * gradient
            second[name] = spec.beta2 * second[name] + (1 - spec.beta2) * gradient**2
            mean = first[name] / (1 - spec.beta1 ** (number + 1))
            deviation = np.sqrt(second[name] / (1 - spec.beta2 ** (number + 1)))
            decayed = self.arrays[name] * (1 - spec.learning_rate * spec.weight_decay)
            self.arrays[name] = decayed - spec.learning_rate * mean / (deviation + 1e-8)


def _clip(gradients: Arrays, most: float) -> float:
    """Scale gradients so that their norm is at most `most`; return the norm before scaling."""
    norm = float(
        np.sqrt(
            sum(float((gradient.astype(np.float64) ** 2).sum()) for gradient in gradients.values())
        )
    )
    for name in gradients:
        gradients[name] *= np.float32(min(1.0, most / max(norm, 1e-12)))
    return norm


ROWS_AT_ONCE = 2
"""Number of rows that are computed together. It is fixed, so that a step is compiled once per row length."""


def _columns(batch: Batch, rows: slice) -> Any:
    """Return the columns of the packed rows `rows`, with padding rows up to ROWS_AT_ONCE."""
    return SimpleNamespace(
        input_ids=_padded(batch.input_ids[rows].numpy()),
        target_ids=_padded(batch.target_ids[rows].numpy()),
        loss_mask=_padded(batch.loss_mask[rows].numpy()),
        doc_ids=_padded(batch.boundaries.doc_ids[rows].numpy()),
    )


def _padded(x_BT: Array) -> Array:
    """Append rows of zeros up to ROWS_AT_ONCE."""
    return np.pad(x_BT, ((0, ROWS_AT_ONCE - len(x_BT)), (0, 0)))


def _tensor(x: Array) -> Tensor:
    return torch.from_numpy(np.array(x))
