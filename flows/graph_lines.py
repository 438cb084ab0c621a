"""What graphs came to, as lines: indexes, documents and their edges, and what lacks."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from curriculum.build import Built
from curriculum.inspection.formats import Line, count, number, percent
from curriculum.store import Artefact
from schemas.document import EDGE_LABELS, ENRICHED_FAMILY, GRAPH_FAMILIES


class _Documents(BaseModel):
    """The part of a documents artefact's report that is shown."""

    documents: int = 0
    num_bytes: int = 0
    edges: dict[str, int] = {}
    coverage: dict[str, int] = {}
    lacks: str | None = None
    without_syntax_tree: list[str] = []


class _Database(BaseModel):
    """What became of a compilation database's entries."""

    entries: int
    matched: int


class _Problem(BaseModel):
    """A unit that isn't indexed, or only in part."""

    path: str
    reason: str


class _Index(BaseModel):
    """The part of an index's report that is shown."""

    database: _Database
    indexed: int
    partial: int
    failed: int
    timed_out: int
    crashed: int
    problems: list[_Problem]
    functions: int


def document_lines(documents: Sequence[Artefact]) -> Iterator[Line]:
    """A line an artefact of documents."""
    for each in documents:
        report = _Documents.model_validate(each.manifest.report)
        base = each.manifest.labels.get("base")
        yield {
            "family": each.manifest.labels["family"] + (f" of {base}" if base else ""),
            "repository": each.manifest.labels["repository"],
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            "key": each.key[:12],
        }


def index_lines(built: Built) -> Iterator[Line]:
    """A line an index: what became of its database's units, and the functions that it knows."""
    for each in built.indexes:
        report = _Index.model_validate(each.manifest.report)
        yield {
            "index": each.manifest.labels["repository"],
            "entries": report.database.entries,
            "units": report.database.matched,
            "indexed": report.indexed,
            "in part": report.partial,
            "failed": report.failed,
            "hung": report.timed_out,
            "crashed": report.crashed,
            "functions": report.functions,
        }


def graph_lines(built: Built) -> Iterator[Line]:
    """A line a repository and family of graphs: documents, edges by label, what an index covers."""
    for each in built.documents:
        family = each.manifest.labels["family"]
        if family not in GRAPH_FAMILIES:
            continue
        report = _Documents.model_validate(each.manifest.report)
        functions = report.coverage.get("functions", 0)
        covered = report.coverage.get("covered", 0)
        yield {
            "graphs": family,
            "repository": each.manifest.labels["repository"],
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            **{label: count(report.edges.get(label, 0)) for label in EDGE_LABELS},
            "covered": percent(covered / functions) if functions else "",
        }


def graph_warnings(built: Built) -> Iterator[str]:
    """What a person should not miss: what lacks, units that aren't indexed, files without a tree."""
    for each in built.indexes:
        index = _Index.model_validate(each.manifest.report)
        if index.problems:
            first, name = index.problems[0], each.manifest.labels["repository"]
            units = f"{len(index.problems):,} of {number(index.database.matched, 'unit')} of {name}"
            yield f"{units} are not indexed, or in part: {first.path} first, {first.reason}"
    for each in built.documents:
        report = _Documents.model_validate(each.manifest.report)
        name = each.manifest.labels["repository"]
        if each.manifest.labels["family"] == ENRICHED_FAMILY:
            continue
        if report.lacks:
            yield f"{each.manifest.labels['family']} has nothing of {name}: {report.lacks}"
        if report.without_syntax_tree:
            files, first_file = len(report.without_syntax_tree), report.without_syntax_tree[0]
            yield f"{number(files, 'file')} of {name} without a syntax tree, {first_file} first"
