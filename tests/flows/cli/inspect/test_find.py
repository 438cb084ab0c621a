"""References to artefacts by path, key and a document's id, and the errors for all else."""

import re
from pathlib import Path

import pytest

from curriculum.pipeline.references import find, ids_beginning, store_of
from curriculum.store import Artefact, Store
from schemas.document import Document
from schemas.errors import StoreError


def _artefact(home: Path, family: str, stage: str = "documents") -> Artefact:
    return next(
        each
        for each in Store(home, dry=True).artefacts(stage)
        if each.manifest.labels["family"] == family
    )


def _find(home: Path, what: str, document: str | None = None) -> tuple[Artefact, str | None]:
    found = find(Store(home, dry=True), what, document=document)
    return found.artefacts[0], found.document


def test_the_beginning_of_an_id_finds_the_document(looked: Path, context: Document) -> None:
    artefact, document = _find(looked, context.document_id[:9])
    assert artefact.key == _artefact(looked, "v4_context_graph").key
    assert document == context.document_id
    assert _find(looked, context.document_id.upper())[1] == context.document_id


def test_a_path_and_a_key_find_the_artefact_and_name_no_document(looked: Path) -> None:
    artefact = _artefact(looked, "v6_enriched")
    for what in (str(artefact.path), str(artefact.shards()[0]), artefact.key[:12]):
        assert _find(looked, what) == (artefact, None)


def test_a_path_means_the_workspace_that_it_lies_in(looked: Path, tmp_path: Path) -> None:
    artefact = _artefact(looked, "v6_enriched")
    for what in (str(artefact.path), str(looked)):
        assert store_of(tmp_path, what).root == looked
    assert store_of(looked, artefact.key).root == looked
    with pytest.raises(StoreError, match="inside a workspace"):
        store_of(looked, str(tmp_path))


def test_a_document_is_found_inside_an_artefact(looked: Path, wide: Document) -> None:
    artefact = _artefact(looked, "v4_context_graph")
    assert len(ids_beginning(artefact, "")) == 2
    found = _find(looked, str(artefact.path), document=wide.document_id[:8])
    assert found == (artefact, wide.document_id)


@pytest.mark.parametrize("what", ["zzz", "0" * 32, "-", "documents/none"])
def test_what_is_nothing_says_so(looked: Path, what: str) -> None:
    with pytest.raises(StoreError, match=f"{what}: "):
        _find(looked, what)


def test_an_id_that_isnt_in_the_named_artefact_says_so(looked: Path, context: Document) -> None:
    with pytest.raises(StoreError, match="prefix"):
        _find(looked, str(_artefact(looked, "v2_simple").path), document=context.document_id)


def test_an_id_that_several_artefacts_hold_names_them_and_the_cure_works(looked: Path) -> None:
    first = _artefact(looked, "v2_simple")
    name = ids_beginning(first, "")[0]
    with pytest.raises(StoreError, match="2 artefacts") as told:
        _find(looked, name)
    assert first.path.relative_to(looked).as_posix() in str(told.value)
    cure = re.search(r"inspect PATH --document (\w+)$", str(told.value))
    assert cure
    assert _find(looked, str(first.path), document=cure[1]) == (first, name)


def test_a_beginning_that_several_ids_share_asks_for_more(looked: Path) -> None:
    artefact = _artefact(looked, "v4_context_graph")
    with pytest.raises(StoreError, match="2 document ids"):
        _find(looked, str(artefact.path), document="")


def test_documents_are_looked_for_in_documents_only(looked: Path) -> None:
    tokens = _artefact(looked, "v4_context_graph", stage="tokens")
    with pytest.raises(StoreError, match="stage tokens"):
        _find(looked, str(tokens.path), document="0")
