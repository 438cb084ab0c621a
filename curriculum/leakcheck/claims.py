"""Claims about a model alone: positions restart at documents, and no output depends on another document.

No output depends on a later token, either. The claim REPACKED about training is in repacked.py.

A change to other documents must not change a single bit of an output. That is possible because a masked
position adds 0·x to the output, which is exactly 0 for finite x.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from curriculum.leakcheck.subject import (
    SCALE,
    Feed,
    Subject,
    by_boundaries,
    doc_ids_of,
    embedding_of,
    numbers,
    spread_constant_weights,
)
from curriculum.model.masks import Boundaries
from schemas.errors import SchemaError
from schemas.leak import Finding

REPACKED = "the same documents, packed otherwise, train the same weights"
RECURRING = "recurring document ids are refused"
POSITIONS = "positions restart at each boundary"
READS_POSITIONS = "positions come from the boundaries"
REPEATS = "the same input gives the same output"
REACHES = "the perturbation reaches the perturbed"
OUTPUTS = "outputs of a document don't see others"
FUTURE = "outputs don't see the future"
FUTURE_GRADIENTS = "gradients on the future are exactly 0.0"
SCORES = "scores of others are exactly -inf, their probabilities 0.0"
MASS = "attention mass on others is exactly 0.0"

CAUSAL = frozenset({FUTURE, FUTURE_GRADIENTS})


def positions_restart(subject: Subject) -> Iterator[Finding]:
    """Yield the findings that position ids restart at each document, and that the model reads them."""
    yield _recurring_ids(subject)
    expected = [[at for length in lengths for at in range(length)] for lengths in subject.layouts]
    found = Boundaries.from_doc_ids(subject.doc_ids).position_ids
    yield subject.finding(POSITIONS, found.tolist() == expected)
    if subject.positions:
        yield _reads_positions(subject)


def _recurring_ids(subject: Subject) -> Finding:
    """Check that boundaries refuse a document id that recurs later in the row.

    A mask that compares ids would join the two documents with the same id.
    """
    try:
        Boundaries.from_doc_ids(torch.tensor([[0] * 100 + [1] * 100 + [0] * 56]))
    except SchemaError:
        return subject.finding(RECURRING, True)
    return subject.finding(RECURRING, False)


def _reads_positions(subject: Subject) -> Finding:
    """Check that multiplying the position ids by 3 changes the outputs.

    If the outputs stay the same, the model ignores the position ids and counts positions itself.
    """
    T = subject.row_length
    doc_ids_BT = doc_ids_of([(T // 3, T - T // 3)])
    ids_BT = subject.ids(doc_ids_BT.shape, seed=4).to(subject.device)
    boundaries = Boundaries.from_doc_ids(doc_ids_BT).to(subject.device)
    stretched = replace(boundaries, position_ids=boundaries.position_ids * 3)
    with torch.no_grad():
        plain = subject.feed(subject.model, ids_BT, boundaries)
        other = subject.feed(subject.model, ids_BT, stretched)
    return subject.finding(READS_POSITIONS, not torch.equal(plain, other))


def repeats(subject: Subject) -> Finding:
    """Check that two runs on the same input agree bit by bit; otherwise randomness would look like a leak."""
    doc_ids_BT = subject.doc_ids
    ids_BT = subject.ids(doc_ids_BT.shape, seed=0)
    with torch.no_grad():
        one, other = (subject.run(ids_BT, doc_ids_BT) for _ in range(2))
    return subject.finding(REPEATS, *_compared(one, other))


def others_are_not_seen(subject: Subject) -> Iterator[Finding]:
    """Yield one finding per claim that a document, the witness, isn't influenced by the rest of its row.

    Each document of each row is the witness in turn. The finding of a claim is the first one that fails, or
    the last one if none fails.
    """
    by_claim: dict[str, Finding] = {}
    for number in range(max(map(len, subject.layouts))):
        for finding in _findings_about(subject, number):
            known = by_claim.get(finding.claim)
            if known is None or known.passed:
                by_claim[finding.claim] = finding
    yield from by_claim.values()


def the_future_is_not_seen(subject: Subject, *, rounding: float = 0.0) -> Iterator[Finding]:
    """Yield findings that later tokens don't influence earlier outputs.

    The check changes the tokens in the second half of a document. Outputs before these tokens may differ by
    at most `rounding` times the largest output: the shape of an expert's matrix product depends on the number
    of its tokens, which affects rounding.
    """
    T = subject.row_length
    doc_ids_BT = doc_ids_of([(T // 4, T - T // 4)])
    before_BT = (torch.arange(T) < T // 2 + 2).expand_as(doc_ids_BT)
    ids_BT = subject.ids(doc_ids_BT.shape, seed=5)
    later_BT = torch.where(before_BT, ids_BT, subject.ids(doc_ids_BT.shape, seed=6))
    plain = observe(subject, ids_BT, doc_ids_BT, before_BT)
    changed = observe(subject, later_BT, doc_ids_BT, before_BT)
    moved = _compared(plain.outputs[before_BT], changed.outputs[before_BT], rounding)
    yield subject.finding(FUTURE, *moved)
    yield _zero_gradients(subject, FUTURE_GRADIENTS, (plain, changed), before_BT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """Outputs and embedding gradients of one forward and backward pass."""

    outputs: Tensor
    embeddings: Tensor
    """Gradients [B, T, D] of the embeddings."""


def observe(
    subject: Subject,
    ids_BT: Tensor,
    doc_ids_BT: Tensor,
    witness_BT: Tensor,
    scale_BT: Tensor | None = None,
) -> Observed:
    """Run the model forward and backward, with a loss on the positions in `witness_BT` only.

    `scale_BT` multiplies the embedding of each position.
    """
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
    )


def _findings_about(subject: Subject, number: int) -> Iterator[Finding]:
    """Yield the findings about one document of each row, the witness.

    It has the number `number` modulo the number of documents in the row. The last row has no witness.
    """
    doc_ids_BT = subject.doc_ids
    witness_BT = doc_ids_BT == torch.tensor([[number % len(layout)] for layout in subject.layouts])
    witness_BT[-1] = False
    ids_BT = subject.ids(doc_ids_BT.shape, seed=number)
    others_BT = subject.ids(doc_ids_BT.shape, seed=number + 100)
    scale_BT = torch.where(witness_BT, 1.0, SCALE)
    changed_BT = torch.where(witness_BT, ids_BT, others_BT)
    plain = observe(subject, ids_BT, doc_ids_BT, witness_BT)
    changed = observe(subject, changed_BT, doc_ids_BT, witness_BT, scale_BT)
    reached = not torch.equal(plain.outputs[~witness_BT], changed.outputs[~witness_BT])
    has_gradient = bool(plain.embeddings[witness_BT].abs().sum() > 0)
    yield subject.finding(REACHES, reached and has_gradient)
    outputs = _compared(plain.outputs[witness_BT], changed.outputs[witness_BT])
    yield subject.finding(OUTPUTS, *outputs)


def _compared(one: Tensor, other: Tensor, rounding: float = 0.0) -> tuple[bool, str]:
    """Return whether two tensors are equal up to `rounding`, and a description of their difference.

    Both `rounding` and the difference are relative to the largest absolute value in `one`.
    """
    if torch.equal(one, other) or bool((one - other).abs().max() <= rounding * one.abs().max()):
        return True, ""
    return False, f"by up to {share(one - other, one)} of the largest"


def share(part: Tensor, whole: Tensor) -> str:
    """Return max |part| / max |whole| as text: 1.2e-03."""
    return f"{float(part.abs().max()) / max(float(whole.abs().max()), 1e-300):.1e}"


def _zero_gradients(
    subject: Subject, claim: str, seen: Sequence[Observed], witness_BT: Tensor
) -> Finding:
    """Return the finding that gradients at positions outside `witness_BT` are exactly 0.0."""
    for observed in seen:
        elsewhere = observed.embeddings[~witness_BT]
        if bool((elsewhere != 0).any()):
            by = share(elsewhere, observed.embeddings[witness_BT])
            return subject.finding(claim, False, f"up to {by} of the largest")
    return subject.finding(claim, True)


ROW_LENGTH = 256


def subject_of(  # noqa: PLR0913 - each is a fact about the subject
    model: nn.Module,
    *,
    name: str,
    vocab_size: int,
    dtype: torch.dtype,
    device: torch.device | None = None,
    backend: str = "",
    feed: Feed = by_boundaries,
    multiple: int = 1,
    row_length: int = ROW_LENGTH,
    positions: bool = True,
) -> Subject:
    """Prepare a module for examination.

    It is converted, moved to its device and gets noise on constant weights.
    """
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
        row_length=row_length,
        multiple=multiple,
        positions=positions,
    )


def examine(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about a module whose forward takes ids and our Boundaries."""
    yield from positions_restart(subject)
    yield repeats(subject)
    yield from others_are_not_seen(subject)
    yield from the_future_is_not_seen(subject)
