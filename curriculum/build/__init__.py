"""Build: repositories in, packed rows out.

    documents.py   documents of files: one pass over a repository's history feeds all families
    indexes.py     what a compiler frontend knows of a repository at its pinned commit
    graphs.py      documents of graphs: a commit within its whole tree
    enriched.py    documents of another family with their structure
    selection.py   what is kept, on which side of the split, in which domain
    tokens.py      a tokenizer, trained on the corpus or given; each document's ids once
    rows.py        fitted, scored, packed, checked, published
    workers.py     work cut by repository and by data set; the number of workers never changes a byte

Each stage takes published artefacts and publishes one; what is there already is not made again. Graphs,
indexes and structure are made only where rows of them are wanted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from curriculum.build.documents import documents_of
from curriculum.build.enriched import enriched_of
from curriculum.build.graphs import graphs_of
from curriculum.build.indexes import INDEXED_FAMILY, indexes_of
from curriculum.build.row_sources import RowSources, Wanted
from curriculum.build.rows import (
    ANCHOR_FAMILY,
    Anchor,
    RowTask,
    anchor_rows,
    rows_of,
)
from curriculum.build.selection import selection_of
from curriculum.build.tokens import Tokenizing, tokenizer_of, tokens_of
from curriculum.build.workers import Team
from curriculum.store import Artefact, Store
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import GRAPH_FAMILIES
from schemas.progress import Watch, unwatched

__all__ = ["Built", "RowSet", "Tokenizing", "Wanted", "build", "sample"]

COMMITS_A_SAMPLE = 4
"""Commits that are read for each document of a sample: most have one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSet:
    """One data set of rows: what is trained on and what is held out."""

    wanted: Wanted
    train: Artefact
    val: Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What a build leaves, stage by stage."""

    indexes: tuple[Artefact, ...]
    documents: tuple[Artefact, ...]
    selection: Artefact
    selections: Mapping[str, Artefact]
    """By family, of those that are made of graphs."""
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
        return [
            *self.indexes,
            *self.documents,
            self.selection,
            *self.selections.values(),
            self.tokenizer,
            *self.tokens,
            *rows,
            self.anchor,
        ]


def build(
    store: Store,
    corpus: CorpusSpec,
    wanted: Sequence[Wanted],
    *,
    anchor_length: int,
    tokenizing: Tokenizing | None = None,
    configure: bool = False,
    workers: int = 1,
    watch: Watch = unwatched,
) -> Built:
    """Build the rows that are wanted, and all that they are made of.

    `anchor_length` is the row length of the anchor: the curriculum's smallest. With `configure`, cmake
    makes the compilation databases that lack, which runs code of the repositories. A dry store answers
    with what it would make.

    Raises:
        CorpusError: for a pin that resolves to nothing, and where more than `max_skipped` of a
            repository can't be read.
        TokenizerError, PackError, SchemaError: where a promise of the contracts can't be kept.
    """
    team = Team(store=store, workers=workers, watch=watch)
    files = documents_of(team, corpus)
    selection = selection_of(team, corpus, files)
    tokenizer = tokenizer_of(team, tokenizing or Tokenizing(), files, selection)
    families = {each.flat_family for each in wanted} | {ANCHOR_FAMILY}
    wanted_graphs = [family for family in GRAPH_FAMILIES if family in families]
    indexes = indexes_of(team, corpus, configure=configure) if INDEXED_FAMILY in families else ()
    graphs = graphs_of(team, corpus, wanted_graphs, indexes) if wanted_graphs else ()
    selections = {
        family: selection_of(team, corpus, _of(graphs, {family}), known=selection)
        for family in wanted_graphs
    }
    flat = (*files, *graphs)
    tokens = tokens_of(team, tokenizer, flat, families)
    enriched = enriched_of(team, _of(flat, {each.base for each in wanted if each.base}))
    sources = RowSources(
        corpus=corpus,
        documents=(*flat, *enriched),
        selection=selection,
        selections=selections,
        tokenizer=tokenizer,
        tokens=tokens,
    )
    rows = rows_of(team, [RowTask(sources=sources, wanted=each) for each in wanted])
    anchor = anchor_rows(team, Anchor(sources=sources, row_length=anchor_length))
    return Built(
        indexes=tuple(each.artefact for each in indexes if each.artefact),
        documents=sources.documents,
        selection=selection,
        selections=selections,
        tokenizer=tokenizer,
        tokens=tokens,
        rows=tuple(
            RowSet(wanted=each, train=train, val=val)
            for each, (train, val) in zip(wanted, rows, strict=True)
        ),
        anchor=anchor,
    )


def sample(
    store: Store,
    corpus: CorpusSpec,
    wanted: Sequence[Wanted],
    *,
    number: int,
    configure: bool = False,
    workers: int = 1,
    watch: Watch = unwatched,
) -> tuple[Artefact, ...]:
    """At most `number` documents, or 8 MB, of each family that is wanted in each repository, to look at.

    They come from the newest commits, of which not each has a document of each family; nothing is
    selected, tokenised or packed.
    """
    team = Team(store=store, workers=workers, watch=watch)
    newest = corpus.model_copy(update={"repositories": tuple(_newest(corpus, number))})
    families = {each.flat_family for each in wanted}
    graphs = [family for family in GRAPH_FAMILIES if family in families]
    indexes = indexes_of(team, newest, configure=configure) if INDEXED_FAMILY in families else ()
    flat = [
        *(documents_of(team, newest, sample=number) if families - set(GRAPH_FAMILIES) else ()),
        *(graphs_of(team, newest, graphs, indexes, sample=number) if graphs else ()),
    ]
    enriched = enriched_of(team, _of(flat, {each.base for each in wanted if each.base}))
    return (*_of(flat, families), *enriched)


def _newest(corpus: CorpusSpec, number: int) -> Iterator[RepositorySpec]:
    for each in corpus.repositories:
        wanted = number * COMMITS_A_SAMPLE
        most = min(wanted, each.max_commits or wanted)
        yield each.model_copy(update={"max_commits": most})


def _of(documents: Sequence[Artefact], families: Collection[str]) -> list[Artefact]:
    return [each for each in documents if each.manifest.labels["family"] in families]
