"""Tensors of a checkpoint, listed from the header of its safetensors file without loading any tensor."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from curriculum.train.checkpoint_files import damaged, require_part
from schemas.whole_numbers import whole_number

WEIGHTS = "model.safetensors"
_MAX_HEAD = 100_000_000
"""Maximum size of the header in bytes; safetensors has the same limit."""
_NUMBERED = re.compile(r"^(.*?\.\d+)\.")


class _Head(BaseModel):
    """Entry of the header that describes one tensor."""

    dtype: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """One tensor, or a group of tensors: those of a block, or those with the same first part of the name."""

    name: str
    kind: str
    """Type such as F32; for a group with several types, all of them."""
    shape: tuple[int, ...] = ()
    """Shape of one tensor; empty for a group."""
    tensors: int = 1
    parameters: int


def tensors(checkpoint: Path) -> list[Weights]:
    """Return the tensors of a checkpoint in file order; empty if it has no weights file.

    Raises:
        JobError: if the file differs from the one that was written.
    """
    file = checkpoint / WEIGHTS
    if not file.is_file():
        return []
    require_part(checkpoint, WEIGHTS)
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > _MAX_HEAD:
            return []
        text = opened.read(length)
    try:
        head = TypeAdapter(dict[str, _Head]).validate_json(text)
    except ValidationError as broken:
        raise damaged(file, f"its head: {broken.errors()[0]['msg']}") from None
    return [
        Weights(name=name, kind=tensor.dtype, shape=tensor.shape, parameters=prod(tensor.shape))
        for name, tensor in head.items()
        if name != "__metadata__"
    ]


def groups(listed: Sequence[Weights]) -> list[Weights]:
    """Group tensors by block. Tensors outside of the blocks are grouped by the first part of their name.

    blocks.0.norm, blocks.0.mlp.up, embedding.weight -> blocks.0, embedding
    """
    by_name: dict[str, list[Weights]] = {}
    for tensor in listed:
        numbered = _NUMBERED.match(tensor.name)
        name = numbered[1] if numbered else tensor.name.partition(".")[0]
        by_name.setdefault(name, []).append(tensor)
    return [
        Weights(
            name=name,
            kind=", ".join(sorted({tensor.kind for tensor in own})),
            tensors=len(own),
            parameters=sum(tensor.parameters for tensor in own),
        )
        for name, own in sorted(by_name.items(), key=lambda pair: _order(pair[0]))
    ]


def _order(name: str) -> tuple[object, ...]:
    """Return a sort key that compares the numbers in a name by value.

    >>> _order("blocks.10") > _order("blocks.9")
    True
    """
    numbers = ((whole_number(part), part) for part in name.split("."))
    return tuple((-1, part) if number is None else (number, "") for number, part in numbers)
