"""Everything outside one document is changed – other ids, embeddings × 50 – and it must not notice.

A position that is masked adds 0·x, which is exact for finite x, so there is no tolerance to hide in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from curriculum.leakcheck import claims
from curriculum.leakcheck.layouts import doc_ids_of
from curriculum.leakcheck.packed import TOLERANCE
from curriculum.leakcheck.subject import Subject, numbers
from schemas.leak import Finding

LOUDER = 50.0


def others_are_not_seen(subject: Subject) -> Iterator[Finding]:
    """Findings about each document of each row as the witness, a document a row at a time."""
    rounds = [list(_round(subject, number)) for number in range(max(map(len, subject.layouts)))]
    yield from _merged(rounds)


def the_future_is_not_seen(subject: Subject) -> Iterator[Finding]:
    """Tokens after the middle of a document are changed; those before must not notice."""
    T = subject.row_length
    doc_ids_BT = doc_ids_of([(T // 4, T - T // 4)])
    before_BT = (torch.arange(T) < T // 2 + 2).expand_as(doc_ids_BT)
    ids_BT = subject.ids(doc_ids_BT.shape, seed=5)
    later_BT = torch.where(before_BT, ids_BT, subject.ids(doc_ids_BT.shape, seed=6))
    calm = observe(subject, ids_BT, doc_ids_BT, before_BT)
    loud = observe(subject, later_BT, doc_ids_BT, before_BT)
    moved = _apart(calm.outputs[before_BT], loud.outputs[before_BT])
    yield subject.finding(claims.FUTURE, *moved)
    yield _zeros(subject, claims.FUTURE_GRADIENTS, (calm, loud), before_BT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What a forward and backward pass showed; gradients by parameter in `weights`."""

    outputs: Tensor
    embeddings: Tensor
    """Gradients [B, T, D] of the embeddings."""
    weights: tuple[Tensor | None, ...]


def observe(
    subject: Subject,
    ids_BT: Tensor,
    doc_ids_BT: Tensor,
    witness_BT: Tensor,
    loudness_BT: Tensor | None = None,
) -> Observed:
    """Run the model with embeddings scaled by `loudness_BT`, and a loss on the witnesses alone."""
    embedded: list[Tensor] = []

    def _louder(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        scaled = output * 1.0
        if loudness_BT is not None:
            scaled = output * loudness_BT.to(output).view(*output.shape[:-1], 1)
        scaled.retain_grad()
        embedded.append(scaled)
        return scaled

    subject.model.zero_grad()
    with subject.embedding.register_forward_hook(_louder):
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


def _round(subject: Subject, number: int) -> Iterator[Finding]:
    """The witnesses are document `number`, counted round, of each row but the last, which has none."""
    doc_ids_BT = subject.doc_ids
    witness_BT = doc_ids_BT == torch.tensor([[number % len(each)] for each in subject.layouts])
    witness_BT[-1] = False
    ids_BT = subject.ids(doc_ids_BT.shape, seed=number)
    others_BT = subject.ids(doc_ids_BT.shape, seed=number + 100)
    loudness_BT = torch.where(witness_BT, 1.0, LOUDER)
    changed_BT = torch.where(witness_BT, ids_BT, others_BT)
    calm = observe(subject, ids_BT, doc_ids_BT, witness_BT)
    loud = observe(subject, changed_BT, doc_ids_BT, witness_BT, loudness_BT)
    if number == 0:
        again = subject.run(ids_BT, doc_ids_BT).detach()
        yield subject.finding(claims.REPEATS, *_apart(calm.outputs, again))
    reached = not torch.equal(calm.outputs[~witness_BT], loud.outputs[~witness_BT])
    heard = bool(calm.embeddings[witness_BT].abs().sum() > 0)
    yield subject.finding(claims.REACHES, reached and heard)
    seen = _apart(calm.outputs[witness_BT], loud.outputs[witness_BT])
    yield subject.finding(claims.OUTPUTS, *seen)
    felt = _apart(calm.embeddings[witness_BT], loud.embeddings[witness_BT])
    yield subject.finding(claims.EMBEDDING_GRADIENTS, *felt)
    yield _zeros(subject, claims.FOREIGN_GRADIENTS, (calm, loud), witness_BT)
    yield _weights(subject, calm, loud)


def _apart(one: Tensor, other: Tensor) -> tuple[bool, str]:
    """Compare bitwise; where they differ, the difference as a share of the largest value."""
    if torch.equal(one, other):
        return True, ""
    return False, f"by up to {share(one - other, one)} of the largest"


def share(part: Tensor, whole: Tensor) -> str:
    """The largest of a part over the largest of the whole: 1.2e-03."""
    return f"{float(part.abs().max()) / max(float(whole.abs().max()), 1e-300):.1e}"


def _zeros(subject: Subject, claim: str, seen: Sequence[Observed], witness_BT: Tensor) -> Finding:
    """A finding that gradients outside the witnesses are 0.0."""
    for each in seen:
        elsewhere = each.embeddings[~witness_BT]
        if bool((elsewhere != 0).any()):
            by = share(elsewhere, each.embeddings[witness_BT])
            return subject.finding(claim, False, f"up to {by} of the largest")
    return subject.finding(claim, True)


def _weights(subject: Subject, calm: Observed, loud: Observed) -> Finding:
    """A finding about all weights; one that a pass didn't use has a gradient of 0.

    On GPUs rounding is allowed: there the order in which a table's gradients are added up goes by all ids.
    """
    rounding = TOLERANCE[subject.dtype] if subject.device.type == "cuda" else 0.0
    names = [name for name, _ in subject.model.named_parameters()]
    unequal = [
        name
        for name, one, other in zip(names, calm.weights, loud.weights, strict=True)
        if not _same(one, other, rounding)
    ]
    detail = f"{len(unequal)} of {len(names)} differ, {unequal[0]} first" if unequal else ""
    return subject.finding(claims.WEIGHT_GRADIENTS, not unequal, detail)


def _same(one: Tensor | None, other: Tensor | None, rounding: float) -> bool:
    if one is None or other is None:
        used = one if other is None else other
        return used is None or not bool(used.any())
    if rounding:
        return bool((one - other).abs().max() <= rounding * one.abs().max())
    return torch.equal(one, other)


def _merged(rounds: Sequence[Sequence[Finding]]) -> Iterator[Finding]:
    """One finding a claim: the first that fails, else the last."""
    by_claim: dict[str, Finding] = {}
    for finding in (each for found in rounds for each in found):
        known = by_claim.get(finding.claim)
        if known is None or known.passed:
            by_claim[finding.claim] = finding
    yield from by_claim.values()
