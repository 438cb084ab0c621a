"""Shares of source files in the training tokens of each family, since one file may dominate a corpus."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from curriculum.corpus.decisions import decisions
from curriculum.store import Artefact
from curriculum.tokens.token_store import TokenStore
from schemas.families import families_of

MAX_FILES = 5
"""Maximum number of files to list per family."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileShare:
    """A source file with all its names across renames, and its share of a family's tokens."""

    family: str
    lineage: str
    """Repository and path, for example fmt:include/format.h."""
    share: float
    """Share of the tokens in all kept training documents of the family."""

    @property
    def path(self) -> str:
        """Path of the file in its repository."""
        return self.lineage.partition(":")[2]


def file_shares(
    documents: Sequence[Artefact], tokens: Iterable[Artefact], selection: Artefact
) -> tuple[FileShare, ...]:
    """Return the files with the most tokens of each file family, largest share first.

    `tokens` are the tokens of `documents`, in any order. Documents without tokens are ignored, and so are
    graph families. All artefacts must exist.
    """
    tokens_of = {record.key: made for made in tokens for record in made.manifest.inputs}
    sums: dict[str, Counter[str]] = {}
    for artefact in documents:
        family = artefact.manifest.labels["family"]
        if family not in families_of("changes") or artefact.key not in tokens_of:
            continue
        picked = decisions(selection, artefact)
        is_train = picked.kept_on("train")
        counts = np.diff(TokenStore.open(tokens_of[artefact.key].path).offsets)
        found = np.bincount(
            picked.lineage[is_train], weights=counts[is_train], minlength=len(picked.lineages)
        )
        sums.setdefault(family, Counter()).update(
            dict(zip(picked.lineages, map(float, found), strict=True))
        )
    return tuple(
        FileShare(family=family, lineage=lineage, share=own / sum(counted.values()))
        for family, counted in sorted(sums.items())
        for lineage, own in counted.most_common(MAX_FILES)
        if own
    )
