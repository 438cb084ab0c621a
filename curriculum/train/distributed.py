"""Processes that train one job together: communication, and distribution of a step's rows.

Host values have a process group of their own (gloo), and so have checkpoints. If another thread used the
group of the gradients, its calls would mix with the gradients' calls. Values are sent as JSON and tensors
as safetensors, so that reading another rank's data runs no code.
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
MAX_IMBALANCE = 1.01
"""Maximum attention pairs of a rank relative to the mean of all ranks. Above it, ranks exchange rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRank:
    """Rank of a process among the processes that train a job."""

    rank: int = 0
    size: int = 1
    local: int = 0
    """Number of the process among those on its machine. It is also the number of its GPU."""
    meet: str = ENVIRONMENT
    """Address at which the ranks connect: the one that torchrun sets in the environment, or file:///…"""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> "ProcessRank":
        """Return the rank that torchrun set, or the rank of a single process."""
        return ProcessRank(
            rank=int(environment.get("RANK", "0")),
            size=int(environment.get("WORLD_SIZE", "1")),
            local=int(environment.get("LOCAL_RANK", "0")),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RankFailure:
    """CurriculumError in a form that ranks can send to each other."""

    kind: str
    """Name of the error's closest class in schemas.errors."""
    name: str
    value: str | None
    cause: str
    cure: str
    location: tuple[int | str, ...]

    @staticmethod
    def from_error(failed: CurriculumError) -> "RankFailure":
        """Return the parts of an error in the form that ranks can send."""
        return RankFailure(
            kind=next(kind.__name__ for kind in type(failed).__mro__ if kind in _KINDS.values()),
            name=failed.name,
            value=None if failed.value is None else str(failed.value),
            cause=failed.cause,
            cure=failed.cure,
            location=failed.location,
        )

    def error(self) -> CurriculumError:
        """Return the error. Its value has become text."""
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
    """Processes of a job, from the view of one of them.

    Every rank must make the same calls in the same order. With a single rank no call communicates.
    """

    rank: int = 0
    size: int = 1
    mesh: DeviceMesh | None = None
    """Mesh over which weights and Adam's moments are sharded. None for a single rank."""
    context: ContextRanks | None = None
    """Ranks that share rows with this rank. None if every rank has its own rows."""
    host: dist.ProcessGroup | None = None
    saving: dist.ProcessGroup | None = None
    """Process group that only the thread that writes checkpoints uses."""

    @property
    def leads(self) -> bool:
        """True for rank 0, which owns the run's directory."""
        return self.rank == 0

    @property
    def sharing(self) -> int:
        """Number of ranks that share a row."""
        return 1 if self.context is None else self.context.size

    @property
    def readers(self) -> int:
        """Number of groups of ranks that share rows. Every group reads its own micro-batches."""
        return self.size // self.sharing

    @property
    def reader(self) -> int:
        """Number of the group that this rank is in. The ranks of a group are consecutive."""
        return self.rank // self.sharing

    @property
    def counts(self) -> bool:
        """True for the one rank in each group that counts the group's rows."""
        return self.rank % self.sharing == 0

    def by_reader(self, value: T, kind: TypeAdapter[T]) -> list[T]:
        """Gather the value of one rank per group, in the order of the groups."""
        return self.gather(value, kind)[:: self.sharing]

    def gather(self, value: T, kind: TypeAdapter[T]) -> list[T]:
        """Gather the value of every rank, in the order of the ranks. `kind` converts values to JSON and back.

        Raises:
            JobError: if a rank sent a value of another type.
        """
        if self.size == 1:
            return [value]
        sent = json.dumps(kind.dump_python(value, mode="json")).encode()
        return self._parsed(self._bytes(sent), lambda data: kind.validate_python(json.loads(data)))

    def gather_tensors(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Gather the named tensors of every rank in host memory, in the order of the ranks.

        Raises:
            JobError: if a rank sent anything else.
        """
        if self.size == 1:
            return [tensors]
        # Imported late: only several ranks need safetensors, and benchmarks run on devices without it.
        from safetensors.torch import save

        return self._parsed(self._bytes(save(tensors)), _tensors)

    def total(self, values: Sequence[N]) -> list[N]:
        """Sum values over all ranks, in the order of the ranks. All ranks get identical bits."""
        columns = zip(*self.gather(list(values), _NUMBERS), strict=True)
        return [sum(column) for column in columns]

    def any(self, flag: bool) -> bool:
        """Return True if `flag` is True on at least one rank."""
        flags: list[bool] = self.gather(flag, FLAG)
        return any(flags)

    def run_together(self, make: Callable[[], T]) -> T:
        """Call `make` on every rank, and return this rank's value once all ranks have theirs.

        Raises:
            CurriculumError: on every rank, the error of the first failed rank.
        """
        if self.size == 1:
            return make()
        made: list[T] = []
        own = None
        try:
            made.append(make())
        except CurriculumError as failed:
            own = RankFailure.from_error(failed)
        for failure in self.gather(own, _FAILURE):
            if failure is not None:
                raise failure.error()
        return made[0]

    def run_on_first(self, do: Callable[[], object]) -> None:
        """Call `do` on rank 0 while the others wait. Its CurriculumError is raised on every rank."""
        self.run_together(lambda: do() if self.leads else None)

    def broadcast_first(self, make: Callable[[], T], kind: TypeAdapter[T]) -> T:
        """Call `make` on rank 0, and return its value on every rank.

        Its CurriculumError is raised on every rank.
        """
        made = self.run_together(lambda: [make()] if self.leads else [])
        if self.size == 1:
            return made[0]
        plain = [kind.dump_python(value, mode="json") for value in made]
        return kind.validate_python(self.gather(plain, _PLAIN)[0][0])

    def _bytes(self, data: bytes) -> list[bytes]:
        """Gather the bytes of every rank; `data` must not be empty."""
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
        """Parse the data of every rank."""
        parsed: list[T] = []
        for rank, data in enumerate(sent):
            try:
                parsed.append(parse(data))
            except (ValueError, RecursionError) as broken:
                raise JobError(
                    f"rank {rank}",
                    f"{len(data):,} bytes",
                    cause=f"rank {self.rank} expected a value of another type: {broken}",
                    cure="Train again with the same version on all ranks",
                ) from None
        return parsed


ALONE = Ranks()


def _tensors(data: bytes) -> dict[str, Tensor]:
    """Parse tensors that a rank sent; raise ValueError for anything else."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except SafetensorError as broken:
        raise ValueError(str(broken)) from broken


@contextlib.contextmanager
def join_ranks(
    place: ProcessRank, device: Literal["cpu", "cuda"], sharing: int = 1
) -> Iterator[Ranks]:
    """Connect this process with the other ranks. A single process doesn't connect.

    `sharing` is the number of consecutive ranks that share rows.
    """
    if place.size == 1:
        yield ALONE
        return
    # If a GPU is missing, the ranks still connect, so that they end with one error.
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
    # Skipped after an error: other ranks may still wait in a call for the failed rank.
    dist.destroy_process_group()


def _context(place: ProcessRank, sharing: int) -> ContextRanks | None:
    """Return the ranks that share rows with this rank. Every rank creates the groups of all ranks.

    A number of processes that `sharing` doesn't divide is refused elsewhere, later.
    """
    if sharing == 1 or place.size % sharing:
        return None
    groups = [
        dist.new_group(list(range(first, first + sharing)))
        for first in range(0, place.size, sharing)
    ]
    return ContextRanks(
        rank=place.rank % sharing, size=sharing, group=groups[place.rank // sharing]
    )


def exit_rank(code: int) -> NoReturn:
    """End a rank's process immediately after its work, without Python's shutdown.

    During the shutdown, a gloo thread that releases a value would abort the process.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def deal(row_lengths: Int64s, attention_pairs: Int64s, ranks: int) -> Int64s:
    """Distribute the rows of a step to ranks; return the rank of each row.

    All ranks get equally many rows of each length, or one more. First, the rows of a length are dealt to the
    ranks in turn, forwards and backwards, those with the most attention pairs first. Then the rank with the
    most pairs exchanges rows with others while this lowers the maximum. Example for two ranks and rows of one
    length: pairs [9 1 5 4 2] -> ranks [0 0 1 1 0] with 12 and 9 pairs. A single row may have more pairs than
    all other rows can balance.
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
    """Exchange two rows between the rank with the most pairs and another rank, to lower the maximum.

    Return False if no exchange helps.
    """
    load = np.bincount(rank, weights=pairs, minlength=ranks).astype(np.int64)
    heaviest = int(load.argmax())
    if load[heaviest] <= MAX_IMBALANCE * load.mean():
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
    """Return the distinct row lengths, the longest first."""
    return sorted(set(row_lengths.tolist()), reverse=True)
