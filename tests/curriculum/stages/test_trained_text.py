"""Held-out text that training documents show isn't scored, and the rest is."""

from pathlib import Path

import numpy as np
import pytest

from curriculum import parquet
from curriculum.packing.boundaries import RowLayout
from curriculum.packing.read import read_rows
from curriculum.packing.windows import window_hashes
from curriculum.stages import Built, RowsSpec, Tokenizing, Workers, build
from curriculum.store import Artefact, Store
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.reports import RowsReport
from tests.curriculum.stages.test_held_out_text import commit, function, git

WANTED = (
    RowsSpec(family="v2_simple", row_length=512),
    RowsSpec(family="v3_doxygen", row_length=512),
    RowsSpec(family="v2_simple", objective="fim", row_length=512),
)
COMMON = "".join(f"static const int common_{at} = {at} * 31;\n" for at in range(3))
COLUMNS = ("pack_id", "input_ids", "loss_mask", "doc_starts", "valid_token_count")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Files of which each has a function of its own, and three lines that all have."""
    root = tmp_path_factory.mktemp("trained")
    repository = root / "own"
    repository.mkdir()
    git(repository, "init", "--quiet")
    for at in range(12):
        own = "".join(function(f"own{at}_{part}", number=at * 5 + part) for part in range(5))
        commit(repository, **{f"file{at}": COMMON + own})
        commit(repository, **{f"file{at}": COMMON + own + function(f"more{at}", number=at + 700)})
    spec = RepositorySpec(name="own", path=str(repository))
    return build(
        Store(root / "home"),
        CorpusSpec(name="own", repositories=(spec,), val_fraction=0.3),
        WANTED,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=500),
        workers=Workers(processes=1),
    )


def windows(rows: Artefact, *, scored: bool) -> set[int]:
    """The windows of all tokens of some rows, or of the scored ones."""
    found: set[int] = set()
    for batch in read_rows(parquet.shards_of(rows.path), COLUMNS):
        counts = batch.valid_counts()
        starts, edges = batch.doc_starts(counts)
        layout = RowLayout.from_starts(starts, np.diff(edges), counts, batch.row_format.row_length)
        hashes = window_hashes(batch.input_ids.reshape(-1), layout.flat_start)
        targets = np.flatnonzero(batch.loss_mask.reshape(-1)) + 1
        found.update((hashes[targets] if scored else hashes).tolist())
    return found


def test_no_scored_window_of_val_stands_in_training_documents(built: Built) -> None:
    versions = built.rows_of(WANTED[0])
    assert versions.val is not None
    for rows in built.rows:
        assert rows.val is not None
        shown = windows(versions.train, scored=False) | windows(rows.train, scored=False)
        scored = windows(rows.val, scored=True)
        assert scored
        if rows.wanted.objective == "causal":
            assert scored.isdisjoint(shown)
    assert windows(built.fixed["anchor"], scored=True).isdisjoint(
        windows(versions.train, scored=False)
    )


def test_the_report_says_how_much_of_val_is_trained_on(built: Built) -> None:
    for rows in built.rows:
        assert rows.val is not None
        counts = rows.val.reported(RowsReport).encode.objective
        assert 0 < counts["held_out_trained"] < counts["held_out_scored"]
        assert "held_out_trained" not in rows.train.reported(RowsReport).encode.objective


def test_rows_that_measure_do_not_depend_on_what_else_is_served(
    built: Built, tmp_path: Path
) -> None:
    val = built.rows_of(WANTED[1]).val
    assert val is not None
    names = [made.name for made in val.manifest.inputs]
    assert "selection" in names
    assert len(names) == len(set(names))
    families = {name.split()[-2] for name in names if "tokens" in name.split()}
    assert families == {"v2_simple", "v3_doxygen"}
