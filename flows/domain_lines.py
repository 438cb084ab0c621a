"""What there is of each domain, and how much of it is comments, as lines."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from curriculum.build import Built
from curriculum.inspection.formats import Line, count, percent

MOST_REPOSITORIES = 12
"""Those with most bytes are shown; the selection's report has all."""


class _Size(BaseModel):
    """What a selection counted of one domain."""

    documents: int = 0
    val: int = 0
    bytes: int = 0
    code_bytes: int = 0
    comment_bytes: int = 0

    def __add__(self, other: "_Size") -> "_Size":
        mine = self.model_dump()
        return _Size.model_validate(
            {name: mine[name] + value for name, value in other.model_dump().items()}
        )

    @property
    def comments(self) -> str:
        """The share of comments in the bytes of code; empty where there is no code."""
        return percent(self.comment_bytes / self.code_bytes) if self.code_bytes else ""


class _Report(BaseModel):
    """The part of a selection's report that is shown."""

    repositories: dict[str, dict[str, _Size]] = {}
    warnings: list[str] = []


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
            "comments": size.comments,
        }


def comment_lines(built: Built) -> Iterator[Line]:
    """A line a repository: the share of comments by bytes, in all its code and in each domain."""
    reports = _reports(built)
    sizes: dict[str, dict[str, _Size]] = {}
    for report in reports:
        for repository, domains in report.repositories.items():
            held = sizes.setdefault(repository, {})
            for name, size in domains.items():
                held[name] = held.get(name, _Size()) + size
    names = sorted(_by_domain(reports))
    whole = {name: sum(domains.values(), _Size()) for name, domains in sizes.items()}
    largest = sorted(whole, key=lambda name: -whole[name].bytes)[:MOST_REPOSITORIES]
    for repository in sorted(largest):
        own = sizes[repository]
        yield {
            "comments in": repository,
            "all": whole[repository].comments,
            **{name: own.get(name, _Size()).comments for name in names},
        }


def domain_warnings(built: Built) -> Iterator[str]:
    """Rules that tell no document from another, of the selection of files."""
    yield from _Report.model_validate(built.selection.manifest.report).warnings


def _reports(built: Built) -> list[_Report]:
    selected = (built.selection, *built.selections.values())
    return [_Report.model_validate(each.manifest.report) for each in selected]


def _by_domain(reports: Sequence[_Report]) -> dict[str, _Size]:
    sizes: dict[str, _Size] = {}
    for report in reports:
        for domains in report.repositories.values():
            for name, size in domains.items():
                sizes[name] = sizes.get(name, _Size()) + size
    return sizes
