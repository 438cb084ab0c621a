"""Phases of graphs and structure, built whole on the sample corpus: every document, every row."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.decisions import held_out_files
from curriculum.corpus.load import load_corpus
from curriculum.families.document_check import check_document
from curriculum.families.document_writer import documents_in
from curriculum.families.v6_enriched import enrich
from curriculum.graph import clang
from curriculum.packing.row_check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, Workers, build, sample
from curriculum.stages import documents as writers
from curriculum.stages.held_out_text import check_sides
from curriculum.stages.row_sources import Beside
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from schemas.corpus import CODE, CorpusSpec, HistorySpec
from schemas.document import DOCUMENT_SCHEMA, Document
from schemas.errors import CorpusError, PackError
from schemas.packed_row import TEXT_PIECE
from schemas.reports import DocumentsReport
from schemas.structure import STRUCTURE_COLUMNS
from tests.curriculum.families.check_structure import check_structure

V4, V5, V6 = "v4_context_graph", "v5_clang_graph", "v6_enriched"
WANTED = (
    RowsSpec(family=V4, row_length=1024),
    RowsSpec(family=V4, row_length=4096),
    RowsSpec(family=V6, base="v2_simple", row_length=512),
    RowsSpec(family="v2_simple", row_length=512),
    RowsSpec(family=V6, base=V4, row_length=1024),
    RowsSpec(family=V4, objective="fim", row_length=1024),
)
FLAT = ("input_ids", "target_ids", "loss_mask", "doc_ids", "doc_starts")


def corpus(*names: str) -> CorpusSpec:
    shipped = load_corpus("sample")
    chosen = tuple(each for each in shipped.repositories if each.name in names)
    return shipped.model_copy(
        update={
            "repositories": chosen,
            "history": HistorySpec(versions_per_path=2),
            "val_fraction": 0.3,
        }
    )


def graphs(
    root: Path,
    wanted: tuple[RowsSpec, ...] = WANTED,
    *,
    names: tuple[str, ...] = ("arena", "ringlog"),
    workers: int = 1,
) -> Built:
    return build(
        Store(root),
        corpus(*names),
        wanted,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=800),
        workers=Workers(processes=workers),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return graphs(tmp_path_factory.mktemp("graphs"))


def of(built: Built, family: str, base: str = "") -> list[Artefact]:
    return [
        each
        for each in built.documents
        if (each.manifest.labels["family"], each.manifest.labels.get("base", "")) == (family, base)
    ]


def documents(built: Built, family: str) -> Iterator[Document]:
    for artefact in of(built, family):
        yield from documents_in(artefact.path)


def table(artefact: Artefact, columns: list[str]) -> pa.Table:
    return pq.read_table(artefact.shards(), columns=columns, partitioning=None)


def test_every_context_document_keeps_its_contract(built: Built) -> None:
    seen = {"cpp": 0, "c": 0, "cmake": 0}
    for document in documents(built, V4):
        check_document(document)
        seen[document.language] += 1
    assert min(seen.values()) > 0
    assert sum(seen.values()) > 20


def test_every_enriched_document_has_its_bases_text_and_sound_structure(built: Built) -> None:
    for base in ("v2_simple", V4):
        for plain, enriched in zip(of(built, base), of(built, V6, base), strict=True):
            rows = pq.read_table(enriched.shards(), partitioning=None)
            texts = zip(documents_in(plain.path), rows.to_pylist(), strict=True)
            for document, row in texts:
                assert row["text"] == document.text
                assert row["base_document_id"] == document.document_id
                assert row["document_id"] != document.document_id
                check_structure(document, enrich(document))
            assert rows.num_rows > 10


def test_rows_of_graphs_and_structure_keep_the_contract(built: Built) -> None:
    for each in built.rows:
        for side in each.splits:
            assert side.shards(), f"{each.wanted} has no rows in {side.manifest.labels['split']}"
            report = check(side.path)
            assert report.num_faults == 0
            assert report.rows > 0


@pytest.mark.parametrize(
    ("base", "row_length"), [("v2_simple", 512), (V4, 1024)], ids=["files", "graphs"]
)
def test_without_its_columns_structure_is_the_flat_rows(
    built: Built, base: str, row_length: int
) -> None:
    flat = built.rows_of(RowsSpec(family=base, row_length=row_length))
    enriched = built.rows_of(RowsSpec(family=V6, base=base, row_length=row_length))
    for plain, rich in zip(flat.splits, enriched.splits, strict=True):
        assert table(plain, list(FLAT)).equals(table(rich, list(FLAT)))
        columns = table(rich, [each.name for each in STRUCTURE_COLUMNS])
        assert len(pc.unique(pc.list_flatten(columns["structure_ids"]))) > 5
    edges = table(enriched.train, ["call_edges"])["call_edges"]
    assert len(pc.list_flatten(edges)) > 0


def test_held_out_rows_of_graphs_score_targets_alone_by_every_objective(built: Built) -> None:
    known = {document.document_id: document for document in documents(built, V4)}
    token_bytes = load_tokenizer(built.tokenizer).token_bytes
    scored = 0
    for wanted in (WANTED[0], WANTED[1], WANTED[5]):
        rows = built.rows_of(wanted)
        assert rows.val is rows.apart["target"]
        assert set(rows.apart) == {"target", wanted.objective} - {"causal"}
        for side in rows.apart.values():
            columns = ["input_ids", "loss_mask", "pieces", "document_ids"]
            for row in table(side, columns).to_pylist():
                for name, start, end in _scored(row, token_bytes):
                    parts = (part for part in known[name].parts if part.kind == "target")
                    assert any(part.start <= start and end <= part.end for part in parts)
                    scored += 1
    assert scored > 500
    enriched = built.rows_of(WANTED[4])
    assert enriched.val is enriched.apart["target"]
    same = ["input_ids", "loss_mask", "doc_ids"]
    plain = built.rows_of(WANTED[0]).val
    assert plain is not None
    assert table(enriched.val, same).equals(table(plain, same))
    assert "target" not in built.rows_of(WANTED[2]).apart, "files have no target"


def _scored(row: dict[str, Any], token_bytes: Any) -> Iterator[tuple[str, int, int]]:
    """Document and bytes of each scored token of a row that encodes text."""
    for piece in row["pieces"]:
        at = piece["byte_start"]
        for token in range(piece["token_start"], piece["token_end"]):
            end = at + int(token_bytes[row["input_ids"][token]])
            if token and row["loss_mask"][token - 1] and piece["kind"] == TEXT_PIECE and end > at:
                yield row["document_ids"][piece["doc"]], at, end
            at = end


def test_held_out_targets_read_files_that_are_trained_on_and_no_row_trains_on_held_out_ones(
    built: Built,
) -> None:
    held_out, found = held_out_files(built.selections[V4]), Counter[tuple[str, bool]]()
    token_bytes = load_tokenizer(built.tokenizer).token_bytes
    known = {document.document_id: document for document in documents(built, V4)}
    for each in built.rows:
        if each.wanted.family != V4:
            continue
        for side in each.splits:
            assert check_sides(side, of(built, V4), held_out, token_bytes) > 4
            for row in table(side, ["split", "pieces", "document_ids"]).to_pylist():
                for lineage in _lineages(row, known):
                    found[row["split"], lineage in held_out] += 1
    assert found["train", True] == 0
    assert min(found["train", False], found["val", True], found["val", False]) > 10
    for split, is_less in (("train", True), ("val", False)):
        rows = built.rows_of(WANTED[1])
        counted = (rows.train if split == "train" else rows.apart["target"]).manifest.report
        encoded: Any = counted["encode"]
        assert (encoded["context_chunks"]["other_side"] > 0) == is_less


def _lineages(row: dict[str, Any], known: dict[str, Document]) -> Iterator[str]:
    """The file of each part of which a row has a byte."""
    for piece in row["pieces"]:
        document = known[row["document_ids"][piece["doc"]]]
        for part in document.parts:
            if part.start < piece["byte_end"] and piece["byte_start"] < part.end:
                yield from [document.provenance[part.source].lineage] if part.source >= 0 else ()


def test_text_of_held_out_files_in_training_rows_is_found(built: Built) -> None:
    """Rows that were made for these sides, held against sides on which one more file is in val."""
    train = built.rows_of(RowsSpec(family=V4, row_length=1024)).train
    known = held_out_files(built.selections[V4])
    everything = {each.lineage for document in documents(built, V4) for each in document.provenance}
    one_more = known | {min(everything - known)}
    with pytest.raises(PackError, match="another split"):
        check_sides(train, of(built, V4), one_more, load_tokenizer(built.tokenizer).token_bytes)


def test_scored_context_of_a_held_out_target_is_found(built: Built, tmp_path: Path) -> None:
    (rows,) = (made for made in built.rows if made.wanted == WANTED[1])
    assert rows.val is not None
    file = rows.val.shards()[0]
    everything = pq.read_table(file, partitioning=None)
    masks = [
        [int(token < int(valid) - 1) for token in range(4096)]
        for valid in everything["valid_token_count"].to_numpy()
    ]
    at = everything.schema.get_field_index("loss_mask")
    scored = everything.set_column(
        at, everything.schema.field(at), pa.array(masks, everything.schema.field(at).type)
    )
    copy = tmp_path / file.relative_to(rows.val.path)
    copy.parent.mkdir()
    pq.write_table(scored, copy)
    changed = replace(rows.val, path=tmp_path)
    held_out = held_out_files(built.selections[V4])
    with pytest.raises(PackError, match="validation target"):
        check_sides(changed, of(built, V4), held_out, load_tokenizer(built.tokenizer).token_bytes)


def test_what_does_not_want_graphs_does_not_depend_on_them(built: Built, tmp_path: Path) -> None:
    plain = graphs(tmp_path, (RowsSpec(family="v2_simple", row_length=512),))
    assert {each.manifest.labels["family"] for each in plain.documents}.isdisjoint({V4, V5, V6})
    assert plain.rows[0].train.key == built.rows_of(WANTED[3]).train.key
    assert plain.rows[0].train.content == built.rows_of(WANTED[3]).train.content


@pytest.mark.system
def test_the_number_of_workers_changes_no_byte(built: Built, tmp_path: Path) -> None:
    again = graphs(tmp_path, workers=2)
    found = {each.key: each.content for each in again.artefacts()}
    assert found == {each.key: each.content for each in built.artefacts()}


def test_a_manifest_says_what_graphs_hold(built: Built) -> None:
    for artefact in of(built, V4):
        report = artefact.manifest.report
        assert isinstance(report["edges"], dict)
        assert set(report["edges"]) == {"syntactic"}
        assert isinstance(report["hops"], dict)
        assert {"0", "1"} <= set(report["hops"])
        assert report["without_syntax_tree"] == []
        changed = DocumentsReport.model_validate(report).changed_lines
        assert 0 <= changed.outside_symbols <= changed.outside_functions < changed.lines
    context: Any = built.rows_of(WANTED[1]).train.manifest.report["context"]
    assert context["mean"] > 100
    assert context["past_16k"] == 0


def test_documents_of_another_size_have_keys_of_their_own(tmp_path: Path) -> None:
    store, usual = Store(tmp_path), corpus("arena")
    larger = usual.model_copy(update={"context_bytes": 1_048_576})
    (one,), (other,) = (sample(store, each, WANTED[:1], number=1) for each in (usual, larger))
    assert one.key != other.key
    assert "context_bytes" not in one.manifest.config
    assert other.manifest.config["context_bytes"] == 1_048_576
    files = (RowsSpec(family="v2_simple", row_length=512),)
    (plain,), (same,) = (sample(store, each, files, number=1) for each in (usual, larger))
    assert plain.key == same.key


def test_a_sample_is_some_documents_of_each_family_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = sample(store, corpus("arena"), WANTED, number=3)
    assert {each.manifest.stage for each in store.artefacts()} == {"documents"}
    assert {each.manifest.labels["family"] for each in made} == {"v2_simple", V4, V6}
    assert {each.manifest.report["documents"] for each in made} == {3}


def test_a_sample_of_long_documents_is_cut_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "SAMPLE_BYTES", 40_000)
    (made,) = sample(
        Store(tmp_path), corpus("arena"), (RowsSpec(family=V4, row_length=512),), number=99
    )
    sizes = [len(each.text.encode()) for each in documents_in(made.path)]
    assert 40_000 <= sum(sizes) < 40_000 + sizes[-1]


@pytest.mark.system
class TestFrontend:
    """v5 with a compiler frontend, and without."""

    def test_a_repository_without_a_database_has_no_document_and_says_so(
        self, tmp_path: Path
    ) -> None:
        bare = corpus("arena").repositories[0].model_copy(update={"compile_commands": None})
        alone = corpus("arena").model_copy(update={"repositories": (bare,)})
        made = sample(Store(tmp_path), alone, (RowsSpec(family=V5, row_length=1024),), number=2)
        assert [each.manifest.report["documents"] for each in made] == [0]
        assert "compile_commands" in str(made[0].manifest.report["lacks"])

    def test_a_database_that_is_named_and_absent_is_an_error(self, tmp_path: Path) -> None:
        named = (
            corpus("arena").repositories[0].model_copy(update={"compile_commands": "/none.json"})
        )
        alone = corpus("arena").model_copy(update={"repositories": (named,)})
        if clang.missing() is None:
            with pytest.raises(CorpusError, match=r"doesn.t exist"):
                sample(Store(tmp_path), alone, (RowsSpec(family=V5, row_length=1024),), number=2)

    def test_without_libclang_everything_else_is_built(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clang, "missing", lambda: "libclang isn't installed")
        wanted = (RowsSpec(family=V4, row_length=1024), RowsSpec(family=V5, row_length=1024))
        made = sample(Store(tmp_path), corpus("arena"), wanted, number=2)
        counts = {
            (
                each.manifest.labels["family"],
                each.manifest.report["documents"],
                each.manifest.report.get("lacks"),
            )
            for each in made
        }
        assert counts == {(V4, 2, None), (V5, 0, "libclang isn't installed")}

    @pytest.mark.clang
    def test_documents_of_an_index_keep_their_contract_and_say_how_edges_are_known(
        self, tmp_path: Path
    ) -> None:
        reason = clang.missing()
        if reason is not None:
            pytest.skip(reason)
        wanted = (RowsSpec(family=V5, row_length=2048),)
        made = graphs(tmp_path, wanted, names=("arena",), workers=2)
        labels: set[str] = set()
        for artefact in of(made, V5):
            coverage: Any = artefact.manifest.report["coverage"]
            assert coverage["covered"] > 0.8 * coverage["functions"]
            labels |= set(artefact.manifest.report["edges"])  # type: ignore[arg-type]
        assert labels == {"resolved", "overridden", "dependent", "syntactic"}
        number = 0
        for document in documents(made, V5):
            check_document(document)
            number += 1
        assert number > 10
        for side in made.rows[0].splits:
            assert check(side.path).num_faults == 0
            held_out = held_out_files(made.selections[V5])
            token_bytes = load_tokenizer(made.tokenizer).token_bytes
            check_sides(side, of(made, V5), held_out, token_bytes)

    @pytest.mark.clang
    def test_a_commit_is_shown_by_the_frontends_graph_or_by_the_other_and_never_by_both(
        self, tmp_path: Path
    ) -> None:
        reason = clang.missing()
        if reason is not None:
            pytest.skip(reason)
        alone = RowsSpec(family=V4, row_length=2048)
        beside = replace(alone, beside=Beside(family=V5))
        elsewhere = replace(alone, beside=Beside(family=V5, repositories=("ringlog",)))
        frontend = RowsSpec(family=V5, row_length=2048)
        wanted = (alone, beside, elsewhere, frontend)
        made = graphs(tmp_path, wanted, names=("arena",), workers=2)
        commits = {
            document.document_id: (document.provenance[0].commit, document.language in CODE)
            for family in (V4, V5)
            for document in documents(made, family)
        }
        shown = {
            spec: {commits[each] for each in document_ids(made.rows_of(spec).train)}
            for spec in wanted
        }
        assert shown[frontend]
        assert shown[beside]
        assert shown[alone] == shown[elsewhere]
        assert not shown[beside] & shown[frontend]
        assert shown[beside] | shown[frontend] == shown[alone] | shown[frontend]
        assert made.rows_of(beside).val == made.rows_of(alone).val


def document_ids(rows: Artefact) -> set[str]:
    """The documents that rows show."""
    tables = [pq.read_table(shard, columns=["document_ids"]) for shard in rows.shards()]
    return {
        each
        for table in tables
        for listed in table["document_ids"].to_pylist()
        if listed
        for each in listed
    }


def test_documents_have_the_columns_of_their_schema(built: Built) -> None:
    for artefact in of(built, V4):
        assert pq.read_schema(artefact.shards()[0]).names == DOCUMENT_SCHEMA.names
