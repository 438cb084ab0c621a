"""What conversations came to, as lines: how many there are, what rows score of them, what was skipped."""

from collections.abc import Iterator

from curriculum.inspection.formats import Line, count, number
from curriculum.stages import Built
from schemas.families import CHAT_FAMILY
from schemas.reports import DocumentsReport, RowsReport


def conversation_lines(built: Built) -> Iterator[Line]:
    """A line a source of conversations."""
    for name, report in _sources(built):
        yield {
            "conversations": name,
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            "lines skipped": sum(report.lines.skipped.values()),
        }


def conversation_warnings(built: Built) -> Iterator[str]:
    """Lines that gave no conversation, with a place of each reason; turns that no control token marks."""
    for name, report in _sources(built):
        lines = report.lines
        reasons = ", ".join(
            f"{reason} {skipped}, such as {lines.examples[reason][0]}"
            for reason, skipped in lines.skipped.items()
        )
        if reasons:
            skipped = sum(lines.skipped.values())
            yield f"{number(skipped, 'line')} of {name} skipped: {reasons}"
    for rows in built.rows:
        counts = rows.train.reported(RowsReport).encode.objective
        where = f"{rows.wanted.family} at {rows.wanted.row_length}"
        if counts.get("turns_with_role_lines"):
            yield f"{where}: the tokenizer has no tokens for roles; lines of text name them"
        if counts.get("turns_ended_by_eos"):
            yield f"{where}: the tokenizer has no token for a turn's end; EOS ends each"


def _sources(built: Built) -> Iterator[tuple[str, DocumentsReport]]:
    for each in built.documents:
        if each.manifest.labels["family"] == CHAT_FAMILY:
            name = each.manifest.labels["repository"]
            yield name, each.reported(DocumentsReport)
