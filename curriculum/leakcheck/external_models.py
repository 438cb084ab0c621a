"""External models: built by a function that the user names, and trained by plain steps.

The parameters of a model's forward determine which inputs the model gets.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from curriculum.leakcheck.claims import (
    REPACKED,
    ROW_LENGTH,
    repeats,
    subject_of,
    the_future_is_not_seen,
)
from curriculum.leakcheck.packings import MULTIPLE, Packing, many_packings, packings
from curriculum.leakcheck.plain_steps import PlainSteps
from curriculum.leakcheck.proof import CPU, environment, finding_of
from curriculum.leakcheck.proof_documents import ProofSteps, many_documents, proof_documents
from curriculum.leakcheck.recorder import Recorder, train_plainly
from curriculum.leakcheck.repacked import COARSE, ROUNDED, ProofSetting, Tolerance, disagreements
from curriculum.leakcheck.subject import (
    Feed,
    Subject,
    by_boundaries,
    dtype_name,
    one_thread,
    same_bits,
)
from curriculum.model.masks import BLOCK, Boundaries
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.job import Job
from schemas.leak import Finding, InjectedLeakReport, LeakReport
from schemas.progress import Progress, ProgressCallback, ignore_progress

DOCUMENTS = ("doc_ids", "document_ids", "segment_ids", "seq_idx")
POSITIONS = ("position_ids", "positions")
EDGES = ("cu_seqlens", "cu_seq_lens")
LONGEST = ("max_seqlen", "max_length")
WITHHELD = "boundaries are withheld"
UNCOVERED = (
    "the loader, loss and optimizer that the model trains with: the proof used its own",
    "recomputation and mixed precision of its own trainer",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExternalModel:
    """External model, and the function that runs it on packed rows."""

    name: str
    model: nn.Module
    feed: Feed
    inputs: str
    """Description of the inputs that the model gets."""
    multiple: int = 1


STEPS = 3


@one_thread()
def prove_external_model(
    external: ExternalModel,
    *,
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
    row_lengths: tuple[int, ...] = (ROW_LENGTH,),
    device: torch.device = CPU,
    watch: ProgressCallback = ignore_progress,
) -> LeakReport:
    """Prove that repacking documents doesn't change the training of a model (claim REPACKED).

    Then check that the claim fails once the model doesn't get the boundaries of documents.

    Raises:
        JobError: if the model has no nn.Embedding, or its forward fails.
    """
    found: list[Finding] = []
    planted: list[InjectedLeakReport] = []
    uncovered = dict.fromkeys(UNCOVERED)
    tasks = [(dtype, length) for dtype in dtypes for length in row_lengths]
    for done, (dtype, row_length) in enumerate(tasks):
        watch(_progress(done, len(tasks), f"{dtype_name(dtype)} T={row_length}"))
        subject = _subject(external, dtype, row_length, device)
        found += (repeats(subject), *_future(subject))
        if row_length % MULTIPLE:
            uncovered[f"rows of {row_length} tokens: REPACKED needs multiples of {MULTIPLE}"] = None
            continue
        about = repacked_externally(subject, external.feed)
        found += about
        if all(finding.passed for finding in about):
            planted.append(_withheld(subject, external.feed))
    watch(_progress(len(tasks), len(tasks), ""))
    return LeakReport(
        findings=tuple(found),
        planted=tuple(planted),
        uncovered=tuple(uncovered),
        environment=(*environment(device), *_versions(external)),
    )


@one_thread()
def leakcheck(
    build: Callable[[], nn.Module],
    *,
    vocab_size: int,
    name: str = "model",
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
    row_length: int = ROW_LENGTH,
) -> LeakReport:
    """Prove that repacking documents doesn't change the training of a module; meant for your own tests.

    `build` returns the module, which takes ids [B, T] below `vocab_size` and boundaries.

    Raises:
        JobError: if the module has no nn.Embedding.
    """
    subject = subject_of(
        build(), name=name, vocab_size=vocab_size, dtype=dtype, device=device, row_length=row_length
    )
    findings = (
        repeats(subject),
        *_future(subject),
        *repacked_externally(subject, by_boundaries),
    )
    return LeakReport(findings=findings, environment=environment(device))


def _future(subject: Subject) -> Iterator[Finding]:
    return the_future_is_not_seen(subject, rounding=_tolerance(subject).loss)


def repacked_externally(subject: Subject, feed: Feed) -> tuple[Finding, ...]:
    """Train a copy of the model by plain steps on every packing; return the REPACKED findings.

    There are two sets of packings: of a few long documents, and of many short ones. In each set, the first
    packing is the reference, and each of the others gives one finding.
    """
    spec = _setting(subject).model
    few = proof_documents(spec, longest=subject.row_length, steps=STEPS)
    many = many_documents(spec)
    return (
        *_repacked(subject, feed, few, packings(few, subject.row_length)),
        *_repacked(subject, feed, many, many_packings(many, subject.row_length)),
    )


def _repacked(
    subject: Subject, feed: Feed, steps: ProofSteps, ways: Sequence[Packing]
) -> Iterator[Finding]:
    setting = _setting(subject)

    def train(_: ProofSetting, job: Job, workspace: Path, recorder: Recorder, __: Packing) -> None:
        train_plainly(PlainSteps(subject, feed), job, workspace, recorder)

    with same_bits(subject.device):
        for way, found in disagreements(
            setting, steps, ways, train=train, tolerance=_tolerance(subject)
        ):
            yield replace(
                finding_of(setting, steps, ways[0], way, found, name=""),
                subject=subject.name,
                backend=subject.backend,
            )


def _setting(subject: Subject) -> ProofSetting:
    return ProofSetting(
        model=model_spec("tiny", subject.vocab_size),
        backend="documents",
        recompute=False,
        dtype=subject.dtype,
        device=subject.device,
    )


def _tolerance(subject: Subject) -> Tolerance:
    """Return the tolerance for the least precise dtype among a module's outputs.

    A module may use autocast, so that its outputs are less precise than its weights.
    """
    seen: set[torch.dtype] = {subject.dtype}

    def note(_: nn.Module, __: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point():
            seen.add(output.dtype)

    hooks = [module.register_forward_hook(note) for module in subject.model.modules()]
    doc_ids_BT = subject.doc_ids[:1]
    with torch.no_grad():
        subject.run(subject.ids(doc_ids_BT.shape, seed=9), doc_ids_BT)
    for hook in hooks:
        hook.remove()
    return COARSE if seen & {torch.bfloat16, torch.float16} else ROUNDED


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


def _withheld(subject: Subject, feed: Feed) -> InjectedLeakReport:
    """Inject a leak by presenting each row as one document; report whether REPACKED fails as it must."""

    def joined(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
        whole = Boundaries.from_doc_ids(torch.zeros_like(boundaries.doc_ids))
        return feed(model, ids_BT, whole)

    red = {finding.claim for finding in repacked_externally(subject, joined) if not finding.passed}
    return InjectedLeakReport(
        leak=WITHHELD,
        subject=subject.name,
        backend=subject.backend,
        dtype=dtype_name(subject.dtype),
        expected=(REPACKED,),
        red=tuple(red),
    )


def external(where: str) -> ExternalModel:
    """Build the external model that `where` names as `package.module:builder`.

    The builder is a module instance, or a function or class that can be called without arguments.

    Raises:
        JobError: if the builder can't be imported or called, or its model can't be fed.
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
    model = builder if isinstance(builder, nn.Module) else _call(where, builder)
    if not isinstance(model, nn.Module):
        raise JobError(
            where,
            f"a {type(model).__name__}",
            cause="what it builds is no torch.nn.Module",
            cure="Return the module",
        )
    return model


