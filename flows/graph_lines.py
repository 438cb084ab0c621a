"""What graphs came to, as lines: indexes, documents and their edges, and what lacks."""

from collections.abc import Iterator, Sequence

from curriculum.inspection.formats import Line, count, number, percent
from curriculum.stages import Built
from curriculum.store import Artefact
from schemas.document import EDGE_LABELS
from schemas.families import ENRICHED_FAMILY, reads_commits
from schemas.reports import DocumentsReport, IndexReport


def document_lines(documents: Sequence[Artefact]) -> Iterator[Line]:
    """A line an artefact of documents."""
    for each in documents:
        report = each.reported(DocumentsReport)
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
        report = each.reported(IndexReport)
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
        if not reads_commits(family):
            continue
        report = each.reported(DocumentsReport)
        functions = report.coverage.functions
        covered = report.coverage.covered
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
        index = each.reported(IndexReport)
        if index.problems:
            first, name = index.problems[0], each.manifest.labels["repository"]
            units = f"{len(index.problems):,} of {number(index.database.matched, 'unit')} of {name}"
            yield f"{units} are not indexed, or in part: {first.path} first, {first.reason}"
    for each in built.documents:
        report = each.reported(DocumentsReport)
        name = each.manifest.labels["repository"]
        if each.manifest.labels["family"] == ENRICHED_FAMILY:
            continue
        if report.lacks:
            yield f"{each.manifest.labels['family']} has nothing of {name}: {report.lacks}"
        if report.without_syntax_tree:
            files, first_file = len(report.without_syntax_tree), report.without_syntax_tree[0]
            yield f"{number(files, 'file')} of {name} without a syntax tree, {first_file} first"
