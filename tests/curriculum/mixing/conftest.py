"""Rows that a mixture needs: real columns, few tokens."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.splitmix import mixed_words
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.reports import RowsReport
from tests.factories import resolved_phase, resolved_serving, shard_path, write_windows

MakeRows = Callable[..., Artefact]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "workspace")


@pytest.fixture
def make_rows(store: Store) -> MakeRows:
    """Rows artefacts with the small columns only; rows of `domains` follow one another.

    Row n has valid / 4 tokens of a document own<n> and the others of pair<n // 2>; all artefacts show these
    documents with the same windows.
    """

    def make(
        domains: Mapping[str, Sequence[int]], *, name: str = "v3_simple", shards: int = 2
    ) -> Artefact:
        listed = [(domain, valid) for domain, values in domains.items() for valid in values]
        recipe = Recipe(
            stage="rows",
            labels=(("family", name), ("row_length", "512")),
            revision=1,
            config={"rows": [list(each) for each in listed]},
        )

        def write(drafts: Sequence[StagingDirectory]) -> None:
            (draft,) = drafts
            per_shard = -(-len(listed) // shards) or 1
            for shard, start in enumerate(range(0, len(listed), per_shard)):
                part = listed[start : start + per_shard]
                numbers = range(start, start + len(part))
                table = pa.table(
                    {
                        "pack_id": [f"{recipe.key[:12]}-{number:010d}" for number in numbers],
                        "domain": [domain for domain, _ in part],
                        "valid_token_count": pa.array([valid for _, valid in part], pa.int32()),
                        "loss_token_count": pa.array([valid for _, valid in part], pa.int32()),
                        "attention_pairs": [valid * 7 + 1 for _, valid in part],
                        # two documents a row: one of its own, one that its neighbour continues
                        "document_ids": [[f"own{n}", f"pair{n // 2}"] for n in numbers],
                        "doc_starts": pa.array([[0, valid // 4] for _, valid in part]),
                    }
                )
                pq.write_table(table, shard_path(draft.path, shard))
            windows = {
                f"{recipe.key[:12]}-{number:010d}": windows_of(number, valid).tolist()
                for number, (_, valid) in enumerate(listed)
            }
            draft.record(RowsReport(windows=write_windows(draft.path, windows)))

        (artefact,) = store.produce([recipe], write)
        return artefact

    return make


def windows_of(number: int, valid: int) -> npt.NDArray[np.uint64]:
    """The windows of a row, by its number and its valid tokens."""
    own, pair = np.arange(valid // 4), np.arange(valid - valid // 4)
    tokens = np.concatenate([number * 10_000 + own, (number // 2 + 1_000) * 10_000 + pair])
    return mixed_words(tokens.astype(np.uint64))


@pytest.fixture
def serving() -> Callable[..., ResolvedServing]:
    return resolved_serving


@pytest.fixture
def phase() -> Callable[..., ResolvedPhase]:
    return resolved_phase
