"""The catalog answers about any workspace, and lets nobody write through a question."""

import datetime
import json
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import CatalogError, macros, open_catalog, query, relations
from curriculum.catalog.views import view_names
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.document import DOCUMENT_SCHEMA, SELECTION_SCHEMA
from schemas.job import METRICS_SCHEMA, Figure
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA
from tests import factories

VIEWS = (
    *("artefacts", "attempts", "documents", "figures", "files", "inputs", "left_out", "metrics"),
    *("mixture_rows", "mixtures", "pieces", "problems", "rejected", "rows"),
    *("runs", "selection", "strata"),
)


def _document(name: str) -> dict[str, object]:
    return {
        "document_id": name,
        "content_id": name,
        "text": "int x;\n",
        "family": "v2_simple",
        "language": "cpp",
        "licence": None,
        "timestamp": 0,
        "num_bytes": 7,
        "parts": [],
        "spans": [],
        "provenance": [],
        "lineage": f"fmt:{name}",
        "base_document_id": None,
    }


def _row(pack_id: str) -> dict[str, object]:
    pieces = [
        {"doc": 0, "kind": 1, "token_start": 0, "token_end": 1, "byte_start": 0, "byte_end": 0},
        {"doc": 0, "kind": 0, "token_start": 1, "token_end": 3, "byte_start": 0, "byte_end": 7},
    ]
    return {
        "pack_id": pack_id,
        "input_ids": [1, 5, 6, 0],
        "target_ids": [5, 6, 0, 0],
        "loss_mask": [1, 1, 0, 0],
        "doc_ids": [0, 0, 0, 1],
        "doc_starts": [0],
        "valid_token_count": 3,
        "num_docs": 1,
        "loss_token_count": 2,
        "attention_pairs": 6,
        "context_histogram": [2, 0, 0, 0],
        "family": "v2_simple",
        "objective": "causal",
        "variant": 0,
        "domain": "general",
        "split": "train",
        "document_ids": ["a"],
        "pieces": pieces,
    }


