"""Equal conversations are kept once; what shares an id or a text lies on one side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq
import pytest

from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.select import SelectionSummary
from curriculum.corpus.select_conversations import select_conversations
from curriculum.corpus.split import hash_fraction
from curriculum.families import chat
from schemas.change import Conversation, Turn, digest_of
from schemas.corpus import (
    USUAL_LICENCES,
    ConversationsSpec,
    CorpusSpec,
    LicencesSpec,
    RepositorySpec,
)
from tests.factories import write_documents

Said = Mapping[str, Sequence[tuple[str, str]]]
"""(id, answer) of each conversation, by source."""


def conversation(source: str, name: str, answer: str) -> Conversation:
    turns = (Turn(role="user", text="?"), Turn(role="assistant", text=answer))
    return Conversation(
        source=source,
        pin="0" * 40,
        licence=None,
        file="t.jsonl",
        line=1,
        start=0,
        end=1,
        name=name,
        digest=digest_of(turns),
        turns=turns,
    )


def selected(
    root: Path,
    said: Said,
    val_fraction: float = 0.3,
    licences: LicencesSpec = USUAL_LICENCES,
    licensed: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[Any], SelectionSummary]:
    documents = []
    for source, listed in said.items():
        folder = root / source
        folder.mkdir()
        write_documents((chat.document(conversation(source, *each)) for each in listed), folder)
        documents.append(DocumentFolder(repository=source, path=folder))
    corpus = CorpusSpec(
        name="c",
        repositories=(RepositorySpec(name="r", path="/r"),),
        conversations=tuple(
            ConversationsSpec(name=name, path="/t", licence=licensed.get(name)) for name in said
        ),
        licences=licences,
        val_fraction=val_fraction,
    )
    out = root / "out"
    out.mkdir()
    summary = select_conversations(documents, corpus, out)
    sides = pq.read_table(out / "sides.parquet").to_pylist()
    rows = pq.read_table(out / "selection.parquet").to_pylist()
    known = {each["lineage"]: each["split"] for each in sides}
    assert [each["lineage"] for each in sides] == sorted(known)
    assert all(row["split"] == known[row["lineage"]] for row in rows)
    return rows, summary


def test_conversations_under_a_refused_licence_are_left_out(tmp_path: Path) -> None:
    rows, summary = selected(
        tmp_path,
        {"gpl": [("1", "x"), ("2", "y")], "none": [("3", "x")], "mit": [("4", "x")]},
        licences=LicencesSpec(purpose="release", refuse=("GPL-*",)),
        licensed={"gpl": "GPL-3.0-only", "mit": "MIT"},
    )
    assert [row["repository"] for row in rows if row["keep"]] == ["mit"]
    assert dict(summary.rejected) == {"licence": 3}
    evidence = {row["repository"]: row["evidence"] for row in rows}
    assert evidence == {"gpl": "GPL-3.0-only", "none": "unknown", "mit": None}


def test_the_same_conversation_is_kept_in_the_first_source_that_has_it(tmp_path: Path) -> None:
    rows, summary = selected(
        tmp_path, {"b": [("1", "x"), ("2", "x"), ("3", "y")], "a": [("9", "y"), ("8", "z")]}
    )
    kept = {(row["repository"], row["lineage"]) for row in rows if row["keep"]}
    assert kept == {("b", "b:1"), ("b", "b:3"), ("a", "a:8")}
    (gone,) = [row for row in rows if not row["keep"]]
    assert (gone["reason"], gone["evidence"], gone["repository"]) == ("duplicate", "b", "a")
    assert (summary.documents, summary.repeated, summary.kept) == (4, 1, 3)
    assert summary.rejected == (("duplicate", 1),)
    assert [(row["repository"], row["document_id"]) for row in rows] == sorted(
        (row["repository"], row["document_id"]) for row in rows
    )


def test_equal_texts_that_disagree_about_what_is_learnt_are_left_out(tmp_path: Path) -> None:
    said = conversation("t", "1", "x")
    question, answer = said.turns
    context = (question, replace(answer, is_context=True))
    other = replace(said, name="2", turns=context, digest=digest_of(context))
    third = conversation("t", "3", "y")
    for order in ((said, other, third), (other, said, third)):
        folder = tmp_path / order[0].name
        folder.mkdir()
        write_documents(map(chat.document, order), folder)
        documents = [DocumentFolder(repository="t", path=folder)]
        corpus = CorpusSpec(name="c", repositories=(RepositorySpec(name="r", path="/r"),))
        summary = select_conversations(documents, corpus, folder)
        rows = pq.read_table(folder / "selection.parquet").to_pylist()
        found = {row["document_id"]: (row["keep"], row["reason"]) for row in rows}
        assert found == {
            chat.document(said).document_id: (False, "contradiction"),
            chat.document(third).document_id: (True, None),
        }
        assert summary.rejected == (("contradiction", 1),)


def test_what_shares_an_id_lies_on_one_side(tmp_path: Path) -> None:
    listed = [(str(n % 40), f"answer {n}") for n in range(200)]
    rows, summary = selected(tmp_path, {"t": listed})
    sides: dict[str, set[str]] = {}
    for row in rows:
        sides.setdefault(row["lineage"], set()).add(row["split"])
    assert len(sides) == 40
    assert all(len(each) == 1 for each in sides.values())
    assert 12 <= sum(each == {"val"} for each in sides.values()) < 20
    assert 0 < summary.val < summary.kept == 200


def test_ids_that_share_a_text_lie_on_one_side(tmp_path: Path) -> None:
    names = sorted((f"t:{n}" for n in range(100)), key=hash_fraction)
    low, high = names[0].removeprefix("t:"), names[-1].removeprefix("t:")
    rows, _ = selected(tmp_path, {"t": [(high, "same"), (low, "same"), (low, "a"), (high, "b")]})
    assert {row["split"] for row in rows} == {"train"}, "the oldest lineage decides for both"
    assert [row["keep"] for row in rows] == [True] * 3


def test_one_conversation_at_least_is_held_out(tmp_path: Path) -> None:
    rows, summary = selected(tmp_path, {"t": [("1", "a"), ("2", "b")]}, val_fraction=1e-9)
    assert sorted(row["split"] for row in rows) == ["train", "val"]
    assert [family for family, _ in summary.joined] == ["chat"]


def test_a_single_conversation_stays_in_train_and_that_is_told(tmp_path: Path) -> None:
    rows, summary = selected(tmp_path, {"t": [("1", "a")]}, val_fraction=1e-9)
    assert [row["split"] for row in rows] == ["train"]
    assert summary.families_without_val == ("chat",)


@pytest.mark.parametrize("column", ["domain", "domain_rule"])
def test_all_are_of_one_domain(tmp_path: Path, column: str) -> None:
    rows, _ = selected(tmp_path, {"t": [("1", "a"), ("2", "b")]})
    assert {row[column] for row in rows} == {
        {"domain": "chat", "domain_rule": "every conversation"}[column]
    }
