"""Build: repositories in, packed rows out.

    documents.py   one pass over a repository's history feeds all families
    selection.py   what is kept, on which side of the split, in which domain
    tokens.py      a tokenizer, trained on the corpus or given; each document's ids once
    rows.py        fitted, scored, packed, checked, published
    workers.py     work cut by repository and by data set; the number of workers never changes a byte

Each stage takes published artefacts and publishes one; what is there already is not made again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.build.documents import documents_of
from curriculum.build.rows import (
    ANCHOR_FAMILY,
    Anchor,
    RowSources,
    RowTask,
    Wanted,
    anchor_rows,
    rows_of,
)
from curriculum.build.selection import selection_of
from curriculum.build.tokens import Tokenizing, tokenizer_of, tokens_of
from curriculum.build.workers import Team
from curriculum.store import Artefact, Store
from schemas.corpus import CorpusSpec
from schemas.progress import Watch, unwatched

__all__ = ["Built", "RowSet", "Tokenizing", "Wanted", "build"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSet:
    """One data set of rows: what is trained on and what is held out."""

    wanted: Wanted
    train: Artefact
    val: Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What a build leaves, stage by stage."""

    documents: tuple[Artefact, ...]
    selection: Artefact
    tokenizer: Artefact
    tokens: tuple[Artefact, ...]
    rows: tuple[RowSet, ...]
    anchor: Artefact

    def rows_of(self, wanted: Wanted) -> RowSet:
        """The rows that were asked for."""
        return next(each for each in self.rows if each.wanted == wanted)

    def artefacts(self) -> list[Artefact]:
        """Everything, in the order of the stages."""
        rows = [side for each in self.rows for side in (each.train, each.val)]
        return [*self.documents, self.selection, self.tokenizer, *self.tokens, *rows, self.anchor]


def build(
    store: Store,
    corpus: CorpusSpec,
    wanted: Sequence[Wanted],
    *,
    anchor_length: int,
    tokenizing: Tokenizing | None = None,
    workers: int = 1,
    watch: Watch = unwatched,
) -> Built:
    """Build the rows that are wanted, and all that they are made of.

    `anchor_length` is the row length of the anchor: the curriculum's smallest. A dry store answers with
    what it would make.

    Raises:
        CorpusError: for a pin that resolves to nothing, and where more than `max_skipped` of a
            repository can't be read.
        TokenizerError, PackError, SchemaError: where a promise of the contracts can't be kept.
    """
    team = Team(store=store, workers=workers, watch=watch)
    documents = documents_of(team, corpus)
    selection = selection_of(team, corpus, documents)
    tokenizer = tokenizer_of(team, tokenizing or Tokenizing(), documents, selection)
    families = {each.family for each in wanted} | {ANCHOR_FAMILY}
    tokens = tokens_of(team, tokenizer, documents, families)
    sources = RowSources(
        corpus=corpus, documents=documents, selection=selection, tokenizer=tokenizer, tokens=tokens
    )
    rows = rows_of(team, [RowTask(sources=sources, wanted=each) for each in wanted])
    anchor = anchor_rows(team, Anchor(sources=sources, row_length=anchor_length))
    return Built(
        documents=documents,
        selection=selection,
        tokenizer=tokenizer,
        tokens=tokens,
        rows=tuple(
            RowSet(wanted=each, train=train, val=val)
            for each, (train, val) in zip(wanted, rows, strict=True)
        ),
        anchor=anchor,
    )
