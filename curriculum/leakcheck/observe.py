"""Scored positions of a step, thinned to what a proof can afford: logits cost more than all else.

The ends of every document stay scored, where its neighbours would be seen.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from curriculum.leakcheck.rows import Document, Rows
from curriculum.leakcheck.rows_file import RowsFile
from curriculum.model import loss
from curriculum.train.optimizer import TrainState

SCORED = 2560
"""Positions of a step, nearly all in its first half: there the loss is taken in more than one chunk."""
FEW_SCORED = 768


def thinned(rows: Rows, rows_per_step: int, most: int) -> Rows:
    """The rows with `most` scored positions a step, or all ends of documents where those are more."""
    chance = np.random.default_rng(rows.row_length)
    steps = [rows.rows[at : at + rows_per_step] for at in range(0, len(rows.rows), rows_per_step)]
    return dataclasses.replace(
        rows, rows=tuple(row for step in steps for row in _thinned(step, most, chance))
    )


def _thinned(
    step: tuple[tuple[Document, ...], ...], most: int, chance: np.random.Generator
) -> Iterator[tuple[Document, ...]]:
    mask = np.concatenate([each.loss_mask for row in step for each in row])
    kept = np.concatenate([_ends(each) for row in step for each in row])
    half = sum(len(each.ids) for row in step[: (len(step) + 1) // 2] for each in row)
    left = max(most - int(kept.sum()), 0)
    for part, share in ((slice(0, half), 0.95), (slice(half, None), 0.05)):
        free = np.flatnonzero((mask[part] == 1) & (kept[part] == 0)) + (part.start or 0)
        count = min(int(left * share), len(free))
        kept[chance.choice(free, count, replace=False)] = 1
    at = 0
    for row in step:
        found = []
        for each in row:
            found.append(dataclasses.replace(each, loss_mask=kept[at : at + len(each.ids)]))
            at += len(each.ids)
        yield tuple(found)


def _ends(document: Document) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Its first three scored positions and the last."""
    kept = np.zeros_like(document.loss_mask)
    scored = np.flatnonzero(document.loss_mask)
    kept[scored[:3]] = 1
    kept[scored[-1:]] = 1
    return kept


SCALE = 50.0
"""The factor of embeddings at positions that must leave no trace."""

Weights = Sequence[tuple[str, nn.Parameter]]
"""Weights by their names."""


@dataclass(kw_only=True, slots=True)
class _MicroBatch:
    """Notes of one forward and backward pass over B rows."""

    ids: Tensor
    hidden: Tensor | None = None
    gradient: Tensor | None = None
    losses: list[Tensor] = field(default_factory=list)
    backward: bool = False
    """True once backward began: what is computed from then on is recomputation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traces:
    """The traces of a step at each token of its R rows, in the order of their file."""

    hidden: Tensor
    """[R, T, D]: the input of the head."""
    gradients: Tensor
    """[R, T, D]: of the step's loss by the output of the embedding."""
    losses: Tensor
    """[R, T, 2]: nll and squared log normaliser; 0 where nothing is scored."""


