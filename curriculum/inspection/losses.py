"""Counts of excluded documents by reason, at each stage from the repository to the row."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from curriculum import parquet
from curriculum.corpus.select import SELECTION_NAME
from curriculum.inspection.formats import Line, number
from curriculum.stages import Built, RowsSpec
from curriculum.store import Artefact
from schemas.errors import CorpusError
from schemas.families import ENRICHED_FAMILY
from schemas.reports import DocumentsReport, RowsReport, SelectionReport, SkipsReport

FILES = "files"
"""Name shown for the selection of files, which belongs to no family."""
HELD_OUT = "held_out"
"""Reason for documents that are kept, but not in the training set."""
SHOWN_BESIDE = "shown_by_another_family"
"""Reason for documents that are kept, but whose commits another family shows."""
_ALL_CHANGES = "Set changes: all in the corpus file"
_CURES: Mapping[str, str] = {
    "too_small": "Lower quality.min_bytes in the corpus file",
    "too_large": "Raise quality.max_bytes in the corpus file",
    "line_length": "Raise quality.max_line_bytes in the corpus file",
    "generated": "Set quality.generated: true in the corpus file",
    "vendored": "Set quality.vendored: true in the corpus file",
    "excluded": "Widen include and exclude of its repositories",
    "oversized": "End the history before that commit by commit or until in the corpus file",
    "versions": "Raise history.versions_per_path in the corpus file",
    "comment_change": _ALL_CHANGES,
    "mechanical": _ALL_CHANGES,
    "not_replaced": _ALL_CHANGES,
    "tree_wide": _ALL_CHANGES,
    "new_file": "Read more history, or serve v2 families, which show new files",
    "too_long": "Take longer rows, or set overlong: drop_oldest in the corpus file",
    "contradiction": "Give conversations of one text the same roles and weights",
    "licence": "Allow the licences, or set licences.purpose: research, in the corpus file",
    "other_corpus": "Take that corpus out of not_in in the corpus file",
    HELD_OUT: "Lower val_fraction in the corpus file, or read more history",
    SHOWN_BESIDE: "Say both: true beside the family in the diet, or read more history",
}
"""Hint for each reason. For other reasons, the hint suggests another corpus."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exclusions:
    """Numbers of changes and documents that were read, kept and left out."""

    changes: Mapping[str, SkipsReport]
    """Changes that were read, by repository. All families share one reading, and some don't count it."""
    left_out: Mapping[str, Counter[str]]
    """Number of changes without a document, by family and reason."""
    selections: tuple[tuple[str, SelectionReport], ...]
    """Selections that decide split and domain, each with its family; the selection of files comes first."""
    licences: Mapping[str, int] = field(default_factory=dict)
    """Number of documents of all families by licence. A document counts once for each of its licences."""

    @staticmethod
    def of(artefacts: Iterable[Artefact]) -> "Exclusions":
        """Return the sums over the reports of all documents and selections among `artefacts`."""
        changes: dict[str, SkipsReport] = {}
        left_out: dict[str, Counter[str]] = {}
        selections: list[tuple[str, SelectionReport]] = []
        licences = Counter[str]()
        for artefact in artefacts:
            labels = artefact.manifest.labels
            if artefact.manifest.stage == "documents":
                report = artefact.reported(DocumentsReport)
                if report.changes.read or report.changes.skipped:
                    changes.setdefault(labels.get("repository", ""), report.changes)
                left_out.setdefault(labels["family"], Counter()).update(report.left_out)
                licences.update(report.licences)
            # A selection with a step label only decides which documents are kept.
            if artefact.manifest.stage == "selections" and "step" not in labels:
                where = labels.get("family", FILES)
                selections.append((where, artefact.reported(SelectionReport)))
        selections.sort(key=lambda selection: selection[0] != FILES)
        return Exclusions(
            changes=changes,
            left_out=left_out,
            selections=tuple(selections),
            licences=licences,
        )

    @property
    def read(self) -> int:
        """Number of changes that were read."""
        return sum(report.read for report in self.changes.values())

    @property
    def documents(self) -> int:
        """Number of documents before selection."""
        return sum(report.documents for _, report in self.selections)

    @property
    def documents_kept(self) -> int:
        """Number of documents that the selections keep."""
        return sum(report.kept for _, report in self.selections)

    @property
    def held_out(self) -> int:
        """Number of kept documents in the sets val, unseen and later."""
        return sum(report.val + report.unseen + report.later for _, report in self.selections)

    def lines(self) -> Iterator[Line]:
        """Yield one table row per place and reason, and one per encoding other than UTF-8."""
        for repository, changes in self.changes.items():
            yield from _lines("changes skipped", repository, changes.skipped)
            yield from _lines("changes decoded", repository, changes.decoded)
            yield from _lines("files vendored", repository, changes.vendored)
        for family, left_out in self.left_out.items():
            yield from _lines("changes without a document", family, left_out)
        for where, selection in self.selections:
            yield from _lines("documents not kept", where, selection.rejected)

    @property
    def words(self) -> str:
        """Summary of how many changes were read and how many documents were kept.

        exclusions.words ->
        '171 changes read in 3 repositories; 976 of 976 documents kept'
        """
        repositories = (
            "1 repository" if len(self.changes) == 1 else f"{len(self.changes)} repositories"
        )
        return (
            f"{number(self.read, 'change')} read in {repositories}; "
            f"{self.documents_kept:,} of {number(self.documents, 'document')} kept"
        )


