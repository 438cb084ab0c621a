"""Input that was skipped, by reason: counts and examples, and the share of it that was lost."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, get_args

from curriculum.corpus.encodings import UTF8
from schemas.reports import SkipsReport

Unreadable = Literal["binary", "corrupt", "encoding", "missing", "oversized", "path", "unreadable"]
"""Lost data: NUL bytes in a source file, a damaged object, text in no certain encoding, an object that isn't
there, a commit that git can't read within its limits, a path that isn't printable UTF-8 inside the tree or
is too long, a file that the system won't let us read."""
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
"""Choices: the commit that a shallow clone ends at, include and exclude, the rules of quality, what
isn't a file, a change of nothing but line ends, and versions beyond `versions_per_path`."""
Reason = Literal[Unreadable, Unwanted]

EXAMPLES = 5
"""Number of examples of each reason that are kept."""
MAX_SHOWN_CHARACTERS = 300
"""Characters of an example's path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SkipExample:
    """One thing that was skipped."""

    path: str
    commit: str


@dataclass(kw_only=True, slots=True)
class Skips:
    """Counts of changes that were read, and of those that were not by reason."""

    read: int = 0
    exact_renames: bool = False
    """True if lineages end at renames with edits, since a blob that tells them can't be read."""
    counts: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[SkipExample]] = field(default_factory=dict)
    decoded: Counter[str] = field(default_factory=Counter)
    """Changes that were read from another encoding than UTF-8, by encoding."""
    vendored: dict[str, int] = field(default_factory=dict)
    """Files of the pinned tree that are vendored by their content, by evidence."""
    trees: Counter[Reason] = field(default_factory=Counter)
    """Versions of files that came into a commit's tree and are in no graph, whatever became of the
    changes that made them."""

    def add(self, reason: Reason, *, path: str, commit: str) -> None:
        """Count one, and keep it as an example while there are few, each of another path."""
        self.counts[reason] += 1
        path = path[:MAX_SHOWN_CHARACTERS]
        kept = self.examples.setdefault(reason, [])
        if len(kept) < EXAMPLES and all(example.path != path for example in kept):
            kept.append(SkipExample(path=path, commit=commit))

    def add_decoded(self, encoding: str) -> None:
        """Count a change that was read, by its encoding unless it is UTF-8."""
        if encoding != UTF8:
            self.decoded[encoding] += 1

    @property
    def lost_share(self) -> float:
        """The share of the wanted input that could not be read, to compare with `max_skipped`."""
        unreadable = sum(self.counts[reason] for reason in get_args(Unreadable))
        return unreadable / max(1, self.read + unreadable)

    def unreadable_words(self) -> str:
        r"""Count by reason what could not be read, with some paths: encoding 2: a.c, b.c; path 1: f\xfc.c."""
        reasons = sorted(set(self.counts) & {*get_args(Unreadable)})
        return "; ".join(
            f"{reason} {self.counts[reason]:,}: "
            + ", ".join(example.path for example in self.examples[reason])
            for reason in reasons
        )

    def report(self) -> SkipsReport:
        """The counts and examples as a manifest carries them, sorted by reason."""
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
