"""Filter of the changes of a recorded log; no text is looked at yet."""

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from curriculum.corpus.file_histories import FileHistories
from curriculum.corpus.git_log import Commit, CommitLog, LogEntry, commits
from curriculum.corpus.git_tree import FILE_MODES
from curriculum.corpus.licence_history import LicenceTracker
from curriculum.corpus.paths import HEADER_SUFFIX, PathRules, WantedPath, language_of
from curriculum.corpus.skips import Reason, Skips
from curriculum.corpus.sources import Source
from schemas.change import TREE_WIDE_FILES
from schemas.corpus import CODE, ChangeChoice, CorpusSpec, HistorySpec, Language, RepositorySpec
from schemas.errors import CorpusError

ABSENT = "000000"
SYMLINK, SUBMODULE = "120000", "160000"

Kind = Literal["added", "modified", "renamed", "deleted", "snapshot"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A change that is wanted if its texts are; an empty id stands for no file."""

    kind: Kind
    commit: str
    timestamp: int
    subject: str
    path: str
    old_path: str
    language: Language
    before_id: str
    after_id: str
    lineage: str
    is_tree_wide: bool
    is_replaced: bool
    is_edit_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ScannedLog:
    """Findings of one look over the log: the headers that it has, and the commits in the window."""

    headers: Mapping[bytes, str]
    """The last blob of every `.h` file, by path."""
    in_range: int
    """Commits between `since` and `until`, without later ones."""
    boundary: frozenset[str]
    """Commits at which a shallow clone ends; such a commit seems to add every file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """The path that each file had first, by the path that it has at some point of the log."""

    repository: str
    _first: dict[bytes, bytes] = field(default_factory=dict)

    def follow(self, entry: LogEntry) -> bool:
        """Go on along an entry of the log; whether its path has another origin now."""
        if entry.status != "R":
            return False
        before = self._first.get(entry.path, entry.path)
        origin = self._first.get(entry.old_path, entry.old_path)
        self._first[entry.path] = origin
        return origin != before

    def lineage(self, path: bytes) -> str:
        """`repository:path` with the first path."""
        origin = self._first.get(path, path)
        return f"{self.repository}:{origin.decode(errors='replace')}"


def candidates(
    log: CommitLog,
    scope: ScannedLog,
    rules: PathRules,
    spec: RepositorySpec,
    skips: Skips,
    *,
    edits: ChangeChoice = "all",
    histories: FileHistories | None = None,
) -> Iterator[Candidate]:
    """The changes that window, paths and versions per path leave, oldest first.

    The log is read twice: to count each lineage, and to choose. All of the history is walked whatever
    the window is, so that a lineage doesn't depend on it.

    Commits from the corpus' `later` on are counted apart, and the oldest of their versions are chosen.

    With `edits` code, changes that are within the limit only because tree-wide commits don't count among
    the versions come too, marked `is_edit_only`; `skips` counts them all the same. `histories` gets
    those of all files that the window leaves, before the first change is yielded.
    """
    versions, edited = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()

    def counted(candidate: Candidate) -> tuple[str, bool]:
        return candidate.lineage, is_later(rules.corpus, candidate.timestamp)

    for candidate in _eligible(log, scope, rules, spec, skips, histories):
        versions[counted(candidate)] += 1
        edited[counted(candidate)] += not candidate.is_tree_wide
    history = rules.corpus.history
    # The first later versions follow those that are trained on without a gap.
    limits = {False: history, True: history.model_copy(update={"newest_first": False})}
    passed, passed_edits = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for candidate in _eligible(log, scope, rules, spec, Skips(), None):
        place = counted(candidate)
        limit = limits[place[1]]
        if _is_chosen(passed[place], versions[place], limit, counts=True):
            yield candidate
        else:
            skips.add("versions", path=candidate.path, commit=candidate.commit)
            counts = not candidate.is_tree_wide
            chosen = _is_chosen(passed_edits[place], edited[place], limit, counts=counts)
            if edits == "code" and chosen:
                yield replace(candidate, is_edit_only=True)
        passed[place] += 1
        passed_edits[place] += not candidate.is_tree_wide


def _is_chosen(number: int, versions: int, history: HistorySpec, *, counts: bool) -> bool:
    """Return True if the limit keeps a change of a file.

    Args:
        number: Counted changes before it.
        versions: Counted changes in all.
        history: The limit.
        counts: False for a change that doesn't count itself: it stays between two that are kept.
    """
    limit = history.versions_per_path
    if versions <= limit:
        return True
    if not history.newest_first:
        return number < limit
    first = versions - limit
    return number >= first if counts else number > first


def within(spec: RepositorySpec, timestamp: int) -> bool:
    """Return True if a commit's day, in UTC, is between `since` and `until`, both included."""
    if spec.since is None and spec.until is None:
        return True
    day = datetime.datetime.fromtimestamp(timestamp, datetime.UTC).date()
    return (spec.since or day) <= day <= (spec.until or day)


def is_later(corpus: CorpusSpec, timestamp: int) -> bool:
    """Return True for commits that are held out since they came later than what is trained on."""
    before = corpus.trained_before
    return before is not None and timestamp >= before


ReadAs = Literal["history", "shallow", "folder"]
"""Form in which a repository is read: a whole history, that of a shallow clone, or a plain folder's files."""


def nothing_to_read(
    spec: RepositorySpec, corpus: CorpusSpec, suffixes: Counter[str], *, kind: ReadAs
) -> CorpusError:
    """The error for a repository without a file in a wanted language, which says what it has."""
    read = "its history" if kind != "folder" else "it is no git repository, and the plain folder"
    found = ", ".join(f"{suffix} ({count})" for suffix, count in suffixes.most_common(5))
    cures: Mapping[ReadAs, str] = {
        "history": "Take it out of the corpus",
        "shallow": "Fetch its history: `git fetch --unshallow`",
        "folder": "Give the path of a clone, or take it out of the corpus",
    }
    return CorpusError(
        spec.title("path"),
        spec.path or spec.url,
        cause=f"{read} has no file in {', '.join(_needed(corpus))}; it has "
        f"{found or 'no file at all'}",
        cure=cures[kind],
    )


def is_needed(language: Language | None, corpus: CorpusSpec) -> bool:
    """Return True if a file in that language makes a repository worth reading: C and C++ where asked."""
    return language in _needed(corpus)


def suffix_of(path: str) -> str:
    """The suffix of a path as errors show it, its name where it has none."""
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2]}" if "." in name else name


