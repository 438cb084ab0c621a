"""Tables that `curriculum supply` prints: tokens by kind of rows, by domain and by repository."""

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from curriculum.inspection.formats import count, number
from curriculum.inspection.held_out import ExpectedServing, expected_held_out
from curriculum.inspection.largest_files import share_lines
from curriculum.supply import ALL, DocumentKind, Estimate, SampledShare
from flows.cli.console import MUTED, out, print_line, table, warn
from schemas.families import ENRICHED_FAMILY

TableLine = Mapping[str, str | float | None]
SHORTENED_NOTE = (
    "shortened_share: share of documents shortened to fit a row, by omitting functions that the "
    "commit didn't touch (v3) or the most distant context (v4, v5); longer rows need less. "
    "routed: documents that are too long for a row of this length. v3 has no documents for files "
    "that a commit adds"
)
TOKENS_NOTE = (
    "distinct_tokens: tokens of lines that no earlier document contains, which `score: new` "
    "scores; fim, doc_to_code and code_to_doc score fewer"
)


SHARES_NOTE = "share of a family's tokens in all versions of the file"


DOUBT = 2.0
"""Half of the width of an interval, in standard errors (about 95 %)."""


def unread_commits(read: SampledShare) -> str | None:
    """Describe how many commits of a repository are read and why the others aren't; None if all are read.

    >>> why = "341 beyond versions_per_path 8, 48 merges"
    >>> unread_commits(
    ...     SampledShare(repository="own", units=54, read=54, walked=0, num_bytes=9, in_log=443, unread=why)
    ... )
    'own: 54 of 443 commits are read: 341 beyond versions_per_path 8, 48 merges'
    """
    if read.in_log <= read.units:
        return None
    commits = f"{read.units:,} of {number(read.in_log, 'commit')}"
    return f"{read.repository}: {commits} are read: {read.unread}"


def relative_error(tokens: float, error: float) -> str:
    """Format two standard errors of an estimate in percent of it; empty for an exact count.

    >>> relative_error(1000.0, 50.0), relative_error(1000.0, 0.0)
    ('± 10%', '')
    """
    return f"± {DOUBT * error / tokens:.0%}" if tokens and error else ""


def print_tables(found: Estimate, kinds: Sequence[DocumentKind]) -> None:
    """Print the tokens by kind of rows and by domain, then the contribution of each repository."""
    out.print(table(_kind_lines(found, kinds)))
    print_line(TOKENS_NOTE, MUTED)
    if any(line.shortened for line in found.lines):
        print_line(SHORTENED_NOTE, MUTED)
    for lines in (_domain_lines(found, kinds), _repository_lines(found, kinds)):
        out.print()
        out.print(table(lines))
    out.print()
    if found.shares:
        out.print(table(share_lines(found.shares)))
        out.print(Text(SHARES_NOTE, MUTED))
        out.print()
    sampled = any(sampling.read < sampling.units for sampling in found.samplings)
    how = (
        "estimated from a sample of commits; ± is a 95% interval"
        if sampled
        else "all commits with changes that the corpus includes were read"
    )
    for sampling in found.samplings:
        if (line := unread_commits(sampling)) is not None:
            print_line(line, MUTED)
    shares = [ExpectedServing(kind=kind, share=found.total(kind)[0]) for kind in kinds]
    held = expected_held_out(found, shares)
    domains = ", ".join(
        f"{name} {count:,}" for name, count in sorted(held.documents.items()) if count
    )
    print_line(f"documents held out in val: {domains or 'none'}", MUTED)
    if (words := held.warning()) is not None:
        warn(words)
    for line in (how, f"{ENRICHED_FAMILY} has the same documents as its base", *found.notes):
        print_line(line, MUTED)


def _kind_lines(found: Estimate, kinds: Sequence[DocumentKind]) -> Iterator[TableLine]:
    """Yield one table line for each family and row length."""
    for kind in kinds:
        own = [line for line in found.lines if line.kind == kind and line.is_total]
        documents = sum(line.documents for line in own)
        yield {
            "family": kind.family,
            "row_length": kind.row_length,
            "score": kind.score,
            "tokens": _with_doubt(found, kind, ALL) or "0",
            "scored_tokens": sum(line.scored for line in own),
            "distinct_tokens": sum(line.distinct for line in own),
            "documents": documents,
            "shortened_share": sum(line.shortened for line in own) / max(documents, 1) or None,
            "routed": sum(line.routed for line in own) or None,
        }


def _domain_lines(found: Estimate, kinds: Sequence[DocumentKind]) -> Iterator[TableLine]:
    """Yield one table line per family with the tokens of each domain, in the family's longest rows."""
    longest = {kind.family: kind for kind in sorted(kinds)}
    for family, kind in longest.items():
        domains = {name: _with_doubt(found, kind, name) for name in found.domains}
        yield {"tokens of": family, "row_length": kind.row_length, **domains}


def _with_doubt(
    found: Estimate, kind: DocumentKind, domain: str, repositories: Sequence[str] = ()
) -> str:
    tokens, error = found.total(kind, domain, repositories)
    return f"{count(tokens)} {relative_error(tokens, error)}".strip() if tokens else ""


def _repository_lines(found: Estimate, kinds: Sequence[DocumentKind]) -> Iterator[TableLine]:
    """Yield one table line per repository: its read commits, and its tokens in each family's longest rows."""
    longest = {kind.family: kind for kind in sorted(kinds)}
    for sampling in found.samplings:
        own = [sampling.repository]
        yield {
            "repository": sampling.repository,
            "read": sampling.read,
            "units": sampling.units,
            "walked": sampling.walked or None,
            "num_bytes": sampling.num_bytes,
            **{family: _with_doubt(found, kind, ALL, own) for family, kind in longest.items()},
        }
