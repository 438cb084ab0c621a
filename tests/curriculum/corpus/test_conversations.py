"""Conversations are read line by line; what is none is skipped, counted and named."""

import doctest
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus import conversation_lines, conversations
from curriculum.corpus.conversations import (
    ConversationFiles,
    SkippedLines,
    find_conversations,
    ingredients,
    read_conversations,
    refuse_losses,
)
from curriculum.corpus.load import load_corpus
from curriculum.corpus.sources import resolve
from schemas.change import Conversation, Turn
from schemas.corpus import ConversationsSpec, CorpusSpec, QualitySpec, RepositorySpec
from schemas.errors import CorpusError
from tests.bounded import bounded
from tests.error_fields import fields

CORPUS = CorpusSpec(
    name="c",
    repositories=(RepositorySpec(name="r", path="/r"),),
    quality=QualitySpec(max_bytes=2000),
)
WIDE = CORPUS.model_copy(update={"quality": QualitySpec(max_bytes=100_000)})
GOOD = '{"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b."}]}'


def found(path: Path, name: str = "talks") -> ConversationFiles:
    return find_conversations(ConversationsSpec(name=name, path=str(path), licence="MIT"))


def read(path: Path, corpus: CorpusSpec = CORPUS) -> tuple[list[Conversation], SkippedLines]:
    skips = SkippedLines()
    return [*read_conversations(found(path), corpus, skips)], skips


def written(tmp_path: Path, *lines: str | bytes) -> Path:
    file = tmp_path / "talks.jsonl"
    file.write_bytes(
        b"\n".join(each.encode() if isinstance(each, str) else each for each in lines) + b"\n"
    )
    return file


def messages(*turns: tuple[str, str], **more: Any) -> str:
    listed = [{"role": role, "content": text} for role, text in turns]
    return json.dumps({"messages": listed, **more}, ensure_ascii=False)


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(conversation_lines)
    assert done.attempted
    assert not done.failed


def test_both_ways_of_writing_say_the_same(tmp_path: Path) -> None:
    other = {
        "conversations": [
            {"from": "system", "value": "s"},
            {"from": "human", "value": "ä?"},
            {"from": "gpt", "value": "b."},
        ]
    }
    one = messages(("system", "s"), ("user", "ä?"), ("assistant", "b."))
    (first, second), skips = read(written(tmp_path, one, json.dumps(other)))
    assert first.turns == second.turns
    assert first.digest == second.digest == first.name
    assert (first.source, first.licence, skips.read, skips.lost_share) == ("talks", "MIT", 2, 0)


def test_a_conversation_knows_its_line_and_the_bytes_of_it(tmp_path: Path) -> None:
    lines = [messages(("user", f"ä{n}?"), ("assistant", "x\ny"), id=n) for n in range(4)]
    file = written(tmp_path, "\ufeff" + lines[0], "", lines[1] + "\r", lines[2] + "  ", lines[3])
    data = file.read_bytes()
    listed, skips = read(file)
    assert [each.line for each in listed] == [1, 3, 4, 5]
    assert [each.name for each in listed] == ["0", "1", "2", "3"]
    assert {each.file for each in listed} == {"talks.jsonl"}
    for each, line in zip(listed, lines, strict=True):
        assert line in data[each.start : each.end].decode("utf-8-sig")
        assert b"\n" not in data[each.start : each.end]
    assert skips.counts.total() == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "json"),
        ("[]", "json"),
        ('"text"', "json"),
        ("[" * 10_000, "too_large"),
        ("[" * 1900, "json"),
        ('{"n": ' + "9" * 1800 + "}", "shape"),
        (b'{"messages": "\xff"}', "encoding"),
        (b"\xff\xfe{\x00}\x00", "encoding"),
        ("{}", "shape"),
        ('{"messages": []}', "shape"),
        ('{"messages": null}', "shape"),
        ('{"messages": ["a", "b"]}', "shape"),
        ('{"messages": [{"role": "user"}]}', "shape"),
        ('{"messages": [{"role": "user", "content": null}]}', "shape"),
        ('{"messages": [{"role": "user", "content": ["a"]}]}', "shape"),
        ('{"messages": [{"role": 1, "content": "a"}]}', "shape"),
        (messages(("tool", "a"), ("assistant", "b")), "role"),
        (messages(("User", "a"), ("assistant", "b")), "role"),
        (messages(("assistant", "b")), "order"),
        (messages(("assistant", "b"), ("user", "a")), "order"),
        (messages(("user", "a")), "order"),
        (messages(("user", "a"), ("assistant", "b"), ("user", "c")), "order"),
        (messages(("user", "a"), ("user", "b"), ("assistant", "c")), "order"),
        (messages(("user", "a"), ("system", "s"), ("assistant", "c")), "order"),
        (messages(("system", "s"), ("system", "s"), ("user", "a"), ("assistant", "c")), "order"),
        (messages(("system", "s")), "order"),
        (messages(("user", "a"), ("assistant", "")), "empty"),
        (messages(("user", "a"), ("assistant", " \n\t")), "empty"),
        (messages(("user", " "), ("assistant", "b")), "empty"),
        (messages(("user", "a" * 3000), ("assistant", "b")), "too_large"),
        (GOOD.replace("b.", "\\ud800"), "encoding"),
    ],
)
def test_a_line_that_is_no_conversation_is_skipped_and_named(
    tmp_path: Path, line: str | bytes, reason: str
) -> None:
    listed, skips = read(written(tmp_path, GOOD, line, GOOD))
    assert [each.line for each in listed] == [1, 3]
    assert skips.counts == {reason: 1}
    assert skips.report().dump() == {
        "read": 2,
        "lost": pytest.approx(1 / 3),
        "skipped": {reason: 1},
        "examples": {reason: ["talks.jsonl:2"]},
    }


