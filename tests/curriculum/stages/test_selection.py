"""Domains are decided in the selection, after what is kept, and nowhere else."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curriculum.corpus.domains import PACKAGE
from curriculum.corpus.load import load_corpus
from curriculum.corpus.select import KEPT_NAME
from curriculum.stages import Built
from curriculum.stages.selection import SplitDocuments, kept_elsewhere
from curriculum.stages.stage import Coordinator
from curriculum.store import Artefact, Store
from schemas.errors import CorpusError

Make = Callable[..., Built]
RULES = (PACKAGE / "domains.yaml").read_text()


def walk(workspace: Path, make: Make, file: Path, rules: str) -> tuple[set[str], set[str]]:
    """The stages of which something is there, and of which something would be made."""
    file.write_text(rules)
    store = Store(workspace, dry=True)
    make(store, domains=str(file))
    planned = {step.recipe.stage for step in store.steps if step.outcome == "planned"}
    return {step.recipe.stage for step in store.steps} - planned, planned


def selection_frame(selection: Artefact) -> pl.DataFrame:
    return pl.read_parquet(selection.path / "selection.parquet")


def test_the_sample_has_several_domains_and_each_row_has_one(built: Built) -> None:
    kept = selection_frame(built.selection).filter("keep")
    assert len(set(kept["domain"])) >= 5
    assert set(kept["repository"]) == {"lattice", "arena", "ringlog"}
    for rows in built.rows:
        seen = {
            (name, row)
            for name, ids in pl.read_parquet(rows.train.shards())
            .select("domain", "document_ids")
            .iter_rows()
            for row in ids
        }
        domains = dict(kept.select("document_id", "domain").iter_rows())
        assert len({name for name, _ in seen}) >= 5
        assert all(domains[document] == name for name, document in seen)


def test_the_rule_that_decided_stands_in_the_selection(built: Built) -> None:
    rules = dict(
        selection_frame(built.selection).select("domain_rule", "domain").unique().iter_rows()
    )
    assert rules["build language"] == "build_toolchain"
    assert rules["path of tests"] == "testing"
    report: Any = built.selection.manifest.report
    decided = {each["rule"]: each["decides"] for each in report["rules"]}
    assert decided["build language"] > 0


def test_other_rules_make_selections_and_rows_anew_and_nothing_before_them(
    workspace: Path, make: Make, tmp_path: Path
) -> None:
    changed = RULES.replace("test_macros > 0.7", "test_macros > 0.6")
    assert changed != RULES
    there, planned = walk(workspace, make, tmp_path / "rules.yaml", changed)
    assert planned == {"selections", "rows"}
    assert there == {"documents", "tokenizers", "tokens"}


def test_another_order_of_rules_is_another_selection(
    workspace: Path, make: Make, tmp_path: Path
) -> None:
    head, _, rules = RULES.partition("\nrules:\n")
    first, *others = rules.split("\n  - ")
    turned = f"{head}\nrules:\n" + "\n  - ".join([first, *others[1:], others[0]])
    assert walk(workspace, make, tmp_path / "rules.yaml", turned)[1] == {"selections", "rows"}


def test_rules_under_another_name_or_explained_otherwise_are_the_same(
    workspace: Path, make: Make, tmp_path: Path
) -> None:
    told = RULES.replace("    why: ", "    why: in short, ")
    assert told != RULES
    assert walk(workspace, make, tmp_path / "other.yaml", told)[1] == set()


def test_what_is_kept_and_its_side_do_not_depend_on_the_rules(
    built: Built, workspace: Path, make: Make, tmp_path: Path
) -> None:
    home, file = tmp_path / "w", tmp_path / "rules.yaml"
    shutil.copytree(workspace, home)
    file.write_text("rules: [{domain: one, rule: all, when: num_bytes >= 0}]\n")
    other = make(Store(home), domains=str(file))
    mine, theirs = selection_frame(built.selection), selection_frame(other.selection)
    assert set(theirs["domain"]) == {"one"}
    assert mine.drop("domain", "domain_rule").equals(theirs.drop("domain", "domain_rule"))
    assert [each.content for each in other.kept] == [each.content for each in built.kept]
    assert other.tokenizer.content == built.tokenizer.content
    assert [each.content for each in other.tokens] == [each.content for each in built.tokens]
    domains = {row for rows in other.rows for row in pl.read_parquet(rows.train.shards())["domain"]}
    assert domains == {"one"}


def test_rules_that_cannot_be_used_stop_a_build(
    workspace: Path, make: Make, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match="'tests'"):
        walk(workspace, make, tmp_path / "r.yaml", RULES.replace("test_macros > 0.7", "tests > 1"))


def test_a_corpus_that_is_left_out_must_be_built_in_the_same_workspace(built: Built) -> None:
    store = Store.containing(built.selection.path)
    corpus = load_corpus("sample").model_copy(update={"name": "own", "not_in": ("sample",)})
    assert [each.key for each in kept_elsewhere(store, corpus)] == [built.kept[0].key]
    missing = corpus.model_copy(update={"not_in": ("sample", "gone")})
    with pytest.raises(CorpusError) as refused:
        kept_elsewhere(store, missing)
    assert refused.value.value == "'gone'"
    assert "sample" in refused.value.cure


def test_of_a_corpus_that_another_one_has_whole_next_to_nothing_is_kept(
    built: Built, workspace: Path, tmp_path: Path
) -> None:
    shutil.copytree(workspace, tmp_path / "workspace")
    store = Store(tmp_path / "workspace")
    corpus = load_corpus("sample").model_copy(update={"name": "own", "not_in": ("sample",)})
    versions = [
        each
        for each in store.artefacts("documents")
        if each.manifest.labels["family"] == "v2_simple"
    ]
    coordinator = Coordinator(store=store)
    (kept,) = coordinator.make(SplitDocuments.of_files(store, corpus), versions)
    frame = pl.read_parquet(kept.path / KEPT_NAME)
    assert set(frame.filter(~pl.col("keep"))["reason"]) <= {"other_corpus", "duplicate"}
    assert frame.filter("keep").height < 0.02 * frame.height
    reasons = frame.filter(reason="other_corpus")["evidence"]
    assert reasons.str.starts_with("sample ").all()
    assert built.kept[0].key in {each.key for each in kept.manifest.inputs}
