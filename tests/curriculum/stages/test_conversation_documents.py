"""Conversations go the same way as code, beside it: same store, same rows, same checks, own split."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.decisions import held_out_files
from curriculum.corpus.load import load_corpus
from curriculum.families.document_check import check_document
from curriculum.families.document_writer import documents_in
from curriculum.inspection.conversation_tables import conversation_warnings
from curriculum.packing.row_check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, build, sample
from curriculum.stages.held_out_text import check_sides
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from schemas.corpus import ConversationsSpec, CorpusSpec, HistorySpec
from schemas.document import Document
from schemas.errors import CorpusError, TokenizerError
from schemas.families import CHAT_FAMILY
from schemas.packed_row import TEXT_PIECE
from schemas.reports import RowsReport
from tests.curriculum.tokens.templates import QWEN3, QWEN25, put
from tests.error_fields import fields

LENGTHS = (256, 512)
CHAT = tuple(RowsSpec(family=CHAT_FAMILY, objective="chat", row_length=size) for size in LENGTHS)
CODE = (RowsSpec(family="v2_simple", row_length=512),)


def corpus(**changes: Any) -> CorpusSpec:
    shipped = load_corpus("sample")
    return shipped.model_copy(
        update={
            "repositories": shipped.repositories[2:],
            "history": HistorySpec(versions_per_path=1),
            "val_fraction": 0.15,
            **changes,
        }
    )


def build_conversations(
    root: Path, wanted: tuple[RowsSpec, ...], *, dry: bool = False, **changes: Any
) -> Built:
    return build(
        Store(root, dry=dry),
        corpus(**changes),
        wanted,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=700),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_conversations(tmp_path_factory.mktemp("talks"), (*CHAT, *CODE))


def chat_artefacts(built: Built) -> list[Artefact]:
    return [each for each in built.documents if each.manifest.labels["family"] == CHAT_FAMILY]


def documents(built: Built) -> Mapping[str, Document]:
    return {
        each.document_id: each
        for artefact in chat_artefacts(built)
        for each in documents_in(artefact.path)
    }


def rows(artefact: Artefact) -> Iterator[dict[str, Any]]:
    yield from pq.read_table(artefact.shards(), partitioning=None).to_pylist()


def said(document: Document, start: int, end: int) -> bytes:
    """Return the assistant's text between two byte offsets."""
    data = document.text.encode()
    own = [part for part in document.parts if part.kind == "assistant"]
    cut = [(max(part.start, start), min(part.end, end)) for part in own]
    return b"".join(data[low:high] for low, high in cut if low < high)


def test_every_conversation_is_a_sound_document_of_its_source(built: Built) -> None:
    found = documents(built)
    assert len(found) == 30
    for each in found.values():
        check_document(each)
        assert re.fullmatch(r"conversations\.jsonl:\d+", each.provenance[0].path)
    (artefact,) = chat_artefacts(built)
    assert artefact.manifest.report["lines"] == {
        "read": 30,
        "lost": 0.0,
        "skipped": {},
        "examples": {},
    }


def test_the_rows_keep_the_contract_and_their_side(built: Built) -> None:
    held_out = held_out_files(built.selections[CHAT_FAMILY])
    token_bytes = load_tokenizer(built.tokenizer).token_bytes
    assert held_out
    for wanted in CHAT:
        found = built.rows_of(wanted)
        for side in found.splits:
            report = check(side.path)
            assert report.faults == []
            assert report.rows > 0
            assert check_sides(side, chat_artefacts(built), held_out, token_bytes) > 0


def test_the_bytes_that_are_scored_are_the_assistant_s(built: Built) -> None:
    tokenizer, known = load_tokenizer(built.tokenizer), documents(built)
    for wanted in CHAT:
        found = built.rows_of(wanted)
        for side in found.splits:
            whole = 0
            for row in rows(side):
                ids, mask = np.array(row["input_ids"]), np.array(row["loss_mask"])
                scored = ids[1:][mask[:-1] == 1]
                own = b"".join(
                    said(
                        known[row["document_ids"][each["doc"]]],
                        each["byte_start"],
                        each["byte_end"],
                    )
                    for each in row["pieces"]
                    if each["kind"] == TEXT_PIECE
                )
                assert tokenizer.decode_bytes(scored.tolist()) == own
                assert (row["domain"], row["objective"]) == ("chat", "chat")
                whole += int(tokenizer.token_bytes[scored].sum())
            encoded: Any = side.manifest.report["encode"]
            assert whole == encoded["objective"]["assistant_bytes"] > 0
            assert encoded["objective"]["turns_with_role_tokens"] > 0


