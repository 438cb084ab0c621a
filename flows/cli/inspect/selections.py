"""Selections in the terminal: what is kept, in which domains, and why the rest isn't."""

import itertools
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.documents import chosen_lines
from curriculum.inspection.formats import Line as TableLine
from curriculum.inspection.formats import count, number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.store import Artefact, Store
from flows.cli.console import MUTED, plain_table, table
from flows.cli.inspect.tables import bar
from schemas.reports import SelectionReport
from schemas.visible import one_line

LINES = 12


def selection(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[RenderableType]:
    """A selection: domains, losses by reason, and the documents that are asked for."""
    report = artefact.reported(SelectionReport)
    yield Text(
        f"{report.kept:,} of {number(report.documents, 'document')} kept, {report.val:,} of them to "
        "validate" + (f" · {report.repeated:,} repeated" if report.repeated else "")
    )
    if report.domains:
        yield ""
        yield _domains(report)
    if report.rejected:
        yield ""
        yield table(_rejected(report))
    for warning in report.warnings:
        yield Text(f"\n{one_line(warning)}", "yellow")
    yield ""
    yield from _lines(store, artefact, options)


def _domains(report: SelectionReport) -> RenderableType:
    drawn = plain_table("domain", "documents", "val", "bytes", "share", "", "comments")
    for at in (1, 2, 3, 4, 6):
        drawn.columns[at].justify = "right"
    for name, each in sorted(report.domains.items(), key=lambda pair: -pair[1].bytes):
        drawn.add_row(
            Text(one_line(name), "bold"),
            f"{each.documents:,}",
            f"{each.val:,}",
            count(each.bytes),
            percent(each.share),
            bar(each.share),
            percent(each.comment_share),
        )
    return drawn


def _rejected(report: SelectionReport) -> Iterator[TableLine]:
    for reason, some in sorted(report.rejected.items(), key=lambda pair: -pair[1]):
        yield {"not kept": reason.replace("_", " "), "documents": some}


def _lines(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[RenderableType]:
    found = chosen_lines(store, artefact, options)
    most = None if options.full and options.only.given else max(options.rows, LINES)
    held = [line for _, line in itertools.islice(found, most)]
    names = ("family", "repository", "lineage", "split", "domain", "domain_rule")
    drawn = plain_table("document", *names[:2], "file", "split", "domain", "by the rule", "")
    for line in held:
        fate = "" if line["keep"] else " ".join(filter(None, (line["reason"], line["evidence"])))
        cells = (Text(one_line(str(line.get(name) or ""))) for name in names)
        drawn.add_row(line["document_id"][:12], *cells, Text(one_line(fate), "yellow"))
    yield drawn
    rest = sum(1 for _ in found)
    if options.only.given:
        yield Text(f"{number(len(held) + rest, 'document')} are so", MUTED)