class Observer:
    """Records micro-batches of a train state between `watching` and its end."""

    def __init__(self, file: RowsFile, scaled: Tensor | None = None) -> None:
        """Observe rows of `file`; embeddings are scaled where `scaled` [R, T] is true."""
        self.file = file
        self.scaled = scaled
        self.seen: list[_MicroBatch] = []
        self.parameter_gradients: dict[str, Tensor] = {}
        self._numbers: dict[bytes, list[int]] = {}
        for number, ids_T in enumerate(file.ids):
            self._numbers.setdefault(_content(ids_T), []).append(number)

    @contextlib.contextmanager
    def watching(
        self, embedding: nn.Module, optimizer: torch.optim.Optimizer, weights: Weights
    ) -> Iterator[None]:
        """Note what goes through an embedding, and gradients at the optimizer's step; then unhook."""

        def gradients_taken(*_: Any) -> None:
            self.parameter_gradients = {
                name: weight.grad.detach().clone()
                for name, weight in weights
                if weight.grad is not None
            }

        hooks = [
            embedding.register_forward_hook(self._embedded),
            optimizer.register_step_pre_hook(gradients_taken),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextlib.contextmanager
    def watching_learner(self, train_state: TrainState) -> Iterator[None]:
        """Observe what our trainer computes: also hidden states, and token losses where they are taken."""
        model = train_state.model
        taken = loss._token_losses

        def noted(x_cD: Tensor, head_VD: Tensor, targets_c: Tensor) -> tuple[Tensor, Tensor]:
            found = taken(x_cD, head_VD, targets_c)
            self.note_losses(*found)
            return found

        norm = model.norm.register_forward_hook(lambda _, __, output: self.note_hidden(output))
        loss._token_losses = noted
        weights = [*model.named_parameters()]
        try:
            with self.watching(model.embedding, train_state.optimizer, weights):
                yield
        finally:
            loss._token_losses = taken
            norm.remove()

    def _embedded(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        T = self.file.ids.shape[1]
        ids_N = inputs[0].detach().to("cpu", torch.int32).flatten()
        if len(ids_N) % T:
            return output
        noted = _MicroBatch(ids=ids_N.view(-1, T))
        self.seen.append(noted)
        factor_BT = torch.ones(noted.ids.shape)
        if self.scaled is not None:
            for at, row in enumerate(self.rows_of(noted.ids)):
                if row is not None:
                    factor_BT[at][self.scaled[row]] = SCALE
        scaled_BTD = output * factor_BT.view(output.shape[:-1])[..., None].to(output)

        def backward(gradient: Tensor) -> None:
            noted.gradient = gradient.detach().clone().view(*noted.ids.shape, -1)

        if scaled_BTD.requires_grad:
            scaled_BTD.register_hook(backward)  # type: ignore[no-untyped-call]
        return scaled_BTD

    def note_hidden(self, output_BTD: Tensor) -> None:
        """Note the states of the micro-batch that was embedded last."""
        if self.seen:
            self.seen[-1].hidden = output_BTD.detach().clone()

    def note_losses(self, nll_c: Tensor, z_c: Tensor) -> None:
        """Note the losses of scored tokens, unless backward computes them again."""
        if not self.seen or self.seen[-1].backward:
            return
        noted = self.seen[-1]
        noted.losses.append(torch.stack([nll_c, z_c], dim=-1).detach().clone())

        def began(gradient: Tensor) -> None:
            noted.backward = True

        if nll_c.requires_grad:
            nll_c.register_hook(began)  # type: ignore[no-untyped-call]

    def rows_of(self, ids_BT: Tensor) -> list[int | None]:
        """The numbers of rows in the file by their content; None for ids that no row has."""
        taken: dict[bytes, int] = {}
        found: list[int | None] = []
        for ids_T in ids_BT:
            content = _content(ids_T)
            numbers = self._numbers.get(content, [])
            used = taken.get(content, 0)
            taken[content] = used + 1
            found.append(numbers[min(used, len(numbers) - 1)] if numbers else None)
        return found

    def fault(self, expected: Sequence[int]) -> str:
        """Name how the batches differ from the rows of the file that the step takes; "" if they don't."""
        fed: list[int] = []
        for number, each in enumerate(self.seen):
            rows = self.rows_of(each.ids)
            for at, row in enumerate(rows):
                if row is None:
                    return f"row {at} of micro-batch {number} has ids that no row of the file has"
                fed.append(row)
            scored = sum(int(self.file.mask[row].sum()) for row in rows if row is not None)
            taken = sum(len(losses) for losses in each.losses)
            if taken != scored:
                return f"{taken} losses in micro-batch {number}, and the file scores {scored}"
            if each.hidden is None or each.gradient is None:
                return f"micro-batch {number} leaves no hidden states or no gradient"
        if sorted(fed) != sorted(expected):
            return f"rows {sorted(fed)} were fed, and the plan has {sorted(expected)}"
        return ""

    def traces(self, rows: Sequence[int]) -> Traces:
        """Return the notes about these rows of the file; there must be no fault."""
        hidden: dict[int, Tensor] = {}
        gradients: dict[int, Tensor] = {}
        losses: dict[int, Tensor] = {}
        for each in self.seen:
            assert each.hidden is not None, "hidden states were noted"
            assert each.gradient is not None, "a gradient was noted"
            numbers = [row for row in self.rows_of(each.ids) if row is not None]
            found_N2 = torch.cat(each.losses)
            sizes = [int(self.file.mask[row].sum()) for row in numbers]
            for at, (row, part_n2) in enumerate(
                zip(numbers, torch.split(found_N2, sizes), strict=True)
            ):
                hidden[row], gradients[row] = each.hidden[at], each.gradient[at]
                losses[row] = part_n2.new_zeros(len(self.file.ids[row]), 2)
                losses[row][self.file.mask[row].to(part_n2.device)] = part_n2
        return Traces(
            hidden=torch.stack([hidden[row] for row in rows]),
            gradients=torch.stack([gradients[row] for row in rows]),
            losses=torch.stack([losses[row] for row in rows]),
        )


def _content(ids_T: Tensor) -> bytes:
    return ids_T.numpy().tobytes()
