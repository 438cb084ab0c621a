"""Our own decoder, each family of its layers small and all together, and the operators under the layers.

Operators are compared with their documents one by one: exact, so bit by bit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from curriculum.leakcheck import claims
from curriculum.leakcheck.claims import ROW_LENGTH, TOLERANCE, examine, subject_of
from curriculum.leakcheck.subject import Subject, by_boundaries, doc_ids_of, numbers, one_thread
from curriculum.model import conv, engram, hyper_connections, mamba
from curriculum.model.backends import attention
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.hyper_connections import HyperConnection
from curriculum.model.masks import BLOCK, Attend, Boundaries, Chunks
from curriculum.model.n_gram_tables import tables
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


THRICE = ((50, 50, 50), (70, 70, 10))
"""[A, A, A | B, B, B]: two rows, three documents each."""
FEATURES = 16
HEADS = 2


def operator_findings(subject: Subject, spec: ModelSpec, backend: Backend) -> Iterator[Finding]:
    """Yield the findings about the operators of a model with this pattern."""
    if "A" in spec.blocks:
        yield attention_mass(subject, backend)
    if "A" in spec.blocks and backend == "math":
        yield attention_scores(subject)
    if set("CEM") & set(spec.blocks):
        yield convolution(subject)
    if "M" in spec.blocks:
        yield state(subject, spec.mamba.chunk)
    if "E" in spec.blocks:
        yield n_grams(subject, spec)
    if spec.streams > 1:
        yield mixing_weights(subject)


def attention_mass(subject: Subject, backend: Backend) -> Finding:
    """Values that are one-hot by document: what a position gathers from others is exactly 0.0."""
    doc_ids_BT = subject.doc_ids
    owner_BTK = nn.functional.one_hot(doc_ids_BT.long(), FEATURES)
    q, k = _queries_and_keys(subject)
    v = owner_BTK[:, None].expand_as(q).to(q)
    gathered = _attend(subject, backend)(q, k, v).cpu()
    foreign = gathered.masked_fill(owner_BTK[:, None].bool(), 0).abs().max().item()
    whole = bool((gathered.sum(-1) > 0.9).all())
    return subject.finding(claims.MASS, foreign == 0.0 and whole, f"{foreign:.1e}")


def attention_scores(subject: Subject) -> Finding:
    """The scores that the math backend hands to softmax, and the probabilities that come out of it."""
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
    """Notes what goes into every softmax over the last dimension, and what comes out."""

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
    return attention(backend)(subject.cut(subject.doc_ids).to(subject.device))


def convolution(subject: Subject) -> Finding:
    """Outputs and gradients of masked_conv, packed against alone; then with NaN in all documents but one."""
    doc_ids_BT = doc_ids_of(THRICE)
    x_BTC = _leaf(subject, (*doc_ids_BT.shape, FEATURES), 1)
    weight_CK = _leaf(subject, (FEATURES, 4), 2)

    def convolved(boundaries: Boundaries, x_BTC: Tensor) -> Tensor:
        return conv.masked_conv(x_BTC, weight_CK, boundaries)

    apart = _difference(subject, convolved, doc_ids_BT, (x_BTC,))
    return subject.finding(claims.CONVOLUTION, not apart and _nan_stays_out(subject, x_BTC), apart)


def _nan_stays_out(subject: Subject, x_BTC: Tensor) -> bool:
    doc_ids_BT = doc_ids_of(THRICE)
    boundaries = subject.cut(doc_ids_BT).to(subject.device)
    weight_CK = torch.ones(FEATURES, 4, device=subject.device, dtype=subject.dtype)
    inside = (doc_ids_BT == 1)[..., None].to(subject.device)
    poisoned = torch.where(inside, x_BTC.detach(), math.nan)
    clean = conv.masked_conv(x_BTC.detach(), weight_CK, boundaries)
    around = conv.masked_conv(poisoned, weight_CK, boundaries)
    return torch.equal(clean[inside[..., 0]], around[inside[..., 0]])


def state(subject: Subject, chunk: int) -> Finding:
    """Outputs of the scan over state spaces, packed against alone, bit by bit; gradients within rounding.

    What a step's gradient adds up is the same, but products of another size add it in another order.
    """
    doc_ids_BT = doc_ids_of(THRICE)
    wide = torch.promote_types(subject.dtype, torch.float32)
    rate_H = -torch.linspace(1, 8, HEADS, device=subject.device, dtype=wide)
    shapes = ((HEADS, FEATURES), (HEADS,), (FEATURES,), (FEATURES,))
    inputs = tuple(
        _leaf(subject, (*doc_ids_BT.shape, *shape), seed) for seed, shape in enumerate(shapes)
    )

    def scanned(
        boundaries: Boundaries, x_BTHP: Tensor, step_BTH: Tensor, b_BTE: Tensor, c_BTE: Tensor
    ) -> Tensor:
        x, step, b, c = (each.flatten(0, 1) for each in (x_BTHP, step_BTH, b_BTE, c_BTE))
        chunks = Chunks.of(boundaries, chunk)
        y_NHP = mamba.scanned(x, step.to(wide) - 2, rate_H, b, c, chunks)
        return y_NHP.flatten(1).view(*x_BTHP.shape[:2], -1)

    apart = _difference(subject, scanned, doc_ids_BT, inputs, rounding=TOLERANCE[wide])
    return subject.finding(claims.STATE, not apart, apart)


def n_grams(subject: Subject, spec: ModelSpec) -> Finding:
    """The rows of memory that tokens read, packed against alone; gradients can't see ids."""
    doc_ids_BT = subject.doc_ids
    hashes = tables(spec.engram)
    ids_BT = subject.ids(doc_ids_BT.shape, seed=8)
    packed = engram.n_gram_slots(ids_BT, subject.cut(doc_ids_BT), hashes)
    wrong = 0
    for row, document in _documents(doc_ids_BT):
        ids_1T = ids_BT[row, document][None]
        alone = engram.n_gram_slots(ids_1T, subject.cut(torch.zeros_like(ids_1T)), hashes)
        wrong += int((alone[0] != packed[row, document]).sum())
    return subject.finding(claims.N_GRAMS, not wrong, f"{wrong} are others" if wrong else "")


