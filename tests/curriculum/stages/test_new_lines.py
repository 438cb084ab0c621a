"""Training rows that score a line where its repository shows it first, against a reading line by line."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from curriculum.corpus.load import load_corpus
from curriculum.families.document_writer import documents_in
from curriculum.inspection.build_tables import new_line_lines
from curriculum.interop.huggingface import configs
from curriculum.objectives.new_lines import REVISION
from curriculum.packing.row_check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, build
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from schemas.corpus import HistorySpec
from schemas.document import Document, Part
from schemas.packed_row import TEXT_PIECE
from schemas.reports import RowsReport

V4 = "v4_context_graph"
NEW = (
    RowsSpec(family="v2_simple", row_length=512),
    RowsSpec(family="v3_simple", row_length=512),
    RowsSpec(family=V4, row_length=1024),
    RowsSpec(family=V4, objective="target", row_length=1024),
    RowsSpec(family=V4, objective="fim", row_length=1024),
    RowsSpec(family="v2_simple", objective="doc_to_code", row_length=512),
)
ALL = tuple(replace(each, score="all") for each in NEW)
ALONE = tuple(replace(each, repositories=("lattice",)) for each in NEW[:3])
Scored = dict[tuple[str, int, int], bool]
"""True for scored tokens, by document and byte range; EOS has the document's size as both ends."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Built:
    corpus = load_corpus("sample")
    chosen = [each for each in corpus.repositories if each.name in ("lattice", "ringlog")]
    corpus = corpus.model_copy(
        update={
            "repositories": tuple(chosen),
            "history": HistorySpec(versions_per_path=6),
            "val_fraction": 0.1,
        }
    )
    return build(
        Store(tmp_path_factory.mktemp("two")),
        corpus,
        (*NEW, *ALL, *ALONE),
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=800),
    )


def scored_in(rows: Artefact, token_bytes: Any) -> Scored:
    found: Scored = {}
    columns = ["input_ids", "loss_mask", "pieces", "document_ids"]
    table = pq.read_table(rows.shards(), columns=columns, partitioning=None)
    for row in table.to_pylist():
        for piece in row["pieces"]:
            at = piece["byte_start"]
            for token in range(piece["token_start"], piece["token_end"]):
                size = int(token_bytes[row["input_ids"][token]]) * (piece["kind"] == TEXT_PIECE)
                place = row["document_ids"][piece["doc"]], at, at + size
                # Tokens without bytes: BOS and elision lines are never scored, so EOS decides.
                before = found.get(place, False)
                found[place] = before or bool(token and row["loss_mask"][token - 1])
                at += size
    return found


def documents_of(built: Built, family: str) -> dict[str, list[Document]]:
    """Documents by repository, in the order of their commits."""
    found: defaultdict[str, list[Document]] = defaultdict(list)
    for artefact in built.documents:
        labels = artefact.manifest.labels
        if labels["family"] == family:
            found[labels["repository"]] += documents_in(artefact.path)
    for listed in found.values():
        listed.sort(key=lambda each: (each.timestamp, _commit(each), each.document_id))
    return found


def _commit(document: Document) -> str:
    return document.provenance[0].commit if document.provenance else ""


def _part_at(document: Document, byte: int) -> Part:
    return next(part for part in document.parts if part.start <= byte < part.end)


def _lines(document: Document, parts: list[Part]) -> Iterator[tuple[int, int, Any]]:
    """Start, end and pair of each line of some parts; a gap, or generated text, parts two lines."""
    data, end, before = document.text.encode(), -1, None
    for part in parts:
        before = before if part.start == end else None
        at = end = part.start
        for line in data[part.start : part.end].splitlines(keepends=True):
            own = line.strip()
            yield at, at + len(line), (before, own)
            at, before = at + len(line), own
        end = part.end


def expected_of(all_scored: Scored, listed: list[Document], kinds: set[str]) -> Scored:
    """The tokens of all lines that are scored when new lines alone are."""
    shown, tokens = set[Any](), defaultdict[str, dict[tuple[int, int], bool]](dict)
    for (name, start, end), scored in all_scored.items():
        tokens[name][start, end] = scored
    found: Scored = {}
    for document in listed:
        own = tokens.get(document.document_id)
        if own is None:
            continue
        starts = {start for start, end in own if end > start}
        parts = [part for part in document.parts if part.start in starts]
        judged = [
            part
            for part in parts
            if part.kind in kinds and (part.source >= 0 or part.kind == "changes")
        ]
        lines = [*_lines(document, judged)]
        new = {byte for low, high, pair in lines if pair not in shown for byte in range(low, high)}
        headers = {
            byte for part in parts if part.kind == "header" for byte in range(part.start, part.end)
        }
        shown |= {pair for _, _, pair in lines}
        last = max((place for place in own if place[1] > place[0]), default=(0, 0))
        for (start, end), scored in own.items():
            place = (start, end) if end > start else last
            allowed = new if end == start else new | headers
            found[document.document_id, start, end] = scored and not allowed.isdisjoint(
                range(*place)
            )
    return found