def marked(**marks: Any) -> str:
    """A conversation whose first answer has marks, and whose second has none."""
    turns = [*json.loads(GOOD)["messages"], {"role": "user", "content": "c?"}]
    turns[1] |= marks
    return json.dumps({"messages": [*turns, {"role": "assistant", "content": "d."}]})


@pytest.mark.parametrize(
    ("marks", "is_context"),
    [
        ({"weight": 0}, True),
        ({"weight": 0.0}, True),
        ({"train": False}, True),
        ({"weight": 0, "train": False}, True),
        ({"weight": 1}, False),
        ({"weight": 1.0, "train": True}, False),
        ({"weight": None, "train": None}, False),
    ],
)
def test_weight_and_train_say_which_answers_are_context(
    tmp_path: Path, marks: dict[str, Any], is_context: bool
) -> None:
    (one, plain), skips = read(written(tmp_path, marked(**marks), marked()))
    assert [turn.is_context for turn in one.turns] == [False, is_context, False, False]
    assert (one.digest == plain.digest) == (not is_context)
    assert not skips.ignored


@pytest.mark.parametrize(
    ("line", "reason", "named"),
    [
        (marked(weight=0.5), "weight", "weight 0.5"),
        (marked(weight=2), "weight", "weight 2"),
        (marked(weight=-1), "weight", "weight -1"),
        (marked(weight=True), "weight", "weight true"),
        (marked(weight="0"), "weight", 'weight "0"'),
        (marked(weight="x" * 60), "weight", 'weight "' + "x" * 32),
        (marked(weight=9).replace("9", "[" * 700 + "]" * 700), "weight", "weight list"),
        (marked(train=0), "weight", "train 0"),
        (marked(train="no"), "weight", 'train "no"'),
        (marked(weight=1, train=False), "weight", "weight 1 and train false"),
        (GOOD.replace('"a?"', '"a?", "weight": 1'), "weight", "role user"),
        (GOOD.replace('"a?"', '"a?", "train": true'), "weight", "role user"),
        (marked(tool_calls=[{"id": "1"}]), "key", "tool_calls"),
        (marked(content=None, function_call={"name": "f"}), "key", "function_call"),
        (marked(loss=False), "key", "loss"),
        (marked(train=False).replace("false", 'false, "train": true'), "key", "train twice"),
        (marked(reasoning_content="hm"), "key", "reasoning_content"),
        (marked(images=["a.png"]), "key", "images"),
        (GOOD.replace("{", '{"system": "s", ', 1), "key", "system"),
        (GOOD.replace("{", '{"tools": [{"type": "function"}], ', 1), "key", "tools"),
        (GOOD.replace("{", '{"weight": 0, ', 1), "key", "weight"),
        (GOOD.replace("{", '{"conversations": [{"from": "human"}], ', 1), "key", "conversations"),
    ],
)
def test_what_would_change_what_is_learnt_and_is_not_read_is_refused_by_line(
    tmp_path: Path, line: str, reason: str, named: str
) -> None:
    listed, skips = read(written(tmp_path, GOOD, line))
    assert [turn.line for turn in listed] == [1]
    assert skips.counts == {reason: 1}
    assert skips.examples == {reason: [f"talks.jsonl:2 ({named})"]}


