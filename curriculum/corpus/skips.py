"""Skipped input by reason: counts, examples, and the share of input that is unreadable."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, get_args

from curriculum.corpus.encodings import UTF8
from schemas.reports import SkipsReport

Unreadable = Literal["binary", "corrupt", "encoding", "missing", "oversized", "path", "unreadable"]
"""Reasons to skip input that counts as lost.

They are NUL bytes in a source file, a damaged object, an ambiguous encoding, a missing object, a commit
beyond git's limits, a path that is too long or isn't printable UTF-8 inside of the tree, and a file without
read permission.
"""
Unwanted = Literal[
    "boundary",
    "excluded",
    "generated",
    "line_length",
    "submodule",
    "symlink",
    "too_large",
    "too_small",
    "unchanged",
    "vendored",
    "versions",
]
"""Reasons to skip input that isn't wanted.

They are the boundary of a shallow clone, include and exclude patterns, the quality rules, entries that aren't
files, changes of line ends alone, and versions beyond `versions_per_path`.
"""
Reason = Literal[Unreadable, Unwanted]

MAX_EXAMPLES = 5
"""Number of examples that are kept for each reason."""
MAX_SHOWN_CHARACTERS = 300
"""Maximum length in characters of the path in an example."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SkipExample:
    """A skipped file or commit."""

    path: str
    commit: str


@dataclass(kw_only=True, slots=True)
class Skips:
    """Counts of the changes that were read, and of skipped changes by reason."""

    read: int = 0
    exact_renames: bool = False
    """True if only renames without edits were detected, because a blob is unreadable.

    A lineage then ends at a rename with edits.
    """
    counts: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[SkipExample]] = field(default_factory=dict)
    decoded: Counter[str] = field(default_factory=Counter)
    """Number of changes whose text had another encoding than UTF-8, by encoding."""
    vendored: dict[str, int] = field(default_factory=dict)
    """Number of files in the pinned tree that are vendored according to their content, by evidence."""
    trees: Counter[Reason] = field(default_factory=Counter)
    """Number of file versions in the trees of commits that are in no graph, by reason.

    Versions count whether or not their changes were read.
    """

    def add(self, reason: Reason, *, path: str, commit: str) -> None:
        """Count a skipped change; the first few changes with distinct paths are kept as examples."""
        self.counts[reason] += 1
        path = path[:MAX_SHOWN_CHARACTERS]
        kept = self.examples.setdefault(reason, [])
        if len(kept) < MAX_EXAMPLES and all(example.path != path for example in kept):
            kept.append(SkipExample(path=path, commit=commit))

    def add_decoded(self, encoding: str) -> None:
        """Count a change that was read; if its encoding isn't UTF-8, count it by encoding too."""
        if encoding != UTF8:
            self.decoded[encoding] += 1

    @property
    def lost_share(self) -> float:
        """Share of the wanted input that was unreadable; it may be at most `max_skipped`."""
        unreadable = sum(self.counts[reason] for reason in get_args(Unreadable))
        return unreadable / max(1, self.read + unreadable)

    def unreadable_words(self) -> str:
        r"""Describe the unreadable input by reason, with some of its paths.

        For example: encoding 2: a.c, b.c; path 1: f\xfc.c.
        """
        reasons = sorted(set(self.counts) & {*get_args(Unreadable)})
        return "; ".join(
            f"{reason} {self.counts[reason]:,}: "
            + ", ".join(example.path for example in self.examples[reason])
            for reason in reasons
        )

    def report(self) -> SkipsReport:
        """Return the counts and examples for the manifest of an artefact, sorted by reason."""
        return SkipsReport(
            read=self.read,
            lost=self.lost_share,
            renames="exact" if self.exact_renames else "similar",
            skipped={reason: self.counts[reason] for reason in sorted(self.counts)},
            examples={
                reason: tuple(
                    f"{example.commit}:{example.path}" for example in self.examples[reason]
                )
                for reason in sorted(self.examples)
            },
            decoded={encoding: self.decoded[encoding] for encoding in sorted(self.decoded)},
            vendored=self.vendored,
            trees={reason: self.trees[reason] for reason in sorted(self.trees)},
        )
