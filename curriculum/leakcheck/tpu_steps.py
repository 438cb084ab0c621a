"""Steps of the JAX decoder under observation: from packed rows to gradients, and what AdamW makes of them.

The claims, rows and injected leaks are those of our own step; loss, masks and gradients are computed by
model/tpu.py and tpu_decoder.py. There is no trainer for TPUs here: the update is numpy's, for claims about
what two steps leave.
"""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.step import Observer, Setting
from curriculum.leakcheck.step_claims import (
    CPU,
    StepSubject,
    adversarial_rows,
    step_findings,
    step_subject,
)
from curriculum.leakcheck.subject import one_thread, spread_constant_weights
from curriculum.model import tpu, tpu_decoder
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.tpu import RowInputs
from curriculum.train.batch import Batch
from schemas.job import ModelSpec, OptimizerSpec
from schemas.leak import Finding
from schemas.progress import ProgressCallback, ignore_progress

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
ROW_LENGTH = 256
LANES = 128
"""Features of a head on a TPU, a full register; interpreted heads may be narrow."""


@one_thread()
def prove_tpu_step(
    spec: ModelSpec, *, row_length: int = ROW_LENGTH, watch: ProgressCallback = ignore_progress
) -> tuple[Finding, ...]:
    """Both claims about steps of a small model with these blocks and sizes, on the default device of JAX.

    Raises:
        JobError: for a model that reads structure, or another device than a TPU or a CPU.
    """
    return step_findings(tpu_step_subject(small_model(spec), row_length=row_length), watch)


def tpu_step_subject(model: ModelSpec, *, row_length: int = ROW_LENGTH) -> StepSubject:
    """Adversarial rows, and a trainer that computes each step in JAX; it is compiled once."""
    if jax.default_backend() == "tpu":
        model = model.model_copy(update={"width": model.heads * LANES})
    setting = Setting(
        model=model,
        backend="math",
        recompute=False,
        dtype=torch.float32,
        device=CPU,
        row_length=row_length,
    )
    compute = _compiled(setting)
    return step_subject(
        setting,
        *adversarial_rows(setting),
        name=f"jax {model.blocks}",
        backend="splash" if "A" in model.blocks else "",
        start=lambda *_: TpuTrainer(setting, compute),
    )


Compute = Callable[..., Any]


