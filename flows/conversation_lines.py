"""What conversations came to, as lines: how many there are, what rows score of them, what was skipped."""

from collections.abc import Iterator

from pydantic import BaseModel

from curriculum.build import Built
from curriculum.inspection.formats import Line, count, number
from schemas.document import CHAT_FAMILY


class _Lines(BaseModel):
    """What became of the lines of a source."""

    read: int = 0
    skipped: dict[str, int] = {}
    examples: dict[str, list[str]] = {}


class _Documents(BaseModel):
    """The part of a documents artefact's report that is shown."""

    documents: int = 0
    num_bytes: int = 0
    lines: _Lines = _Lines()


class _Encoded(BaseModel):
    objective: dict[str, int] = {}


class _Rows(BaseModel):
    """What rows say of the turns in them."""

    encode: _Encoded = _Encoded()


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
        counts = _Rows.model_validate(rows.train.manifest.report).encode.objective
        where = f"{rows.wanted.family} at {rows.wanted.row_length}"
        if counts.get("turns_with_role_lines"):
            yield f"{where}: the tokenizer has no tokens for roles; lines of text name them"
        if counts.get("turns_ended_by_eos"):
            yield f"{where}: the tokenizer has no token for a turn's end; EOS ends each"


def _sources(built: Built) -> Iterator[tuple[str, _Documents]]:
    for each in built.documents:
        if each.manifest.labels["family"] == CHAT_FAMILY:
            name = each.manifest.labels["repository"]
            yield name, _Documents.model_validate(each.manifest.report)
