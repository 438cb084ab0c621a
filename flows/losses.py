"""What was lost between the repositories and the rows, reason by reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel

from curriculum.build import Built
from flows.lines import Line, number


class _Changes(BaseModel):
    """What of a history was read."""

    read: int = 0
    skipped: dict[str, int] = {}


class _Documents(BaseModel):
    """The part of a documents artefact's report that tells losses."""

    documents: int = 0
    left_out: dict[str, int] = {}
    changes: _Changes = _Changes()


class _Selection(BaseModel):
    """The part of a selection's report that tells losses."""

    documents: int = 0
    kept: int = 0
    rejected: dict[str, int] = {}


def loss_lines(built: Built) -> Iterator[Line]:
    """A line a place and reason: changes skipped, changes without a document, documents not kept."""
    for repository, changes in _histories(built).items():
        yield from _lines("changes skipped", repository, changes.skipped)
    by_family: dict[str, Counter[str]] = {}
    for family, report in _documents(built):
        by_family.setdefault(family, Counter()).update(report.left_out)
    for family, left_out in by_family.items():
        yield from _lines("changes without a document", family, left_out)
    for where, selection in _selections(built):
        yield from _lines("documents not kept", where, selection.rejected)


def loss_words(built: Built) -> str:
    """How much was read and kept, in a sentence.

    >>> loss_words(built)
    '171 changes read in 3 repositories; 976 of 976 documents kept'
    """
    histories = _histories(built)
    read = sum(each.read for each in histories.values())
    selections = [selection for _, selection in _selections(built)]
    kept, documents = (
        sum(getattr(each, name) for each in selections) for name in ("kept", "documents")
    )
    repositories = f"{len(histories)} {'repository' if len(histories) == 1 else 'repositories'}"
    return (
        f"{number(read, 'change')} read in {repositories}; "
        f"{kept:,} of {number(documents, 'document')} kept"
    )


def _histories(built: Built) -> dict[str, _Changes]:
    """What was read of each repository; all families share one reading, and some tell nothing of it."""
    found: dict[str, _Changes] = {}
    for each in built.documents:
        changes = _Documents.model_validate(each.manifest.report).changes
        name = each.manifest.labels.get("repository", "")
        if changes.read or changes.skipped:
            found.setdefault(name, changes)
    return found


def _documents(built: Built) -> Iterator[tuple[str, _Documents]]:
    for each in built.documents:
        yield each.manifest.labels["family"], _Documents.model_validate(each.manifest.report)


def _selections(built: Built) -> Iterator[tuple[str, _Selection]]:
    yield "files", _Selection.model_validate(built.selection.manifest.report)
    for family, each in built.selections.items():
        yield family, _Selection.model_validate(each.manifest.report)


def _lines(what: str, where: str, counted: Mapping[str, int]) -> Iterable[Line]:
    ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return [
        {"what": what, "where": where, "reason": reason.replace("_", " "), "number": amount}
        for reason, amount in ranked
        if amount
    ]
