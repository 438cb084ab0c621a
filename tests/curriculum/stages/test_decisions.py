"""Documents are joined with the selection by their ids, and by nothing else."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.decisions import decisions
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.errors import StoreError
from tests.error_fields import fields

LABELS = (("family", "v2_simple"), ("repository", "arena"))


def name(number: int) -> str:
    return f"{number:032x}"


def published(store: Store, stage: str, file: str, columns: dict[str, list[object]]) -> Artefact:
    def make(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / file).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), drafts[0].path / file)

    return store.produce([Recipe(stage=stage, labels=LABELS, revision=1)], make)[0]


def pair(folder: Path, chosen: Sequence[int], written: Sequence[int]) -> tuple[Artefact, Artefact]:
    """A selection of documents, those of even numbers kept, and an artefact with documents."""
    store = Store(folder)
    columns: dict[str, list[object]] = {
        "document_id": [name(each) for each in chosen],
        "family": ["v2_simple"] * len(chosen),
        "repository": ["arena"] * len(chosen),
        "keep": [each % 2 == 0 for each in chosen],
        "split": ["train" if each % 4 else "val" for each in chosen],
        "domain": [f"domain {each}" for each in chosen],
        "lineage": [f"lineage {number}" for number in chosen],
    }
    documents: dict[str, list[object]] = {"document_id": [name(each) for each in written]}
    return (
        published(store, "selections", "selection.parquet", columns),
        published(store, "documents", "data/part-00000.parquet", documents),
    )


def test_each_document_has_its_own_line_of_the_selection(tmp_path: Path) -> None:
    selection, documents = pair(tmp_path, range(20), [14, 3, 14, 0, 19])
    found = decisions(selection, documents)
    assert [found.domains[each] for each in found.domain] == [
        f"domain {each}" for each in (14, 3, 14, 0, 19)
    ]
    assert [found.lineages[number] for number in found.lineage] == [
        f"lineage {number}" for number in (14, 3, 14, 0, 19)
    ]
    assert found.kept.tolist() == [True, False, False, True, False]
    assert found.kept_on("val").tolist() == [False, False, False, True, False]
    assert found.is_held_out_file.tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("number", [0, 5, 99])
def test_a_document_that_the_selection_lacks_is_an_error_that_names_it(
    tmp_path: Path, number: int
) -> None:
    chosen = [each for each in range(1, 20) if each != 5]
    with pytest.raises(StoreError, check=fields(value=f"document {name(number)}")):
        decisions(*pair(tmp_path, chosen, [7, number, 8]))


def test_no_selected_document_at_all_is_the_same_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"document {name(7)}; "):
        decisions(*pair(tmp_path, [], [7]))