def _compiled(setting: Setting) -> Compute:
    """Compute loss, hidden states and token losses of a micro-batch, and all gradients of the step's loss."""
    spec, z_weight = setting.model, setting.optimizer.z_loss

    def loss(
        weights: dict[str, jax.Array],
        x_BTD: jax.Array,
        inputs: RowInputs[jax.Array],
        count: jax.Array,
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        hidden_BTD = tpu_decoder.hidden(weights, x_BTD, inputs, spec, rope_base=setting.rope_base)
        sums = tpu.loss_sums(hidden_BTD, weights["head.weight"], inputs, z_weight=z_weight)
        return sums.total / count, (sums.total, hidden_BTD, sums.nll, sums.z)

    def compute(
        weights: dict[str, jax.Array],
        inputs: RowInputs[jax.Array],
        factor_BT: jax.Array,
        count: jax.Array,
    ) -> tuple[Any, ...]:
        embedded_BTD, pull = jax.vjp(lambda each: tpu_decoder.embedded(each, inputs), weights)
        scaled_BTD = embedded_BTD * factor_BT[..., None]
        (_, seen), (gradients, to_scaled_BTD) = jax.value_and_grad(
            loss, argnums=(0, 1), has_aux=True
        )(weights, scaled_BTD, inputs, count)
        (to_embedding,) = pull(to_scaled_BTD * factor_BT[..., None])
        return seen, jax.tree.map(jax.numpy.add, gradients, to_embedding), to_scaled_BTD

    return jax.jit(compute)


class TpuTrainer:
    """Fresh weights, spread as those of our trainer, and AdamW in numpy."""

    def __init__(self, setting: Setting, compute: Compute) -> None:
        self.setting = setting
        self.compute = compute
        model = spread_constant_weights(initialise(Decoder(setting.model, "math"), setting.seed))
        self.weights = {
            name: each.detach().numpy().copy() for name, each in model.named_parameters()
        }
        self.moments = {
            moment: {name: np.zeros_like(each) for name, each in self.weights.items()}
            for moment in ("first", "second")
        }

    def take_step(
        self, number: int, batches: Sequence[Batch], observer: Observer
    ) -> tuple[float, float]:
        """Accumulate gradients over the batches and update; return the loss and the gradient's norm."""
        count = max(sum(int(batch.loss_mask.sum()) for batch in batches), 1)
        gradients = {name: np.zeros_like(each) for name, each in self.weights.items()}
        total = 0.0
        for batch in batches:
            loss, found = self._micro_batch(batch, observer, count)
            total += loss
            for name, gradient in found.items():
                gradients[name] += gradient
        norm = _clip(gradients, self.setting.optimizer.gradient_clip)
        observer.parameter_gradients = {name: _tensor(each) for name, each in gradients.items()}
        self._update(number, gradients, self.setting.optimizer)
        return total / count, norm

    def _micro_batch(self, batch: Batch, observer: Observer, count: int) -> tuple[float, Arrays]:
        factor_BT = observer.begin(batch.input_ids)
        B = len(batch.input_ids)
        inputs = tpu.inputs_of(_columns(batch), self.setting.model)
        factors = _padded(factor_BT.numpy())
        seen, gradients, to_embedded = self.compute(
            self.weights, inputs, factors, np.float32(count)
        )
        total, hidden, nll, z = (np.asarray(each) for each in seen)
        mask = inputs.loss_mask[:B]
        nll_N, z_N = nll[:B][mask], z[:B][mask]
        observer.note_hidden(_tensor(hidden[:B]))
        observer.note_gradient(_tensor(np.asarray(to_embedded)[:B]))
        observer.note_losses(_tensor(nll_N), _tensor(z_N))
        tokens = nll_N.sum() + self.setting.optimizer.z_loss * z_N.sum()
        observer.note_total(float(total), float(tokens))
        return float(total), {name: np.asarray(each) for name, each in gradients.items()}

    def _update(self, number: int, gradients: Arrays, spec: OptimizerSpec) -> None:
        first, second = self.moments["first"], self.moments["second"]
        for name, gradient in gradients.items():
            first[name] = spec.beta1 * first[name] + (1 - spec.beta1) * gradient
            second[name] = spec.beta2 * second[name] + (1 - spec.beta2) * gradient**2
            mean = first[name] / (1 - spec.beta1 ** (number + 1))
            deviation = np.sqrt(second[name] / (1 - spec.beta2 ** (number + 1)))
            decayed = self.weights[name] * (1 - spec.learning_rate * spec.weight_decay)
            self.weights[name] = decayed - spec.learning_rate * mean / (deviation + 1e-8)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Weights and AdamW's moments by name."""
        for name, weight in self.weights.items():
            yield name, _tensor(weight)
            for moment, values in self.moments.items():
                yield f"{name}.{moment}", _tensor(values[name])


def _clip(gradients: Arrays, most: float) -> float:
    """Scale gradients whose norm is above `most`; return the norm before."""
    norm = float(
        np.sqrt(sum(float((each.astype(np.float64) ** 2).sum()) for each in gradients.values()))
    )
    for name in gradients:
        gradients[name] *= np.float32(min(1.0, most / max(norm, 1e-12)))
    return norm


def _columns(batch: Batch) -> Any:
    """Columns of packed rows; rows of padding make up a number that is compiled already."""
    return SimpleNamespace(
        input_ids=_padded(batch.input_ids.numpy()),
        target_ids=_padded(batch.target_ids.numpy()),
        loss_mask=_padded(batch.loss_mask.numpy()),
        doc_ids=_padded(batch.boundaries.doc_ids.numpy()),
    )


ROWS_AT_ONCE = 2


def _padded(x_BT: Array) -> Array:
    """Rows of zeros up to a multiple of ROWS_AT_ONCE."""
    return np.pad(x_BT, ((0, -len(x_BT) % ROWS_AT_ONCE), (0, 0)))


def _tensor(x: Array) -> Tensor:
    return torch.from_numpy(np.array(x))
