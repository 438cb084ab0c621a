"""Selection of the changes to read, from a recorded git log, before any text is read."""

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
    """A change that will be read if its texts are usable.

    An empty `before_id` or `after_id` means that the file doesn't exist before or after the change.
    """

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
    """Facts from the first pass over a log, which later passes need."""

    headers: Mapping[bytes, str]
    """Last blob of every `.h` file, by path."""
    in_range: int
    """Number of commits in the window from `since` to `until`, without later commits."""
    boundary: frozenset[str]
    """Commits at which the history of a shallow clone begins; such a commit seems to add every file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """Map from the current path of each file to its first path, at one point of the log."""

    repository: str
    _first: dict[bytes, bytes] = field(default_factory=dict)

    def follow(self, entry: LogEntry) -> bool:
        """Apply a log entry; return True if it changes the first path that belongs to the entry's path."""
        if entry.status != "R":
            return False
        before = self._first.get(entry.path, entry.path)
        origin = self._first.get(entry.old_path, entry.old_path)
        self._first[entry.path] = origin
        return origin != before

    def lineage(self, path: bytes) -> str:
        """Return the lineage of the file that is now at `path`: `repository:path` with its first path."""
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
    """Yield the changes that pass the window, the path rules and the version limit, oldest first.

    The log is read twice: first to count the versions of each lineage, then to choose among them. The whole
    history is walked even if the window is short, so that a lineage doesn't depend on the window.

    Commits from the corpus' `later` date on have a version limit of their own, which keeps the oldest
    versions.

    Tree-wide commits change very many files. With `edits="code"`, the version limit is applied a second time
    without counting tree-wide commits as versions. Changes that pass only this second limit are yielded too,
    marked `is_edit_only`; `skips` counts them as skipped. `histories` receives the histories of all files in
    the window before the first change is yielded.
    """
    versions, edited = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()

    def counted(candidate: Candidate) -> tuple[str, bool]:
        return candidate.lineage, is_later(rules.corpus, candidate.timestamp)

    for candidate in _eligible(log, scope, rules, spec, skips, histories):
        versions[counted(candidate)] += 1
        edited[counted(candidate)] += not candidate.is_tree_wide
    history = rules.corpus.history
    # Of later versions the oldest are kept, so that they follow the training versions without a gap.
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
    """Return True if the version limit keeps a change of a file.

    Args:
        number: Number of counted changes of the file before this one.
        versions: Total number of counted changes of the file.
        history: The version limit.
        counts: False for a change that isn't counted. If the newest versions are kept, it is kept only if it
            lies between two kept changes.
    """
    limit = history.versions_per_path
    if versions <= limit:
        return True
    if not history.newest_first:
        return number < limit
    first = versions - limit
    return number >= first if counts else number > first


def is_in_window(spec: RepositorySpec, timestamp: int) -> bool:
    """Return True if a commit's UTC day lies between `since` and `until`, both included."""
    if spec.since is None and spec.until is None:
        return True
    day = datetime.datetime.fromtimestamp(timestamp, datetime.UTC).date()
    return (spec.since or day) <= day <= (spec.until or day)


def is_later(corpus: CorpusSpec, timestamp: int) -> bool:
    """Return True for a commit that is held out because it is from the corpus' `later` date on."""
    before = corpus.trained_before
    return before is not None and timestamp >= before


ReadAs = Literal["history", "shallow", "folder"]
"""Kind of a repository: a complete history, a shallow clone, or a plain folder."""


def no_source_files(
    spec: RepositorySpec, corpus: CorpusSpec, suffixes: Counter[str], *, kind: ReadAs
) -> CorpusError:
    """Return the error for a repository without a file in a wanted language.

    The error lists the most frequent `suffixes` of its files.
    """
    read = "its history" if kind != "folder" else "it is not a git repository, and the plain folder"
    found = ", ".join(f"{suffix} ({count})" for suffix, count in suffixes.most_common(5))
    cures: Mapping[ReadAs, str] = {
        "history": "Remove it from the corpus",
        "shallow": "Fetch its history: `git fetch --unshallow`",
        "folder": "Give the path of a clone, or remove it from the corpus",
    }
    return CorpusError(
        spec.title("path"),
        spec.path or spec.url,
        cause=f"{read} has no file in {', '.join(_needed(corpus))} (found: {found or 'no files'})",
        cure=cures[kind],
    )


def is_needed(language: Language | None, corpus: CorpusSpec) -> bool:
    """Return True if a repository is usable because it has a file in `language`.

    If the corpus wants C or C++ among other languages, only files in C or C++ make a repository usable.
    """
    return language in _needed(corpus)


def suffix_of(path: str) -> str:
    """Return the suffix of a path for error messages, or the file name if it has no suffix."""
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2]}" if "." in name else name


def _needed(corpus: CorpusSpec) -> list[Language]:
    return [file for file in corpus.files if file in CODE] or list(corpus.files)


def scan_log(
    log: CommitLog,
    source: Source,
    spec: RepositorySpec,
    corpus: CorpusSpec,
    licences: LicenceTracker,
) -> ScannedLog:
    """Read a log once and return facts about it; `licences` records the licence files of each commit.

    Raises:
        CorpusError: if no file is in a wanted language.
    """
    boundary = frozenset(source.boundary)
    suffixes: Counter[str] = Counter()
    headers: dict[bytes, str] = {}
    in_range, needed = 0, False
    for commit in commits(log):
        in_range += is_in_window(spec, commit.timestamp) and not is_later(corpus, commit.timestamp)
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
        raise no_source_files(spec, corpus, suffixes, kind="shallow" if boundary else "history")
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
        inside = is_in_window(spec, commit.timestamp)
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
    """Return the path of a wanted file, the reason why a file is skipped, or None for any other file."""
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
    """Facts about a commit that depend on all of its changed files."""

    is_tree_wide: bool
    added: frozenset[str]
    """Names, without suffix, of the files that the commit adds in known languages."""


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
