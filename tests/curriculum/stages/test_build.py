"""A build is complete, repeatable, and keeps the two sides of the split apart."""

import dataclasses
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from curriculum.corpus import select, split
from curriculum.inspection.conversation_tables import conversation_warnings
from curriculum.packing import best_fit
from curriculum.packing.row_check import check
from curriculum.stages import Built, Workers
from curriculum.store import Artefact, Store, explain
from schemas.errors import SchemaError
from schemas.packed_row import TEXT_PIECE
from schemas.reports import RowsReport

Make = Callable[..., Built]


def contents(artefacts: Sequence[Artefact]) -> dict[str, str]:
    return {artefact.key: artefact.content for artefact in artefacts}


def table(artefact: Artefact, columns: list[str]) -> list[dict[str, Any]]:
    read = pq.read_table(artefact.shards() or artefact.files(), columns=columns, partitioning=None)
    listed: list[dict[str, Any]] = read.to_pylist()
    return listed


def texts_by_split(built: Built) -> tuple[list[str], list[str]]:
    """The texts of kept documents, (train, val)."""
    chosen = {
        (row["family"], row["repository"], row["document_id"]): row["split"]
        for row in table(built.selection, ["family", "repository", "document_id", "keep", "split"])
        if row["keep"]
    }
    found: dict[str, list[str]] = {"train": [], "val": []}
    for documents in built.documents:
        labels = documents.manifest.labels
        for row in table(documents, ["document_id", "text", "provenance"]):
            side = chosen.get((labels["family"], labels["repository"], row["document_id"]))
            if side:
                found[side].append(row["text"])
    return found["train"], found["val"]


def bodies(texts: Sequence[str]) -> list[str]:
    """Return the original file below the generated header of each v2 document."""
    return [text.split("\n\n", 1)[1] for text in texts if "=== CHANGES ===" not in text]


def assert_no_validation_file_stands_in_train(built: Built) -> int:
    train, val = texts_by_split(built)
    held_out = [body for body in bodies(val) if len(body) > 200]
    everything = "\0".join(train)
    leaked = [body[:60] for body in held_out if body in everything]
    assert leaked == []
    return len(held_out)


def test_no_validation_file_stands_verbatim_in_train(built: Built) -> None:
    assert assert_no_validation_file_stands_in_train(built) > 5


