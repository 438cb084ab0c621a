"""Subjects built from our own decoder: one small model per kind of layer, and one with all kinds.

The module also examines attention alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from curriculum.leakcheck import claims
from curriculum.leakcheck.claims import ROW_LENGTH, examine, subject_of
from curriculum.leakcheck.subject import Subject, by_boundaries, numbers, one_thread
from curriculum.model.backends import attention
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import BLOCK, Attend, Boundaries
from curriculum.model.structure_tensors import StructureTensors
from schemas.job import Backend, EngramSpec, MambaSpec, ModelSpec
from schemas.leak import Finding, LeakReport
from schemas.structure import MAX_CODES, RELATION_CODES

NAMES = {
    "A": "attention",
    "M": "mamba",
    "C": "convolution",
    "E": "engram",
    "F": "feed-forward",
}
STREAMS, STRUCTURE = "mHC", "structure"
VOCABULARY = 97
CHUNKED = 16
"""Tokens per chunk of made-up structure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Small decoder to examine."""

    name: str
    spec: ModelSpec

    @property
    def attends(self) -> bool:
        """True if the decoder has attention, so that its backend matters."""
        return "A" in self.spec.blocks


def cases(spec: ModelSpec) -> tuple[Case, ...]:
    """Return a small two-layer case for each kind of block in `spec`, then a case with all of these kinds."""
    letters = "".join(dict.fromkeys(spec.blocks))
    alone = [
        Case(name=NAMES[letter], spec=_small_spec(spec, letter * 2, streams=1, structure=False))
        for letter in letters
    ]
    if spec.streams > 1:
        alone.append(
            Case(name=STREAMS, spec=_small_spec(spec, "FF", streams=spec.streams, structure=False))
        )
    if spec.structure:
        alone.append(Case(name=STRUCTURE, spec=_small_spec(spec, "AA", streams=1, structure=True)))
    return (*alone, whole(spec))


def every_case(spec: ModelSpec) -> tuple[Case, ...]:
    """Return a case for each kind of block, for streams and for structure, then one for blocks and streams.

    The last case has no structure. Therefore, backends without attention biases can examine it, too.
    """
    full = spec.model_copy(
        update={"blocks": "".join(NAMES), "streams": max(spec.streams, 2), "structure": True}
    )
    together = full.model_copy(update={"structure": False})
    return (*cases(full)[:-1], whole(together))


def whole(spec: ModelSpec) -> Case:
    """Return a small case with each kind of block in `spec` once.

    Its streams and structure are those of `spec`.
    """
    letters = "".join(dict.fromkeys(spec.blocks))
    small = _small_spec(spec, letters, streams=spec.streams, structure=spec.structure)
    return Case(name=f"whole {letters}", spec=small)


def small_model(spec: ModelSpec) -> ModelSpec:
    """Return a small version of `spec`: each kind of block once, two heads and small tables.

    All other sizes are those of `spec`.
    """
    letters = "".join(dict.fromkeys(spec.blocks))
    small = _small_spec(spec, letters, streams=spec.streams, structure=spec.structure)
    kv_heads = 2 if spec.kv_heads == spec.heads else 1
    return small.model_copy(
        update={"vocab_size": spec.vocab_size, "width": 32, "heads": 2, "kv_heads": kv_heads}
    )


def _small_spec(spec: ModelSpec, blocks: str, *, streams: int, structure: bool) -> ModelSpec:
    kv_heads = min(spec.kv_heads, 2)
    heads = kv_heads * min(spec.heads // spec.kv_heads, 2)
    return spec.model_copy(
        update={
            "blocks": blocks,
            "width": 16 * heads,
            "heads": heads,
            "kv_heads": kv_heads,
            "mlp_width": 64,
            "vocab_size": VOCABULARY,
            "streams": streams,
            "structure": structure,
            "mamba": MambaSpec(state=16, head_width=16, expand=1, chunk=spec.mamba.chunk),
            "engram": EngramSpec(orders=spec.engram.orders, heads=2, slots=251, slot_width=8),
        }
    )


def subject(
    case: Case,
    backend: Backend,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    row_length: int = ROW_LENGTH,
) -> Subject:
    """Return the subject of a case. Its findings name the backend only if the case has attention."""
    return subject_of(
        initialise(Decoder(case.spec, backend), 0),
        name=case.name,
        vocab_size=case.spec.vocab_size,
        dtype=dtype,
        device=device,
        backend=backend if case.attends else "",
        feed=with_structure if case.spec.structure else by_boundaries,
        multiple=BLOCK if case.attends and backend == "flex" else 1,
        row_length=row_length,
        positions=case.attends,
    )


def findings(case: Case, backend: Backend, subject: Subject) -> Iterator[Finding]:
    """Yield the findings for all claims about a decoder and its attention."""
    yield from examine(subject)
    yield from attention_findings(subject, case.spec, backend)


@one_thread()
def check_decoder(
    spec: ModelSpec,
    backend: Backend,
    *,
    dtypes: Sequence[torch.dtype] | None = None,
    device: torch.device | None = None,
) -> LeakReport:
    """Check the claims about a model alone on a small model with the blocks of `spec`, and on `backend`.

    The small model has each kind of block once, a vocabulary of 97 ids and rows of 256 tokens. By default it
    is examined in float32 and, on CUDA, in bfloat16; dtypes that the backend doesn't support are skipped. The
    check takes a few seconds on one core.
    """
    on_gpu = device is not None and device.type == "cuda"
    chosen = dtypes or ((torch.float32, torch.bfloat16) if on_gpu else (torch.float32,))
    if backend == "varlen":
        chosen = tuple(dtype for dtype in chosen if dtype is not torch.float32) or chosen
    case = whole(spec)
    return LeakReport(
        findings=tuple(
            finding
            for dtype in chosen
            for finding in findings(
                case, backend, subject(case, backend, dtype=dtype, device=device)
            )
        )
    )


def with_structure(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
    """Run a decoder with made-up structure that is derived from `ids_BT`."""
    outputs: Tensor = model(ids_BT, boundaries, made_up_structure(ids_BT, boundaries))
    return outputs


def made_up_structure(ids_BT: Tensor, boundaries: Boundaries) -> StructureTensors:
    """Return structure tensors whose codes and relations are derived from `ids_BT`.

    Chunks have 16 tokens and restart at each document. Relations also connect chunks of different documents,
    which the model must ignore.
    """
    limits = torch.tensor([*MAX_CODES.values()], device=ids_BT.device)
    salted_BT5 = ids_BT[..., None] * 31 + torch.arange(5, device=ids_BT.device)
    begins_BT = boundaries.position_ids % CHUNKED == 0
    chunks_BT = begins_BT.cumsum(1).int()
    first_BC = torch.zeros_like(ids_BT[:, :1]).expand(-1, int(chunks_BT.max()) + 1).clone()
    rows = torch.arange(len(ids_BT), device=ids_BT.device)[:, None].expand_as(ids_BT)
    first_BC[rows[begins_BT], chunks_BT[begins_BT].long()] = ids_BT[begins_BT]
    relations_BCC = (first_BC[:, :, None] * 7 + first_BC[:, None]) % len(RELATION_CODES)
    relations_BCC[:, 0], relations_BCC[:, :, 0] = 0, 0
    return StructureTensors(
        tokens=(salted_BT5 % (limits + 1)).to(torch.uint8),
        chunks=chunks_BT,
        relations=relations_BCC.to(torch.uint8),
    )


FEATURES = 16
HEADS = 2


def attention_findings(subject: Subject, spec: ModelSpec, backend: Backend) -> Iterator[Finding]:
    """Yield the findings about the attention of a model; nothing if the model has no attention."""
    if "A" in spec.blocks:
        yield attention_mass(subject, backend)
    if "A" in spec.blocks and backend == "math":
        yield attention_scores(subject)


def attention_mass(subject: Subject, backend: Backend) -> Finding:
    """Check that attention adds exactly 0.0 from other documents.

    The values are one-hot vectors of the document, so that an output shows how much came from which document.
    """
    doc_ids_BT = subject.doc_ids
    owner_BTK = nn.functional.one_hot(doc_ids_BT.long(), FEATURES)
    q, k = _queries_and_keys(subject)
    v = owner_BTK[:, None].expand_as(q).to(q)
    gathered = _attend(subject, backend)(q, k, v).cpu()
    foreign = gathered.masked_fill(owner_BTK[:, None].bool(), 0).abs().max().item()
    whole = bool((gathered.sum(-1) > 0.9).all())
    return subject.finding(claims.MASS, foreign == 0.0 and whole, f"{foreign:.1e}")


def attention_scores(subject: Subject) -> Finding:
    """Check that the math backend's softmax gets -inf and returns 0.0 at hidden positions."""
    doc_ids_BT = subject.doc_ids
    same_BTT = doc_ids_BT[:, :, None] == doc_ids_BT[:, None]
    hidden_B1TT = ~same_BTT.tril()[:, None]
    q, k = _queries_and_keys(subject)
    with _Softmaxes() as seen:
        _attend(subject, "math")(q, k, k)
    assert seen.found, "the math backend takes no softmax"
    for scores, probabilities in seen.found:
        hidden = hidden_B1TT.expand_as(scores).to(scores.device)
        wrong = int((scores[hidden] != -math.inf).sum() + (probabilities[hidden] != 0).sum())
        wrong += int((~scores[~hidden].isfinite()).sum())
        if wrong:
            return subject.finding(claims.SCORES, False, f"{wrong} scores or probabilities")
    return subject.finding(claims.SCORES, True)


class _Softmaxes(TorchFunctionMode):
    """Recorder of the inputs and outputs of every call of softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self,
        func: Callable[..., Tensor],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> Tensor:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax" and isinstance(args[0], Tensor):
            self.found.append((args[0], out))
        return out


def _queries_and_keys(subject: Subject) -> tuple[Tensor, Tensor]:
    B, T = subject.doc_ids.shape
    q, k = (numbers((B, HEADS, T, FEATURES), seed=seed) * 5 for seed in (1, 2))
    return q.to(subject.device, subject.dtype), k.to(subject.device, subject.dtype)


def _attend(subject: Subject, backend: Backend) -> Attend:
    return attention(backend)(Boundaries.from_doc_ids(subject.doc_ids).to(subject.device))