@pytest.mark.parametrize("at", [0, 1, 2, 3], ids=[each.title for each in NEW[:4]])
def test_a_line_is_scored_in_the_first_document_that_shows_it(two: Built, at: int) -> None:
    wanted, token_bytes = NEW[at], load_tokenizer(two.tokenizer).token_bytes
    new, full = (scored_in(two.rows_of(each).train, token_bytes) for each in (wanted, ALL[at]))
    kinds = {"target"} if wanted.objective == "target" else {"code", "changes", "context", "target"}
    expected: Scored = {}
    for listed in documents_of(two, wanted.family).values():
        expected |= expected_of(full, listed, kinds)
    assert expected.keys() == full.keys()
    lost = {place for place, scored in expected.items() if scored} - {
        place for place, scored in new.items() if scored
    }
    assert {place for place, scored in new.items() if scored} <= {
        place for place, scored in expected.items() if scored
    }
    # An encoding that would score nothing but a header is left out.
    known = {
        each.document_id: each
        for some in documents_of(two, wanted.family).values()
        for each in some
    }
    for name, start, end in lost:
        if end > start:
            assert _part_at(known[name], start).kind == "header"
    assert sum(expected.values()) < 0.9 * sum(full.values())


def test_fim_scores_no_context_and_all_else_as_ever(two: Built) -> None:
    token_bytes = load_tokenizer(two.tokenizer).token_bytes
    new, full = (scored_in(two.rows_of(each).train, token_bytes) for each in (NEW[4], ALL[4]))
    known = {each.document_id: each for some in documents_of(two, V4).values() for each in some}
    inside = 0
    for place in full.keys() & new.keys():
        if place[1] == place[2]:
            continue
        part = _part_at(known[place[0]], place[1])
        if part.kind == "context":
            assert not new[place]
            inside += full[place]
        else:
            assert new[place] == full[place]
    assert inside > 100


def test_rows_of_all_lines_have_the_key_that_they_had_before_there_was_a_choice(two: Built) -> None:
    new, full = (two.rows_of(each).train.manifest for each in (NEW[0], ALL[0]))
    added = {"score": "new", "score_revision": REVISION}
    assert new.config == full.config | added
    assert full.labels == new.labels | {"score": "all"}


def test_documentation_is_scored_as_ever(two: Built) -> None:
    new, full = (two.rows_of(each).train for each in (NEW[5], ALL[5]))
    columns = ["input_ids", "loss_mask", "pieces", "document_ids"]
    one, other = (
        pq.read_table(each.shards(), columns=columns, partitioning=None) for each in (new, full)
    )
    assert one.equals(other)
    assert new.key != full.key


def test_rows_that_measure_are_the_same_for_both(two: Built) -> None:
    for new, full in zip(NEW, ALL, strict=True):
        assert two.rows_of(new).val is two.rows_of(full).val
        assert two.rows_of(new).apart == two.rows_of(full).apart


def test_rows_keep_the_contract_and_count_documents_that_show_nothing_new(two: Built) -> None:
    for wanted in NEW[:4]:
        train = two.rows_of(wanted).train
        assert check(train.path).num_faults == 0
        report = train.reported(RowsReport)
        counts = report.encode.objective
        assert 0 < counts["new_lines"] < counts["lines"]
        assert report.unscored >= counts["without_new_lines"]
    files = two.rows_of(NEW[0]).train.reported(RowsReport).encode.objective
    assert files["without_new_lines"] > 0
    named = [line["rows that score new lines"] for line in new_line_lines(two)]
    assert named == [wanted.title for wanted in (*NEW[:4], *ALONE)]


def test_another_repository_changes_no_mask(two: Built) -> None:
    token_bytes = load_tokenizer(two.tokenizer).token_bytes
    for alone in ALONE:
        together = replace(alone, repositories=())
        one, both = (scored_in(two.rows_of(each).train, token_bytes) for each in (alone, together))
        assert 1000 < len(one) < len(both)
        assert {place: both[place] for place in one} == one
        assert sum(both.values()) > sum(one.values())


def test_rows_and_their_validation_are_one_data_set_of_the_card(two: Built) -> None:
    rows = two.rows_of(NEW[0])
    assert rows.val is not None
    root = next(each for each in rows.train.path.parents if each.name == "rows").parent
    (named,) = configs(root, [rows.train, rows.val])
    assert sorted(named.rows) == ["train", "val"]