def test_rows_follow_the_chat_template_of_a_given_tokenizer(tmp_path: Path) -> None:
    done = build(
        Store(tmp_path / "home"),
        corpus(),
        CHAT[1:],
        fixed_length=512,
        tokenizing=Tokenizing(given=Tokenizer.load(put(tmp_path / "qwen", QWEN25))),
    )
    assert done.tokenizer.manifest.config["chat_template"]
    tokenizer = load_tokenizer(done.tokenizer)
    (made_rows,) = done.rows
    for side in made_rows.splits:
        assert check(side.path).faults == []
        counts: Any = side.manifest.report["encode"]
        assert counts["objective"]["turns_by_template"] > 0
        for row in rows(side):
            ids, mask = np.array(row["input_ids"]), np.array(row["loss_mask"])
            scored = tokenizer.decode(ids[1:][mask[:-1] == 1])
            shown = tokenizer.decode(ids[: row["valid_token_count"]])
            assert "### " not in shown
            for answer in scored.split("<|im_end|>")[:-1]:
                assert f"{answer}<|im_end|>" in shown
            assert "<|im_start|>" not in scored
            assert not re.search(r"\n<\|im_end\|>", shown)


def test_every_byte_of_a_conversation_is_in_a_row_or_counted(built: Built) -> None:
    kept = {
        row["document_id"]: row["split"]
        for row in pq.read_table(
            built.selections[CHAT_FAMILY].path / "selection.parquet", partitioning=None
        ).to_pylist()
    }
    sizes = {name: len(each.text.encode()) for name, each in documents(built).items()}
    too_long = 0
    for wanted in CHAT:
        found = built.rows_of(wanted)
        for split, side in zip(("train", "val"), found.splits, strict=True):
            there = {name for name, where in kept.items() if where == split}
            seen: dict[str, int] = {}
            for row in rows(side):
                for each in row["pieces"]:
                    name = row["document_ids"][each["doc"]]
                    size = each["byte_end"] - each["byte_start"]
                    seen[name] = seen.get(name, 0) + size
            assert set(seen) <= there
            assert seen == {name: sizes[name] for name in seen}
            encoded = side.reported(RowsReport).encode
            left_out = there - seen.keys()
            assert len(left_out) == encoded.documents.get("too_long", 0)
            assert sum(sizes[name] for name in left_out) == encoded.num_bytes.get("too_long", 0)
            too_long += len(left_out)
    assert too_long > 0


def test_conversations_move_no_other_artefact(tmp_path: Path, built: Built) -> None:
    root = built.selection.path.parents[2]
    alone = build_conversations(root, CODE, conversations=())
    assert [each for each in alone.artefacts() if each.made] == []
    others = [each.key for each in alone.artefacts()]
    assert set(others) <= {each.key for each in built.artefacts()}
    assert built.selections.keys() == {CHAT_FAMILY}
    assert alone.selections == {}


def test_other_bytes_or_another_name_of_the_source_make_its_documents_anew(
    tmp_path: Path, built: Built
) -> None:
    root = built.selection.path.parents[2]
    (spec,) = corpus().conversations
    copied = tmp_path / "conversations.jsonl"
    copied.write_bytes(Path(spec.path).read_bytes())
    moved = spec.model_copy(update={"path": str(copied)})
    again = build_conversations(root, CHAT, dry=True, conversations=(moved,))
    assert not any(each.planned for each in again.artefacts())
    copied.write_bytes(Path(spec.path).read_bytes() + b"\n")
    changed = build_conversations(root, CHAT, dry=True, conversations=(moved,))
    planned = {each.manifest.stage for each in changed.artefacts() if each.planned}
    assert planned == {"documents", "selections", "tokens", "rows"}
    assert not changed.tokenizer.planned


