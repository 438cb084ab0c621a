"""Claims about a subject: a document gives the same outputs and gradients whatever its row holds beside.

A position that is masked adds 0·x, which is exact for finite x, so there is no tolerance to hide in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from curriculum.leakcheck.subject import (
    SCALE,
    Build,
    Cut,
    Feed,
    Subject,
    by_boundaries,
    cut_by_ids,
    doc_ids_of,
    embedding_of,
    numbers,
    one_thread,
    spread_constant_weights,
)
from schemas.errors import SchemaError
from schemas.leak import Finding, LeakReport

RECURRING = "recurring document ids are refused"
POSITIONS = "positions restart at each boundary"
READS_POSITIONS = "positions come from the boundaries"
REPEATS = "the same input gives the same output"
REACHES = "the perturbation reaches the perturbed"
OUTPUTS = "outputs of a document don't see others"
EMBEDDING_GRADIENTS = "its embedding gradients don't see others"
FOREIGN_GRADIENTS = "gradients on others are exactly 0.0"
WEIGHT_GRADIENTS = "gradients of weights don't see others"
FUTURE = "outputs don't see the future"
FUTURE_GRADIENTS = "gradients on the future are exactly 0.0"
ALONE = "a document packed equals it alone"
SCORES = "scores of others are exactly -inf, their probabilities 0.0"
MASS = "attention mass on others is exactly 0.0"
CONVOLUTION = "a convolution is bitwise its document's alone, NaN around it"
STATE = "a state is bitwise its document's alone"
N_GRAMS = "n-grams hold their document's ids alone"
PER_TOKEN = "mixing weights follow from their own token"

FED = "the step is fed the rows of the file, and its loss is that of their tokens"
SCORED = "other documents' states, losses and gradients are unchanged"
MUTED = "an unscored document leaves no trace in two steps"
CHANGES_REACH = "changed documents change, and each scored document has a gradient"

PERTURBED = frozenset({OUTPUTS, EMBEDDING_GRADIENTS, FOREIGN_GRADIENTS, WEIGHT_GRADIENTS})
"""Claims of perturbation, forward and backward: other documents must not change these."""
CAUSAL = frozenset({FUTURE, FUTURE_GRADIENTS})


TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.bfloat16: 3 * 2.0**-7,
    torch.float16: 3 * 2.0**-10,
}
"""Share of the largest output. For the short formats three units in the last place."""


def packed_equals_alone(subject: Subject) -> Finding:
    """Each document of each row by itself, padded only as far as the model's row lengths ask for."""
    doc_ids_BT = subject.doc_ids
    ids_BT = subject.ids(doc_ids_BT.shape, seed=3)
    worst, where = 0.0, ""
    with torch.no_grad():
        packed = subject.run(ids_BT, doc_ids_BT)
        for row, lengths in enumerate(subject.layouts):
            start = 0
            for length in lengths:
                alone = _alone(subject, ids_BT[row, start : start + length])
                far = distance(alone, packed[row, start : start + length])
                if not far <= worst:
                    worst, where = far, f" in the document of {length} tokens at {start}"
                start += length
    limit = TOLERANCE[subject.dtype]
    kept = worst <= limit
    detail = f"{worst:.1e} of {limit:.0e}" + ("" if kept else where)
    return subject.finding(ALONE, kept, detail)


def _alone(subject: Subject, ids_T: Tensor) -> Tensor:
    length = len(ids_T)
    padding = -length % subject.multiple
    ids_1T = nn.functional.pad(ids_T, (0, padding))[None]
    doc_ids_1T = doc_ids_of([(length, padding)] if padding else [(length,)])
    return subject.run(ids_1T, doc_ids_1T)[0, :length]


