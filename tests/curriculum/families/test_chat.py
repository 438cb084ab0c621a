"""A conversation is a document, a part a turn, and keeps what every document keeps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.families import chat
from curriculum.families.document_check import check_document
from schemas.change import Conversation, Role, Turn, digest_of
from schemas.errors import SchemaError
from tests.error_fields import fields

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


def conversation(*turns: tuple[Role, str], name: str = "n") -> Conversation:
    said = tuple(Turn(role=role, text=text) for role, text in turns)
    return Conversation(
        source="talks",
        pin="c" * 40,
        licence="MIT",
        file="a/t.jsonl",
        line=7,
        start=100,
        end=180,
        name=name,
        digest=digest_of(said),
        turns=said,
    )


def test_each_turn_is_a_part_whose_kind_says_who_speaks() -> None:
    made = chat.document(
        conversation(("system", "Be brief."), ("user", "ä?\r\n"), ("assistant", "\nb.\n\n"))
    )
    assert made.text == "Be brief.\nä?\nb.\n"
    assert [(part.kind, part.start, part.end) for part in made.parts] == [
        ("system", 0, 10),
        ("user", 10, 14),
        ("assistant", 14, 17),
    ]
    assert not any(part.elidable for part in made.parts)
    assert (made.family, made.licence, made.lineage) == ("chat", "MIT", "talks:n")


def test_an_answer_that_is_context_has_a_span() -> None:
    plain = conversation(("user", "ä"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    turns = tuple(replace(turn, is_context=turn.text == "b") for turn in plain.turns)
    made = chat.document(replace(plain, turns=turns, digest=digest_of(turns)))
    check_document(made)
    assert [(span.kind, span.start, span.end) for span in made.spans] == [("unscored", 3, 5)]
    assert made.text == chat.document(plain).text
    assert chat.document(plain).spans == ()


def test_the_provenance_points_to_the_line() -> None:
    (origin,) = chat.document(conversation(("user", "a"), ("assistant", "b"))).provenance
    assert (origin.repository, origin.commit, origin.path) == ("talks", "c" * 40, "a/t.jsonl:7")
    assert (origin.start, origin.end, origin.lineage) == (100, 180, "talks:n")


def test_who_says_what_decides_the_digest_and_the_text_decides_the_id() -> None:
    one = conversation(("user", "a"), ("assistant", "b"))
    assert one.digest != conversation(("user", "a"), ("assistant", "c")).digest
    assert one.digest == conversation(("user", "a"), ("assistant", "b"), name="m").digest
    other = chat.document(conversation(("user", "a"), ("assistant", "b"), name="m"))
    assert chat.document(one).document_id == other.document_id


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3))
def test_every_conversation_gives_a_sound_document(exchanges: list[tuple[str, str]]) -> None:
    turns: list[tuple[Role, str]] = []
    for question, answer in exchanges:
        turns += [("user", question), ("assistant", answer)]
    check_document(chat.document(conversation(*turns)))


def test_the_check_still_knows_parts_that_do_not_tile() -> None:
    made = chat.document(conversation(("user", "a"), ("assistant", "b")))
    with pytest.raises(SchemaError, check=fields(value="parts of 2 bytes")):
        check_document(replace(made, parts=made.parts[:1]))