def test_a_key_that_is_repeated_after_many_others_is_found_in_linear_time(tmp_path: Path) -> None:
    keys = ", ".join(f'"k{index:05}": 1' for index in range(40_000))
    line = f'{{{keys}, "k39999": 2}}'
    wide = CORPUS.model_copy(update={"quality": QualitySpec(max_bytes=len(line))})
    with bounded(seconds=5, mebibytes=100):
        _, skips = read(written(tmp_path, line), wide)
    assert skips.examples == {"key": ["talks.jsonl:1 (k39999 twice)"]}


def test_the_other_layout_has_the_same_marks_and_refusals(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b.", "weight": 0}]
    other = [turns[0], {"from": "gpt", "value": "b.", "tool_calls": [1]}]
    lines = [json.dumps({"conversations": listed}) for listed in (turns, other)]
    (one,), skips = read(written(tmp_path, *lines))
    assert [turn.is_context for turn in one.turns] == [False, True]
    assert skips.examples == {"key": ["talks.jsonl:2 (tool_calls)"]}


def test_marks_of_context_on_a_question_say_what_holds_anyway(tmp_path: Path) -> None:
    line = GOOD.replace('"a?"', '"a?", "weight": 0, "train": false')
    (one,), _ = read(written(tmp_path, line))
    assert not any(turn.is_context for turn in one.turns)


def test_other_keys_are_read_over_and_named(tmp_path: Path) -> None:
    lines = [marked(name="x", tool_calls=[], audio=None), marked(**{"a\nb" * 30: 1}), GOOD]
    topped = json.dumps({**json.loads(GOOD), "origin": "forum", "id": 7, "tools": []})
    listed, skips = read(written(tmp_path, *lines, topped, topped))
    assert len(listed) == 5
    long = "a\\nb" * 13 + "a"
    assert skips.report().ignored_keys == {"name": 1, long: 1, "origin": 2}
    assert skips.report().ignored_examples["origin"] == "talks.jsonl:4"
    many = {f"key {number}": 1 for number in range(1000)}
    _, skips = read(written(tmp_path, json.dumps({**json.loads(GOOD), **many})), WIDE)
    assert len(skips.ignored) == 20


def test_an_empty_system_turn_says_nothing_and_is_left_out(tmp_path: Path) -> None:
    line = messages(("system", " "), ("user", "a"), ("assistant", "b"))
    (one,), _ = read(written(tmp_path, line))
    assert one.turns == (Turn(role="user", text="a"), Turn(role="assistant", text="b"))


@pytest.mark.parametrize("name", [True, 1.5, "", "a\nb", "x" * 201, None, ["a"], "\ud800"])
def test_an_id_that_cannot_stand_in_a_lineage_is_none(tmp_path: Path, name: object) -> None:
    line = json.dumps({**json.loads(GOOD), "id": name})
    (one,), _ = read(written(tmp_path, line))
    assert one.name == one.digest


def test_a_huge_line_costs_no_memory(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD, b'{"x": "' + b"a" * 40_000_000 + b'"}', GOOD)
    files = found(file)
    tracemalloc.start()
    listed = [*read_conversations(files, CORPUS, SkippedLines())]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [each.line for each in listed] == [1, 3]
    assert peak < 20_000_000


def test_more_losses_than_allowed_fail_with_counts_and_a_place_of_each(tmp_path: Path) -> None:
    file = written(tmp_path, *[GOOD] * 98, "{", messages(("user", "a")))
    files, skips = found(file), SkippedLines()
    assert len([*read_conversations(files, CORPUS, skips)]) == 98
    refuse_losses(files, CORPUS.model_copy(update={"max_skipped": 0.02}), skips)
    with pytest.raises(CorpusError) as refused:
        refuse_losses(files, CORPUS, skips)
    assert refused.value.name == "conversations talks"
    value = str(refused.value.value)
    assert value.startswith("2.0%")
    assert "json 1, such as talks.jsonl:99, order 1, such as talks.jsonl:100" in value
    assert "1.0%" in refused.value.cause


def test_a_file_without_a_conversation_is_refused(tmp_path: Path) -> None:
    files, skips = found(written(tmp_path, "", " ")), SkippedLines()
    assert [*read_conversations(files, CORPUS, skips)] == []
    with pytest.raises(CorpusError, check=fields(value=tmp_path / "talks.jsonl")):
        refuse_losses(files, CORPUS, skips)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    files = found(file)
    written(tmp_path, GOOD, GOOD)
    with pytest.raises(CorpusError, match="changed", check=fields(value="talks.jsonl")):
        [*read_conversations(files, CORPUS, SkippedLines())]


def test_a_folder_gives_its_json_lines_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/z.jsonl", "a/notes.txt"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(GOOD.replace("a?", name) + "\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "b.jsonl")
    listed, _ = read(tmp_path)
    assert [each.file for each in listed] == ["a/z.jsonl", "b.jsonl"]


