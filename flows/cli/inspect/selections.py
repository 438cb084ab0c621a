"""Selections in the terminal: the kept documents by domain, and why the other documents were excluded."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.copy_warnings import copy_warnings
from curriculum.inspection.formats import number
from curriculum.inspection.line_selection import InspectOptions, Line
from curriculum.store import Artefact, Store
from flows.cli.console import MUTED, table
from flows.cli.inspect.artefacts import InspectedArtefact
from flows.cli.inspect.text import bar
from schemas.reports import SelectionReport
from schemas.visible import one_line


def selection_panels(
    _: Store, artefact: Artefact, view: InspectedArtefact[Line], options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield the domains, the excluded documents by reason, and some documents of a selection.

    With a filter, yield only the matching documents.
    """
    if not options.only.given:
        yield from _overview(artefact.reported(SelectionReport))
    yield table(_document(line) for line in view.lines)
    if view.matching is not None:
        yield Text(f"{number(view.matching, 'document')} match", MUTED)


def _overview(report: SelectionReport) -> Iterator[RenderableType]:
    yield Text(
        f"{report.kept:,} of {number(report.documents, 'document')} kept, {report.val:,} of them "
        "for validation"
        + (f", {report.unseen:,} from held-out repositories" if report.unseen else "")
        + (f", {report.later:,} from later commits" if report.later else "")
        + (f" · {report.repeated:,} repeated" if report.repeated else "")
    )
    if report.domains:
        yield ""
        yield table(
            (
                {
                    "domain": name,
                    "documents": domain.documents,
                    "val": domain.val,
                    "bytes": domain.bytes,
                    "share": domain.share,
                    "": bar(domain.share).plain,
                    "comment_share": domain.comment_share,
                }
                for name, domain in sorted(report.domains.items(), key=lambda pair: -pair[1].bytes)
            ),
            heads={"comment_share": "comments"},
        )
    if report.rejected:
        yield ""
        yield table(
            {"excluded": reason.replace("_", " "), "documents": some}
            for reason, some in sorted(report.rejected.items(), key=lambda pair: -pair[1])
        )
    for warning in (*report.warnings, *copy_warnings(report)):
        yield Text(f"\n{one_line(warning)}", "yellow")
    yield ""


def _document(line: Line) -> dict[str, str]:
    fate = "" if line["keep"] else " ".join(filter(None, (line["reason"], line["evidence"])))
    return {
        "document": line["document_id"],
        **{name: line[name] or "" for name in ("family", "repository")},
        "path": line["lineage"].partition(":")[2],
        "split": line["split"],
        "domain": line.get("domain") or "",
        "by the rule": line.get("domain_rule") or "",
        "excluded": fate,
    }