def _needed(corpus: CorpusSpec) -> list[Language]:
    return [file for file in corpus.files if file in CODE] or list(corpus.files)


def scope_of(
    log: CommitLog,
    source: Source,
    spec: RepositorySpec,
    corpus: CorpusSpec,
    licences: LicenceTracker,
) -> ScannedLog:
    """The scope of a log, for one look over it, which `licences` follows.

    Raises:
        CorpusError: if no file is in a wanted language.
    """
    boundary = frozenset(source.boundary)
    suffixes: Counter[str] = Counter()
    headers: dict[bytes, str] = {}
    in_range, needed = 0, False
    for commit in commits(log):
        in_range += within(spec, commit.timestamp) and not is_later(corpus, commit.timestamp)
        licences.follow(commit)
        if commit.commit in boundary:
            continue
        for entry in commit.entries:
            path = entry.path.decode(errors="replace")
            if path.endswith(HEADER_SUFFIX) and FILE_MODES & {entry.before_mode, entry.after_mode}:
                kept = entry.after_mode in FILE_MODES
                headers[entry.path] = entry.after_id if kept else entry.before_id
            needed = needed or is_needed(language_of(path, headers="cpp"), corpus)
            needed = needed or is_needed(language_of(path, headers="c"), corpus)
            if not needed:
                suffixes[suffix_of(path)] += 1
    if not needed:
        raise nothing_to_read(spec, corpus, suffixes, kind="shallow" if boundary else "history")
    return ScannedLog(headers=headers, in_range=in_range, boundary=boundary)


