"""Steps of training under observation: inputs, loss and gradient of each token, changes of weights.

The ends of every document stay scored, where its neighbours would be seen.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from curriculum.leakcheck.rows import KEY, PLAN, Document, Rows, RowsFile
from curriculum.leakcheck.subject import SCALE, spread_constant_weights
from curriculum.model import loss
from curriculum.model.loss import LossSums
from curriculum.train.batch import Batch
from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.optimizer import TrainState, learning_rate, new_train_state, tensors
from curriculum.train.step import optimizer_step
from schemas.job import Backend, Job, ModelSpec, OptimizerSpec, RowsSource, TokenizerRef

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


Weights = Sequence[tuple[str, nn.Parameter]]
"""Weights by their names."""


@dataclass(kw_only=True, slots=True)
class _MicroBatch:
    """Notes of one forward and backward pass over B rows."""

    ids: Tensor
    hidden: Tensor | None = None
    gradient: Tensor | None = None
    losses: list[Tensor] = field(default_factory=list)
    fault: str = ""
    """Difference of the loss that goes backward from those of its tokens; "" where there is none."""


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
    def watching_train_state(self, train_state: TrainState) -> Iterator[None]:
        """Observe what our trainer computes: also hidden states, and token losses where they are taken."""
        model = train_state.model
        taken = loss.loss_sums

        def noted(*given: Any, **named: Any) -> LossSums:
            sums = taken(*given, **named)
            self.note_losses(sums.token_nll, sums.token_z)
            tokens = sums.nll + named["z_weight"] * sums.z
            self.note_total(float(sums.total.detach()), float(tokens))
            return sums

        norm = model.norm.register_forward_hook(lambda _, __, output: self.note_hidden(output))
        loss.loss_sums = noted
        weights = [*model.named_parameters()]
        try:
            with self.watching(model.embedding, train_state.optimizer, weights):
                yield
        finally:
            loss.loss_sums = taken
            norm.remove()

    def _embedded(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        T = self.file.ids.shape[1]
        ids_N = inputs[0].detach().to("cpu", torch.int32).flatten()
        if len(ids_N) % T:
            return output
        factor_BT = self.begin(ids_N.view(-1, T))
        noted = self.seen[-1]
        scaled_BTD = output * factor_BT.view(output.shape[:-1])[..., None].to(output)

        def backward(gradient: Tensor) -> None:
            noted.gradient = gradient.detach().clone().view(*noted.ids.shape, -1)

        if scaled_BTD.requires_grad:
            scaled_BTD.register_hook(backward)  # type: ignore[no-untyped-call]
        return scaled_BTD

    def begin(self, ids_BT: Tensor) -> Tensor:
        """Begin the notes of a micro-batch of these ids; return the factors [B, T] of its embeddings."""
        self.seen.append(_MicroBatch(ids=ids_BT))
        factor_BT = torch.ones(ids_BT.shape)
        if self.scaled is not None:
            for at, row in enumerate(self.rows_of(ids_BT)):
                if row is not None:
                    factor_BT[at][self.scaled[row]] = SCALE
        return factor_BT

    def note_gradient(self, gradient_BTD: Tensor) -> None:
        """Note the gradient of the embeddings, as they were scaled, of the micro-batch begun last."""
        self.seen[-1].gradient = gradient_BTD

    def note_hidden(self, output_BTD: Tensor) -> None:
        """Note the states of the micro-batch that was embedded last."""
        if self.seen:
            self.seen[-1].hidden = output_BTD.detach().clone()

    def note_losses(self, nll_N: Tensor, z_N: Tensor) -> None:
        """Note the losses of the scored tokens of the micro-batch that was embedded last."""
        if self.seen:
            self.seen[-1].losses.append(torch.stack([nll_N, z_N], dim=-1).detach().clone())

    def note_total(self, total: float, tokens: float) -> None:
        """Note a loss that goes backward, beside the sum of its tokens' losses."""
        if self.seen and not abs(total - tokens) <= LOSS_TOLERANCE * abs(tokens):
            self.seen[-1].fault = f"{total:.6g} goes backward, and its tokens' loss is {tokens:.6g}"

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
            if each.fault:
                return f"in micro-batch {number} {each.fault}"
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


