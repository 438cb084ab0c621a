"""Checkpoints in parts, one a rank: torch's distributed checkpoint over safetensors and an index in JSON.

    shards/rank-00000.safetensors  rank-00001.safetensors …  index.json

Any number of ranks reads them. torch's own storage keeps its index as a pickle, which runs code when it is
read; this one holds tensors and JSON only, as the portable form does.

torch's HuggingFaceStorageWriter and Reader aren't used: their parts have no index, so without the file of
the first rank a load succeeds and leaves its rows as they were. They serialise a part in memory, too.
"""

import itertools
import re
import warnings
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import Field
from safetensors import safe_open
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future as TorchFuture

from curriculum.train.checkpoint_files import INDEX, damaged, read_part
from curriculum.train.distributed import Ranks
from curriculum.train.optimizer import TrainState, generators, tensors
from curriculum.train.tensor_file import head, write_tensors
from curriculum.whole_files import write_whole
from schemas.text import Strict

Size = Annotated[int, Field(ge=0)]
Kind = Literal["float32", "bfloat16", "float16", "float64", "uint8"]
_FILE = re.compile(r"rank-\d{5}\.safetensors")
_RAISED = "torch.distributed is disabled"


class TensorRows(Strict):
    """Whole rows of a tensor, in the file of the rank that had them."""

    file: str
    offsets: tuple[Size, ...]
    sizes: tuple[Size, ...]


class ShardedTensor(Strict):
    """A tensor that is written in chunks."""

    name: str
    kind: Kind
    shape: tuple[Size, ...]
    chunks: tuple[TensorRows, ...]
    """Chunks in the order of their rows."""


class ShardIndex(Strict):
    """index.json: which tensors were written, and where their chunks lie."""

    tensors: tuple[ShardedTensor, ...]


def start(folder: Path, train_state: TrainState) -> "Future[object]":
    """Copy, then write in a thread of its own and over a process group of its own.

    The result comes when the parts of all ranks and the index are written.
    """
    parts = dict(tensors(train_state)) | generators(train_state)
    # Tensors on a GPU are copied to the host anyway; those of the host must not change under the writer.
    taken = {name: each if each.is_cuda else each.detach().clone() for name, each in parts.items()}
    writing = async_save(
        taken, storage_writer=_Writer(folder), process_group=train_state.ranks.saving
    )
    assert isinstance(writing, Future)
    return writing


def tensors_in(folder: Path) -> dict[str, ShardedTensor]:
    """The tensors that were written, by name; each is held against the heads of the files.

    Raises:
        JobError: for an index that can't be read, and for chunks that overlap, leave gaps, or aren't in
            the files in these sizes.
    """
    index = read_part(ShardIndex, folder.parent, f"{folder.name}/{INDEX}")
    strange = {c.file for each in index.tensors for c in each.chunks if not _FILE.fullmatch(c.file)}
    if strange:
        raise damaged(folder / INDEX, f"{min(strange)!r} is no file of a rank")
    heads = {
        name: head(folder / name)
        for name in {chunk.file for each in index.tensors for chunk in each.chunks}
    }
    for each in index.tensors:
        if not _is_whole(each) or any(
            heads[chunk.file].get(_key(each.name, chunk.offsets)) != (chunk.sizes, each.kind)
            for chunk in each.chunks
        ):
            raise damaged(folder / INDEX, f"tensor {each.name!r} isn't in the files as it says")
    return {tensor.name: tensor for tensor in index.tensors}


def fill(folder: Path, wanted: dict[str, Tensor], ranks: Ranks) -> None:
    """Read into tensors in place, each rank its part of those that are sharded."""
    with warnings.catch_warnings():
        # One rank alone reads what several wrote; that is meant.
        warnings.filterwarnings("ignore", _RAISED)
        load(
            dict(wanted),
            storage_reader=_Reader(folder),
            process_group=ranks.host,
            no_dist=ranks.size == 1,
        )


