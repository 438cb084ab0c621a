"""Rows of documents that are cut every T tokens: made of the same tokens, measured by the same rows."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from curriculum.corpus.load import load_corpus
from curriculum.inspection.build_tables import chop_lines, yield_lines
from curriculum.packing.row_check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, build
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from schemas.corpus import HistorySpec
from schemas.packed_row import TEXT_PIECE
from schemas.reports import RowsReport

ROW = 512
WHOLE = RowsSpec(family="v2_simple", row_length=ROW)
CHOPPED = replace(WHOLE, packer="chop")


@dataclass(frozen=True, kw_only=True)
class Both:
    """The same corpus with both packers, the one that cuts last."""

    whole: Built
    chopped: Built

    @property
    def train(self) -> tuple[Artefact, Artefact]:
        """Training rows of either packer."""
        return self.whole.rows_of(WHOLE).train, self.chopped.rows_of(CHOPPED).train


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    shipped = load_corpus("sample")
    corpus = shipped.model_copy(
        update={
            "repositories": shipped.repositories[2:],
            "history": HistorySpec(versions_per_path=1),
            "val_fraction": 0.15,
        }
    )
    store = Store(tmp_path_factory.mktemp("chopped"))
    whole, chopped = (
        build(store, corpus, (each,), fixed_length=ROW, tokenizing=Tokenizing(vocab_size=700))
        for each in (WHOLE, CHOPPED)
    )
    return Both(whole=whole, chopped=chopped)


def rows_of(artefact: Artefact) -> Iterator[dict[str, Any]]:
    yield from pq.read_table(artefact.shards(), partitioning=None).to_pylist()


def texts(artefact: Artefact) -> dict[str, list[tuple[int, int, tuple[int, ...]]]]:
    """The text tokens of each document by the bytes that they encode, those that follow each other joined."""
    found = defaultdict(list)
    for row in rows_of(artefact):
        for piece in row["pieces"]:
            if piece["kind"] == TEXT_PIECE:
                ids = row["input_ids"][piece["token_start"] : piece["token_end"]]
                name = row["document_ids"][piece["doc"]]
                found[name].append((piece["byte_start"], piece["byte_end"], tuple(ids)))
    joined = {}
    for name, pieces in found.items():
        first, *rest = sorted(pieces)
        listed = [first]
        for start, end, ids in rest:
            before = listed[-1]
            if before[1] == start:
                listed[-1] = (before[0], end, before[2] + ids)
            else:
                listed.append((start, end, ids))
        joined[name] = listed
    return joined


def test_only_rows_to_train_on_are_made_anew(both: Both) -> None:
    (made,) = (each for each in both.chopped.artefacts() if each.made)
    assert made.manifest.stage == "rows"
    assert made.manifest.labels["packer"] == "chop"
    assert made.manifest.labels["split"] == "train"
    measured, usual = both.chopped.rows_of(CHOPPED), both.whole.rows_of(WHOLE)
    assert measured.val is not None
    assert usual.val is not None
    assert measured.val.key == usual.val.key
    assert {name: each.key for name, each in measured.apart.items()} == {
        name: each.key for name, each in usual.apart.items()
    }


def test_the_usual_packer_is_in_no_key_and_no_report(both: Both) -> None:
    whole, chopped = both.train
    assert "packer" not in {*whole.manifest.config, *whole.manifest.labels, *whole.manifest.report}
    assert "chop" not in whole.manifest.report
    assert chopped.manifest.config["packer"] == "chop"


def test_both_packers_hold_the_same_tokens_of_the_same_documents(both: Both) -> None:
    whole, chopped = map(texts, both.train)
    assert len(whole) > 20
    assert chopped == whole


def test_every_row_of_a_domain_but_its_last_is_full_and_keeps_the_contract(both: Both) -> None:
    _, chopped = both.train
    check(chopped.path).raise_first()
    valid = defaultdict(list)
    for row in rows_of(chopped):
        valid[row["domain"]].append(row["valid_token_count"])
    assert len(valid) > 1
    assert max(map(len, valid.values())) > 5
    for *before, last in valid.values():
        assert all(each == ROW for each in before)
        assert 0 < last <= ROW


def test_a_division_is_a_document_to_its_row(both: Both) -> None:
    _, chopped = both.train
    bos = load_tokenizer(both.chopped.tokenizer).bos_id
    for row in rows_of(chopped):
        starts = [*row["doc_starts"], row["valid_token_count"]]
        assert starts[0] == 0
        for start, end in itertools.pairwise(starts):
            assert row["input_ids"][start] == bos
            assert row["loss_mask"][end - 1] == 0
        lengths = [end - start for start, end in itertools.pairwise(starts)]
        assert row["attention_pairs"] == sum(each * (each + 1) // 2 for each in lengths)


def test_the_report_counts_rows_that_begin_inside_a_document_and_documents_that_are_cut(
    both: Both,
) -> None:
    _, chopped = both.train
    report = chopped.reported(RowsReport)
    listed = [name for row in rows_of(chopped) for name in row["document_ids"]]
    again = len(listed) - sum(each.documents for each in report.domains.values())
    assert report.packer == "chop"
    assert report.chop.begun_inside == again > 10
    assert 0 < report.chop.divided <= report.chop.begun_inside
    assert report.chop.unscored_rows == 0
    rows = sum(each.rows for each in report.domains.values())
    (line,) = chop_lines(both.chopped)
    assert line == {
        "rows that were cut": "v2_simple causal 512 chop",
        "number": rows,
        "begin inside a document": again,
        "documents cut": report.chop.divided,
        "left out, without a target": 0,
    }
    assert [*chop_lines(both.whole)] == []
    assert next(yield_lines(both.chopped))["rows"] == "v2_simple causal 512 chop"


def test_cutting_takes_no_more_rows_than_whole_documents_do(both: Both) -> None:
    whole, chopped = (
        sum(each.rows for each in side.reported(RowsReport).domains.values()) for side in both.train
    )
    assert chopped <= whole
