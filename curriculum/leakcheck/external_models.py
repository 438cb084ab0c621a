"""Models of others, built by a named function, fed by what their forward takes, and steps of training."""

import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.leakcheck.claims import OUTPUTS, PERTURBED, ROW_LENGTH, examine_any, subject_of
from curriculum.leakcheck.proof import environment
from curriculum.leakcheck.step import Observer, Setting
from curriculum.leakcheck.step_claims import (
    CPU,
    StepSubject,
    adversarial_rows,
    step_findings,
    step_subject,
)
from curriculum.leakcheck.subject import (
    Feed,
    Subject,
    by_boundaries,
    dtype_name,
    one_thread,
    spread_constant_weights,
)
from curriculum.model.masks import BLOCK, Boundaries
from curriculum.model.presets import model_spec
from curriculum.train.batch import Batch
from schemas.errors import JobError
from schemas.leak import Finding, InjectedLeakReport, LeakReport
from schemas.packed_row import ROW_MULTIPLE
from schemas.progress import Progress, ProgressCallback, ignore_progress

DOCUMENTS = ("doc_ids", "document_ids", "segment_ids", "seq_idx")
POSITIONS = ("position_ids", "positions")
EDGES = ("cu_seqlens", "cu_seq_lens")
LONGEST = ("max_seqlen", "max_length")
WITHHELD = "boundaries are withheld"
UNCOVERED = (
    "the loader, loss and optimizer that the model trains with: steps had ours",
    "recomputation and mixed precision of its own trainer",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExternalModel:
    """A model that isn't ours, and how it is fed."""

    name: str
    model: nn.Module
    feed: Feed
    inputs: str
    """Inputs of the model, in words."""
    multiple: int = 1


@one_thread()
def prove_external_model(
    external: ExternalModel,
    *,
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
    row_lengths: tuple[int, ...] = (ROW_LENGTH,),
    mutations: bool = True,
    device: torch.device = CPU,
    watch: ProgressCallback = ignore_progress,
) -> LeakReport:
    """Examine a model, then withhold its boundaries from it, which must turn what held before red.

    Raises:
        JobError: for a model without an nn.Embedding, or one whose forward fails.
    """
    found: list[Finding] = []
    planted: list[InjectedLeakReport] = []
    uncovered = dict.fromkeys(UNCOVERED)
    tasks = [(dtype, length) for dtype in dtypes for length in row_lengths]
    for done, (dtype, row_length) in enumerate(tasks):
        watch(_progress(done, len(tasks), f"{dtype_name(dtype)} T={row_length}"))
        subject = _subject(external, dtype, row_length, device)
        about = tuple(examine_any(subject))
        if row_length % ROW_MULTIPLE == 0:
            about += step_findings(external_steps(subject), watch)
        else:
            uncovered[f"steps: their rows have multiples of {ROW_MULTIPLE} tokens"] = None
        found.extend(about)
        if mutations and not {each.claim for each in about if not each.passed} & PERTURBED:
            planted.append(_withheld(subject))
    watch(_progress(len(tasks), len(tasks), ""))
    return LeakReport(
        findings=tuple(found),
        planted=tuple(planted),
        uncovered=tuple(uncovered),
        environment=(*environment(device), *_versions(external)),
    )


def _subject(
    external: ExternalModel, dtype: torch.dtype, row_length: int, device: torch.device
) -> Subject:
    subject = subject_of(
        external.model,
        name=external.name,
        vocab_size=1,
        dtype=dtype,
        device=device,
        backend=external.inputs,
        feed=external.feed,
        multiple=external.multiple,
        row_length=row_length,
        positions=False,
    )
    return replace(subject, vocab_size=subject.embedding.num_embeddings)


def _withheld(subject: Subject) -> InjectedLeakReport:
    """Give the model each row as one document: one that goes by its boundaries must leak now.

    Its outputs must show it; gradients may be blind, where layers are linear or documents enter as ids.
    """

    def joined(doc_ids_BT: Tensor) -> Boundaries:
        return Boundaries.of(torch.zeros_like(doc_ids_BT))

    red = {each.claim for each in examine_any(replace(subject, cut=joined)) if not each.passed}
    return InjectedLeakReport(
        leak=WITHHELD,
        subject=subject.name,
        backend=subject.backend,
        dtype=dtype_name(subject.dtype),
        expected=tuple(sorted(red & PERTURBED | {OUTPUTS})),
        red=tuple(sorted(red & PERTURBED)),
    )


def external(where: str) -> ExternalModel:
    """The model that `package.module:builder` names: a function or class without arguments, or a module.

    Raises:
        JobError: where it can't be imported, called or fed.
    """
    model = _built(where)
    inputs, feed = _feeding(where, model)
    multiple = BLOCK if "flex" in inputs else 1
    return ExternalModel(name=where, model=model, feed=feed, inputs=inputs, multiple=multiple)


def _built(where: str) -> nn.Module:
    module_name, _, name = where.partition(":")
    if not module_name or not name or module_name.endswith(".py"):
        raise JobError(
            "leakcheck",
            where,
            cause="a model is named by its module and a function that builds it",
            cure="Write package.module:builder",
        )
    builder: Any = _imported(where, module_name)
    for part in name.split("."):
        if not hasattr(builder, part):
            raise JobError(
                where,
                cause=f"{module_name} has nothing of the name {name}",
                cure=f"Name one of {', '.join(_callables(builder)) or 'what it holds'}",
            )
        builder = getattr(builder, part)
    model = builder if isinstance(builder, nn.Module) else _called(where, builder)
    if not isinstance(model, nn.Module):
        raise JobError(
            where,
            f"a {type(model).__name__}",
            cause="what it builds is no torch.nn.Module",
            cure="Return the module",
        )
    return model


def _imported(where: str, name: str) -> Any:
    """A module of the current folder first, as `python -m` finds it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as failed:
        raise JobError(
            where,
            f"{type(failed).__name__}: {failed}",
            cause=f"{name} can't be imported",
            cure=f"Try `python -c 'import {name}'` in this folder, {here}",
        ) from failed


def _callables(module: Any) -> list[str]:
    """Return the names of callables that a module itself defines."""
    own = getattr(module, "__name__", "")
    found = vars(module).items() if inspect.ismodule(module) else ()
    return [name for name, each in found if getattr(each, "__module__", None) == own][:8]


def _called(where: str, builder: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    try:
        return builder()
    except Exception as failed:
        raise JobError(
            where,
            f"{type(failed).__name__}: {failed}",
            cause="the builder fails when it is called without arguments",
            cure="Give one that takes none and returns a module",
        ) from failed


def _feeding(where: str, model: nn.Module) -> tuple[str, Feed]:
    """Return how a model is fed, in words and as a function."""
    if is_hugging_face(model):
        implementation = str(getattr(model.config, "_attn_implementation", ""))
        return f"hf {implementation}".strip(), _guarded(where, _by_hugging_face)
    names = list(inspect.signature(model.forward).parameters)
    if "boundaries" in names[1:]:
        return "boundaries", _guarded(where, by_boundaries)
    asked = [name for name in names[1:] if name in (*DOCUMENTS, *POSITIONS, *EDGES, *LONGEST)]
    if not set(asked) - set(LONGEST):
        raise JobError(
            where,
            f"forward({', '.join(names)})",
            cause="it isn't told where documents begin",
            cure="Let forward take ids and then boundaries, or by name one of "
            + ", ".join((*DOCUMENTS, *POSITIONS, *EDGES)),
        )
    return " ".join(asked), _guarded(where, _by_names(tuple(asked)))


def _by_names(asked: tuple[str, ...]) -> Feed:
    flat = bool(set(asked) & set(EDGES))

    def feed(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
        """Rows, or one row of all where edges are asked for."""
        given = {name: _argument(name, boundaries, flat=flat) for name in asked}
        return _output(model(ids_BT.view(1, -1) if flat else ids_BT, **given))

    return feed


def _argument(name: str, boundaries: Boundaries, *, flat: bool) -> Tensor | int:
    if name in EDGES:
        return boundaries.cu_seqlens
    if name in LONGEST:
        return max(boundaries.lengths)
    if name in POSITIONS:
        position_ids = boundaries.position_ids.long()
        return position_ids.view(1, -1) if flat else position_ids
    if not flat:
        return boundaries.doc_ids
    lengths = boundaries.cu_seqlens.diff()
    numbered = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    return numbered.int()[None]


def is_hugging_face(model: nn.Module) -> bool:
    """Return True if it is a transformers.PreTrainedModel; transformers need not be there."""
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for kind in type(model).__mro__
    )


def _by_hugging_face(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
    """The rows as one, positions restarting, which is how transformers take packed documents."""
    positions = boundaries.position_ids.long().view(1, -1)
    return _output(model(input_ids=ids_BT.view(1, -1), position_ids=positions, use_cache=False))


def _output(given: Any) -> Tensor:
    """Logits or whatever else comes first."""
    if isinstance(given, Mapping):
        given = given.get("logits", next(iter(given.values()), None))
    given = getattr(given, "logits", given)
    first = given[0] if isinstance(given, tuple | list) else given
    if not isinstance(first, Tensor):
        raise TypeError(f"forward returns a {type(first).__name__} and no tensor")
    return first


def _guarded(where: str, feed: Feed) -> Feed:
    """Wrap a forward so that its errors are reported as the model's own."""

    def guarded(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
        try:
            outputs = feed(model, ids_BT, boundaries)
            return outputs.reshape(*ids_BT.shape, -1)
        except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as failed:
            dtype = next(iter(model.parameters())).dtype
            raise JobError(
                where,
                f"{type(failed).__name__}: {failed}",
                cause=f"its forward fails on ids {list(ids_BT.shape)} in {dtype_name(dtype)}",
                cure="Let it take rows of any length and a batch of them, or choose --dtype or "
                "--row-length",
            ) from failed

    return guarded


def _versions(external: ExternalModel) -> tuple[tuple[str, str], ...]:
    if is_hugging_face(external.model):
        return (("transformers", str(sys.modules["transformers"].__version__)),)
    return ()


def _progress(done: int, total: int, note: str) -> Progress:
    return Progress(stage="leakcheck", item="", done=done, total=total, unit="rounds", note=note)


CLIP, RATE = 1.0, 1e-3


def external_steps(subject: Subject) -> StepSubject:
    """Rows for both claims, and steps of a copy of the model in train mode, dropout seeded alike.

    What it returns is taken for logits where it is as wide as its vocabulary, else for states that its
    embedding turns into logits.
    """
    setting = Setting(
        model=model_spec("tiny", subject.vocab_size),
        backend="documents",
        recompute=False,
        dtype=subject.dtype,
        device=subject.device,
        row_length=subject.row_length,
    )
    return step_subject(
        setting,
        *adversarial_rows(setting),
        name=subject.name,
        backend=subject.backend,
        start=lambda *_: _ExternalTrainer(subject),
    )


class _ExternalTrainer:
    """A copy of a model, trained by AdamW on the mean cross-entropy of scored targets, clipped."""

    def __init__(self, subject: Subject) -> None:
        place = [*subject.model.modules()].index(subject.embedding)
        self.subject = subject
        self.model = spread_constant_weights(copy.deepcopy(subject.model)).train()
        embedding = [*self.model.modules()][place]
        assert isinstance(embedding, nn.Embedding), "a copy has the modules of its original"
        self.embedding = embedding
        self.weights = [*self.model.named_parameters()]
        self.optimizer = torch.optim.AdamW([weight for _, weight in self.weights], lr=RATE)

    def take_step(
        self, number: int, batches: Sequence[Batch], observer: Observer
    ) -> tuple[float, float]:
        """Accumulate gradients over the batches and update; return the loss and the gradient's norm."""
        count = max(sum(int(batch.loss_mask.sum()) for batch in batches), 1)
        total = 0.0
        with observer.watching(self.embedding, self.optimizer, self.weights):
            for batch in (each.to(self.subject.device) for each in batches):
                output_BTC = self.subject.feed(self.model, batch.input_ids, batch.boundaries)
                observer.note_hidden(output_BTC)
                x_NC = output_BTC[batch.loss_mask.bool()]
                if x_NC.shape[-1] < self.embedding.num_embeddings:
                    x_NC = F.linear(x_NC, self.embedding.weight)
                nll_N = F.cross_entropy(
                    x_NC.float(), batch.target_ids[batch.loss_mask.bool()].long(), reduction="none"
                )
                observer.note_losses(nll_N, torch.zeros_like(nll_N))
                loss = nll_N.sum()
                (loss / count).backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach())
            norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), CLIP))
            self.optimizer.step()
            self.optimizer.zero_grad()
        return total / count, norm

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Weights and AdamW's moments by name."""
        yield from self.weights
        for name, weight in self.weights:
            for moment, value in self.optimizer.state.get(weight, {}).items():
                yield f"{name}.{moment}", value