def _imported(where: str, name: str) -> Any:
    """Import a module; like `python -m`, search the current folder first."""
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
    """Return the names of at most 8 callables that are defined in a module itself."""
    own = getattr(module, "__name__", "")
    found = vars(module).items() if inspect.ismodule(module) else ()
    return [name for name, value in found if getattr(value, "__module__", None) == own][:8]


def _call(where: str, builder: Callable[[], Any]) -> Any:
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
    """Return a description of a model's inputs, and the function that runs the model on packed rows."""
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
        """Run the model on rows; if its forward takes edges, join all documents into a single row."""
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
    """Return True for a transformers.PreTrainedModel, without importing transformers."""
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for kind in type(model).__mro__
    )


def _by_hugging_face(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
    """Run the model on all rows joined into one row; positions restart at each document.

    transformers expects packed documents in this form.
    """
    positions = boundaries.position_ids.long().view(1, -1)
    return _output(model(input_ids=ids_BT.view(1, -1), position_ids=positions, use_cache=False))


def _output(given: Any) -> Tensor:
    """Return the logits of a model's output, or its first element if it has no logits."""
    if isinstance(given, Mapping):
        given = given.get("logits", next(iter(given.values()), None))
    given = getattr(given, "logits", given)
    first = given[0] if isinstance(given, tuple | list) else given
    if not isinstance(first, Tensor):
        raise TypeError(f"forward returns a {type(first).__name__} and no tensor")
    return first


def _guarded(where: str, feed: Feed) -> Feed:
    """Wrap `feed` so that an error inside the model is reported as the model's own error."""

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
