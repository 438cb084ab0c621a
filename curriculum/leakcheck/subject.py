"""Subject of an examination: a module, how it is fed, and document lengths at which leaks hide."""

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
    """Lengths of documents in rows of that length, the last often read as padding.

    Boundaries stand at edges of blocks (128) and of chunks (64) and one beside them, documents have 1, 2
    and 3 tokens, one fills its row. 256 -> (127 1 128), (64 64 64 64), (63 66 62 65), …
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
    """Ids of rows from the lengths of their documents: (2, 1), (3,) -> [[0 0 1] [0 0 0]]."""
    rows = [
        torch.arange(len(lengths), dtype=torch.int32).repeat_interleave(torch.tensor(lengths))
        for lengths in layouts
    ]
    return torch.stack(rows)


Feed = Callable[[nn.Module, Tensor, Boundaries], Tensor]
"""Runs a module on ids [B, T] and boundaries; the output has B·T vectors, in rows or laid end to end."""

SCALE = 50.0
"""The factor of embeddings at positions that must leave no trace."""
MIXING = ((0.2, 5.0), (0.05, 3.0))
"""Factors of the static and dynamic logits of streams, layer by layer in turn."""
SPREAD = 0.1
"""Spread of what is added to weights that are all alike, such as zeros, which let nothing through."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A module in one dtype, and rows of one length to examine it on."""

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
    """Row lengths that the model takes."""
    positions: bool
    """True if it rotates by the positions of its boundaries."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The rows it is examined on."""
        return layouts(self.row_length)

    @property
    def doc_ids(self) -> Tensor:
        """Ids of the documents of these rows."""
        return doc_ids_of(self.layouts)

    def ids(self, shape: Sequence[int], *, seed: int) -> Tensor:
        """Ids by chance."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(self.vocab_size, tuple(shape), generator=generator)

    def run(self, ids_BT: Tensor, doc_ids_BT: Tensor) -> Tensor:
        """y_BTC of rows whose documents have these ids."""
        outputs = self.feed(
            self.model, ids_BT.to(self.device), Boundaries.from_doc_ids(doc_ids_BT).to(self.device)
        )
        return outputs.reshape(*ids_BT.shape, -1)

    def finding(self, claim: str, passed: bool, detail: str = "") -> Finding:
        """A finding about this subject."""
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
    """Tensors this small are computed faster by one thread than by several that wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def same_bits(device: torch.device) -> Iterator[None]:
    """Let a CPU compute the same bits every time, as a training job does; a GPU computes as it would."""
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
    """torch.float32 -> float32."""
    return str(dtype).removeprefix("torch.")


def numbers(shape: Sequence[int], *, seed: int) -> Tensor:
    """Normal numbers by chance, in float32."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed))


def by_boundaries(model: nn.Module, ids_BT: Tensor, boundaries: Boundaries) -> Tensor:
    """Feed a module that takes ids and boundaries."""
    outputs: Tensor = model(ids_BT, boundaries)
    return outputs


@torch.no_grad()
def spread_constant_weights(model: nn.Module) -> nn.Module:
    """The module, its weights that are all alike spread a little: a table of zeros hides what it would leak.

    Ones of a norm and zeros of a bias are moved as well. Streams mix more than fresh ones do, by token, so
    that Sinkhorn converges early for some tokens. Chance is turned off.
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
    """The nn.Embedding that turns ids into vectors: the one that is given what the model is given.

    Raises:
        JobError: for a module without one.
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