def mixing_weights(subject: Subject) -> Finding:
    """The weights of one token stay bitwise while all others change."""
    spec = ModelSpec(
        name="streams", vocab_size=1, blocks="F", width=8, heads=1, kv_heads=1, mlp_width=1,
        streams=3,
    )  # fmt: skip
    connection = HyperConnection(spec)
    with torch.no_grad():
        connection.start(torch.Generator().manual_seed(0))
        connection.gains_3.fill_(1.0)
    connection = connection.to(subject.device, subject.dtype)
    x, y = (numbers((2, 9, 3, 8), seed=seed).to(connection.static_E) for seed in (1, 2))
    other = y.clone()
    other[0, 4] = x[0, 4]
    pairs = zip(connection.weights(x), connection.weights(other), strict=True)
    same = all(torch.equal(one[0, 4], two[0, 4]) for one, two in pairs)
    features = hyper_connections.token_features(x)
    return subject.finding(claims.PER_TOKEN, same and features.shape[:2] == x.shape[:2])


def _leaf(subject: Subject, shape: Sequence[int], seed: int) -> Tensor:
    drawn = numbers(shape, seed=seed).to(subject.device, subject.dtype)
    return drawn.requires_grad_()


def _difference(
    subject: Subject,
    apply: Callable[..., Tensor],
    doc_ids_BT: Tensor,
    inputs_BTX: Sequence[Tensor],
    *,
    rounding: float = 0.0,
) -> str:
    """Name the places where a packed run differs bitwise from its documents alone; empty if nowhere.

    Gradients may differ by `rounding`, as a share of the largest.
    """
    packed, gradients = _outputs_and_gradients(
        apply, subject.cut(doc_ids_BT).to(subject.device), inputs_BTX, 0
    )
    for row, document in _documents(doc_ids_BT):
        length = int(document.sum())
        boundaries = subject.cut(torch.zeros(1, length, dtype=torch.int32)).to(subject.device)
        own = [each.detach()[row, document][None].requires_grad_() for each in inputs_BTX]
        start = row * doc_ids_BT.shape[1] + int(document.int().argmax())
        alone, alone_gradients = _outputs_and_gradients(apply, boundaries, own, start)
        if not torch.equal(alone[0], packed[row, document]):
            return f"outputs of document {start}+{length}"
        for one, other in zip(alone_gradients, gradients, strict=True):
            far = (one[0] - other[row, document]).abs().max()
            if not bool(far <= rounding * other.abs().max()):
                return f"gradients of document {start}+{length}"
    return ""


def _outputs_and_gradients(
    apply: Callable[..., Tensor], boundaries: Boundaries, inputs: Sequence[Tensor], start: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Outputs and the inputs' gradients of a loss whose weights go by the place in all rows."""
    outputs = apply(boundaries, *inputs)
    B, T, C = outputs.shape
    weights = numbers((THRICE_TOKENS, C), seed=9)[start : start + B * T].view(B, T, C)
    gradients = torch.autograd.grad((outputs * weights.to(outputs)).sum(), inputs)
    return outputs.detach(), gradients


THRICE_TOKENS = sum(map(sum, THRICE))


def _documents(doc_ids_BT: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each document as its row and a mask over the row."""
    for row, doc_ids_T in enumerate(doc_ids_BT):
        for document in doc_ids_T.unique_consecutive():
            yield row, doc_ids_T == document