class _Writer(StorageWriter):
    """Writes the chunks of each rank to a file, and the index on the rank that coordinates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reset(self, checkpoint_id: object = None) -> None:
        """Keep the folder: a writer is used once."""

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """Make the folder, on every rank: whoever comes first."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Name the file of each rank."""
        return [
            replace(plan, storage_data=f"rank-{rank:05d}.safetensors")
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> TorchFuture[list[WriteResult]]:
        """Write this rank's chunks, each under its tensor's name and its offsets."""
        parts: dict[str, Tensor] = {}
        results: list[WriteResult] = []
        for item in plan.items:
            part = planner.resolve_data(item)
            assert isinstance(part, Tensor)
            parts[_key(item.index.fqn, _offsets(item.index))] = part.detach().cpu().contiguous()
            results.append(
                WriteResult(
                    index=item.index, size_in_bytes=part.nbytes, storage_data=plan.storage_data
                )
            )
        write_tensors(parts, self.folder / plan.storage_data)
        done: TorchFuture[list[WriteResult]] = TorchFuture()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, after the files of all ranks."""
        files = {
            (each.index.fqn, _offsets(each.index)): each.storage_data
            for each in itertools.chain(*results)
        }
        index = ShardIndex(
            tensors=tuple(
                _described(name, each, files)
                for name, each in sorted(metadata.state_dict_metadata.items())
                if isinstance(each, TensorStorageMetadata)
            )
        )
        write_whole(self.folder / INDEX, index.model_dump_json())

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: object) -> bool:
        """Return True: torch chooses no storage for us."""
        return True


class _Reader(StorageReader):
    """Reads what `_Writer` wrote, each chunk as far as it is wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[MetadataIndex, str] = {}

    def reset(self, checkpoint_id: object = None) -> None:
        """Keep the folder: a reader is used once."""

    def read_metadata(self) -> Metadata:
        """Return the index in torch's own words."""
        found = tensors_in(self.folder)
        return Metadata(
            state_dict_metadata={name: _metadata(each) for name, each in found.items()},
            storage_data={
                MetadataIndex(name, chunk.offsets): chunk.file
                for name, each in found.items()
                for chunk in each.chunks
            },
        )

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Keep which file holds which chunk."""
        self._files = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> TorchFuture[None]:
        """Copy the part of each chunk that is wanted into its tensor."""
        by_file = defaultdict[str, list[ReadItem]](list)
        for item in plan.items:
            by_file[self._files[item.storage_index]].append(item)
        for file, items in by_file.items():
            with safe_open(self.folder / file, "pt") as opened:
                for item in items:
                    index = item.storage_index
                    whole = opened.get_slice(_key(index.fqn, _offsets(index)))
                    lengths = zip(item.storage_offsets, item.lengths, strict=True)
                    into = planner.resolve_tensor(item).detach()
                    into.copy_(whole[tuple(slice(at, at + length) for at, length in lengths)])
                    planner.commit_tensor(item, into)
        done: TorchFuture[None] = TorchFuture()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: object) -> bool:
        """Return True: torch chooses no storage for us."""
        return True


def _offsets(index: MetadataIndex) -> tuple[int, ...]:
    return tuple(index.offset or ())


def _key(name: str, offsets: tuple[int, ...]) -> str:
    """The name of a chunk in its file: `head.weight` from row 32 on -> head.weight@32.0."""
    return f"{name}@{'.'.join(map(str, offsets))}"


def _described(
    name: str, each: TensorStorageMetadata, files: dict[tuple[str, tuple[int, ...]], str]
) -> ShardedTensor:
    chunks = (
        TensorRows(
            file=files[name, tuple(chunk.offsets)],
            offsets=tuple(chunk.offsets),
            sizes=tuple(chunk.sizes),
        )
        for chunk in each.chunks
        # More ranks than rows leave some with none.
        if chunk.sizes.numel() or not each.size.numel()
    )
    return ShardedTensor(
        name=name,
        kind=cast(Kind, str(each.properties.dtype).removeprefix("torch.")),
        shape=tuple(each.size),
        chunks=tuple(sorted(chunks, key=lambda chunk: chunk.offsets)),
    )


def _metadata(each: ShardedTensor) -> TensorStorageMetadata:
    return TensorStorageMetadata(
        properties=TensorProperties(dtype=getattr(torch, each.kind)),
        size=torch.Size(each.shape),
        chunks=[
            ChunkStorageMetadata(offsets=torch.Size(chunk.offsets), sizes=torch.Size(chunk.sizes))
            for chunk in each.chunks
        ],
    )


def _is_whole(each: ShardedTensor) -> bool:
    """Return True where the chunks are the rows from the first to the last, without gap or overlap."""
    if not each.shape:
        return [(chunk.offsets, chunk.sizes) for chunk in each.chunks] == [((), ())]
    row, rest = 0, each.shape[1:]
    for chunk in each.chunks:
        begins = chunk.offsets == (row, *(0 for _ in rest))
        if not begins or len(chunk.sizes) != len(each.shape) or chunk.sizes[1:] != rest:
            return False
        row += chunk.sizes[0]
    return row == each.shape[0]
