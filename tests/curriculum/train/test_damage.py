"""A trainer verifies plan, tokenizer and checkpoint whole, and rows page by page, before it uses them."""

import os
from pathlib import Path
from typing import Any

import pytest

from curriculum.train.run import freeze
from curriculum.train.run_directory import JOB, read_job
from curriculum.train.validate import require_fitting
from schemas.errors import CurriculumError


def flip(file: Path, part: float = 0.5) -> None:
    """Change a bit of a file, at a part of its length."""
    content = bytearray(file.read_bytes())
    content[int(len(content) * part)] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("field", ["seed", "rope_base", "steps"])
def test_a_job_with_a_changed_number_is_refused_by_name(
    world: Any, tmp_path: Path, field: str
) -> None:
    directory = tmp_path / "run"
    job = freeze(directory, world.job())
    file = directory / JOB
    number = str(getattr(job, field))
    text = file.read_text().replace(f'"{field}": {number}', f'"{field}": 9{number[1:]}')
    assert text != file.read_text()
    file.write_text(text)
    with pytest.raises(CurriculumError, match=str(file)):
        read_job(file)


@pytest.mark.parametrize("part", [0.2, 0.8])
@pytest.mark.parametrize("which", ["plan", "tokenizer"])
def test_a_trainer_refuses_a_damaged_plan_or_tokenizer(world: Any, which: str, part: float) -> None:
    (file,) = getattr(world, which).files()
    times = file.stat()
    flip(file, part)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(CurriculumError, match=str(file)):
        require_fitting(world.job(), world.store.root)
