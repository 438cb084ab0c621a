"""Tensors in safetensors files: write them with the system's errors, and read headers without tensors."""

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
"""Pattern of the number of an operating system's error in a message of safetensors."""


def write_tensors(
    tensors: dict[str, Tensor], file: Path, about: Mapping[str, str] | None = None
) -> None:
    """Write tensors and metadata to a safetensors file. The file's permissions follow the umask.

    Raises:
        OSError: with the error's number, even for a full disk, where safetensors raises its own error.
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
    # safetensors renames a temporary file that only its owner may read.
    file.chmod(mode)


def head(file: Path) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the shapes and dtypes of the tensors in a safetensors file by name, without reading the tensors.

    Raises:
        JobError: if the file isn't a safetensors file, or its size doesn't match its tensors.
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
"""dtypes by their names in safetensors files."""
