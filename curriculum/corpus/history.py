"""Changes of files in a repository's history, oldest first; families turn them into documents.

    log      every commit with the ids of changed blobs            git log --raw
    choose   changes by window, path patterns, languages and
             versions per path                                     needs no texts
    blobs    their texts, decoded and checked                      git cat-file --batch
    hunks    the lines that differ                                 git diff-tree -U0

Memory is constant, with three exceptions. About 8 bytes per change record which blobs were the `after` of a
change. About 150 bytes per commit record its licence files. Renames are recorded too. The log is kept on
disk.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import JsonValue

from curriculum.corpus import git
from curriculum.corpus.batch_diff import BatchDiffer, open_differ, whole_text_hunks
from curriculum.corpus.blobs import BlobReader, Unread, Version
from curriculum.corpus.change_filter import Candidate, ScannedLog, candidates, scan_log
from curriculum.corpus.file_histories import FileHistories
from curriculum.corpus.git_log import CommitLog, read_log
from curriculum.corpus.git_tree import headers_at
from curriculum.corpus.licence_history import LicenceHistory, open_tracker
from curriculum.corpus.paths import PathRules, path_rules
from curriculum.corpus.plain_folder import read_directory
from curriculum.corpus.skips import Reason, Skips
from curriculum.corpus.sources import Source
from curriculum.corpus.tree_origins import vendored_at
from curriculum.corpus.vendored import NOTHING_VENDORED
from schemas.change import FileChange, Hunk
from schemas.corpus import ChangeChoice, CorpusSpec, RepositorySpec

WINDOW = 64
"""Number of changes whose texts are requested together."""
BATCH_BYTES = 16_000_000
BATCH_CHANGES = 512
"""Limits on a batch of diffs: bytes of text, and number of changes."""


REVISION = 14
"""Revision of the reader; increase it when the same history gives other changes."""


def ingredients(source: Source, spec: RepositorySpec, corpus: CorpusSpec) -> dict[str, JsonValue]:
    """Return everything that decides which changes are read, except git's version, for keys of artefacts."""
    pin = {"name", "licence", "since", "until", "include", "exclude", "max_commits"}
    later: dict[str, JsonValue] = {"later": str(corpus.later)} if corpus.later else {}
    return later | {
        "commit": source.commit,
        "boundary": list(source.boundary),
        "repository": spec.model_dump(mode="json", include=pin),
        "corpus": corpus.model_dump(mode="json", include={"files", "history", "quality"}),
    }


def read_changes(
    source: Source,
    spec: RepositorySpec,
    corpus: CorpusSpec,
    skips: Skips,
    histories: FileHistories | None = None,
) -> Iterator[FileChange]:
    """Yield every change of a repository that the corpus wants, oldest first; every run yields the same.

    Changes that only edit families use are yielded as well; they are marked, and `skips` doesn't count them
    as read. Renames without edits and changes of line ends alone are not yielded, but a lineage continues
    through them. Everything else that is not yielded is counted in `skips`, whose counts are complete when
    the iterator ends. `histories` receives the histories of all files that are read.

    Raises:
        CorpusError: if git fails, or the history has no file in a wanted language.
    """
    if source.layout is None:
        yield from read_directory(source, spec, corpus, skips)
        return
    with open_history(source.layout, source, spec, corpus, skips) as past:
        yield from iterate_changes(past, spec, skips, edits=corpus.changes, histories=histories)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenHistory:
    """A history that is open for reading: a view of the repository, its log, and the rules for its paths."""

    repository: Path
    log: CommitLog
    scope: ScannedLog
    rules: PathRules
    licences: LicenceHistory
    reader: BlobReader