def _publish(
    store: Store, stage: str, file: str, table: pa.Table, labels: dict[str, str], revision: int = 1
) -> Artefact:
    recipe = Recipe(
        stage=stage, labels=tuple(labels.items()), revision=revision, config={"labels": {**labels}}
    )

    def fill(drafts: list[StagingDirectory]) -> None:
        (drafts[0].path / file).parent.mkdir(exist_ok=True)
        pq.write_table(table, drafts[0].path / file)

    (artefact,) = store.produce([recipe], fill)  # type: ignore[arg-type]
    return artefact


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Two documents, one of them rejected, one packed row, and a plan of it."""
    store = Store(tmp_path / "it's home")
    documents = [_document("a"), _document("b")]
    choice = [
        {**dict.fromkeys(SELECTION_SCHEMA.names, ""), "document_id": name, "keep": name == "a"}
        for name in ("a", "b")
    ]
    slot = {field.name: "k" if pa.types.is_string(field.type) else 0 for field in PLAN_SCHEMA}
    made = [
        _publish(
            store,
            "documents",
            "data/part-00000.parquet",
            pa.Table.from_pylist(documents, schema=DOCUMENT_SCHEMA),
            {"family": "v2_simple", "repository": "fmt"},
        ),
        _publish(
            store,
            "selections",
            "selection.parquet",
            pa.Table.from_pylist(choice, schema=SELECTION_SCHEMA),
            {"corpus": "one"},
        ),
        _publish(
            store,
            "rows",
            "data/part-00000.parquet",
            pa.Table.from_pylist([_row("r-0"), _row("r-1")], schema=PACKED_ROW_SCHEMA),
            {"family": "v2_simple", "row_length": "4"},
        ),
        _publish(
            store,
            "mixtures",
            "plan.parquet",
            pa.Table.from_pylist([slot], schema=PLAN_SCHEMA),
            {"specialist": "templates", "phase": "syntax"},
        ),
    ]
    store.mark("everything", made)
    return store.root


def _run(store: Store, figures: tuple[Figure, ...]) -> Artefact:
    report = factories.run_report(reason="", before=figures, after=figures)
    recipe = Recipe(
        stage="runs", labels=(("specialist", "templates"), ("phase", "syntax")), revision=1
    )
    folder = store.root / recipe.directory / "attempt=1"
    (folder / "metrics").mkdir(parents=True)
    values = {**dict.fromkeys(METRICS_SCHEMA.names, 1), "masked_mfu": 0.25}
    metrics = pa.Table.from_pylist([values], schema=METRICS_SCHEMA)
    # As runs of before these columns left them.
    older = metrics.drop_columns(["masked_mfu", "mean_context"])
    pq.write_table(older, folder / "metrics" / "0000000001.parquet")
    pq.write_table(metrics, folder / "metrics" / "0000000002.parquet")
    (folder / "report.json").write_text(report.model_dump_json())
    return store.publish_run(folder, recipe, report.model_dump(mode="json"))


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_workspace_has_every_view_with_its_columns(tmp_path: Path, view: str) -> None:
    answer = query(tmp_path, f"FROM {view}")
    assert answer.rows == []
    assert len(answer.columns) >= 2


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_view_has_the_columns_of_a_full_one(
    workspace: Path, tmp_path: Path, view: str
) -> None:
    assert query(workspace, f"FROM {view}").columns == query(tmp_path, f"FROM {view}").columns


def test_every_view_says_what_it_means_and_there_are_these_at_least(tmp_path: Path) -> None:
    found = relations(open_catalog(tmp_path))
    assert {each.name for each in found} >= set(VIEWS)
    assert [each.name for each in found if not each.meaning] == []


def test_views_read_what_was_published(workspace: Path) -> None:
    assert query(workspace, "SELECT count(*), sum(num_bytes) FROM documents").rows == [(2, 14)]
    assert query(workspace, "SELECT document_id FROM rejected").rows == [("b",)]
    assert query(workspace, "SELECT DISTINCT row_length FROM rows").rows == [(4,)]
    assert query(workspace, "SELECT specialist, phase FROM mixture_rows").rows == [
        ("templates", "syntax")
    ]


def test_a_source_of_a_document_has_the_licence_of_its_file(tmp_path: Path) -> None:
    sources = [
        {**asdict(factories.provenance(path=path)), "licence": licence}
        for path, licence in (("a.cc", "BSL-1.0"), ("b.cc", "MIT"), ("c.cc", None))
    ]
    line = {**_document("a"), "licence": "BSL-1.0 AND MIT", "provenance": sources}
    table = pa.Table.from_pylist([line], schema=DOCUMENT_SCHEMA)
    labels = {"family": "v4_context_graph", "repository": "r"}
    store = Store(tmp_path)
    store.mark("all", [_publish(store, "documents", "data/part-00000.parquet", table, labels)])
    answer = query(tmp_path, "SELECT path, licence FROM document_sources ORDER BY path")
    assert answer.rows == [("a.cc", "BSL-1.0"), ("b.cc", "MIT"), ("c.cc", None)]


def test_pieces_lead_from_tokens_to_documents(workspace: Path) -> None:
    joined = query(
        workspace,
        "SELECT p.pack_id, p.kind, d.lineage, token_end - token_start FROM pieces p "
        "JOIN documents d USING (document_id) WHERE p.kind = 'text' ORDER BY ALL",
    )
    assert joined.rows == [("r-0", "text", "fmt:a", 2), ("r-1", "text", "fmt:a", 2)]


def test_a_superseded_artefact_leaves_the_views_but_not_the_list(workspace: Path) -> None:
    store = Store(workspace)
    _publish(
        store,
        "documents",
        "data/part-00000.parquet",
        pa.Table.from_pylist([_document("c")], schema=DOCUMENT_SCHEMA),
        {"family": "v2_simple", "repository": "fmt"},
        revision=2,
    )
    assert query(workspace, "SELECT count(*) FROM documents").rows == [(2,)]
    listed = query(
        workspace, "SELECT current, count(*) FROM artefacts WHERE stage = 'documents' GROUP BY ALL"
    )
    assert sorted(listed.rows) == [(False, 1), (True, 1)]


def test_a_catalog_is_a_snapshot(workspace: Path) -> None:
    before = open_catalog(workspace)
    broken = workspace / "documents" / "family-v2_simple" / "repository-fmt" / "half"
    broken.mkdir()
    factories.shard_path(broken).write_bytes(b"half a file")
    assert before.execute("SELECT count(*) FROM documents").fetchone() == (2,)
    assert query(workspace, "SELECT count(*) FROM documents").rows == [(2,)]


def test_runs_show_the_weighted_means_and_figures_all_of_them(workspace: Path) -> None:
    store = Store(workspace)
    run = _run(
        store,
        (
            factories.figure(2.5),
            factories.figure(9.0, family="v2_simple"),
            factories.figure(3.5, phase="anchor"),
        ),
    )
    store.mark("run", [run])
    asked = "SELECT phase_bpb_after, anchor_bpb_before, steps, valid_tokens FROM runs"
    assert query(workspace, asked).rows == [(2.5, 3.5, 3, 9)]
    assert query(workspace, "SELECT count(*) FROM figures WHERE family = 'v2_simple'").rows == [
        (2,)
    ]


def test_metrics_of_before_a_column_was_measured_are_nulls(workspace: Path) -> None:
    store = Store(workspace)
    store.mark("run", [_run(store, ())])
    asked = "SELECT masked_mfu, mean_context, loss FROM metrics ORDER BY masked_mfu"
    assert query(workspace, asked).rows == [(0.25, 1.0, 1.0), (None, None, 1.0)]


def test_order_survives_the_wrapping(workspace: Path) -> None:
    answer = query(workspace, "SELECT document_id FROM documents ORDER BY document_id DESC;")
    assert answer.rows == [("b",), ("a",)]


WRITES = (
    "COPY (SELECT 1) TO '{home}/x.csv'",
    "WITH t AS (COPY (SELECT 1) TO '{home}/x.csv') SELECT 1",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{home}/x.csv'",
    "ATTACH '{home}/x.csv'",
    "CREATE TABLE t AS SELECT 1",
    "EXPORT DATABASE '{home}/x.csv'",
    "INSTALL httpfs",
    "SET lock_configuration = false",
    "SELECT 1; COPY (SELECT 1) TO '{home}/x.csv'",
    "SELECT 1) TO '{home}/x.csv'; --",
    "",
)
READS = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('{home}/../secret.txt')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT getenv('HOME')",
    "SELECT * FROM '{home}/../secret.txt'",
)


@pytest.mark.parametrize("sql", [*WRITES, *READS])
def test_a_question_writes_nothing_and_reads_nothing_else(workspace: Path, sql: str) -> None:
    (workspace.parent / "secret.txt").write_text("secret")
    quoted = str(workspace).replace("'", "''")
    with pytest.raises(CatalogError):
        query(workspace, sql.format(home=quoted))
    assert not (workspace / "x.csv").exists()


def test_a_typo_names_the_view_that_was_meant(workspace: Path) -> None:
    with pytest.raises(CatalogError, match='"rows"'):
        query(workspace, "SELECT * FROM rowz")


REFUSED = {
    "SELECT famly FROM rows": 'Candidate bindings: "family", .*[.] DESCRIBE rows lists its columns$',
    "SELECT r.nam FROM runs r": "DESCRIBE runs lists its columns$",
    "SELECT los FROM metrics m JOIN runs USING (run)": "DESCRIBE metrics and DESCRIBE runs list",
    "SELECT nope FROM rows r, documents": "DESCRIBE rows and DESCRIBE documents list",
    "SELECT x FROM (SELECT 1 AS y)": 'refuses it[.] Candidate bindings: "y"$',
    "FROM document": 'refuses it[.] Did you mean "documents"[?]$',
    "FROM zzzqq": "SHOW TABLES lists the views$",
    "FROM mixtur('a', 'b')": r"Did you mean mixture[(]of_specialist, of_phase[)][?]$",
    "FROM mixture('a')": r"Candidate macros: mixture[(]of_specialist, of_phase[)]$",
    "SELECT strftim(now(), '%d')": 'Did you mean "strftime"[?]$',
    "SELECT sum(family) FROM rows": r"Candidate functions: sum[(].*[.] There are \d+ more[.]",
    "SELEC 1": "A question is one SELECT, such as SELECT [*] FROM runs$",
    "FROM consumed('x', 3)": "there is no run 'x' here, nor any other.*Train one: curriculum run$",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_refusal_keeps_the_candidates_and_names_the_views_of_the_question(
    workspace: Path, sql: str
) -> None:
    with pytest.raises(CatalogError, match=REFUSED[sql]):
        query(workspace, sql)


def test_the_names_that_a_refusal_can_propose_are_those_of_the_catalog(workspace: Path) -> None:
    connection = open_catalog(workspace)
    assert view_names() == {each.name for each in relations(connection)}
    there = connection.execute("""
        SELECT function_name, any_value(parameters), any_value(comment) FROM duckdb_functions()
        WHERE schema_name = 'main' AND NOT internal AND function_type = 'table_macro' GROUP BY ALL
    """).fetchall()
    listed = {(each.name, each.columns, each.meaning) for each in macros()}
    assert listed == {(name, tuple(parameters), said) for name, parameters, said in there}


def test_the_default_root_is_the_environments(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(workspace))
    assert open_catalog().execute("SELECT count(*) FROM rows").fetchone() == (2,)


def test_a_catalog_can_be_used_from_python_as_any_duckdb(workspace: Path, tmp_path: Path) -> None:
    connection = open_catalog(workspace)
    assert isinstance(connection, duckdb.DuckDBPyConnection)
    connection.execute(f"COPY (SELECT document_id FROM documents) TO '{tmp_path}/ids.json'")
    ids = [json.loads(line) for line in (tmp_path / "ids.json").read_text().splitlines()]
    assert [each["document_id"] for each in ids] == ["a", "b"]


def test_artefacts_are_dated(workspace: Path) -> None:
    ((created,),) = query(workspace, "SELECT max(created) FROM artefacts").rows
    assert datetime.datetime.fromisoformat(created).tzinfo is not None
