"""Commits that two graph families of a phase could show: only the family with more reliable edges does."""

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames
from curriculum.corpus.decisions import decisions
from curriculum.store import Artefact
from schemas.corpus import CODE

Bools = npt.NDArray[np.bool_]


def shown_by(documents: Artefact, selection: Artefact) -> frozenset[str]:
    """Return the commits of a repository that its kept training documents show."""
    chosen = decisions(selection, documents)
    commits = _commits(documents)["commit"].to_numpy()
    return frozenset(commits[chosen.kept_on("train")].tolist())


def are_shown(documents: Artefact, commits: frozenset[str]) -> Bools:
    """Return a mask of the documents that show functions of one of `commits`."""
    is_shown = pl.col("commit").is_in(sorted(commits)) & pl.col("language").is_in(sorted(CODE))
    found: Bools = _commits(documents).select(is_shown).to_series().to_numpy()
    return found


def _commits(documents: Artefact) -> pl.DataFrame:
    """Return the commit and the language of each document, in order."""
    columns = frames.scan(documents.shards(), ["language", "provenance"])
    return columns.select("language", commit=frames.document_commit()).collect()
