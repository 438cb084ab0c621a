"""Survey of a history from its log and the sizes of its blobs, before any text is read.

Commits are sampled by the digest of their ids. So the sample is fair, and a commit stays in the sample when
the history grows.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from curriculum.corpus import git
from curriculum.corpus.change_filter import Candidate, candidates
from curriculum.corpus.git_objects import object_heads
from curriculum.corpus.history import OpenHistory, version_mark
from curriculum.corpus.paths import WantedPath
from curriculum.corpus.skips import Reason, Skips
from schemas.change import FileChange
from schemas.corpus import QualitySpec, RepositorySpec

SURVEY_SCHEMA = pl.Schema(
    {
        "commit": pl.String,
        "lineage": pl.String,
        "versions": pl.Int64,
        "edits": pl.Int64,
    }
)
"""One row per change that is read.

`versions` is the size in bytes of those versions of the file that no earlier change shows. `edits` is the
size of the edited file, and 0 for a new or deleted file.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """Changes of a history that pass the window, the path rules and the version limit."""

    changes: pl.DataFrame
    """Table of SURVEY_SCHEMA, oldest change first; about 100 bytes per row."""
    marks: frozenset[int]
    """`version_mark` of each version that is the `after` of a change."""
    tree_bytes: int
    """Size of the files in wanted languages at the pin.

    The cost of parsing a whole tree is roughly proportional to it.
    """
    in_log: int = 0
    """Number of commits up to the pin, as in `git log`; 0 for a plain folder."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """Number of commits of which no change is read, by the limit that excludes them; see `unread_commits`."""

    @property
    def commits(self) -> list[str]:
        """Commits that have at least one of `changes`, oldest first."""
        return self.changes["commit"].unique(maintain_order=True).to_list()


def survey(past: OpenHistory, spec: RepositorySpec, pin: str) -> Survey:
    """Survey an open history up to its pin; this reads its log twice and looks up the size of each blob.

    Raises:
        CorpusError: if git fails.
    """
    skips = CommitSkips()
    edits = past.rules.corpus.changes
    found = list(candidates(past.log, past.scope, past.rules, spec, skips, edits=edits))
    sizes = _sizes(past, found)
    marks: set[int] = set()
    rows = [_row(candidate, sizes, marks) for candidate in found]
    changes = pl.DataFrame(rows, schema=SURVEY_SCHEMA, orient="row")
    in_log, merges = _commits(past, pin), _commits(past, pin, "--merges")
    before = {
        MERGES: merges,
        WINDOW: in_log - merges - past.scope.in_range,
        MAX_COMMITS: past.scope.in_range - (spec.max_commits or past.scope.in_range),
    }
    return Survey(
        changes=changes,
        marks=frozenset(marks),
        tree_bytes=_tree_bytes(past, pin),
        in_log=in_log,
        unread=unread_commits(in_log, set(changes["commit"]), before, skips.reasons),
    )


MERGES, WINDOW, MAX_COMMITS, NO_FILE = "merges", "window", "max_commits", "no_file"
"""Names of the limits that exclude whole commits.

Such a commit is a merge, is outside of since and until, is beyond max_commits, or changes no wanted file.
"""


@dataclass(kw_only=True, slots=True)
class CommitSkips(Skips):
    """Counts of skipped changes that also record the reasons by commit."""

    reasons: dict[str, set[Reason]] = field(default_factory=dict)

    def add(self, reason: Reason, *, path: str, commit: str) -> None:
        """Count a skipped change, and record its reason under its commit."""
        Skips.add(self, reason, path=path, commit=commit)
        self.reasons.setdefault(commit, set()).add(reason)


def unread_commits(
    in_log: int,
    read: Collection[str],
    before: Mapping[str, int],
    reasons: Mapping[str, Collection[Reason]],
) -> dict[str, int]:
    """Count the commits of which no change is read, by the limit that excludes them, highest count first.

    Args:
        in_log: Number of all commits.
        read: Commits of which a change is read.
        before: Number of commits that each limit on whole commits excludes.
        reasons: Reasons why changes of a commit were skipped, by commit. Of several reasons, the version
            limit counts, else the alphabetically first reason.

    >>> unread_commits(9, {"a"}, {"merges": 2}, {"a": {"vendored"}, "b": {"versions", "vendored"}})
    {'no_file': 5, 'merges': 2, 'versions': 1}
    """
    counted = Counter({limit: number for limit, number in before.items() if number > 0})
    for commit, found in reasons.items():
        if commit not in read:
            counted["versions" if "versions" in found else min(found)] += 1
    counted[NO_FILE] = max(0, in_log - len(read) - counted.total())
    return {limit: number for limit, number in counted.most_common() if number}


def survey_snapshot(files: Iterable[FileChange]) -> Survey:
    """Return the survey of a plain folder, which counts as one commit that adds every file."""
    rows = [
        (file.commit, file.lineage, len(file.after.text.encode()), 0)
        for file in files
        if file.after is not None
    ]
    changes = pl.DataFrame(rows, schema=SURVEY_SCHEMA, orient="row")
    return Survey(changes=changes, marks=frozenset(), tree_bytes=int(changes["versions"].sum()))


def sample_commits(commits: Iterable[str], share: float, *, min_count: int) -> list[str]:
    """Return a `share` of the commits in sample order, but at least `min_count`, or all if there are fewer.

    A smaller sample of the same commits is a prefix of a larger one.
    """
    ranked = sorted(commits, key=lambda commit: hashlib.sha256(commit.encode()).digest())
    return ranked[: max(min_count, math.ceil(share * len(ranked)))]


def _row(candidate: Candidate, sizes: dict[str, int], marks: set[int]) -> tuple[str, str, int, int]:
    """Return the row of a change in the survey, and add the file's new version to `marks`.

    `marks` are the new versions of all earlier changes.
    """
    before, after = (sizes.get(blob_id, 0) for blob_id in (candidate.before_id, candidate.after_id))
    is_new = bool(before) and version_mark(candidate, candidate.before_id) not in marks
    if candidate.after_id and not candidate.is_edit_only:
        marks.add(version_mark(candidate, candidate.after_id))
    versions = 0 if candidate.is_edit_only else after + (before if is_new else 0)
    edits = after if candidate.before_id else 0
    return candidate.commit, candidate.lineage, versions, edits


def _commits(past: OpenHistory, pin: str, *options: str) -> int:
    return int(git.run(past.repository, "rev-list", "--count", *options, pin, "--"))


def _tree_bytes(past: OpenHistory, pin: str) -> int:
    listed = git.run(past.repository, "ls-tree", "-r", "-z", "-l", "--full-tree", pin).split(b"\0")
    pairs = (line.partition(b"\t")[::2] for line in listed[:-1])
    return sum(
        int(head.split()[3])
        for head, path in pairs
        if head.split()[3].isdigit() and isinstance(past.rules.verdict(path), WantedPath)
    )


def _sizes(past: OpenHistory, found: Iterable[Candidate]) -> dict[str, int]:
    """Return the size of each blob whose size is within the limits of the quality rules."""
    ids = list(dict.fromkeys(_blobs(found)))
    quality: QualitySpec = past.rules.corpus.quality
    return {
        name: head.size
        for name, head in zip(ids, object_heads(past.repository, ids), strict=True)
        if head.kind == "blob" and quality.min_bytes <= head.size <= quality.max_bytes
    }


def _blobs(found: Iterable[Candidate]) -> Iterator[str]:
    for candidate in found:
        yield from (blob_id for blob_id in (candidate.before_id, candidate.after_id) if blob_id)
