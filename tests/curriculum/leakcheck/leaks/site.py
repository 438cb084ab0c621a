"""An injected leak, the function of the product that it replaces, and its trial against REPACKED.

The model itself has no switch. A leaking function replaces the right one for the time of a proof; it is
given a `Site`, by which it reaches the right one and records that it ran. A leak whose function is gone
raises, and one whose function is never called proves nothing.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.leakcheck.our_training import our_training
from curriculum.leakcheck.packings import many_packings, packings
from curriculum.leakcheck.proof import CPU
from curriculum.leakcheck.proof_documents import many_documents, proof_documents
from curriculum.leakcheck.repacked import Disagreement, ProofSetting, disagreements
from curriculum.leakcheck.subject import one_thread
from curriculum.model.loss import LossSums
from curriculum.model.masks import Boundaries
from schemas.job import Backend, EngramSpec, MambaSpec, ModelSpec

R = TypeVar("R")

BATCH_STATISTICS = "statistics over the batch"
RUNNING_STATE = "a state carried to the next micro-batch"
RECOMPUTED = "blocks recomputed with other boundaries"
LONG_ROWS = "rows of more than 8,192 tokens"
MANY_DOCUMENTS = "more than 256 documents a row"
LONG_SCANS = "documents that reach the scan's second level"
LARGE_IDS = "ids beyond a small vocabulary"
SHORT_DOCUMENTS = "documents shorter than a kernel"
JOINED = "the loader joins documents"
SHIFTED_STRUCTURE = "structure columns shifted over a boundary"
LOSS_OF_THE_BATCH = "the loss depends on the batch"
SINKHORN_OF_THE_BATCH = "Sinkhorn depends on the batch"
GRADIENTS_OF_WEIGHTS = "gradients of weights not blanked at boundaries"


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """The settings at which a leak shows, as small as they can be."""

    blocks: str
    row_length: int = 256
    vocab_size: int = 97
    streams: int = 1
    structure: bool = False
    recompute: bool = False
    backend: Backend = "documents"
    chunk: int = 64
    """Positions of a chunk of the state-space scan."""


@dataclass(kw_only=True, slots=True)
class Site(Generic[R]):
    """The function that a leak stands in for, and how often the leaking code ran."""

    right: Callable[..., R]
    runs: int = field(default=0)

    def ran(self) -> None:
        """Record that the leak was reached under the settings that it needs."""
        self.runs += 1


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedLeak:
    """One way to leak, and the settings it needs."""

    words: str
    kind: str
    owner: Any
    """The module or class whose attribute `name` is replaced."""
    name: str
    leaking: Callable[..., Any]
    """Called with the site, then with what the right function is called with."""
    needs: Needs

    @contextlib.contextmanager
    def injected(self) -> Iterator[Site[Any]]:
        """The leak in place of the right function, for the time of the context.

        Raises:
            KeyError: where the owner has nothing of that name.
        """
        right = self.owner.__dict__[self.name]
        is_property = isinstance(right, property)
        site: Site[Any] = Site(right=right.fget if is_property else getattr(self.owner, self.name))

        def stand_in(*given: Any, **named: Any) -> Any:
            return self.leaking(site, *given, **named)

        # A static method takes the place of a static method, a property that of a property.
        kind = type(right)
        with swapped(
            self.owner,
            self.name,
            kind(stand_in) if kind in (staticmethod, property) else stand_in,
        ):
            yield site


def injected(
    words: str,
    *,
    kind: str,
    replaces: tuple[Any, str],
    needs: Needs,
) -> Callable[[Callable[..., Any]], InjectedLeak]:
    """Declare the decorated function a leak that replaces a module's or class's function of that name."""
    owner, name = replaces

    def declare(leaking: Callable[..., Any]) -> InjectedLeak:
        return InjectedLeak(
            words=words, kind=kind, owner=owner, name=name, leaking=leaking, needs=needs
        )

    return declare


@contextlib.contextmanager
def swapped(owner: Any, name: str, leaking: Any) -> Iterator[None]:
    """`leaking` in place of what a module or class has under that name, for the time of the context."""
    right = owner.__dict__[name]
    setattr(owner, name, leaking)
    try:
        yield
    finally:
        setattr(owner, name, right)


_KEPT: dict[int, tuple[Site[Any], dict[Any, Any]]] = {}


def memory_of(site: Site[Any]) -> dict[Any, Any]:
    """Return a leak's memory for the time of its injection, like a module global."""
    return _KEPT.setdefault(id(site), (site, {}))[1]