STEPS = 2
ROWS = "rows"
LOSS_TOLERANCE = 1e-4
"""Tolerance of a step's loss, which is summed in another order than its token losses are here."""
RATE = OptimizerSpec(learning_rate=1e-3, warmup_steps=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Settings of steps: all of a job but its rows."""

    model: ModelSpec
    backend: Backend
    recompute: bool
    dtype: torch.dtype
    device: torch.device
    row_length: int
    rope_base: float = 500_000.0
    optimizer: OptimizerSpec = RATE
    carries_on: bool = False
    seed: int = 0

    def job(self, rows_per_step: int) -> Job:
        """A job of two steps over the rows of a folder; a step has several micro-batches."""
        rows_at_once = max(rows_per_step // 4, min(2, rows_per_step // 2))
        rows = RowsSource(key=KEY, content=KEY, path=ROWS, row_length=self.row_length)
        return Job(
            specialist="leakcheck",
            branch=None,
            phase="leakcheck",
            run_key="",
            attempt=1,
            seed=self.seed,
            model=self.model,
            backend=self.backend,
            device="cuda" if self.device.type == "cuda" else "cpu",
            tokenizer=TokenizerRef(
                key=KEY, content=KEY, path="tokenizer", vocab_size=self.model.vocab_size
            ),
            recompute=self.recompute,
            plan=f"{ROWS}/{PLAN}",
            plan_key=KEY,
            plan_content=KEY,
            rows=(rows,),
            rope_base=self.rope_base,
            micro_positions=rows_at_once * self.row_length,
            tokens_per_step=rows_per_step * self.row_length,
            steps=STEPS,
            optimizer=self.optimizer,
            start_from=None,
            evaluations=(),
            evaluate_every=STEPS,
            checkpoint_every=STEPS,
            advance_when=None,
            require=(),
            overrides={},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSeen:
    """One step: what it left at each token, and what it changed."""

    fault: str
    """Difference of its batches from the file; "" where there is none."""
    traces: Traces | None
    """None where there is a fault."""
    loss: float
    counted_loss: float
    """Σ of the token losses ÷ the scored positions of the file."""
    norm: float
    gradients: dict[str, Tensor]
    """Gradients of the parameters, clipped."""
    after: dict[str, Tensor]
    """Weights and Adam's moments after the step."""


class Trainer(Protocol):
    """A model in training, one observed step at a time."""

    def take_step(
        self, number: int, batches: Sequence[Batch], observer: Observer
    ) -> tuple[float, float]:
        """Train on the batches of a step; return its loss and the norm of its gradient."""

    def tensors(self) -> Iterable[tuple[str, Tensor]]:
        """Weights and the optimizer's moments by name."""


Start = Callable[[Setting, Job, Mapping[str, Path]], Trainer]
"""Sets up a trainer for a job and the folders of its rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OurTrainer:
    """Our own train state, which the step of training jobs advances."""

    setting: Setting
    job: Job
    folders: Mapping[str, Path]
    train_state: TrainState

    @staticmethod
    def start(setting: Setting, job: Job, folders: Mapping[str, Path]) -> "OurTrainer":
        """Set up fresh weights, spread so that none hides what it would leak."""
        train_state = new_train_state(job, setting.device)
        # Hooks on the model's own modules need them as they are; the dtype is that of the weights.
        spread_constant_weights(train_state.model.to(setting.dtype)).train()
        return OurTrainer(setting=setting, job=job, folders=folders, train_state=train_state)

    def take_step(
        self, number: int, batches: Sequence[Batch], observer: Observer
    ) -> tuple[float, float]:
        """Train on the batches of a step; return its loss and the norm of its gradient."""
        job = self.job
        rate = learning_rate(number, job.steps, job.optimizer, carries_on=self.setting.carries_on)
        with observer.watching_train_state(self.train_state):
            gradient = optimizer_step(
                self.train_state, batches, job, step=number + 1, rate=rate, folders=self.folders
            )
        return gradient.loss, gradient.norm

    def tensors(self) -> Iterable[tuple[str, Tensor]]:
        """Weights and Adam's moments by name."""
        return tensors(self.train_state)


def run_steps(
    setting: Setting,
    workspace: Path,
    *,
    steps: int,
    start: Start,
    scaled: Tensor | None = None,
) -> list[StepSeen]:
    """Train on all of workspace/rows in so many steps; return what each left.

    Embeddings are scaled at positions of the file where `scaled` [R, T] is true.

    Raises:
        CurriculumError: what a run of such a job would end in.
    """
    file = RowsFile.read(workspace / ROWS)
    rows_per_step = len(file.ids) // steps
    job = setting.job(rows_per_step)
    torch.manual_seed(job.seed)
    planned = PlannedRows.of(job, workspace)
    trainer = start(setting, job, planned.folders)
    batches = steps_of(job, planned, first_step=0, workers=0)
    found: list[StepSeen] = []
    for number in range(steps):
        observer = Observer(file, scaled)
        loss, norm = trainer.take_step(number, next(batches), observer)
        rows = range(number * rows_per_step, (number + 1) * rows_per_step)
        fault = observer.fault(rows)
        traces = None if fault else observer.traces(rows)
        nll = float(traces.losses[..., 0].double().sum()) if traces is not None else 0.0
        found.append(
            StepSeen(
                fault=fault,
                traces=traces,
                loss=loss,
                counted_loss=nll / max(int(file.mask[list(rows)].sum()), 1),
                norm=norm,
                gradients=observer.parameter_gradients,
                after={name: value.detach().clone() for name, value in trainer.tensors()},
            )
        )
    return found