def test_a_split_by_document_instead_of_lineage_is_caught(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = select._rows

    def by_document(*arguments: object) -> object:
        import polars as pl

        return original(*arguments).with_columns(  # type: ignore[arg-type]
            lineage=pl.col("lineage") + pl.col("document_id")
        )

    monkeypatch.setattr(select, "_rows", by_document)
    clusters = split.clusters
    monkeypatch.setattr(select, "clusters", lambda found, pairs: clusters(found, ()))
    monkeypatch.setattr(select, "touched_files", lambda _: [])
    leaky = make(Store(tmp_path))
    with pytest.raises(AssertionError):
        assert_no_validation_file_stands_in_train(leaky)


def test_a_packer_that_loses_or_doubles_a_document_publishes_nothing(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = best_fit.plan

    def doubling(*arguments: object) -> best_fit.PackPlan:
        plan = original(*arguments)  # type: ignore[arg-type]
        order = plan.order.copy()
        first, second = plan.row_starts[0], plan.row_starts[-1] - 1
        order[second] = order[first]
        return dataclasses.replace(plan, order=order)

    monkeypatch.setattr(best_fit, "plan", doubling)
    with pytest.raises((SchemaError, AssertionError)):
        make(Store(tmp_path))
    assert list(Store(tmp_path).artefacts("rows")) == []


def test_every_byte_stands_in_one_piece_or_is_counted(built: Built) -> None:
    for each in built.rows:
        for artefact in each.splits:
            said: Any = artefact.manifest.report["encode"]
            sizes = said["num_bytes"]
            in_rows = sum(
                piece["byte_end"] - piece["byte_start"]
                for row in table(artefact, ["pieces"])
                for piece in row["pieces"]
                if piece["kind"] == TEXT_PIECE
            )
            total = sum(size for outcome, size in sizes.items() if outcome != "dropped")
            masked = said.get("objective", {}).get("masked_bytes", 0)
            unscored: Any = artefact.manifest.report["unscored_bytes"]
            is_of_comments = artefact.manifest.labels["objective"] in ("doc_to_code", "code_to_doc")
            shows_again = "new_lines" in said.get("objective", {})
            assert bool(artefact.manifest.report["unscored"]) == (unscored > 0)
            assert is_of_comments <= (unscored > 0) <= (is_of_comments or shows_again)
            assert in_rows + said["elided_bytes"] + masked + unscored == total > 0


def test_rows_of_fim_say_how_their_documents_were_split(built: Built) -> None:
    fim = next(each for each in built.rows if each.wanted.objective == "fim")
    plain = next(each for each in built.rows if each.wanted == fim.wanted.held_out)
    assert fim.splits[1].key == plain.splits[1].key
    said: Any = fim.train.manifest.report["encode"]
    counts = said["objective"]
    split = counts["psm"] + counts["spm"]
    assert (
        split + counts["unsplit_too_small"] + counts.get("unsplit_no_room", 0) == said["encodings"]
    )
    assert sum(counts[kind] for kind in ("body", "statement", "arguments", "random")) == split
    assert split > 0.8 * said["encodings"]
    assert {"masked_bytes", "copied_bytes", "repeated_tokens"} <= counts.keys()
    assert check(fim.train.path).repeated_tokens == 0 < counts["repeated_tokens"]
    assert 0.3 < counts["psm"] / split < 0.7
    assert 0 < counts["random"] < split


@pytest.mark.parametrize(
    ("objective", "used"), [("doc_to_code", "bodies"), ("code_to_doc", "comments")]
)
def test_rows_of_documentation_hold_what_is_documented_and_nothing_that_is_copied(
    objective: str, used: str, built: Built
) -> None:
    rows = next(each for each in built.rows if each.wanted.objective == objective)
    plain = next(each for each in built.rows if each.wanted == rows.wanted.held_out)
    assert rows.splits[1].key == plain.splits[1].key
    said: Any = rows.train.manifest.report["encode"]
    assert said["objective"][used] > 50
    assert 0 < check(rows.train.path).scored_tokens < 0.5 * check(rows.train.path).valid_tokens
    assert check(rows.train.path).repeated_tokens == 0
    assert check(plain.train.path).repeated_tokens > 0


def test_the_checker_finds_nothing_to_object_to(workspace: Path, built: Built) -> None:
    report = check(workspace / "rows")
    assert report.faults == []
    assert report.rows > 50
    files = {
        file
        for each in built.artefacts()
        for file in each.shards()
        if each.manifest.stage == "rows"
    }
    assert report.files == len(files) > len(built.rows)


def test_the_number_of_workers_changes_no_byte(tmp_path: Path, make: Make, built: Built) -> None:
    shared = make(Store(tmp_path), workers=Workers(processes=2))
    assert contents(shared.artefacts()) == contents(built.artefacts())


def test_a_second_build_makes_nothing(workspace: Path, make: Make, built: Built) -> None:
    again = make(Store(workspace))
    assert [artefact for artefact in again.artefacts() if artefact.made] == []
    assert contents(again.artefacts()) == contents(built.artefacts())


def test_another_tokenizer_remakes_tokens_and_rows_and_not_documents(
    workspace: Path, make: Make, built: Built
) -> None:
    store = Store(workspace, dry=True)
    other = make(store, vocab_size=700)
    outcomes = Counter((step.recipe.stage, step.outcome) for step in store.steps)
    assert not any(stage == "documents" and out == "planned" for stage, out in outcomes)
    assert {stage for stage, out in outcomes if out == "planned"} == {
        "tokenizers",
        "tokens",
        "rows",
    }
    assert contents(other.documents) == contents(built.documents)
    planned = next(
        step.recipe
        for step in store.steps
        if step.recipe.stage == "rows" and step.outcome == "planned"
    )
    told = "\n".join(explain(store, planned).lines())
    assert "vocab_size: 800 -> 700" in told


_BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from conftest import tiny_build
from curriculum.store import Store
tiny_build(Store(Path({root!r})))
"""


@pytest.mark.system
@pytest.mark.parametrize("moment", [0.2, 0.5, 0.8])
def test_a_killed_build_goes_on_and_equals_an_uninterrupted_one(
    tmp_path: Path, make_tiny: Make, tiny: Built, moment: float
) -> None:
    script = _BUILD.format(folder=str(Path(__file__).parent), root=str(tmp_path))
    stages = ("documents", "tokens", "rows")
    awaited = stages[int(moment * len(stages))]
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        while process.poll() is None and not list(tmp_path.glob(f"{awaited}/**/manifest.json")):
            time.sleep(0.01)
        time.sleep(random.Random(moment).uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
    for artefact in Store(tmp_path).artefacts():
        Store(tmp_path).verify(artefact)
    finished = make_tiny(Store(tmp_path))
    assert contents(finished.artefacts()) == contents(tiny.artefacts())


def test_plain_duckdb_reads_the_rows(workspace: Path, built: Built) -> None:
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT family, count(*), sum(valid_token_count) "
            f"FROM read_parquet('{workspace}/rows/**/*.parquet') GROUP BY family ORDER BY family"
        ).fetchall()
    assert [family for family, _, _ in found] == ["v2_simple", "v3_doxygen"]
    assert all(rows > 0 and tokens > 0 for _, rows, tokens in found)


def test_hugging_face_datasets_reads_the_rows(tmp_path: Path, built: Built) -> None:
    import datasets

    files = [str(file) for file in built.rows[0].train.shards()]
    loaded = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path)
    )
    assert len(loaded[0]["input_ids"]) == 512
    assert loaded[0]["family"] == "v2_simple"


def test_elided_commits_are_not_counted_as_conversations(built: Built) -> None:
    reports = [rows.train.reported(RowsReport) for rows in built.rows]
    assert any(report.encode.documents.get("elided") for report in reports)
    assert [*conversation_warnings(built)] == []
