"""What graphs came to, as lines: documents and their edges, and what lacks."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from curriculum.build import Built
from curriculum.store import Artefact
from flows.lines import Line, count, percent
from schemas.document import EDGE_LABELS, ENRICHED_FAMILY


class _Documents(BaseModel):
    """The part of a documents artefact's report that is shown."""

    documents: int = 0
    num_bytes: int = 0
    edges: dict[str, int] = {}
    coverage: dict[str, int] = {}
    lacks: str | None = None
    without_syntax_tree: list[str] = []


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


def graph_lines(built: Built) -> Iterator[Line]:
    """A line a repository and family of graphs: documents, edges by label, what an index covers."""
    for each in built.documents:
        family = each.manifest.labels["family"]
        if family not in built.selections:
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
    """What a person should not miss: what lacks, and files without a tree."""
    for each in built.documents:
        report = _Documents.model_validate(each.manifest.report)
        name = each.manifest.labels["repository"]
        if each.manifest.labels["family"] == ENRICHED_FAMILY:
            continue
        if report.lacks:
            yield f"{each.manifest.labels['family']} has nothing of {name}: {report.lacks}"
        if report.without_syntax_tree:
            number = len(report.without_syntax_tree)
            yield f"{number} files of {name} have no syntax tree, {report.without_syntax_tree[0]} first"
