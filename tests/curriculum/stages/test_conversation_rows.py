"""Rows of conversations: which answers are learnt, and what becomes of those longer than a row."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.load import load_corpus
from curriculum.inspection.build_tables import yield_lines
from curriculum.inspection.conversation_tables import conversation_warnings
from curriculum.inspection.losses import require_documents
from curriculum.packing.row_check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, build
from curriculum.stages.row_sources import RowSource
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Store
from curriculum.supply.measure import DocumentKind, measure
from schemas.corpus import ConversationsSpec, CorpusSpec, HistorySpec, Overlong
from schemas.errors import CorpusError
from schemas.families import CHAT_FAMILY
from schemas.reports import RowsReport

WANTED = RowsSpec(family=CHAT_FAMILY, objective="chat", row_length=128)
Message = Mapping[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **marks: object) -> Message:
    return {"role": "assistant", "content": text, **marks}


def lines() -> Iterator[Mapping[str, Any]]:
    """Ten conversations whose first answer is context, one with half a weight, and two that disagree."""
    for number in range(10):
        marks = {"train": False} if number % 2 else {"weight": 0}
        first = assistant(f"wrong {number}", stars=number, **marks)
        rest = (user("again"), assistant(f"right {number}"))
        yield {"id": number, "messages": [user("ask"), first, *rest]}
    yield {"id": 10, "messages": [user("ask"), assistant("half", weight=0.5)]}
    for weight in (0, 1):
        yield {"id": 11, "messages": [user("ask"), assistant("disputed", weight=weight)]}


def long_lines() -> Iterator[Mapping[str, Any]]:
    """Twenty conversations, of which two are longer than a row: the last by its only exchange."""
    for number in range(18):
        yield {"id": number, "messages": [user("ask"), assistant(f"short {number}")]}
    system = {"role": "system", "content": "Be brief."}
    turns = [turn for n in range(40) for turn in (user(f"ask {n}"), assistant(f"turn {n}"))]
    yield {"id": 18, "messages": [system, *turns]}
    endless = "\n".join(f"unending {n}" for n in range(200))
    yield {"id": 19, "messages": [user("ask"), assistant(endless)]}


def corpus(path: Path, overlong: Overlong = "skip") -> CorpusSpec:
    shipped = load_corpus("sample")
    return shipped.model_copy(
        update={
            "repositories": shipped.repositories[2:],
            "history": HistorySpec(versions_per_path=1),
            "conversations": (ConversationsSpec(name="mine", path=str(path), overlong=overlong),),
            "val_fraction": 0.15,
            "max_skipped": 0.2,
        }
    )


def built_of(
    folder: Path, lines: Iterator[Mapping[str, Any]], overlong: Overlong = "skip"
) -> Built:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return build(
        Store(folder / "home"),
        corpus(path, overlong),
        (WANTED,),
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=700),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built_of(tmp_path_factory.mktemp("talks"), lines())


def scored(built: Built) -> tuple[str, str]:
    """All texts of the rows, and what of them is scored."""
    tokenizer = load_tokenizer(built.tokenizer)
    texts, learnt = [], []
    for side in built.rows_of(WANTED).splits:
        assert check(side.path).faults == []
        for row in pq.read_table(side.shards(), partitioning=None).to_pylist():
            ids, mask = np.array(row["input_ids"]), np.array(row["loss_mask"])
            texts.append(tokenizer.decode(ids[: row["valid_token_count"]]))
            learnt.append(tokenizer.decode_bytes(ids[1:][mask[:-1] == 1].tolist()).decode())
    return "".join(texts), "".join(learnt)


def test_an_answer_of_weight_0_is_in_a_row_and_never_scored(built: Built) -> None:
    texts, learnt = scored(built)
    assert sorted(learnt.split("\n")) == ["", *(f"right {number}" for number in range(10))]
    assert all(f"wrong {number}" in texts for number in range(10))
    assert "half" not in texts
    assert "disputed" not in texts


def test_a_build_names_the_lines_and_keys_that_it_did_not_read(built: Built) -> None:
    skipped, keys, disputed = conversation_warnings(built)
    assert "mine.jsonl:11 (weight 0.5)" in skipped
    assert disputed.startswith("1 text ")
    assert keys.startswith("keys of mine ")
    assert "'stars' of 10 lines, such as mine.jsonl:1" in keys


def outcomes(built: Built) -> Counter[str]:
    counted: Counter[str] = Counter()
    for side in built.rows_of(WANTED).splits:
        counted.update(side.reported(RowsReport).encode.documents)
    return counted


def assert_supply_is_what_is_built(built: Built, overlong: Overlong) -> None:
    """If all conversations are sampled, tokens and overlong conversations are exact."""
    documents, tokens = (
        next(artefact for artefact in made if artefact.manifest.labels["family"] == CHAT_FAMILY)
        for made in (built.documents, built.tokens)
    )
    source = RowSource(documents=documents, base=documents, tokens=tokens, overlong=overlong)
    kind = DocumentKind(family=CHAT_FAMILY, row_length=WANTED.row_length)
    selection = built.selections[CHAT_FAMILY]
    measured = measure(kind, source, selection, load_tokenizer(built.tokenizer)).counts
    encoded = built.rows_of(WANTED).train.reported(RowsReport).encode
    assert measured["tokens"].sum() == encoded.tokens
    assert measured["scored"].sum() == measured["first"].sum() > 0
    assert measured["routed"].sum() == encoded.documents.get("too_long", 0)


def test_a_conversation_longer_than_a_row_is_left_out_counted_and_named(tmp_path: Path) -> None:
    made = built_of(tmp_path, long_lines())
    assert outcomes(made) == {"whole": 18, "too_long": 2}
    texts, learnt = scored(made)
    assert sorted(learnt.split("\n")) == sorted(["", *(f"short {number}" for number in range(18))])
    assert "unending" not in texts
    assert "turn 39" not in texts
    warnings = [*conversation_warnings(made)]
    assert sum("longer than a row" in line for line in warnings) in (1, 2)
    assert all("overlong: drop_oldest" in line for line in warnings)
    assert any("too long" in line for line in yield_lines(made))


def test_asked_for_it_the_newest_exchanges_of_a_long_conversation_stay_with_its_system_turn(
    tmp_path: Path,
) -> None:
    skipping = built_of(tmp_path, long_lines())
    made = built_of(tmp_path, long_lines(), "drop_oldest")
    assert_supply_is_what_is_built(skipping, "skip")
    assert_supply_is_what_is_built(made, "drop_oldest")
    assert outcomes(made) == {"whole": 18, "elided": 1, "too_long": 1}
    made_anew = {artefact.manifest.stage for artefact in made.artefacts() if artefact.made}
    assert made_anew == {"rows"}
    assert skipping.rows_of(WANTED).train.key != made.rows_of(WANTED).train.key
    texts, learnt = scored(made)
    (kept,) = re.findall(r"Be brief\.(?:\n|<[^>]+>)+ask (\d+)\n<", texts)
    assert 0 < int(kept) < 39
    for number in range(40):
        assert (
            (f"ask {number}\n" in texts) == (f"turn {number}\n" in learnt) == (number >= int(kept))
        )
    assert "unending" not in texts


def test_a_corpus_whose_conversations_are_all_too_long_names_the_reason_and_the_cure(
    tmp_path: Path,
) -> None:
    made = built_of(tmp_path, filter(lambda line: line["id"] >= 18, long_lines()))
    with pytest.raises(CorpusError) as refused:
        require_documents(made, [WANTED], all_of_them=True)
    assert "too long" in refused.value.cause
    assert "overlong: drop_oldest" in refused.value.cure