def joined(doc_ids_BT: Tensor, dropped_BT: Tensor) -> Tensor:
    """Ids without the boundaries at dropped positions: [[0 0 1 2]], [[0 0 0 1]] -> [[0 0 1 1]]."""
    begins_BT = F.pad(doc_ids_BT.diff(dim=1) != 0, (1, 0))
    return (begins_BT & ~dropped_BT).cumsum(1).int()


def one_document_a_row(boundaries: Boundaries) -> Boundaries:
    """The boundaries of the same rows, each of which is one document."""
    return Boundaries.from_doc_ids(torch.zeros_like(boundaries.doc_ids))


def lengths_around(boundaries: Boundaries) -> Tensor:
    """The length of the document of each position [B, T]."""
    lengths_S = boundaries.cu_seqlens.diff()
    return lengths_S.repeat_interleave(lengths_S).view_as(boundaries.doc_ids)


def in_backward(forward: Tensor, leak: Tensor) -> Tensor:
    """`forward` bit by bit, with the gradient of `forward + leak`."""
    return forward + (leak - leak.detach())


def scored_losses(
    x_BTD: Tensor, head_VD: Tensor, targets_BT: Tensor, mask_BT: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x_ND, nll_N and normaliser_N of the scored positions, with the gradients of autograd."""
    scored = mask_BT.bool()
    logits_NV = F.linear(x_BTD[scored], head_VD)
    normaliser_N = logits_NV.logsumexp(-1)
    nll_N = normaliser_N - logits_NV.gather(-1, targets_BT[scored].long()[:, None])[:, 0]
    return x_BTD[scored], nll_N, normaliser_N


def summed(nll_N: Tensor, normaliser_N: Tensor, z_weight: float) -> LossSums:
    """The sums over tokens whose losses a leak has changed."""
    z_N = normaliser_N.square()
    return LossSums(
        total=nll_N.sum() + z_weight * z_N.sum(), token_nll=nll_N.detach(), token_z=z_N.detach()
    )


def try_leak(leak: InjectedLeak) -> Disagreement | None:
    """Return what REPACKED says of a leak under the settings that it needs; None where it sees nothing.

    Raises:
        KeyError: where what the leak replaces is gone.
    """
    with leak.injected() as site:
        found = first_disagreement(leak.needs)
    return found if site.runs else None


@one_thread()
def first_disagreement(needs: Needs) -> Disagreement | None:
    """Return the first disagreement of packings under these settings, as the gate of a job proves them."""
    setting = ProofSetting(
        model=ModelSpec(
            name="planted",
            vocab_size=needs.vocab_size,
            blocks=needs.blocks,
            width=16,
            heads=1,
            kv_heads=1,
            mlp_width=24,
            streams=needs.streams,
            mamba=MambaSpec(state=8, head_width=8, expand=1, chunk=needs.chunk),
            engram=EngramSpec(orders=(2, 3), heads=2, slots=53, slot_width=8),
            structure=needs.structure,
        ),
        backend=needs.backend,
        recompute=needs.recompute,
        dtype=torch.float64,
        device=CPU,
    )
    length = needs.row_length
    few, many = proof_documents(setting.model, longest=length), many_documents(setting.model)
    for steps, ways in (
        (few, packings(few, length)),
        (many, many_packings(many)),
    ):
        for _, found in disagreements(setting, steps, ways, train=our_training):
            if found is not None:
                return found
    return None
