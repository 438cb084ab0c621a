"""The processes that train one job together, and how they share the rows of a step.

Values of the host go over a gloo group of their own, checkpoints over another: on the group of the
gradients they would get between its calls, from another thread. Values travel as JSON, tensors as
safetensors: reading what a rank sent runs nothing.
"""

import atexit
import contextlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from pydantic import TypeAdapter
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from curriculum.model.masks import ContextRanks
from schemas import errors
from schemas.errors import CurriculumError, JobError

T = TypeVar("T")
N = TypeVar("N", int, float)
ENVIRONMENT = "env://"
Int64s = npt.NDArray[np.int64]
EVEN = 1.01
"""The most attention pairs of a rank ÷ their mean at which rows are exchanged no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRank:
    """Rank of a process among those that train a job."""

    rank: int = 0
    size: int = 1
    local: int = 0
    """Among those of its machine: the number of its GPU."""
    meet: str = ENVIRONMENT
    """Address at which they meet: as torchrun sets it in the environment, or file:///…"""

    @staticmethod
    def of(environment: Mapping[str, str]) -> "ProcessRank":
        """The place that torchrun gave, or that of a process alone."""
        return ProcessRank(
            rank=int(environment.get("RANK", "0")),
            size=int(environment.get("WORLD_SIZE", "1")),
            local=int(environment.get("LOCAL_RANK", "0")),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RankFailure:
    """A CurriculumError as it travels between ranks."""

    kind: str
    """Name of the closest class in schemas.errors."""
    name: str
    value: str | None
    cause: str
    cure: str
    location: tuple[int | str, ...]

    @staticmethod
    def of(failed: CurriculumError) -> "RankFailure":
        """Return the parts of an error."""
        return RankFailure(
            kind=next(kind.__name__ for kind in type(failed).__mro__ if kind in _KINDS.values()),
            name=failed.name,
            value=None if failed.value is None else str(failed.value),
            cause=failed.cause,
            cure=failed.cure,
            location=failed.location,
        )

    def error(self) -> CurriculumError:
        """Return the error, with its value as text."""
        return _KINDS.get(self.kind, CurriculumError)(
            self.name, self.value, cause=self.cause, cure=self.cure, location=self.location
        )


_KINDS = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, CurriculumError)
}
_FAILURE = TypeAdapter[RankFailure | None](RankFailure | None)
_NUMBERS = TypeAdapter[list[Any]](list[int | float])
_PLAIN = TypeAdapter[list[Any]](list[Any])
FLAG = TypeAdapter(bool)
PATH = TypeAdapter(Path)
PATH_OR_NONE = TypeAdapter[Path | None](Path | None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """The processes of a job as one of them sees them.

    Every rank makes the same calls in the same order; each is a no-op where there is one rank.
    """

    rank: int = 0
    size: int = 1
    mesh: DeviceMesh | None = None
    """Over which weights and moments are sharded; None alone."""
    context: ContextRanks | None = None
    """The ranks that share the rows of this one; None where each has rows of its own."""
    host: dist.ProcessGroup | None = None
    saving: dist.ProcessGroup | None = None
    """Group of the thread that writes checkpoints."""

    @property
    def leads(self) -> bool:
        """Return True if this is the rank that owns the directory."""
        return self.rank == 0

    @property
    def sharing(self) -> int:
        """Ranks that share a row."""
        return 1 if self.context is None else self.context.size

    @property
    def readers(self) -> int:
        """Groups of ranks that share rows: each reads micro-batches of its own."""
        return self.size // self.sharing

    @property
    def reader(self) -> int:
        """The group of this rank, whose ranks are neighbours."""
        return self.rank // self.sharing

    @property
    def counts(self) -> bool:
        """Return True if this rank counts the rows of its group."""
        return self.rank % self.sharing == 0

    def by_reader(self, value: T, kind: TypeAdapter[T]) -> list[T]:
        """Return the value of one rank of each group, in their order."""
        return self.gathered(value, kind)[:: self.sharing]

    def gathered(self, value: T, kind: TypeAdapter[T]) -> list[T]:
        """Return the value of each rank, in the order of ranks; `kind` writes and reads it as JSON.

        Raises:
            JobError: for a rank that sent anything else.
        """
        if self.size == 1:
            return [value]
        sent = json.dumps(kind.dump_python(value, mode="json")).encode()
        return self._parsed(self._bytes(sent), lambda data: kind.validate_python(json.loads(data)))

    def gathered_tensors(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Return the named tensors of each rank, in the order of ranks, on the host.

        Raises:
            JobError: for a rank that sent anything else.
        """
        if self.size == 1:
            return [tensors]
        # Ranks alone need safetensors, which a measurement on a bare device does without.
        from safetensors.torch import save

        return self._parsed(self._bytes(save(tensors)), _tensors)

    def total(self, values: Sequence[N]) -> list[N]:
        """Sums over ranks, in the order of ranks: the same on each, bit by bit."""
        columns = zip(*self.gathered(list(values), _NUMBERS), strict=True)
        return [sum(column) for column in columns]

    def any(self, flag: bool) -> bool:
        """Return True if any rank says so."""
        flags: list[bool] = self.gathered(flag, FLAG)
        return any(flags)

    def together(self, make: Callable[[], T]) -> T:
        """Return this rank's own value, once every rank has made its own.

        Raises:
            CurriculumError: on every rank, the first rank's, where any rank's was raised.
        """
        if self.size == 1:
            return make()
        made: list[T] = []
        own = None
        try:
            made.append(make())
        except CurriculumError as failed:
            own = RankFailure.of(failed)
        for failure in self.gathered(own, _FAILURE):
            if failure is not None:
                raise failure.error()
        return made[0]

    def on_first(self, do: Callable[[], object]) -> None:
        """Run a function on rank 0 while the others wait; its CurriculumError is raised on every rank."""
        self.together(lambda: do() if self.leads else None)

    def from_first(self, make: Callable[[], T], kind: TypeAdapter[T]) -> T:
        """Return the value of rank 0 on every rank; its CurriculumError is raised on every rank."""
        made = self.together(lambda: [make()] if self.leads else [])
        if self.size == 1:
            return made[0]
        plain = [kind.dump_python(value, mode="json") for value in made]
        return kind.validate_python(self.gathered(plain, _PLAIN)[0][0])

    def _bytes(self, data: bytes) -> list[bytes]:
        """Return the bytes of each rank; `data` isn't empty."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(data)]), group=self.host)
        lengths = [int(size) for size in sizes]
        padded = torch.frombuffer(bytearray(data.ljust(max(lengths))), dtype=torch.uint8)
        parts = [torch.empty_like(padded) for _ in lengths]
        dist.all_gather(parts, padded, group=self.host)
        return [
            part[:length].numpy().tobytes() for part, length in zip(parts, lengths, strict=True)
        ]

    def _parsed(self, sent: Sequence[bytes], parse: Callable[[bytes], T]) -> list[T]:
        """Return what each rank sent, parsed."""
        parsed: list[T] = []
        for rank, data in enumerate(sent):
            try:
                parsed.append(parse(data))
            except (ValueError, RecursionError) as broken:
                raise JobError(
                    f"rank {rank}",
                    f"{len(data):,} bytes",
                    cause=f"rank {self.rank} expected another value: {broken}",
                    cure="Train again, and let all ranks run the same version",
                ) from None
        return parsed


ALONE = Ranks()


def _tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors that a rank sent; ValueError for anything else."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except SafetensorError as broken:
        raise ValueError(str(broken)) from broken


@contextlib.contextmanager
def joined(place: ProcessRank, device: Literal["cpu", "cuda"], sharing: int = 1) -> Iterator[Ranks]:
    """Meet the other ranks, of which `sharing` neighbours each share rows; alone, nothing happens."""
    if place.size == 1:
        yield ALONE
        return
    # Where a GPU lacks, the ranks meet all the same, to end with one error.
    on_gpu = device == "cuda" and place.local < torch.cuda.device_count()
    if on_gpu:
        torch.cuda.set_device(place.local)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=place.meet,
        rank=place.rank,
        world_size=place.size,
    )
    yield Ranks(
        rank=place.rank,
        size=place.size,
        mesh=init_device_mesh("cuda" if on_gpu else "cpu", (place.size,)),
        context=_context(place, sharing),
        host=dist.new_group(backend="gloo"),
        saving=dist.new_group(backend="gloo"),
    )
    # Not after an error: where one rank failed, the others may be waiting for it in a call.
    dist.destroy_process_group()


def _context(place: ProcessRank, sharing: int) -> ContextRanks | None:
    """The group of this rank; every rank makes all groups. A number that doesn't divide is refused later."""
    if sharing == 1 or place.size % sharing:
        return None
    groups = [
        dist.new_group(list(range(first, first + sharing)))
        for first in range(0, place.size, sharing)
    ]
    return ContextRanks(
        rank=place.rank % sharing, size=sharing, group=groups[place.rank // sharing]
    )


def leave(code: int) -> NoReturn:
    """End a rank's process at once when its work is done.

    While Python is taken down, a thread of gloo that still lets go of a value aborts the process.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def deal(row_lengths: Int64s, attention_pairs: Int64s, ranks: int) -> Int64s:
    """The rank that computes each row of a step: of each length as many rows a rank, or one more.

    Rows of a length are dealt there and back, those with the most attention pairs first; then the rank with
    the most pairs exchanges rows as long as that helps. Two ranks, rows of one length, pairs [9 1 5 4 2] ->
    [0 0 1 1 0], 12 pairs and 9. What remains uneven is a row with more pairs than others together can match.
    """
    rank = np.zeros(len(row_lengths), dtype=np.int64)
    if ranks == 1:
        return rank
    there_and_back = np.concatenate([np.arange(ranks), np.arange(ranks)[::-1]])
    for length in descending(row_lengths):
        same = np.flatnonzero(row_lengths == length)
        order = same[np.argsort(-attention_pairs[same], kind="stable")]
        rank[order] = np.resize(there_and_back, len(order))
    while _exchange(rank, row_lengths, attention_pairs, ranks):
        pass
    return rank


def _exchange(rank: Int64s, row_lengths: Int64s, pairs: Int64s, ranks: int) -> bool:
    """Exchange the row of the rank with the most pairs, and of another, that leaves the least; or nothing."""
    load = np.bincount(rank, weights=pairs, minlength=ranks).astype(np.int64)
    heaviest = int(load.argmax())
    if load[heaviest] <= EVEN * load.mean():
        return False
    mine, others = np.flatnonzero(rank == heaviest), np.flatnonzero(rank != heaviest)
    given = pairs[mine][:, None] - pairs[others][None, :]
    after = np.maximum(load[heaviest] - given, load[rank[others]][None, :] + given)
    after[row_lengths[mine][:, None] != row_lengths[others][None, :]] = load[heaviest]
    if not after.size or after.min() >= load[heaviest]:
        return False
    one, other = np.unravel_index(int(after.argmin()), after.shape)
    rank[mine[one]], rank[others[other]] = rank[others[other]], heaviest
    return True


def descending(row_lengths: Int64s) -> list[int]:
    """The lengths that there are, the longest first."""
    return sorted(set(row_lengths.tolist()), reverse=True)