def distance(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a share of the largest output."""
    return float((one - other).abs().max() / other.abs().max())


def positions_restart(subject: Subject) -> Iterator[Finding]:
    """Position ids against their definition, and whether the model goes by them."""
    yield _recurring_ids(subject)
    expected = [[at for length in lengths for at in range(length)] for lengths in subject.layouts]
    found = subject.cut(subject.doc_ids).position_ids
    yield subject.finding(POSITIONS, found.tolist() == expected)
    if subject.positions:
        yield _reads_positions(subject)


def _recurring_ids(subject: Subject) -> Finding:
    """Ids that come again must be refused: a mask by equal ids would join both documents."""
    try:
        subject.cut(torch.tensor([[0] * 100 + [1] * 100 + [0] * 56]))
    except SchemaError:
        return subject.finding(RECURRING, True)
    return subject.finding(RECURRING, False)


def _reads_positions(subject: Subject) -> Finding:
    """Positions are stretched: outputs must change, else the model counts by itself."""
    T = subject.row_length
    doc_ids_BT = doc_ids_of([(T // 3, T - T // 3)])
    ids_BT = subject.ids(doc_ids_BT.shape, seed=4).to(subject.device)
    boundaries = subject.cut(doc_ids_BT).to(subject.device)
    stretched = replace(boundaries, position_ids=boundaries.position_ids * 3)
    with torch.no_grad():
        plain = subject.feed(subject.model, ids_BT, boundaries)
        other = subject.feed(subject.model, ids_BT, stretched)
    return subject.finding(READS_POSITIONS, not torch.equal(plain, other))


def others_are_not_seen(subject: Subject) -> Iterator[Finding]:
    """Findings about each document of each row as the witness, a document a row at a time.

    Of each claim there is one finding: the first that fails, else the last.
    """
    by_claim: dict[str, Finding] = {}
    for number in range(max(map(len, subject.layouts))):
        for finding in _findings_about(subject, number):
            known = by_claim.get(finding.claim)
            if known is None or known.passed:
                by_claim[finding.claim] = finding
    yield from by_claim.values()


def the_future_is_not_seen(subject: Subject) -> Iterator[Finding]:
    """Tokens after the middle of a document are changed; those before must not notice."""
    T = subject.row_length
    doc_ids_BT = doc_ids_of([(T // 4, T - T // 4)])
    before_BT = (torch.arange(T) < T // 2 + 2).expand_as(doc_ids_BT)
    ids_BT = subject.ids(doc_ids_BT.shape, seed=5)
    later_BT = torch.where(before_BT, ids_BT, subject.ids(doc_ids_BT.shape, seed=6))
    plain = observe(subject, ids_BT, doc_ids_BT, before_BT)
    changed = observe(subject, later_BT, doc_ids_BT, before_BT)
    moved = _compared(plain.outputs[before_BT], changed.outputs[before_BT])
    yield subject.finding(FUTURE, *moved)
    yield _zero_gradients(subject, FUTURE_GRADIENTS, (plain, changed), before_BT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """Outputs of a forward and backward pass; gradients by parameter in `weights`."""

    outputs: Tensor
    embeddings: Tensor
    """Gradients [B, T, D] of the embeddings."""
    weights: tuple[Tensor | None, ...]


def observe(
    subject: Subject,
    ids_BT: Tensor,
    doc_ids_BT: Tensor,
    witness_BT: Tensor,
    scale_BT: Tensor | None = None,
) -> Observed:
    """Run the model with embeddings scaled by `scale_BT`, and a loss on the witnesses alone."""
    embedded: list[Tensor] = []

    def scaled_output(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        scaled = output * 1.0
        if scale_BT is not None:
            scaled = output * scale_BT.to(output).view(*output.shape[:-1], 1)
        scaled.retain_grad()
        embedded.append(scaled)
        return scaled

    subject.model.zero_grad()
    with subject.embedding.register_forward_hook(scaled_output):
        outputs = subject.run(ids_BT, doc_ids_BT)
    weights = numbers(outputs.shape, seed=7).to(outputs)
    witness = witness_BT.to(subject.device)
    torch.where(witness[..., None], outputs * weights, 0).sum().backward()  # type: ignore[no-untyped-call]
    gradient = embedded[0].grad
    assert gradient is not None, "the loss doesn't reach the embeddings"
    return Observed(
        outputs=outputs.detach(),
        embeddings=gradient.view(*ids_BT.shape, -1),
        weights=tuple(
            None if weight.grad is None else weight.grad.clone()
            for weight in subject.model.parameters()
        ),
    )


def _findings_about(subject: Subject, number: int) -> Iterator[Finding]:
    """The witnesses are document `number`, counted round, of each row but the last, which has none."""
    doc_ids_BT = subject.doc_ids
    witness_BT = doc_ids_BT == torch.tensor([[number % len(each)] for each in subject.layouts])
    witness_BT[-1] = False
    ids_BT = subject.ids(doc_ids_BT.shape, seed=number)
    others_BT = subject.ids(doc_ids_BT.shape, seed=number + 100)
    scale_BT = torch.where(witness_BT, 1.0, SCALE)
    changed_BT = torch.where(witness_BT, ids_BT, others_BT)
    plain = observe(subject, ids_BT, doc_ids_BT, witness_BT)
    changed = observe(subject, changed_BT, doc_ids_BT, witness_BT, scale_BT)
    if number == 0:
        again = subject.run(ids_BT, doc_ids_BT).detach()
        yield subject.finding(REPEATS, *_compared(plain.outputs, again))
    reached = not torch.equal(plain.outputs[~witness_BT], changed.outputs[~witness_BT])
    has_gradient = bool(plain.embeddings[witness_BT].abs().sum() > 0)
    yield subject.finding(REACHES, reached and has_gradient)
    outputs = _compared(plain.outputs[witness_BT], changed.outputs[witness_BT])
    yield subject.finding(OUTPUTS, *outputs)
    gradients = _compared(plain.embeddings[witness_BT], changed.embeddings[witness_BT])
    yield subject.finding(EMBEDDING_GRADIENTS, *gradients)
    yield _zero_gradients(subject, FOREIGN_GRADIENTS, (plain, changed), witness_BT)
    yield _weight_gradients(subject, plain, changed)


def _compared(one: Tensor, other: Tensor) -> tuple[bool, str]:
    """Compare bitwise; where they differ, the difference as a share of the largest value."""
    if torch.equal(one, other):
        return True, ""
    return False, f"by up to {share(one - other, one)} of the largest"


def share(part: Tensor, whole: Tensor) -> str:
    """The largest of a part over the largest of the whole: 1.2e-03."""
    return f"{float(part.abs().max()) / max(float(whole.abs().max()), 1e-300):.1e}"


def _zero_gradients(
    subject: Subject, claim: str, seen: Sequence[Observed], witness_BT: Tensor
) -> Finding:
    """A finding that gradients outside the witnesses are 0.0."""
    for each in seen:
        elsewhere = each.embeddings[~witness_BT]
        if bool((elsewhere != 0).any()):
            by = share(elsewhere, each.embeddings[witness_BT])
            return subject.finding(claim, False, f"up to {by} of the largest")
    return subject.finding(claim, True)


def _weight_gradients(subject: Subject, plain: Observed, changed: Observed) -> Finding:
    """A finding about all weights; one that a pass didn't use has a gradient of 0.

    On GPUs rounding is allowed: there the order in which a table's gradients are added up goes by all ids.
    """
    rounding = TOLERANCE[subject.dtype] if subject.device.type == "cuda" else 0.0
    names = [name for name, _ in subject.model.named_parameters()]
    unequal = [
        name
        for name, one, other in zip(names, plain.weights, changed.weights, strict=True)
        if not _same(one, other, rounding)
    ]
    detail = f"{len(unequal)} of {len(names)} differ, {unequal[0]} first" if unequal else ""
    return subject.finding(WEIGHT_GRADIENTS, not unequal, detail)


def _same(one: Tensor | None, other: Tensor | None, rounding: float) -> bool:
    if one is None or other is None:
        used = one if other is None else other
        return used is None or not bool(used.any())
    if rounding:
        return bool((one - other).abs().max() <= rounding * one.abs().max())
    return torch.equal(one, other)


ROW_LENGTH = 256


@one_thread()
def leakcheck(
    build: Build,
    *,
    vocab_size: int,
    name: str = "model",
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    cut: Cut = cut_by_ids,
    multiple: int = 1,
    row_length: int = ROW_LENGTH,
) -> LeakReport:
    """Examine any module that takes ids [B, T] and boundaries and has an nn.Embedding for its ids.

    `multiple` is what its row lengths must be a multiple of; `cut` stands in for Boundaries.of in tests
    of this proof.

    Raises:
        JobError: for a module without an nn.Embedding.
    """
    subject = subject_of(
        build(), name=name, vocab_size=vocab_size, dtype=dtype, device=device, cut=cut,
        multiple=multiple, row_length=row_length,
    )  # fmt: skip
    return LeakReport(findings=tuple(examine(subject)))


def subject_of(  # noqa: PLR0913 - each is a fact about the subject
    model: nn.Module,
    *,
    name: str,
    vocab_size: int,
    dtype: torch.dtype,
    device: torch.device | None = None,
    backend: str = "",
    feed: Feed = by_boundaries,
    cut: Cut = cut_by_ids,
    multiple: int = 1,
    row_length: int = ROW_LENGTH,
    positions: bool = True,
) -> Subject:
    """A module ready to be examined: in its dtype, on its device, weights spread."""
    where = device or torch.device("cpu")
    ready = spread_constant_weights(model.to(device=where, dtype=dtype))
    return Subject(
        name=name,
        backend=backend,
        model=ready,
        embedding=embedding_of(name, ready, feed, where, multiple),
        vocab_size=vocab_size,
        dtype=dtype,
        device=where,
        feed=feed,
        cut=cut,
        row_length=row_length,
        multiple=multiple,
        positions=positions,
    )


def examine(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about a module that takes our boundaries."""
    yield from positions_restart(subject)
    yield from examine_any(subject)


def examine_any(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about any module, however it is given the boundaries."""
    yield from others_are_not_seen(subject)
    yield from the_future_is_not_seen(subject)
    yield packed_equals_alone(subject)
