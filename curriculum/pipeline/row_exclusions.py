"""Rows to leave out of a plan: named by their pack_ids, or as those that hold a document or a repository."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from curriculum import frames
from curriculum.mixing.exclusions import of_keys
from curriculum.store import Artefact
from curriculum.store.verify import check_pages, verify_file, verify_footers
from schemas.errors import DietError, MixtureError

OPTION = "--without-rows"
_PACK = re.compile(r"[0-9a-f]{12}-\d{10}")
_DOCUMENT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowExclusions:
    """Rows, documents and repositories to exclude from a plan."""

    packs: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()
    repositories: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.packs or self.documents or self.repositories)

    def packs_of(self, rows: Sequence[Artefact], documents: Sequence[Artefact]) -> tuple[str, ...]:
        """The pack_ids of those rows that are named or hold something that is; whole rows go.

        Rows of other phases are passed over.

        Raises:
            MixtureError: for a pack_id that these rows would have and haven't.
        """
        named = of_keys(self.packs, [each.key for each in rows])
        built = [each for each in rows if not each.planned]
        if not self or not built:
            return named
        for each in built:
            verify_footers(each.path, each.manifest.files)
            check_pages(each.files(), ["pack_id", "document_ids"])
        # Rows of one phase differ in their columns: some carry structure.
        there = pl.concat(
            frames.stream(each.files(), ["pack_id", "document_ids"]) for each in built
        )
        mine = there.filter(pl.col("pack_id").is_in(named)).select("pack_id").collect()["pack_id"]
        lost = sorted({*named} - {*mine})
        if lost:
            raise MixtureError(
                OPTION,
                lost[0],
                cause="there is no such row",
                cure="Look at the plan: curriculum query",
            )
        return tuple(sorted({*mine, *self._holding(there, documents)}))

    def _holding(self, rows: pl.LazyFrame, documents: Sequence[Artefact]) -> pl.Series:
        """The rows that hold one of the documents, or one of the repositories'."""
        named_by = [
            each
            for each in documents
            if each.manifest.labels.get("repository") in self.repositories
        ]
        for each in named_by:
            for record in each.manifest.files:
                verify_file(each.path, record)
        files = [file for each in named_by for file in each.files()]
        named = pl.LazyFrame({"document_ids": sorted(self.documents)}, {"document_ids": pl.String})
        theirs = [
            frames.scan(file, ["document_id"]).rename({"document_id": "document_ids"})
            for file in files
        ]
        return (
            rows.explode("document_ids")
            .join(pl.concat([named, *theirs]), on="document_ids", how="semi")
            .select(pl.col("pack_id").unique())
            .collect(engine="streaming")["pack_id"]
        )


def parse_exclusions(said: str | None, repositories: Collection[str]) -> RowExclusions:
    """Parse the value of --without-rows: words with commas, or a file with one a line; `#` begins a comment.

    Raises:
        DietError: for a word that is no pack_id, no document's id and none of the repositories.
    """
    words = _words(said) if said else []
    packs = frozenset(each for each in words if _PACK.fullmatch(each))
    documents = frozenset(each for each in words if _DOCUMENT.fullmatch(each))
    names = frozenset(words) - packs - documents
    for each in sorted(names - frozenset(repositories)):
        raise DietError(
            OPTION,
            each,
            cause="it is no pack_id, no document's id of 32 digits, no repository and no file",
            cure=f"The repositories: {', '.join(sorted(repositories))}",
        )
    return RowExclusions(packs=packs, documents=documents, repositories=names)


def _words(said: str) -> list[str]:
    file = Path(said)
    if not file.is_file():
        return [each.strip() for each in said.split(",") if each.strip()]
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [each for each in lines if each]
