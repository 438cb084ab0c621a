"""Rows of conversations: which answers are learnt, as their file says it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.load import load_corpus
from curriculum.inspection.stage_tables import conversation_warnings
from curriculum.packing.check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, build
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Store
from schemas.corpus import ConversationsSpec, CorpusSpec, HistorySpec
from schemas.families import CHAT_FAMILY

WANTED = RowsSpec(family=CHAT_FAMILY, objective="chat", row_length=128)
Message = Mapping[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **marks: object) -> Message:
    return {"role": "assistant", "content": text, **marks}


def lines() -> Iterator[Mapping[str, Any]]:
    """Ten conversations whose first answer is context in one of two ways, and a tenth of a weight."""
    for number in range(10):
        marks = {"train": False} if number % 2 else {"weight": 0}
        first = assistant(f"wrong {number}", stars=number, **marks)
        rest = (user("again"), assistant(f"right {number}"))
        yield {"id": number, "messages": [user("ask"), first, *rest]}
    yield {"id": 10, "messages": [user("ask"), assistant("half", weight=0.5)]}


def corpus(path: Path) -> CorpusSpec:
    shipped = load_corpus("sample")
    return shipped.model_copy(
        update={
            "repositories": shipped.repositories[2:],
            "history": HistorySpec(versions_per_path=1),
            "conversations": (ConversationsSpec(name="mine", path=str(path)),),
            "val_fraction": 0.15,
            "max_skipped": 0.2,
        }
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("talks")
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines()))
    return build(
        Store(folder / "home"),
        corpus(path),
        (WANTED,),
        anchor_length=512,
        tokenizing=Tokenizing(vocab_size=700),
    )


def scored(built: Built) -> tuple[str, str]:
    """All texts of the rows, and what of them is scored."""
    tokenizer = load_tokenizer(built.tokenizer)
    texts, learnt = [], []
    for side in built.rows_of(WANTED).splits:
        assert check(side.path).faults == []
        for row in pq.read_table(side.files(), partitioning=None).to_pylist():
            ids, mask = np.array(row["input_ids"]), np.array(row["loss_mask"])
            texts.append(tokenizer.decode(ids[: row["valid_token_count"]]))
            learnt.append(tokenizer.decode_bytes(ids[1:][mask[:-1] == 1].tolist()).decode())
    return "".join(texts), "".join(learnt)


def test_an_answer_of_weight_0_is_in_a_row_and_never_scored(built: Built) -> None:
    texts, learnt = scored(built)
    assert sorted(learnt.split("\n")) == ["", *(f"right {number}" for number in range(10))]
    assert all(f"wrong {number}" in texts for number in range(10))
    assert "half" not in texts


def test_a_build_names_the_lines_and_keys_that_it_did_not_read(built: Built) -> None:
    skipped, keys = conversation_warnings(built)
    assert "weight 1, such as mine.jsonl:11 (weight 0.5)" in skipped
    assert keys == "keys of mine that aren't read: 'stars' of 10 lines, such as mine.jsonl:1"
