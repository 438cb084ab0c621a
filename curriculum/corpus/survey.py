"""What there is to read in a history, before any text is read: its log and the sizes of its blobs say so.

A commit's place in the sample is a digest of its id: a fair sample, in which a commit stays when the
history grows.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from curriculum.corpus import git
from curriculum.corpus.choice import CODE, Candidate, candidates
from curriculum.corpus.history import Past, mark_of
from curriculum.corpus.skips import Skips
from schemas.corpus import QualitySpec, RepositorySpec

SURVEY_SCHEMA = pl.Schema(
    {
        "commit": pl.String,
        "lineage": pl.String,
        "versions": pl.Int64,
        "edits": pl.Int64,
        "code": pl.Boolean,
    }
)
"""A row a change that is read: bytes of the versions of the file that only this change shows, bytes of the
file that it edited (0 for a new or deleted one), and whether it is of C or C++."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The changes of a history that window, paths and versions per path leave."""

    changes: pl.DataFrame
    """As SURVEY_SCHEMA, oldest first; some 100 bytes each."""
    marks: frozenset[int]
    """mark_of every version that a change leaves."""

    @property
    def commits(self) -> list[str]:
        """The commits with such a change, oldest first."""
        return self.changes["commit"].unique(maintain_order=True).to_list()

    @property
    def code_commits(self) -> list[str]:
        """Those of them that change a file of C or C++."""
        return self.changes.filter("code")["commit"].unique(maintain_order=True).to_list()


def survey(past: Past, spec: RepositorySpec) -> Survey:
    """Look over an open history; costs two walks of its log and a look-up of each blob's size.

    Raises:
        CorpusError: if git fails.
    """
    found = list(candidates(past.log, past.scope, past.rules, spec, Skips()))
    sizes = _sizes(past, found)
    marks: set[int] = set()
    rows = [_row(each, sizes, marks) for each in found]
    changes = pl.DataFrame(rows, schema=SURVEY_SCHEMA, orient="row")
    return Survey(changes=changes, marks=frozenset(marks))


def in_sample(commits: Iterable[str], share: float, *, fewest: int) -> list[str]:
    """A share of the commits, `fewest` at least, or all if there are no more; in the order of the sample.

    A smaller sample of the same commits is the beginning of a larger one.
    """
    ranked = sorted(commits, key=lambda each: hashlib.sha256(each.encode()).digest())
    return ranked[: max(fewest, math.ceil(share * len(ranked)))]


def _row(
    candidate: Candidate, sizes: dict[str, int], marks: set[int]
) -> tuple[str, str, int, int, bool]:
    """A row of the survey; `marks` are those of the changes before, and of this one afterwards."""
    before, after = (sizes.get(each, 0) for each in (candidate.before_id, candidate.after_id))
    is_new = bool(before) and mark_of(candidate, candidate.before_id) not in marks
    if candidate.after_id:
        marks.add(mark_of(candidate, candidate.after_id))
    versions = after + (before if is_new else 0)
    edits = after if candidate.before_id else 0
    return candidate.commit, candidate.lineage, versions, edits, candidate.language in CODE


def _sizes(past: Past, found: Iterable[Candidate]) -> dict[str, int]:
    """The bytes of each blob that a rule of quality would not leave out for its size."""
    ids = list(dict.fromkeys(_blobs(found)))
    asked = "".join(f"{each}\n" for each in ids).encode()
    said = git.run(past.repository, "cat-file", "--batch-check=%(objectsize)", stdin=asked)
    quality: QualitySpec = past.rules.corpus.quality
    return {
        name: int(size)
        for name, size in zip(ids, said.split(b"\n"), strict=False)
        if size.isdigit() and quality.min_bytes <= int(size) <= quality.max_bytes
    }


def _blobs(found: Iterable[Candidate]) -> Iterator[str]:
    for each in found:
        yield from (name for name in (each.before_id, each.after_id) if name)