def test_a_serving_of_one_source_reads_no_other(tmp_path: Path) -> None:
    (spec,) = corpus().conversations
    other = tmp_path / "mine.jsonl"
    question = {"role": "user", "content": "?"}
    lines = [
        json.dumps(
            {"id": name, "messages": [question, {"role": "assistant", "content": f"{name}."}]}
        )
        for name in range(20)
    ]
    other.write_text("\n".join(lines) + "\n")
    both = (spec, ConversationsSpec(name="mine", path=str(other)))
    wanted = RowsSpec(family=CHAT_FAMILY, objective="chat", row_length=128, repositories=("mine",))
    found = build_conversations(tmp_path / "home", (wanted,), conversations=both)
    names = {each.manifest.labels["repository"] for each in chat_artefacts(found)}
    assert names == {"talks", "mine"}
    own = {name for name, each in documents(found).items() if each.lineage.startswith("mine:")}
    listed = [name for row in rows(found.rows_of(wanted).train) for name in row["document_ids"]]
    assert set(listed) <= own
    assert len(listed) > 10


def test_too_many_lost_lines_publish_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"messages": []}\n')
    spec = ConversationsSpec(name="t", path=str(file))
    with pytest.raises(CorpusError, match=r"shape 1, .*t\.jsonl:1"):
        build_conversations(tmp_path / "home", CHAT, conversations=(spec,))
    published = [each.manifest.labels for each in Store(tmp_path / "home").artefacts("documents")]
    assert CHAT_FAMILY not in {labels["family"] for labels in published}


def test_a_conversation_that_the_template_takes_apart_is_left_out_and_counted(
    tmp_path: Path,
) -> None:
    question = {"role": "user", "content": "?"}
    thought, plain = "<think>hm</think>Yes.", "Yes."
    lines = [
        {"id": str(at), "messages": [question, {"role": "assistant", "content": f"{said} {at}."}]}
        for at, said in enumerate([thought, *[plain] * 39])
    ]
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    tokenizing = Tokenizing(given=Tokenizer.load(put(tmp_path / "qwen", QWEN3)))

    def built_with(max_skipped: float) -> Built:
        spec = ConversationsSpec(name="t", path=str(file))
        asked = corpus(conversations=(spec,), max_skipped=max_skipped)
        store = Store(tmp_path / "home")
        return build(store, asked, CHAT[:1], fixed_length=512, tokenizing=tokenizing)

    with pytest.raises(TokenizerError, match=r"2\.5% .*'</think>'.*max_skipped .*1") as few:
        built_with(0.01)
    (thinking,) = (
        each
        for each in documents_in(next(Store(tmp_path / "home").artefacts("documents")).path)
        if "think" in each.text
    )
    assert thinking.document_id in str(few.value)
    found = built_with(0.05)
    (made_rows,) = found.rows
    reports = [side.reported(RowsReport).encode for side in made_rows.splits]
    assert sum(each.documents.get("refused", 0) for each in reports) == 1
    assert sum(sum(each.refused.values()) for each in reports) == 1
    assert sum(each.documents["whole"] for each in reports) == 39
    listed = [
        name for side in made_rows.splits for row in rows(side) for name in row["document_ids"]
    ]
    assert sorted(listed) == sorted(documents(found).keys() - {thinking.document_id})
    (warning,) = (each for each in conversation_warnings(found) if "left out" in each)
    assert "1 conversation " in warning
    assert thinking.document_id in warning


def test_a_corpus_without_conversations_says_so_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, check=fields(value="conversations: none")):
        build_conversations(tmp_path / "home", CHAT, conversations=())
    with pytest.raises(CorpusError, match="conversations: none"):
        sample(Store(tmp_path / "home"), corpus(conversations=()), CHAT, number=2)
    assert [*Store(tmp_path / "home").artefacts()] == []


def test_a_sample_shows_a_few_of_each_source(tmp_path: Path) -> None:
    (one,) = sample(Store(tmp_path), corpus(), CHAT, number=3)
    assert one.manifest.report["documents"] == 3
    assert one.manifest.labels["family"] == CHAT_FAMILY