@contextmanager
def open_history(
    layout: git.RepositoryLayout,
    source: Source,
    spec: RepositorySpec,
    corpus: CorpusSpec,
    skips: Skips,
) -> Iterator[OpenHistory]:
    """Open the history up to a pin for the `with` block, at whose end the view, log and git processes end.

    Raises:
        CorpusError: if git fails, or the history has no file in a wanted language.
    """
    with git.view(layout) as repository, read_log(repository, source.commit) as log:
        skips.exact_renames = log.exact_renames
        for oversized in log.oversized:
            skips.add("oversized", path=f"commit {oversized}", commit=oversized)
        with open_tracker(repository, source.commit) as tracker:
            scope = scan_log(log, source, spec, corpus, tracker)
            licences = tracker.finish()
        headers = headers_at(repository, source.commit, scope.headers)
        vendored = NOTHING_VENDORED
        if not corpus.quality.vendored:
            vendored = vendored_at(
                repository, source.commit, log, max_bytes=corpus.quality.max_bytes
            )
        skips.vendored = vendored.counted()
        rules = path_rules(spec, corpus, headers=headers, vendored=vendored)
        with closing(BlobReader(repository=repository, quality=corpus.quality)) as reader:
            yield OpenHistory(
                repository=repository,
                log=log,
                scope=scope,
                rules=rules,
                licences=licences,
                reader=reader,
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledCommits:
    """Sampled commits of a history, and the versions of files that all commits contain."""

    commits: Collection[str]
    marks: frozenset[int]
    """`version_mark` of each version that is the `after` of any change in the history."""


def iterate_changes(
    past: OpenHistory,
    spec: RepositorySpec,
    skips: Skips,
    sampled: SampledCommits | None = None,
    *,
    edits: ChangeChoice = "all",
    histories: FileHistories | None = None,
) -> Iterator[FileChange]:
    """Yield the changes of an open history as `read_changes` does, or only those of `sampled` commits.

    With `edits="code"`, changes that only edit families use are yielded as well. There is one difference: in
    a sample, the `before` of a change doesn't count as new if it equals the `after` of a later change, but in
    `read_changes` it does.
    """
    chosen = candidates(
        past.log, past.scope, past.rules, spec, skips, edits=edits, histories=histories
    )
    seen: set[int] = set()
    if sampled is not None:
        chosen = (candidate for candidate in chosen if candidate.commit in sampled.commits)
        seen |= sampled.marks
    with open_differ(past.repository) as differ:
        for batch in _batches(_judged(chosen, past.reader, skips)):
            for change in _changes(differ, batch, spec, seen, past.licences):
                skips.read += not change.is_edit_only
                yield change


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pair:
    """A candidate with the texts before and after its change."""

    candidate: Candidate
    before: Version | None
    after: Version | None

    @property
    def encoding(self) -> str:
        judged = self.after or self.before
        assert judged is not None
        return judged.encoding

    @property
    def size(self) -> int:
        return sum(len(side.blob.text) for side in (self.before, self.after) if side)


def _judged(chosen: Iterator[Candidate], reader: BlobReader, skips: Skips) -> Iterator[_Pair]:
    """Yield the candidates whose texts are readable and pass the quality rules."""
    while window := list(islice(chosen, WINDOW)):
        ids = [
            blob_id
            for candidate in window
            for blob_id in (candidate.before_id, candidate.after_id)
            if blob_id
        ]
        versions = reader.read(ids)
        for candidate in window:
            judged = _judge(candidate, versions)
            if isinstance(judged, _Pair):
                if not candidate.is_edit_only:
                    skips.add_decoded(judged.encoding)
                yield judged
            elif not candidate.is_edit_only:
                skips.add(judged, path=candidate.path, commit=candidate.commit)


def _judge(candidate: Candidate, versions: dict[str, Version | Unread]) -> _Pair | Reason:
    before = versions[candidate.before_id] if candidate.before_id else None
    after = versions[candidate.after_id] if candidate.after_id else None
    for side in (after, before):
        if isinstance(side, Unread):
            return side.reason
    assert not isinstance(before, Unread)
    assert not isinstance(after, Unread)
    if before and after and before.blob.text == after.blob.text:
        return "unchanged"
    judged = after or before
    assert judged is not None
    return judged.against or _Pair(candidate=candidate, before=before, after=after)


def _batches(pairs: Iterator[_Pair]) -> Iterator[list[_Pair]]:
    batch: list[_Pair] = []
    size = 0
    for pair in pairs:
        batch.append(pair)
        size += pair.size
        if size >= BATCH_BYTES or len(batch) == BATCH_CHANGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _changes(
    differ: BatchDiffer,
    batch: Sequence[_Pair],
    spec: RepositorySpec,
    seen: set[int],
    licences: LicenceHistory,
) -> Iterator[FileChange]:
    for pair, lines in zip(batch, _hunks(differ, batch), strict=True):
        candidate = pair.candidate
        before_is_new = (
            pair.before is not None and version_mark(candidate, candidate.before_id) not in seen
        )
        if pair.after is not None and not candidate.is_edit_only:
            seen.add(version_mark(candidate, candidate.after_id))
        yield FileChange(
            kind=candidate.kind,
            repository=spec.name,
            licence=spec.licence,
            commit=candidate.commit,
            timestamp=candidate.timestamp,
            subject=candidate.subject,
            path=candidate.path,
            old_path=candidate.old_path,
            language=candidate.language,
            before=pair.before.blob if pair.before else None,
            after=pair.after.blob if pair.after else None,
            hunks=lines,
            lineage=candidate.lineage,
            before_is_new=before_is_new,
            is_tree_wide=candidate.is_tree_wide,
            is_replaced=candidate.is_replaced,
            is_edit_only=candidate.is_edit_only,
            licence_files=licences.at(candidate.commit),
            old_licence_files=licences.in_parent_of(candidate.commit),
        )


def _hunks(differ: BatchDiffer, batch: Sequence[_Pair]) -> Iterator[tuple[Hunk, ...]]:
    both = [(pair.before, pair.after) for pair in batch if pair.before and pair.after]
    found = iter(differ.hunks(both) if both else ())
    for pair in batch:
        if pair.before and pair.after:
            yield next(found)
        elif pair.after:
            yield whole_text_hunks(pair.after.blob.text, added=True)
        else:
            assert pair.before is not None
            yield whole_text_hunks(pair.before.blob.text, added=False)


def version_mark(candidate: Candidate, blob_id: str) -> int:
    """Return a 64-bit hash that identifies a blob as a version of the candidate's lineage."""
    named = f"{candidate.lineage}\0{blob_id}".encode()
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest())
