"""Only the assistant is scored, to the byte; a conversation is whole, without its oldest, or left out."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.encode import FitResult, TokenizedDocument, fitter_of
from curriculum.families import chat
from curriculum.objectives import objective_of
from curriculum.stages.row_sources import apply_objective
from curriculum.tokens.codec import Roles, Tokenizer
from curriculum.tokens.encoding import Encoding, byte_ranges
from curriculum.tokens.turns import turn_marks
from schemas import document as flat
from schemas.change import Conversation, Role, Turn, digest_of
from schemas.corpus import Overlong
from schemas.document import PART_KINDS
from schemas.packed_row import TEXT_PIECE

GOLDEN = Path(__file__).parents[2] / "golden" / "objectives"
TALK: tuple[tuple[Role, str], ...] = (
    ("system", "Be brief."),
    ("user", "What does <|assistant|> mean?"),
    ("assistant", "It is text here:\n  return é;"),
    ("user", "And then?"),
    ("assistant", "The end."),
)


def document(*said: tuple[Role, str]) -> flat.Document:
    return chat.document(conversation_of(tuple(Turn(role=role, text=text) for role, text in said)))


def conversation_of(turns: tuple[Turn, ...]) -> Conversation:
    return Conversation(
        source="talks",
        pin="0" * 40,
        licence=None,
        file="t.jsonl",
        line=1,
        start=0,
        end=1,
        name="n",
        digest=digest_of(turns),
        turns=turns,
    )


def without(tokenizer: Tokenizer, *names: str, roles: Roles | None = None) -> Tokenizer:
    """The same tokenizer without some control tokens; the others are numbered anew."""
    content = json.loads(tokenizer.json)
    first = min(each["id"] for each in content["added_tokens"])
    left = (each for each in content["added_tokens"] if each["content"] not in names)
    kept = [{**each, "id": first + number} for number, each in enumerate(left)]
    return Tokenizer.parse(json.dumps({**content, "added_tokens": kept}), roles or Roles())


def objective_counts(
    talk: flat.Document,
    tokenizer: Tokenizer,
    kit: Any,
    row_length: int,
    overlong: Overlong = "skip",
) -> FitResult:
    """Return the counts of a conversation after fitting and its objective, as for rows."""
    tokenized = tokenized_as(talk, tokenizer, kit)
    fitter = fitter_of(tokenizer, row_length=row_length, family="chat", overlong=overlong)
    objective = objective_of("chat", tokenizer, variant=0)
    assert objective.reserve == 0
    return apply_objective(objective, tokenizer, row_length=row_length)(
        tokenized, fitter.fit(tokenized)
    )


def tokenized_as(talk: flat.Document, tokenizer: Tokenizer, kit: Any) -> TokenizedDocument:
    """Its tokens, part by part, before it is fitted."""
    own, data = kit.known(talk), talk.text.encode()
    found = [tokenizer.encode(data[part.start : part.end].decode()) for part in talk.parts]
    lead, trail = (
        [] if token is None else [np.array([token])]
        for token in (tokenizer.bos_id, tokenizer.eos_id)
    )
    return TokenizedDocument(
        row=0,
        document_id=talk.document_id,
        flat_id=talk.document_id,
        language="",
        ids=np.concatenate([*lead, *found, *trail]),
        part_bytes=own.part_bytes,
        part_tokens=np.cumsum([0, *map(len, found)]).astype(np.int32),
        part_kinds=own.part_kinds,
        ranks=np.zeros(len(found), dtype=np.int32),
        elidable=np.zeros(len(found), dtype=np.bool_),
        spans=own.spans,
        generated=np.zeros(len(found), dtype=np.bool_),
        other_side=np.zeros(len(found), dtype=np.bool_),
        refused=np.zeros(len(found), dtype=np.bool_),
    )


def scored_ids(encoding: Encoding) -> list[int]:
    return [int(each) for each in encoding.ids[1:][encoding.loss_mask[:-1] == 1]]


def assistant(talk: flat.Document) -> bytes:
    data = talk.text.encode()
    own = [part for part in talk.parts if part.kind == "assistant"]
    return b"".join(data[part.start : part.end] for part in own)


def test_a_conversation_reads_as_it_did(
    byte_level: Tokenizer, kit: Any, request: pytest.FixtureRequest
) -> None:
    plain = without(
        byte_level, "<|system|>", "<|user|>", "<|assistant|>", "<|end_of_turn|>", "<|bos|>"
    )
    shown = []
    for tokenizer, row_length in ((byte_level, 4096), (byte_level, 40), (plain, 4096)):
        done = objective_counts(document(*TALK), tokenizer, kit, row_length, "drop_oldest")
        counts: dict[str, int] = {}
        for name, number in done.objective_counts:
            counts[name] = counts.get(name, 0) + number
        shown.append(f"{done.outcome} at {row_length}: {counts}\n")
        shown += [kit.read(encoding, tokenizer) for encoding in done.encodings]
    text, golden = "\n".join(shown), GOLDEN / "chat.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(text)
    assert golden.read_text() == text


def test_the_last_turn_s_end_is_scored_and_the_document_s_is_not(
    byte_level: Tokenizer, kit: Any
) -> None:
    (encoding,) = objective_counts(document(*TALK), byte_level, kit, 4096).encodings
    end, eos = byte_level.ids_of["end_of_turn"], byte_level.eos_id
    assert encoding.ids[-2:].tolist() == [end, eos]
    assert encoding.loss_mask[-3:].tolist() == [1, 0, 0]
    assert scored_ids(encoding).count(end) == 2
    assert encoding.ids.tolist().count(end) == 5


def test_an_answer_that_is_context_is_read_with_its_end_and_never_scored(
    byte_level: Tokenizer, kit: Any
) -> None:
    talk: tuple[tuple[Role, str], ...] = (
        ("user", "ask"),
        ("assistant", "wrong"),
        ("user", "again"),
        ("assistant", "right"),
    )
    plain = document(*talk)
    turns = tuple(Turn(role=role, text=text, is_context=text == "wrong") for role, text in talk)
    marked = chat.document(conversation_of(turns))
    for row_length in (4096, 40):
        whole = objective_counts(plain, byte_level, kit, row_length)
        done = objective_counts(marked, byte_level, kit, row_length)
        learnt = [token for encoding in done.encodings for token in scored_ids(encoding)]
        assert byte_level.decode_bytes(learnt) == b"right\n"
        assert learnt.count(byte_level.ids_of["end_of_turn"]) == 1
        assert [encoding.ids.tolist() for encoding in done.encodings] == [
            encoding.ids.tolist() for encoding in whole.encodings
        ]
        counts = dict_of(done)
        assert (counts["assistant_bytes"], counts["context_bytes"]) == (6, 6)


@pytest.mark.parametrize(
    ("context", "outcome", "learnt"),
    [("wrong", "elided", b"right\n"), ("right", "too_long", b"")],
)
def test_an_overlong_conversation_never_loses_all_that_is_learnt(
    context: str, outcome: str, learnt: bytes, byte_level: Tokenizer, kit: Any
) -> None:
    talk: tuple[tuple[Role, str], ...] = (
        ("user", "ask"),
        ("assistant", "wrong"),
        ("user", "again"),
        ("assistant", "right"),
    )
    turns = tuple(Turn(role=role, text=text, is_context=text == context) for role, text in talk)
    marked = chat.document(conversation_of(turns))
    done = objective_counts(marked, byte_level, kit, 20, "drop_oldest")
    assert done.outcome == outcome
    found = [token for encoding in done.encodings for token in scored_ids(encoding)]
    assert byte_level.decode_bytes(found) == learnt


def test_text_that_spells_a_role_is_no_role(byte_level: Tokenizer, kit: Any) -> None:
    (encoding,) = objective_counts(document(*TALK), byte_level, kit, 4096).encodings
    said = {
        role: encoding.ids.tolist().count(byte_level.ids_of[role]) for role in ("user", "assistant")
    }
    assert said == {"user": 2, "assistant": 2}


def test_without_a_token_for_the_end_of_a_turn_eos_ends_it_and_is_learnt(
    byte_level: Tokenizer, kit: Any
) -> None:
    other = without(byte_level, "<|end_of_turn|>")
    done = objective_counts(document(*TALK), other, kit, 4096)
    (encoding,) = done.encodings
    assert dict(done.objective_counts)["turns_ended_by_eos"] == 5
    assert encoding.ids[-2:].tolist() == [other.eos_id] * 2
    assert encoding.loss_mask[-3:].tolist() == [1, 0, 0]


def test_a_tokenizer_with_some_of_the_roles_gets_lines_for_all(byte_level: Tokenizer) -> None:
    other = without(byte_level, "<|system|>")
    marks = turn_marks(other)
    assert marks.style == "lines"
    assert marks.end.tolist() == [other.ids_of["end_of_turn"]]
    assert all(len(lead) > 1 for lead in marks.leads.values())


def test_a_conversation_longer_than_a_row_is_left_out_or_loses_its_oldest_exchanges(
    byte_level: Tokenizer, kit: Any
) -> None:
    turns: list[tuple[Role, str]] = [("system", "Be brief.")]
    for number in range(6):
        turns += [("user", f"question {number}"), ("assistant", f"answer {number}")]
    talk = document(*turns)
    skipped = objective_counts(talk, byte_level, kit, 80)
    assert (skipped.outcome, skipped.encodings) == ("too_long", ())
    done = objective_counts(talk, byte_level, kit, 80, "drop_oldest")
    (encoding,) = done.encodings
    assert done.outcome == "elided"
    assert len(encoding.ids) <= 80
    shown = byte_level.decode_bytes(encoding.ids.tolist()).decode()
    assert shown.split("\n") == [
        "Be brief.", "question 4", "answer 4", "question 5", "answer 5", "",
    ]  # fmt: skip
    assert byte_level.decode_bytes(scored_ids(encoding)) == b"answer 4\nanswer 5\n"
    assert done.num_bytes - done.elided_bytes == len(shown)
    (room_for_all,) = objective_counts(talk, byte_level, kit, skipped.num_tokens).encodings
    assert len(room_for_all.ids) == skipped.num_tokens


def test_one_exchange_that_is_longer_than_a_row_is_left_out_whatever_is_asked_for(
    byte_level: Tokenizer, kit: Any
) -> None:
    answer = "\n".join(f"line {number}" for number in range(40))
    short: tuple[tuple[Role, str], ...] = (("user", "?"), ("assistant", "!"))
    for talk in (
        document(("user", "?"), ("assistant", answer)),
        document(*short, ("user", "?"), ("assistant", answer)),
        document(("system", answer), *short, *short),
    ):
        for overlong in get_args(Overlong):
            done = objective_counts(talk, byte_level, kit, 64, overlong)
            assert (done.outcome, done.encodings) == ("too_long", ())
            assert done.num_tokens > 64


@pytest.fixture(scope="session")
def lacking(byte_level: Tokenizer) -> dict[str, Tokenizer]:
    """Tokenizers by what they have for turns."""
    roles = ("<|system|>", "<|user|>", "<|assistant|>")
    bare = Roles(document_tokens="none")
    return {
        "all": byte_level,
        "lines": without(byte_level, *roles),
        "eos": without(byte_level, "<|end_of_turn|>", "<|bos|>"),
        "bare": without(byte_level, *roles, "<|end_of_turn|>", roles=bare),
    }


WORDS = st.text("ab é\n𝄞", min_size=1, max_size=60).filter(str.strip)


@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5),
    st.none() | WORDS,
    st.sampled_from([48, 64, 128, 4096]),
    st.sampled_from(["all", "lines", "eos", "bare"]),
)
def test_every_byte_stands_once_or_is_elided_and_the_assistant_s_bytes_are_the_scored_ones(
    lacking: dict[str, Tokenizer],
    kit: Any,
    exchanges: list[tuple[str, str]],
    system: str | None,
    row_length: int,
    kind: str,
) -> None:
    tokenizer = lacking[kind]
    lead: list[tuple[Role, str]] = [("system", system)] if system else []
    said = list(lead)
    for question, answer in exchanges:
        said += [("user", question), ("assistant", answer)]
    talk = document(*said)
    done = objective_counts(talk, tokenizer, kit, row_length, "drop_oldest")
    skipped = objective_counts(talk, tokenizer, kit, row_length)
    assert (skipped.outcome == "whole") == (done.num_tokens <= row_length)
    if done.outcome == "too_long":
        assert (
            objective_counts(
                document(*lead, *said[-2:]), tokenizer, kit, row_length, "drop_oldest"
            ).outcome
            == "too_long"
        )
        return
    (encoding,) = done.encodings
    assert 0 < len(encoding.ids) <= row_length
    assert_sound(encoding, talk, tokenizer)
    covered = [piece for piece in encoding.pieces.tolist() if piece[0] == TEXT_PIECE]
    dropped = len(talk.parts) - len(covered)
    kept = [*talk.parts[: len(lead)], *talk.parts[len(lead) + dropped :]]
    assert dropped % 2 == 0
    assert [(low, high) for *_, low, high in covered] == [(span.start, span.end) for span in kept]
    assert done.outcome == ("elided" if dropped else "whole")
    if dropped:
        one_more = document(*lead, *said[len(lead) + dropped - 2 :])
        assert objective_counts(one_more, tokenizer, kit, row_length).num_tokens > row_length
    assert done.elided_bytes == len(talk.text.encode()) - sum(
        span.end - span.start for span in kept
    )
    own = assistant(replace(talk, parts=tuple(kept)))
    scored = scored_ids(encoding)
    assert tokenizer.decode_bytes(scored) == own
    assert int(tokenizer.token_bytes[scored].sum()) == dict_of(done)["assistant_bytes"] == len(own)


def dict_of(done: FitResult) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, number in done.objective_counts:
        counts[name] = counts.get(name, 0) + number
    return counts


def assert_sound(encoding: Encoding, talk: flat.Document, tokenizer: Tokenizer) -> None:
    """Pieces tile and are truthful, no cut is inside a character, every text has its speaker before it."""
    data, marks = talk.text.encode(), turn_marks(tokenizer)
    pieces = encoding.pieces.tolist()
    assert [piece[1] for piece in pieces] == [0, *(piece[2] for piece in pieces[:-1])]
    assert pieces[-1][2] == len(encoding.ids)
    bos = tokenizer.bos_id
    if bos is not None:
        assert encoding.ids.tolist().count(bos) == 1
        assert encoding.ids[0] == bos
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    assert all(end >= start for start, end in zip(starts, ends, strict=True))
    for kind, first, last, low, high in pieces:
        if kind == TEXT_PIECE:
            ids = encoding.ids[first:last].tolist()
            assert tokenizer.decode_bytes(ids) == data[low:high]
            data[low:high].decode()
            (part,) = [each for each in talk.parts if each.start <= low < high <= each.end]
            lead = marks.leads[cast(Role, part.kind)].tolist()
            assert encoding.ids[first - len(lead) : first].tolist() == lead
            if high == part.end:
                assert encoding.ids[last : last + len(marks.end)].tolist() == marks.end.tolist()
        else:
            assert low == high
    assert encoding.loss_mask[-1] == 0


def test_the_kinds_of_parts_are_the_roles() -> None:
    assert {kind for kind in PART_KINDS if kind in ("system", "user", "assistant")} == {
        role for role, _ in TALK
    }
    assert all(one.end == other.start for one, other in pairwise(document(*TALK).parts))
