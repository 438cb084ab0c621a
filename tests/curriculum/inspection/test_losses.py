"""Counts of read and skipped documents are the same in the terminal, on pages and in the report."""

from types import SimpleNamespace
from typing import Any

from curriculum.inspection.losses import FILES, Exclusions
from schemas.reports import DocumentsReport, SelectionReport, SkipsReport


def artefact(stage: str, report: Any, **labels: str) -> Any:
    manifest = SimpleNamespace(stage=stage, labels=labels)
    return SimpleNamespace(manifest=manifest, reported=lambda _: report)


READ = SkipsReport(read=40, skipped={"too_large": 3, "corrupt": 0})


def documents(family: str, changes: SkipsReport = READ, **left_out: int) -> Any:
    report = DocumentsReport(changes=changes, left_out=left_out)
    return artefact("documents", report, family=family, repository="fmt")


def test_the_families_of_a_repository_share_one_reading_which_some_do_not_count() -> None:
    found = Exclusions.of(
        [documents("v6_enriched", SkipsReport()), documents("v2_simple"), documents("v3_simple")]
    )
    assert found.read == 40
    assert [line["number"] for line in found.lines()] == [3]


def test_selections_of_one_step_are_not_counted_and_that_of_files_comes_first() -> None:
    chosen = SelectionReport(documents=9, kept=7, val=2, rejected={"licence": 2})
    found = Exclusions.of(
        [
            documents("v4_context_graph", new_file=5),
            artefact("selections", chosen, corpus="mine", family="v4_context_graph"),
            artefact("selections", chosen, corpus="mine", step="keep"),
            artefact("selections", chosen, corpus="mine"),
            artefact("rows", None),
        ]
    )
    assert [where for where, _ in found.selections] == [FILES, "v4_context_graph"]
    assert (found.documents, found.documents_kept, found.held_out) == (18, 14, 4)
    assert [(line["where"], line["reason"], line["number"]) for line in found.lines()] == [
        ("fmt", "too large", 3),
        ("v4_context_graph", "new file", 5),
        (FILES, "licence", 2),
        ("v4_context_graph", "licence", 2),
    ]
    assert found.words == "40 changes read in 1 repository; 14 of 18 documents kept"
