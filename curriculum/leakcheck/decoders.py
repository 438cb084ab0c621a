"""Our own decoder: every family of its layers small, and all of them together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from curriculum.leakcheck.claims import ROW_LENGTH, examine, subject_of
from curriculum.leakcheck.operators import operator_findings
from curriculum.leakcheck.subject import Subject, by_boundaries, one_thread
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import BLOCK, Boundaries
from curriculum.model.structure import Structure
from schemas.job import Backend, EngramSpec, MambaSpec, ModelSpec
from schemas.leak import Finding, LeakReport
from schemas.structure import LARGEST_CODES, RELATION_CODES

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
"""Tokens of a chunk of made-up structure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A decoder to examine."""

    name: str
    spec: ModelSpec

    @property
    def attends(self) -> bool:
        """Return True if a backend matters to it."""
        return "A" in self.spec.blocks


def cases(spec: ModelSpec) -> tuple[Case, ...]:
    """Each family of a model alone, narrow and two layers deep, then the whole pattern."""
    letters = "".join(dict.fromkeys(spec.blocks))
    alone = [
        Case(name=NAMES[letter], spec=_small(spec, letter * 2, streams=1, structure=False))
        for letter in letters
    ]
    if spec.streams > 1:
        alone.append(
            Case(name=STREAMS, spec=_small(spec, "FF", streams=spec.streams, structure=False))
        )
    if spec.structure:
        alone.append(Case(name=STRUCTURE, spec=_small(spec, "AA", streams=1, structure=True)))
    return (*alone, whole(spec))


def every_case(spec: ModelSpec) -> tuple[Case, ...]:
    """All families there are, streams and structure, in the sizes of a model; all of it together last.

    What is together has no structure, so that backends without biases examine it too.
    """
    full = spec.model_copy(
        update={"blocks": "".join(NAMES), "streams": max(spec.streams, 2), "structure": True}
    )
    together = full.model_copy(update={"structure": False})
    return (*cases(full)[:-1], whole(together))


def whole(spec: ModelSpec) -> Case:
    """Each family of a model once, narrow, with all else that the model has."""
    letters = "".join(dict.fromkeys(spec.blocks))
    small = _small(spec, letters, streams=spec.streams, structure=spec.structure)
    return Case(name=f"whole {letters}", spec=small)


def small_model(spec: ModelSpec) -> ModelSpec:
    """Each family of a model once, two heads wide and with small tables; all other sizes are the model's."""
    letters = "".join(dict.fromkeys(spec.blocks))
    small = _small(spec, letters, streams=spec.streams, structure=spec.structure)
    kv_heads = 2 if spec.kv_heads == spec.heads else 1
    return small.model_copy(
        update={"vocab_size": spec.vocab_size, "width": 32, "heads": 2, "kv_heads": kv_heads}
    )


def _small(spec: ModelSpec, blocks: str, *, streams: int, structure: bool) -> ModelSpec:
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
    """The subject of a case; its backend is left unsaid where it has no attention."""
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
    """All claims about a decoder and the operators in it."""
    yield from examine(subject)
    yield from operator_findings(subject, case.spec, backend)


@one_thread()
def check_decoder(
    spec: ModelSpec,
    backend: Backend,
    *,
    dtypes: Sequence[torch.dtype] | None = None,
    device: torch.device | None = None,
) -> LeakReport:
    """The claims about a model alone that a gate checks: its kinds of layers and backend, small.

    Each family of blocks once, narrow, 97 ids, rows of 256, in float32, on CUDA in bfloat16 also where
    the backend takes either: a few seconds on one core.
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
    """Feed a decoder that reads structure, with one that follows from ids, so that it changes with them."""
    outputs: Tensor = model(ids_BT, boundaries, made_up_structure(ids_BT, boundaries))
    return outputs


def made_up_structure(ids_BT: Tensor, boundaries: Boundaries) -> Structure:
    """Codes by ids; chunks of 16 tokens that begin anew with documents, related also across them."""
    limits = torch.tensor([*LARGEST_CODES.values()], device=ids_BT.device)
    salted_BT5 = ids_BT[..., None] * 31 + torch.arange(5, device=ids_BT.device)
    begins_BT = boundaries.position_ids % CHUNKED == 0
    chunks_BT = begins_BT.cumsum(1).int()
    first_BC = torch.zeros_like(ids_BT[:, :1]).expand(-1, int(chunks_BT.max()) + 1).clone()
    rows = torch.arange(len(ids_BT), device=ids_BT.device)[:, None].expand_as(ids_BT)
    first_BC[rows[begins_BT], chunks_BT[begins_BT].long()] = ids_BT[begins_BT]
    relations_BCC = (first_BC[:, :, None] * 7 + first_BC[:, None]) % len(RELATION_CODES)
    relations_BCC[:, 0], relations_BCC[:, :, 0] = 0, 0
    return Structure(
        tokens=(salted_BT5 % (limits + 1)).to(torch.uint8),
        chunks=chunks_BT,
        relations=relations_BCC.to(torch.uint8),
    )
