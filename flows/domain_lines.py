"""What there is of each domain, and how much of it is comments, as lines."""

from collections.abc import Iterable, Iterator, Sequence

from curriculum.inspection.formats import Line, count, percent
from curriculum.stages import Built
from schemas.reports import DomainSize, SelectionReport

MOST_REPOSITORIES = 12
"""Those with most bytes are shown; the selection's report has all."""


def domain_lines(built: Built) -> Iterator[Line]:
    """A line a domain over all families that were selected, the largest first."""
    sizes = _by_domain(_reports(built))
    whole = sum(size.bytes for size in sizes.values())
    for name, size in sorted(sizes.items(), key=lambda pair: (-pair[1].bytes, pair[0])):
        yield {
            "domain": name,
            "documents": size.documents,
            "in val": size.val,
            "bytes": count(size.bytes),
            "share": percent(size.bytes / whole),
            "comments": _comments(size),
        }


def comment_lines(built: Built) -> Iterator[Line]:
    """A line a repository: the share of comments by bytes, in all its code and in each domain."""
    reports = _reports(built)
    sizes: dict[str, dict[str, DomainSize]] = {}
    for report in reports:
        for repository, domains in report.repositories.items():
            held = sizes.setdefault(repository, {})
            for name, size in domains.items():
                held[name] = _sum((held.get(name, DomainSize()), size))
    names = sorted(_by_domain(reports))
    whole = {name: _sum(domains.values()) for name, domains in sizes.items()}
    largest = sorted(whole, key=lambda name: -whole[name].bytes)[:MOST_REPOSITORIES]
    for repository in sorted(largest):
        own = sizes[repository]
        yield {
            "comments in": repository,
            "all": _comments(whole[repository]),
            **{name: _comments(own.get(name, DomainSize())) for name in names},
        }


def domain_warnings(built: Built) -> Iterator[str]:
    """Rules that tell no document from another, of the selection of files."""
    yield from built.selection.reported(SelectionReport).warnings


def _reports(built: Built) -> list[SelectionReport]:
    selected = (built.selection, *built.selections.values())
    return [each.reported(SelectionReport) for each in selected]


def _by_domain(reports: Sequence[SelectionReport]) -> dict[str, DomainSize]:
    sizes: dict[str, DomainSize] = {}
    for report in reports:
        for domains in report.repositories.values():
            for name, size in domains.items():
                sizes[name] = _sum((sizes.get(name, DomainSize()), size))
    return sizes


def _sum(sizes: Iterable[DomainSize]) -> DomainSize:
    """Add up the counts; shares are no part of the sum."""
    each = tuple(sizes)
    return DomainSize(
        documents=sum(size.documents for size in each),
        val=sum(size.val for size in each),
        bytes=sum(size.bytes for size in each),
        code_bytes=sum(size.code_bytes for size in each),
        comment_bytes=sum(size.comment_bytes for size in each),
    )


def _comments(size: DomainSize) -> str:
    """The share of comments in the bytes of code; empty where there is no code."""
    return percent(size.comment_bytes / size.code_bytes) if size.code_bytes else ""