def lack_warnings(built: Built) -> Iterator[str]:
    """Yield a warning for each repository that is skipped or has no index, with the families it lacks."""
    found: dict[tuple[str, str], list[str]] = {}
    for documents in built.documents:
        lacks = documents.reported(DocumentsReport).lacks
        labels = documents.manifest.labels
        if lacks and labels["family"] != ENRICHED_FAMILY:
            found.setdefault((labels["repository"], lacks), []).append(labels["family"])
    for (repository, lacks), families in found.items():
        yield f"no documents of {repository} ({', '.join(families)}): {lacks}"


def require_documents(built: Built, wanted: Sequence[RowsSpec], *, all_of_them: bool) -> None:
    """Raise unless there are documents to train on for all data sets `wanted`, or for at least one.

    `all_of_them` says which of the two is required.

    Raises:
        CorpusError: naming the first family without documents, and the most frequent reason.
    """
    empty: list[RowsSpec] = []
    for spec in wanted:
        train = built.rows_of(spec).train
        if spec.imported is None and not train.planned:
            fitted = train.reported(RowsReport).encode.documents
            if not any(fitted[outcome] for outcome in fitted if outcome != "too_long"):
                empty.append(spec)
    if empty and (all_of_them or len(empty) == len(wanted)):
        raise _without_documents(built, empty[0])


def require_some(corpus: str, documents: Iterable[Artefact]) -> None:
    """Raise unless at least one of the artefacts has a document.

    Raises:
        CorpusError: naming the most frequent reason.
    """
    reports: dict[str, DocumentsReport] = {}
    for document in documents:
        report = document.reported(DocumentsReport)
        if report.documents:
            return
        # Count the exclusions of a repository once, since its families share one reading.
        reports.setdefault(document.manifest.labels["repository"], report)
    raise _refusal(corpus, "no document of any family", *_excluded([*reports.values()]), cure="")


def _without_documents(built: Built, wanted: RowsSpec) -> CorpusError:
    reports = [
        document.reported(DocumentsReport)
        for document in built.documents
        if document.manifest.labels["family"] == wanted.flat_family
        and _is_source_of(wanted, document.manifest.labels["repository"])
    ]
    is_made = any(report.documents for report in reports)
    too_long = built.rows_of(wanted).train.reported(RowsReport).encode.documents.get("too_long", 0)
    lost, missing = (_not_kept(built, wanted), "") if is_made else _excluded(reports)
    lost = Counter(too_long=too_long) if too_long else lost
    of = f" of {', '.join(wanted.repositories)}" if wanted.repositories else ""
    return _refusal(
        built.selection.manifest.labels["corpus"],
        f"no document to train on of {wanted.flat_family}{of}",
        lost,
        missing,
        cure=f", or take the servings of {wanted.family} out of the diet",
    )


def _refusal(
    corpus: str, found: str, lost: Counter[str], missing: str, *, cure: str
) -> CorpusError:
    reason, most = next(iter(lost.most_common(1)), ("", 0))
    said = reason.replace("_", " ")
    cause = f"the largest reason is {said!r}: {most:,} of {lost.total():,} left out"
    if not reason:
        cause = "nothing in its history is of the languages that the corpus names"
    return CorpusError(
        f"corpus {corpus}",
        found,
        cause=missing or cause,
        cure=f"{_CURES.get(reason, 'Take another corpus')}{cure}",
    )


def _excluded(reports: Sequence[DocumentsReport]) -> tuple[Counter[str], str]:
    """Return the number of changes without a document by reason, and why documents are missing, if so."""
    lost: Counter[str] = Counter()
    for report in reports:
        for counted in (report.changes.skipped, report.lines.skipped, report.left_out):
            lost.update(counted)
    return lost, next((report.lacks for report in reports if report.lacks), "")


def _not_kept(built: Built, wanted: RowsSpec) -> Counter[str]:
    """Return the number of documents that aren't trained on, by reason.

    They were rejected, are held out, or are shown by another family.
    """
    selection = built.selections.get(wanted.flat_family, built.selection)
    listed = parquet.read_table(
        selection.path / SELECTION_NAME,
        columns=["repository", "keep", "reason", "split"],
        filters=[("family", "=", wanted.flat_family)],
    )
    return Counter(
        row["reason"] or (HELD_OUT if row["split"] != "train" else SHOWN_BESIDE)
        for row in listed.to_pylist()
        if _is_source_of(wanted, row["repository"])
    )


def _is_source_of(wanted: RowsSpec, repository: str) -> bool:
    return not wanted.repositories or repository in wanted.repositories


def ranked(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the counts that aren't zero, the largest first."""
    pairs = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(reason, amount) for reason, amount in pairs if amount]


def _lines(what: str, where: str, counted: Mapping[str, int]) -> Iterator[Line]:
    for reason, amount in ranked(counted):
        yield {"what": what, "where": where, "reason": reason.replace("_", " "), "number": amount}
