"""How long documents are and what of their context rows hold, as lines."""

from collections.abc import Iterator

from curriculum.inspection.formats import Line, count, percent
from curriculum.stages import Built
from schemas.reports import LengthBucket, RowsReport

FAR = 16_384
"""Tokens of context past which a row of 65,536 has to earn its length."""
LEAST_FAR = 0.2
"""Of the scored tokens of such rows; with less, long context is theatre."""


def length_lines(built: Built) -> Iterator[Line]:
    """A line a data set: documents and their tokens by length, before anything is left out.

    Of what imported rows were fitted from nothing is known, here and below.
    """
    for each in built.rows:
        if each.wanted.imported is not None:
            continue
        report = each.train.reported(RowsReport)
        yield {
            "documents (tokens)": each.wanted.title,
            **{name: _bucket(bucket) for name, bucket in report.encode.lengths.items()},
        }


def context_lines(built: Built) -> Iterator[Line]:
    """A line a data set: tokens of its own document before each scored token, and what was left out.

    Last what is held out, in tokens: beside few files stands little that is on their side of the split.
    """
    for each in built.rows:
        if each.wanted.imported is not None or each.val is None:
            continue
        report = each.train.reported(RowsReport)
        held_out = each.val.reported(RowsReport)
        chunks = report.encode.context_chunks
        yield {
            "context": each.wanted.title,
            "mean": count(report.context.mean),
            "past 16k": percent(report.context.past_16k),
            "elided bytes": count(report.encode.elided_bytes),
            "chunks kept": count(chunks["kept"]) if chunks else "",
            "elided": count(chunks["elided"]) if chunks else "",
            "other side": count(chunks["other_side"]) if chunks else "",
            "held out": count(held_out.encode.tokens),
            "its mean": count(held_out.context.mean),
        }


def context_warnings(built: Built) -> Iterator[str]:
    """Long rows that don't use their length."""
    for rows in built.rows:
        if rows.wanted.row_length <= FAR or rows.wanted.imported is not None:
            continue
        context = rows.train.reported(RowsReport).context
        if context.mean and context.past_16k < LEAST_FAR:
            yield (
                f"only {percent(context.past_16k)} of the scored tokens of {rows.wanted.family} at "
                f"{rows.wanted.row_length:,} have more than {FAR:,} tokens of context: rows of {FAR:,} "
                "would teach the same for less"
            )


def _bucket(bucket: LengthBucket) -> str:
    return f"{bucket.documents:,} ({count(bucket.tokens)})" if bucket.documents else "0"