@pytest.mark.parametrize("swapped", ["a/z.jsonl", "a"])
def test_a_link_that_is_swapped_into_a_folder_after_it_was_listed_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    theirs, private = tmp_path / "theirs", tmp_path / "private"
    for folder in (theirs, private):
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "z.jsonl").write_text(GOOD.replace("a?", folder.name) + "\n")
    listed = conversations.conversation_paths

    def raced(spec: ConversationsSpec) -> tuple[Path, list[str]]:
        paths = listed(spec)
        (theirs / swapped).rename(tmp_path / "before")
        (theirs / swapped).symlink_to(private / swapped)
        return paths

    with monkeypatch.context() as patched:
        patched.setattr(conversations, "conversation_paths", raced)
        with pytest.raises(CorpusError) as refused:
            read(theirs)
    assert refused.value.value == "a/z.jsonl"
    (followed,), _ = read(theirs / "a" / "z.jsonl")
    assert followed.turns[0].text == "private", "a link that the user names leads there"


def test_where_there_is_nothing_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nothing"):
        found(tmp_path / "none.jsonl")
    with pytest.raises(CorpusError, match=r"\.jsonl"):
        found(tmp_path)
    (tmp_path / "linked.jsonl").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(CorpusError) as refused:
        found(tmp_path)
    assert refused.value.cause.endswith("linked.jsonl is a link, pipe.jsonl is a pipe")
    (tmp_path / "a\n.jsonl").write_text(GOOD)
    with pytest.raises(CorpusError, check=fields(value=r"'a\n.jsonl'")):
        found(tmp_path)


@pytest.mark.parametrize(
    ("put", "lies"),
    [
        (os.mkfifo, "a pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to(path), "a broken link"),
        (lambda path: path.symlink_to("gone"), "a broken link"),
    ],
    ids=["pipe", "device", "loop", "dangling"],
)
def test_a_source_that_is_no_file_is_refused_by_what_lies_there(
    tmp_path: Path, put: Callable[[Path], None], lies: str
) -> None:
    put(tmp_path / "talks.jsonl")
    with pytest.raises(CorpusError) as refused:
        found(tmp_path / "talks.jsonl")
    assert lies in refused.value.cause
    with pytest.raises(CorpusError) as refused:
        resolve(RepositorySpec(name="mine", path=str(tmp_path / "talks.jsonl")), cache=tmp_path)
    assert lies in refused.value.cause


def test_the_key_rests_on_bytes_and_names_and_not_on_where_they_lie(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        written(folder, GOOD)
    assert ingredients(found(one), CORPUS) == ingredients(found(other), CORPUS)
    written(other, GOOD, GOOD)
    assert ingredients(found(one), CORPUS) != ingredients(found(other), CORPUS)
    assert ingredients(found(one), CORPUS) != ingredients(found(one, "others"), CORPUS)


def test_paths_are_relative_to_the_corpus_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: c\nrepositories: [{name: r, path: r}]\n"
        "conversations: [{name: t, path: talks/t.jsonl}, {name: u, path: /abs}]\n"
    )
    corpus = load_corpus(str(tmp_path / "c.yaml"))
    assert [each.path for each in corpus.conversations] == [f"{tmp_path}/talks/t.jsonl", "/abs"]


def test_conversations_and_repositories_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: c\nrepositories: [{name: r, path: r}]\nconversations: [{name: R, path: t.jsonl}]\n"
    )
    with pytest.raises(CorpusError, match="'r' and 'R'"):
        load_corpus(str(tmp_path / "c.yaml"))


def test_the_shipped_conversations_are_all_sound() -> None:
    corpus = load_corpus("sample")
    (spec,) = corpus.conversations
    skips = SkippedLines()
    listed = [*read_conversations(find_conversations(spec), corpus, skips)]
    assert len({each.digest for each in listed}) == len(listed) >= 20
    assert skips.counts.total() == 0


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_what_was_said_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    exchanges: list[tuple[str, str]],
    with_system: bool,
    is_ascii: bool,
) -> None:
    turns = [("system", "s")] if with_system else []
    for question, answer in exchanges:
        turns += [("user", question), ("assistant", answer)]
    listed = {"messages": [{"role": role, "content": text} for role, text in turns]}
    file = written(tmp_path_factory.mktemp("said"), json.dumps(listed, ensure_ascii=is_ascii))
    (one,), _ = read(file, CORPUS.model_copy(update={"quality": QualitySpec(max_bytes=10_000_000)}))
    assert [(turn.role, turn.text) for turn in one.turns] == turns
