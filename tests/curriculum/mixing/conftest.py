"""Rows that a mixture needs: real columns, few tokens."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from tests.factories import resolved_phase, resolved_serving, shard_path

MakeRows = Callable[..., Artefact]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "workspace")


@pytest.fixture
def make_rows(store: Store) -> MakeRows:
    """Rows artefacts with the small columns only; rows of `domains` follow one another."""

    def make(
        domains: Mapping[str, Sequence[int]], *, name: str = "v3_simple", shards: int = 2
    ) -> Artefact:
        listed = [(domain, valid) for domain, values in domains.items() for valid in values]
        recipe = Recipe(
            stage="rows",
            labels=(("family", name),),
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
                        "attention_pairs": [valid * 7 + 1 for _, valid in part],
                        # two documents a row: one of its own, one that its neighbour continues
                        "document_ids": [[f"own{n}", f"pair{n // 2}"] for n in numbers],
                        "doc_starts": pa.array([[0, valid // 4] for _, valid in part]),
                    }
                )
                pq.write_table(table, shard_path(draft.path, shard))

        (artefact,) = store.produce([recipe], write)
        return artefact

    return make


@pytest.fixture
def serving() -> Callable[..., ResolvedServing]:
    return resolved_serving


@pytest.fixture
def phase() -> Callable[..., ResolvedPhase]:
    return resolved_phase
