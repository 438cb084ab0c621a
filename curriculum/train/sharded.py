"""Checkpoints with one part per rank: torch's distributed checkpoint with safetensors and a JSON index.

    shards/rank-00000.safetensors  rank-00001.safetensors …  index.json

Any number of ranks can read them. torch's own storage writes its index as a pickle, which may run code
when it is read. This storage writes only tensors and JSON, like the portable form.

torch's HuggingFaceStorageWriter and HuggingFaceStorageReader aren't used, since their parts have no
index: if the first rank's file is missing, loading succeeds and leaves its rows unchanged. They also
serialise a whole part in memory.
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
    """Consecutive rows of a tensor that are in the file of one rank."""

    file: str
    offsets: tuple[Size, ...]
    sizes: tuple[Size, ...]


class ShardedTensor(Strict):
    """Tensor that was written in chunks of rows."""

    name: str
    kind: Kind
    shape: tuple[Size, ...]
    chunks: tuple[TensorRows, ...]
    """Chunks in the order of their rows."""


class ShardIndex(Strict):
    """index.json: all written tensors, and the files that their chunks are in."""

    tensors: tuple[ShardedTensor, ...]


def start(folder: Path, train_state: TrainState) -> "Future[object]":
    """Copy the state, then write it in a background thread that uses a process group of its own.

    The future is done when the parts of all ranks and the index are written.
    """
    parts = dict(tensors(train_state)) | generators(train_state)
    # GPU tensors are copied to the host anyway; host tensors must not change while they are written.
    taken = {
        name: tensor if tensor.is_cuda else tensor.detach().clone()
        for name, tensor in parts.items()
    }
    writing = async_save(
        taken, storage_writer=_Writer(folder), process_group=train_state.ranks.saving
    )
    assert isinstance(writing, Future)
    return writing


def tensors_in(folder: Path) -> dict[str, ShardedTensor]:
    """Return the written tensors by name, after comparing the index with the headers of the files.

    Raises:
        JobError: if the index can't be read, or chunks overlap, leave gaps, or don't match the files.
    """
    index = read_part(ShardIndex, folder.parent, f"{folder.name}/{INDEX}")
    files = {chunk.file for tensor in index.tensors for chunk in tensor.chunks}
    strange = {file for file in files if not _FILE.fullmatch(file)}
    if strange:
        raise damaged(folder / INDEX, f"{min(strange)!r} isn't the name of a rank's file")
    heads = {file: head(folder / file) for file in files}
    for tensor in index.tensors:
        if not _is_whole(tensor) or any(
            heads[chunk.file].get(_key(tensor.name, chunk.offsets)) != (chunk.sizes, tensor.kind)
            for chunk in tensor.chunks
        ):
            raise damaged(
                folder / INDEX, f"tensor {tensor.name!r} doesn't match the files of the shards"
            )
    return {tensor.name: tensor for tensor in index.tensors}


def fill(folder: Path, wanted: dict[str, Tensor], ranks: Ranks) -> None:
    """Read the tensors `wanted` in place. Every rank reads its part of sharded tensors."""
    with warnings.catch_warnings():
        # A single rank may read what several ranks wrote, which makes torch warn.
        warnings.filterwarnings("ignore", _RAISED)
        load(
            dict(wanted),
            storage_reader=_Reader(folder),
            process_group=ranks.host,
            no_dist=ranks.size == 1,
        )


class _Writer(StorageWriter):
    """Storage in which each rank writes its chunks to a file, and the coordinator writes the index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reset(self, checkpoint_id: object = None) -> None:
        """Do nothing: the folder stays, since a writer is used only once."""

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """Create the folder. Every rank does this."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan unchanged."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Set the file name of each rank."""
        return [
            replace(plan, storage_data=f"rank-{rank:05d}.safetensors")
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> TorchFuture[list[WriteResult]]:
        """Write this rank's chunks. A chunk's name has the tensor's name and the offsets."""
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
        """Write the index after the files of all ranks have been written."""
        files = {
            (result.index.fqn, _offsets(result.index)): result.storage_data
            for result in itertools.chain(*results)
        }
        index = ShardIndex(
            tensors=tuple(
                _described(name, tensor, files)
                for name, tensor in sorted(metadata.state_dict_metadata.items())
                if isinstance(tensor, TensorStorageMetadata)
            )
        )
        write_whole(self.folder / INDEX, index.model_dump_json())

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: object) -> bool:
        """Return True. torch never has to choose this storage by a checkpoint id."""
        return True


class _Reader(StorageReader):
    """Storage that reads the requested parts of chunks that `_Writer` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[MetadataIndex, str] = {}

    def reset(self, checkpoint_id: object = None) -> None:
        """Do nothing: the folder stays, since a reader is used only once."""

    def read_metadata(self) -> Metadata:
        """Return the index in the form of torch's metadata."""
        found = tensors_in(self.folder)
        return Metadata(
            state_dict_metadata={name: _metadata(tensor) for name, tensor in found.items()},
            storage_data={
                MetadataIndex(name, chunk.offsets): chunk.file
                for name, tensor in found.items()
                for chunk in tensor.chunks
            },
        )

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Look up which file each chunk is in."""
        self._files = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan unchanged."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans unchanged."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> TorchFuture[None]:
        """Copy the requested part of each chunk to the requested tensor."""
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
        """Return True. torch never has to choose this storage by a checkpoint id."""
        return True


def _offsets(index: MetadataIndex) -> tuple[int, ...]:
    return tuple(index.offset or ())


def _key(name: str, offsets: tuple[int, ...]) -> str:
    """Return the name of a chunk in its file: `head.weight` from row 32 on -> head.weight@32.0."""
    return f"{name}@{'.'.join(map(str, offsets))}"


def _described(
    name: str, tensor: TensorStorageMetadata, files: dict[tuple[str, tuple[int, ...]], str]
) -> ShardedTensor:
    chunks = (
        TensorRows(
            file=files[name, tuple(chunk.offsets)],
            offsets=tuple(chunk.offsets),
            sizes=tuple(chunk.sizes),
        )
        for chunk in tensor.chunks
        # If there are more ranks than rows, some ranks have none.
        if chunk.sizes.numel() or not tensor.size.numel()
    )
    return ShardedTensor(
        name=name,
        kind=cast(Kind, str(tensor.properties.dtype).removeprefix("torch.")),
        shape=tuple(tensor.size),
        chunks=tuple(sorted(chunks, key=lambda chunk: chunk.offsets)),
    )


def _metadata(tensor: ShardedTensor) -> TensorStorageMetadata:
    return TensorStorageMetadata(
        properties=TensorProperties(dtype=getattr(torch, tensor.kind)),
        size=torch.Size(tensor.shape),
        chunks=[
            ChunkStorageMetadata(offsets=torch.Size(chunk.offsets), sizes=torch.Size(chunk.sizes))
            for chunk in tensor.chunks
        ],
    )


def _is_whole(tensor: ShardedTensor) -> bool:
    """Return True if the chunks of a tensor cover all rows without gap or overlap."""
    if not tensor.shape:
        return [(chunk.offsets, chunk.sizes) for chunk in tensor.chunks] == [((), ())]
    row, rest = 0, tensor.shape[1:]
    for chunk in tensor.chunks:
        begins = chunk.offsets == (row, *(0 for _ in rest))
        if not begins or len(chunk.sizes) != len(tensor.shape) or chunk.sizes[1:] != rest:
            return False
        row += chunk.sizes[0]
    return row == tensor.shape[0]
