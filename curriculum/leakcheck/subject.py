"""Subject of an examination: a module, the function that runs it, and document lengths that expose leaks."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.utils.deterministic
from torch import Tensor, nn

from curriculum.model.hyper_connections import HyperConnection
from curriculum.model.masks import BLOCK, Boundaries
from schemas.errors import JobError
from schemas.leak import Finding

Layout = tuple[int, ...]

CHUNK = 64


def layouts(row_length: int) -> tuple[Layout, ...]:
    """Return the document lengths of several rows of `row_length` tokens.

    The last document of a row often serves as padding. Boundaries lie at multiples of 128 (blocks) and 64
    (chunks), and one token before and after them. Some documents have 1, 2 and 3 tokens, and one fills its
    row. 256 -> (127 1 128), (64 64 64 64), (63 66 62 65), …
    """
    T = row_length
    cuts = (
        (BLOCK - 1, BLOCK, T - BLOCK),
        (CHUNK, BLOCK, BLOCK + CHUNK, T - CHUNK),
        (CHUNK - 1, BLOCK + 1, T - BLOCK + 1, T - CHUNK - 1),
        (CHUNK + 1, BLOCK + 2, T - BLOCK - 1, T - CHUNK + 1),
        (1, 3, 6, T // 2, T - 1),
        (),
        (T // 7, T // 2, T * 5 // 6, T - 2),
        (T * 2 // 5, T * 3 // 5),
    )
    return tuple(_cut_at(cut, T) for cut in cuts)


def _cut_at(cuts: Sequence[int], row_length: int) -> Layout:
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < row_length}), row_length]
    return tuple(end - start for start, end in itertools.pairwise(edges))


def doc_ids_of(layouts: Sequence[Sequence[int]]) -> Tensor:
    """Return document ids [rows, T] from the lengths of documents: (2, 1), (3,) -> [[0 0 1] [0 0 0]]."""
    rows = [
        torch.arange(len(lengths), dtype=torch.int32).repeat_interleave(torch.tensor(lengths))
        for lengths in layouts
    ]
    return torch.stack(rows)


Feed = Callable[[nn.Module, Tensor, Boundaries], Tensor]
"""Function that runs a module on ids [B, T] and boundaries. Its output is B·T vectors in any shape."""

SCALE = 50.0
"""Factor for the embeddings of positions that must not affect the examined document."""
MIXING = ((0.2, 5.0), (0.05, 3.0))
"""Pairs of factors for the static and dynamic logits of residual streams; layers use the pairs in turn."""
SPREAD = 0.1
"""Standard deviation of the noise that is added to constant weights, since zeros would hide leaks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Module in one dtype, and rows of one length on which it is examined."""

    name: str
    backend: str
    model: nn.Module
    embedding: nn.Embedding
    vocab_size: int
    dtype: torch.dtype
    device: torch.device
    feed: Feed
    row_length: int
    multiple: int
    """Number that every row length must be a multiple of."""
    positions: bool
    """True if the model reads the position ids of the boundaries."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Document lengths of the examined rows."""
        return layouts(self.row_length)

    @property
    def doc_ids(self) -> Tensor:
        """Document ids of the examined rows."""
        return doc_ids_of(self.layouts)

    def ids(self, shape: Sequence[int], *, seed: int) -> Tensor:
        """Return random token ids."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(self.vocab_size, tuple(shape), generator=generator)

    def run(self, ids_BT: Tensor, doc_ids_BT: Tensor) -> Tensor:
        """Return the outputs [B, T, C] for rows of `ids_BT` whose documents are numbered in `doc_ids_BT`."""
        outputs = self.feed(
            self.model, ids_BT.to(self.device), Boundaries.from_doc_ids(doc_ids_BT).to(self.device)
        )
        return outputs.reshape(*ids_BT.shape, -1)

    def finding(self, claim: str, passed: bool, detail: str = "") -> Finding:
        """Return a finding about this subject."""
        return Finding(
            subject=self.name,
            backend=self.backend,
            dtype=dtype_name(self.dtype),
            row_length=self.row_length,
            claim=claim,
            passed=passed,
            detail=detail,
        )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread inside the block, which is faster than several for tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def same_bits(device: torch.device) -> Iterator[None]:
    """Make CPU computations deterministic inside the block, like training jobs do. GPUs are not affected."""
    if device.type != "cpu":
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without its prefix: torch.float32 -> float32."""
    return str(dtype).removeprefix("torch.")


def numbers(shape: Sequence[int], *, seed: int) -> Tensor:
    """Return random numbers from a normal distribution in float32."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed))


def by_boundaries(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
    """Run a module that takes ids and boundaries."""
    outputs: Tensor = model(ids_BT, boundaries)
    return outputs


@torch.no_grad()
def spread_constant_weights(model: nn.Module) -> nn.Module:
    """Add noise to constant weights in place, since a table of zeros would hide leaks; return the module.

    The ones of a norm and the zeros of a bias change as well. The weights of residual streams are scaled, so
    that streams mix more and differently by token. Then Sinkhorn's iteration converges early for some tokens.
    The module is put into evaluation mode.
    """
    for number, weight in enumerate(model.parameters()):
        if weight.is_floating_point() and weight.numel() and weight.amin() == weight.amax():
            weight.add_(SPREAD * numbers(weight.shape, seed=number).to(weight))
    connections = [module for module in model.modules() if isinstance(module, HyperConnection)]
    for connection, (static, dynamic) in zip(connections, itertools.cycle(MIXING), strict=False):
        connection.static_E.mul_(static)
        connection.gains_3.mul_(dynamic)
    return model.eval()


def embedding_of(
    name: str, model: nn.Module, feed: Feed, device: torch.device, multiple: int = 1
) -> nn.Embedding:
    """Return the nn.Embedding that embeds the model's input ids.

    Raises:
        JobError: if the module has none.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    least = min((table.num_embeddings for table in tables), default=1)
    ids_1T = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6], device=device).repeat(multiple)[None] % least
    given: list[nn.Embedding] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(module, nn.Embedding) and torch.equal(inputs[0].flatten(), ids_1T[0]):
            given.append(module)

    if tables:
        hooks = [table.register_forward_pre_hook(note) for table in tables]
        doc_ids_1T = torch.arange(ids_1T.shape[1])[None] // 5
        boundaries = Boundaries.from_doc_ids(doc_ids_1T).to(device)
        with torch.no_grad():
            feed(model, ids_1T, boundaries)
        for hook in hooks:
            hook.remove()
    if given:
        return given[0]
    raise JobError(
        name,
        type(model).__name__,
        cause="no nn.Embedding turns its ids into vectors, so they can't be perturbed",
        cure="Give a module that embeds ids with nn.Embedding",
    )