def _eligible(
    log: CommitLog,
    scope: ScannedLog,
    rules: PathRules,
    spec: RepositorySpec,
    skips: Skips,
    histories: FileHistories | None,
) -> Iterator[Candidate]:
    origins = Origins(repository=spec.name)
    unwanted = scope.in_range - spec.max_commits if spec.max_commits else 0
    number = 0
    for commit in commits(log):
        inside = within(spec, commit.timestamp)
        number += inside and not is_later(rules.corpus, commit.timestamp)
        breadth = _breadth(commit)
        for entry in commit.entries:
            origins.follow(entry)
            if histories is not None:
                kept = entry.after_id if entry.after_mode in FILE_MODES else ""
                histories.add(origins.lineage(entry.path), commit.timestamp, kept)
            if not inside or number <= unwanted:
                continue
            judged = _judge(commit, entry, scope, rules)
            if isinstance(judged, WantedPath):
                lineage = origins.lineage(entry.path)
                if histories is not None:
                    histories.want(lineage)
                yield _candidate(commit, entry, judged, breadth, lineage=lineage)
            elif judged is not None:
                path = entry.path.decode(errors="backslashreplace")
                skips.add(judged, path=path, commit=commit.commit)


def _judge(
    commit: Commit, entry: LogEntry, scope: ScannedLog, rules: PathRules
) -> WantedPath | Reason | None:
    """The path if the entry changes a file that we want, why not, or None for another file."""
    judged = rules.verdict(entry.path)
    if judged is None or entry.before_id == entry.after_id:  # only the mode or the path changed
        return None
    if commit.commit in scope.boundary:
        return "boundary"
    modes = {entry.before_mode, entry.after_mode}
    if modes & FILE_MODES:
        return judged
    return "submodule" if SUBMODULE in modes else "symlink"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Breadth:
    """Facts about all files of a commit."""

    is_tree_wide: bool
    added: frozenset[str]
    """Names of added files of known languages, without suffixes."""


def _breadth(commit: Commit) -> _Breadth:
    paths = [(entry.path.decode(errors="replace"), entry) for entry in commit.entries]
    known = [(path, entry) for path, entry in paths if language_of(path, headers="cpp")]
    added = frozenset(_stem(path) for path, entry in known if entry.before_mode == ABSENT)
    return _Breadth(is_tree_wide=len(known) >= TREE_WIDE_FILES, added=added)


def _stem(path: str) -> str:
    return PurePosixPath(path).stem.casefold()


def _candidate(
    commit: Commit, entry: LogEntry, wanted: WantedPath, breadth: _Breadth, *, lineage: str
) -> Candidate:
    before_id = entry.before_id if entry.before_mode in FILE_MODES else ""
    after_id = entry.after_id if entry.after_mode in FILE_MODES else ""
    renamed = entry.status == "R" and before_id != ""
    return Candidate(
        kind=_kind(commit, before_id, after_id, renamed=renamed),
        commit=commit.commit,
        timestamp=commit.timestamp,
        subject=commit.subject,
        path=wanted.path,
        old_path=entry.old_path.decode(errors="replace") if renamed else wanted.path,
        language=wanted.language,
        before_id=before_id,
        after_id=after_id,
        lineage=lineage,
        is_tree_wide=breadth.is_tree_wide,
        is_replaced=not after_id and _stem(wanted.path) in breadth.added,
    )


def _kind(commit: Commit, before_id: str, after_id: str, *, renamed: bool) -> Kind:
    if renamed:
        return "renamed"
    if not before_id:
        return "added" if commit.parents else "snapshot"
    return "modified" if after_id else "deleted"
