"""Inputs of a build are verified before their first use: each file once, whatever the number of tasks."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.stages import Built, Workers
from curriculum.store import Store
from schemas.errors import CurriculumError
from tests.sealing import artefact_around


def flip(file: Path) -> None:
    """Change a bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "pattern",
    [
        "tokens/**/tokens.bin",
        "tokens/**/offsets.bin",
        "selections/**/sides.parquet",
        "documents/family-v2_simple/**/part-00000.parquet",
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_never_made_of_a_damaged_input(
    tmp_path: Path, tiny: Built, make_tiny: Callable[..., Built], pattern: str, workers: int
) -> None:
    home = tmp_path / "workspace"
    shutil.copytree(tiny.selection.path.parents[2], home)
    store = Store(home)
    read = {each.key for rows in store.artefacts("rows") for each in rows.manifest.inputs}
    shutil.rmtree(home / "rows")
    # Copies of some files lie in artefacts that only other stages read.
    inputs = (each for each in home.glob(pattern) if store.load(artefact_around(each)).key in read)
    damaged = max(inputs, key=lambda each: each.stat().st_size)
    flip(damaged)
    with pytest.raises(CurriculumError, match=str(damaged)):
        make_tiny(Store(home), workers=Workers(processes=workers))
    used = {each.key for rows in Store(home).artefacts("rows") for each in rows.manifest.inputs}
    assert Store(home).load(artefact_around(damaged)).key not in used


def test_each_input_is_hashed_once_in_a_build(
    tmp_path: Path,
    tiny: Built,
    make_tiny: Callable[..., Built],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from curriculum import published_files

    home = tmp_path / "workspace"
    shutil.copytree(tiny.selection.path.parents[2], home)
    shutil.rmtree(home / "rows")
    shutil.rmtree(home / "documents" / "family-v6_enriched")
    hashed: list[Path] = []
    plain = published_files.sha256_of

    def counted(file: Path) -> str:
        hashed.append(file)
        return plain(file)

    monkeypatch.setattr(published_files, "sha256_of", counted)
    make_tiny(Store(home), workers=Workers(processes=2))
    assert hashed
    assert len(hashed) == len(set(hashed))


def test_a_build_that_makes_nothing_hashes_nothing(
    tiny: Built, make_tiny: Callable[..., Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    from curriculum import published_files

    def refuse(file: Path) -> str:
        raise AssertionError(file)

    monkeypatch.setattr(published_files, "sha256_of", refuse)
    make_tiny(Store(tiny.selection.path.parents[2]))
