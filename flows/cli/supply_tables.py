"""Tables of `curriculum supply`, of kinds, domains and repositories, and its JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from curriculum.inspection.formats import Line, count, number, percent
from curriculum.inspection.held_out import ExpectedServing, expected_held_out
from curriculum.inspection.largest_files import share_lines
from curriculum.supply import ALL, Estimate, Kind, Sampling
from flows.cli.console import MUTED, out, table, warn
from schemas.families import ENRICHED_FAMILY

SHORTENED_NOTE = (
    "shortened: documents that leave out parts so that the rest fits a row: functions that the commit "
    "didn't touch (v3), or the farthest context (v4, v5); in longer rows fewer are. v3 has no documents of "
    "files that a commit adds"
)


SHARES_NOTE = "share of a family's tokens, over all versions of the file"


DOUBT = 2.0
"""Standard errors to either side: about 19 estimates of 20 are so near."""


def left_out_words(read: Sampling) -> str | None:
    """Say how many commits of a repository's log are read, and what limits them; None where all are.

    >>> why = "341 beyond versions_per_path 8, 48 merges"
    >>> left_out_words(
    ...     Sampling(repository="own", units=54, read=54, walked=0, num_bytes=9, in_log=443, unread=why)
    ... )
    'own: 54 of 443 commits are read: 341 beyond versions_per_path 8, 48 merges'
    """
    if read.in_log <= read.units:
        return None
    commits = f"{read.units:,} of {number(read.in_log, 'commit')}"
    return f"{read.repository}: {commits} are read: {read.unread}"


def doubtful(tokens: float, error: float) -> str:
    """Return the possible error of an estimate, as a share; empty where there is none.

    >>> doubtful(1000.0, 50.0), doubtful(1000.0, 0.0)
    ('± 10%', '')
    """
    return f"± {DOUBT * error / tokens:.0%}" if tokens and error else ""


def print_tables(found: Estimate, kinds: Sequence[Kind]) -> None:
    """Print what there is of each kind, in which domains, and what each repository gives."""
    out.print(table(_kind_lines(found, kinds)))
    if any(each.shortened for each in found.lines):
        out.print(Text(SHORTENED_NOTE, MUTED), soft_wrap=True)
    out.print()
    out.print(table(_domain_lines(found, kinds)))
    out.print()
    out.print(table(_repository_lines(found, kinds)))
    out.print()
    if found.shares:
        out.print(table(share_lines(found.shares)))
        out.print(Text(SHARES_NOTE, MUTED))
        out.print()
    sampled = any(each.read < each.units for each in found.samplings)
    how = (
        "estimated from a sample of commits; ± is a 95% interval"
        if sampled
        else "all commits with a change that the corpus reads were read"
    )
    for each in found.samplings:
        if (line := left_out_words(each)) is not None:
            out.print(Text(line, MUTED), soft_wrap=True)
    shares = [ExpectedServing(kind=kind, share=found.total(kind)[0]) for kind in kinds]
    held = expected_held_out(found, shares)
    domains = ", ".join(
        f"{name} {count:,}" for name, count in sorted(held.documents.items()) if count
    )
    out.print(Text(f"documents held out in val: {domains or 'none'}", MUTED), soft_wrap=True)
    if (words := held.warning()) is not None:
        warn(words)
    for line in (how, f"{ENRICHED_FAMILY} has what its base has", *found.notes):
        out.print(Text(line, MUTED), soft_wrap=True)


def _kind_lines(found: Estimate, kinds: Sequence[Kind]) -> Iterator[Line]:
    """A line a family and row length."""
    for kind in kinds:
        tokens, error = found.total(kind)
        own = [each for each in found.lines if each.kind == kind and each.is_total]
        documents = sum(each.documents for each in own)
        shortened, routed = (sum(each.shortened for each in own), sum(each.routed for each in own))
        yield {
            "family": kind.family,
            "row length": kind.row_length,
            "tokens": count(tokens),
            "about": doubtful(tokens, error),
            "documents": count(documents),
            "shortened": percent(shortened / documents) if shortened else "",
            "too long": count(routed) if routed else "",
        }


def _domain_lines(found: Estimate, kinds: Sequence[Kind]) -> Iterator[Line]:
    """A line a family, in its longest rows: tokens of each domain."""
    longest = {each.family: each for each in sorted(kinds)}
    for family, kind in longest.items():
        yield {
            "tokens of": family,
            "row length": kind.row_length,
            **{name: _with_doubt(found, kind, name) for name in found.domains},
        }


def _with_doubt(found: Estimate, kind: Kind, domain: str, repositories: Sequence[str] = ()) -> str:
    tokens, error = found.total(kind, domain, repositories)
    return f"{count(tokens)} {doubtful(tokens, error)}".strip() if tokens else ""


def _repository_lines(found: Estimate, kinds: Sequence[Kind]) -> Iterator[Line]:
    """A line a repository: what was read of it, and its tokens in each family's longest rows."""
    longest = {each.family: each for each in sorted(kinds)}
    for each in found.samplings:
        yield {
            "read of": each.repository,
            "commits": f"{each.read:,} of {each.units:,}",
            "graphs": f"{each.walked:,}" if each.walked else "",
            "bytes": f"{count(each.num_bytes)}B",
            **{
                family: _with_doubt(found, kind, ALL, [each.repository])
                for family, kind in longest.items()
            },
        }


def supply_json(corpus: str, found: Estimate) -> dict[str, object]:
    """Return an estimate as JSON shows it."""
    return {
        "corpus": corpus,
        "sampled": [asdict(each) for each in found.samplings],
        "notes": list(found.notes),
        "largest_files": [asdict(each) for each in found.shares],
        "supply": [
            {
                name: round(value) if isinstance(value, float) else value
                for name, value in asdict(each).items()
            }
            for each in found.lines
        ],
    }
