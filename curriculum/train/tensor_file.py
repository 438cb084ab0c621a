"""Tensors in a file of safetensors: written with the operating system's errors, described without a read."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from curriculum.train.checkpoint_files import damaged

_NUMBER = re.compile(r"(?:os error |code: )(\d+)")
"""Pattern of an operating system's error number in a message of safetensors."""


def write_tensors(
    tensors: dict[str, Tensor], file: Path, about: Mapping[str, str] | None = None
) -> None:
    """Write tensors, and words about them, as safetensors; who may read the file follows the umask.

    Raises:
        OSError: with its number, for a full disk too, which safetensors raises as an error of its own.
    """
    file.touch()
    mode = file.stat().st_mode
    try:
        save_file(tensors, file, dict(about) if about else None)
    except SafetensorError as failed:
        number = _NUMBER.search(str(failed))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(file)) from failed
    # safetensors renames a file of its own, which only its owner may read.
    file.chmod(mode)


def head(file: Path) -> dict[str, tuple[tuple[int, ...], Any]]:
    """The shapes and kinds of the tensors in a file of safetensors, by name; no tensor is read.

    Raises:
        JobError: for a file that is none, or whose size isn't that of its tensors.
    """
    try:
        with safe_open(file, "pt") as opened:
            parts = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            return {
                name: (tuple(part.get_shape()), _KINDS.get(part.get_dtype(), part.get_dtype()))
                for name, part in parts.items()
            }
    except (SafetensorError, FileNotFoundError) as broken:
        raise damaged(file, str(broken)) from None


_KINDS: dict[str, Any] = {
    "F32": "float32",
    "BF16": "bfloat16",
    "F16": "float16",
    "F64": "float64",
    "U8": "uint8",
}
"""Kinds by their names in safetensors."""
