"""Tables of conversation sources, and warnings about conversations that were left out."""

from collections.abc import Iterator

from curriculum.inspection.formats import Line, count, number, percent
from curriculum.stages import Built
from schemas.families import CHAT_FAMILY
from schemas.reports import DocumentsReport, EncodeReport, RowsReport, SelectionReport


def conversation_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per source of conversations."""
    for name, report in _sources(built):
        yield {
            "conversations": name,
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            "lines skipped": sum(report.lines.skipped.values()),
        }


def conversation_warnings(built: Built) -> Iterator[str]:
    """Yield warnings about lines and conversations left out, ignored keys, and missing control tokens."""
    for name, report in _sources(built):
        lines = report.lines
        reasons = ", ".join(
            f"{reason} {skipped}, such as {lines.examples[reason][0]}"
            for reason, skipped in lines.skipped.items()
        )
        if reasons:
            skipped = sum(lines.skipped.values())
            yield f"{number(skipped, 'line')} of {name} skipped: {reasons}"
        keys = ", ".join(
            f"{key!r} of {number(count, 'line')}, such as {lines.ignored_examples[key]}"
            for key, count in lines.ignored_keys.items()
        )
        if keys:
            yield f"keys of {name} that aren't read: {keys}"
    chosen = built.selections.get(CHAT_FAMILY)
    rejected = chosen.reported(SelectionReport).rejected if chosen is not None else {}
    if contradicting := rejected.get("contradiction"):
        yield (
            f"{number(contradicting, 'text')} of conversations left out: lines of the same text differ in "
            "roles or weights. SELECT * FROM rejected WHERE reason = 'contradiction' lists them"
        )
    for rows in (rows for rows in built.rows if rows.wanted.family == CHAT_FAMILY):
        where = f"{rows.wanted.family} at {rows.wanted.row_length}"
        for side in (rows.train, rows.val) if rows.val is not None else ():
            encoded = side.reported(RowsReport).encode
            place = f"{where}, {side.manifest.labels['split']}"
            for cause, refused in encoded.refused.items():
                yield (
                    f"{place}: {number(refused, 'conversation')} left out, "
                    f"since {cause}, such as {encoded.refused_examples[cause]}"
                )
            yield from _too_long(place, encoded)
        counts = rows.train.reported(RowsReport).encode.objective
        if counts.get("turns_with_role_lines"):
            yield f"{where}: the tokenizer has no tokens for roles; lines of text name them"
        if counts.get("turns_ended_by_eos"):
            yield f"{where}: the tokenizer has no token for a turn's end; EOS ends each"


def _too_long(place: str, encoded: EncodeReport) -> Iterator[str]:
    """Yield warnings about conversations that are longer than a row."""
    if left_out := encoded.documents.get("too_long"):
        share = percent(encoded.num_bytes["too_long"] / sum(encoded.num_bytes.values()))
        yield (
            f"{place}: {number(left_out, 'conversation')} longer than a row left out, {share} of all "
            "bytes. Take longer rows, or set overlong: drop_oldest in the corpus file, which leaves out the "
            "oldest exchanges alone"
        )
    if elided := encoded.documents.get("elided"):
        yield (
            f"{place}: {number(elided, 'conversation')} without the oldest exchanges, for which a row has "
            "no room"
        )


def _sources(built: Built) -> Iterator[tuple[str, DocumentsReport]]:
    for document in built.documents:
        if document.manifest.labels["family"] == CHAT_FAMILY:
            name = document.manifest.labels["repository"]
            yield name, document.reported(DocumentsReport)
