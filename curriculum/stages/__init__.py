"""Build: repositories in, packed rows out, stage by stage.

    stage.py                   Stage: tasks, their recipes, the code of one; Coordinator: runs missing tasks
    shard.py                   part of a build that shares its tasks with others
    worker_rights.py           sandbox of the workers
    same_versions.py           check that workers have the versions of the coordinator

    documents.py               documents of files: one pass over a repository's history feeds all families
    indexes.py                 facts of a compiler frontend about each repository at its pinned commit
    graphs.py                  documents of graphs: a commit within its whole tree
    conversation_documents.py  documents of conversations, and which of them are kept
    enriched_documents.py      documents of another family with their structure
    selection.py               what is kept, on which side of the split, in which domain
    tokens.py                  a tokenizer, trained on the corpus or given; the ids of each document
    texts.py                   repositories, and documents of their files and graphs
    row_sources.py             data sets of rows that are wanted, and the artefacts that they are made of
    row_recipe.py              what decides the bytes of rows
    row_sides.py               one side of the split: encodings spooled, planned by domain, written
    first_showings.py          lines that a repository's documents show for the first time
    fixed_sets.py              documents of the sets that all phases are measured on
    rows.py                    documents fitted, scored, packed, checked and published as rows
    trained_text.py            held-out text that training documents show, too, left unscored
    held_out_text.py           check that no row holds text of files on the other side
    merge.py                   artefacts of other workspaces

`build` is the pipeline from top to bottom. Each stage takes published artefacts and publishes its own; what
is there already is not made again. Graphs, indexes, structure and conversations are made only where rows of
them are wanted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from curriculum.corpus.domains import load_domains
from curriculum.corpus.sources import Sources
from curriculum.stages.conversation_documents import Conversations, ConversationSelection
from curriculum.stages.documents import Documents, Repository
from curriculum.stages.enriched_documents import EnrichedDocuments
from curriculum.stages.indexes import CAREFUL, Indexing
from curriculum.stages.row_sources import (
    RowSet,
    RowSources,
    RowsSpec,
    check_objectives,
    imported_of,
)
from curriculum.stages.rows import make_rows
from curriculum.stages.selection import KeptDocuments, Selection, SplitDocuments
from curriculum.stages.shard import Shard
from curriculum.stages.stage import ALONE, Coordinator, Workers
from curriculum.stages.texts import (
    documents_of_files,
    documents_of_graphs,
    require_few_losses,
    resolved_repositories,
)
from curriculum.stages.tokens import Tokenizers, Tokenizing, Tokens
from curriculum.stages.worker_rights import worker_rights
from curriculum.store import Artefact, Store, in_lease
from schemas.corpus import CorpusSpec
from schemas.families import CHAT_FAMILY, VERSIONS_FAMILY, families_of
from schemas.objectives import FixedSet
from schemas.progress import ProgressCallback, ignore_progress

__all__ = [
    "Built",
    "Indexing",
    "RowSet",
    "RowsSpec",
    "Shard",
    "Tokenizing",
    "Workers",
    "build",
    "sample",
]

COMMITS_A_SAMPLE = 4
"""Commits that are read for each document of a sample: most have one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """Artefacts of a build, stage by stage."""

    indexes: tuple[Artefact, ...]
    documents: tuple[Artefact, ...]
    kept: tuple[Artefact, ...]
    """Artefacts that selections are made of, of files first."""
    selection: Artefact
    selections: Mapping[str, Artefact]
    """Selections of families that are made of graphs or conversations, by family."""
    tokenizer: Artefact
    tokens: tuple[Artefact, ...]
    rows: tuple[RowSet, ...]
    fixed: Mapping[FixedSet, Artefact]
    """Rows of the sets that are the same in every phase."""
    measured: Mapping[RowsSpec, Mapping[FixedSet, Artefact]] = field(default_factory=dict)
    """Rows of the same sets in other formats, as they were asked for."""

    def rows_of(self, wanted: RowsSpec) -> RowSet:
        """The rows that were asked for."""
        return next(row for row in self.rows if row.wanted == wanted)

    def artefacts(self) -> list[Artefact]:
        """Everything, in the order of the stages."""
        rows = {side.key: side for row in self.rows for side in row.splits}
        return [
            *self.indexes,
            *self.documents,
            *self.kept,
            self.selection,
            *self.selections.values(),
            self.tokenizer,
            *self.tokens,
            *rows.values(),
            *self.fixed.values(),
            *(made for sets in self.measured.values() for made in sets.values()),
        ]

    @property
    def missing(self) -> list[Artefact]:
        """Artefacts that are only planned: other shards' work, and all that is made of it."""
        return [artefact for artefact in self.artefacts() if artefact.planned]


@in_lease
def build(  # noqa: PLR0913 - what is built, by which processes, and who watches
    store: Store,
    corpus: CorpusSpec,
    wanted: Sequence[RowsSpec],
    *,
    fixed_length: int,
    measured: Sequence[RowsSpec] = (),
    tokenizing: Tokenizing | None = None,
    indexing: Indexing = CAREFUL,
    workers: Workers = ALONE,
    sources: Sources | None = None,
    watch: ProgressCallback = ignore_progress,
) -> Built:
    """Build the rows that are wanted, and all that they are made of.

    `fixed_length` is the row length of the fixed sets: the curriculum's smallest. `measured` are more data
    sets of which the fixed sets are made, to measure in another format. A dry store answers
    with what it would make; a shard makes its share, and plans what others haven't made. Rows that were
    imported are taken as they are. Pins are resolved anew unless `sources` are given.

    Raises:
        CorpusError: for a pin that resolves to nothing, before anything but clones is written; and, after
            all others are built, for sources of which more than `max_skipped` can't be read, unless the
            corpus skips them.
        DietError: for imported rows of another tokenizer.
        TokenizerError, PackError, SchemaError: where a promise of the contracts can't be kept.
        WorkerError: where a worker is killed again and again, or a cluster isn't there.
    """
    tokenizing = tokenizing or Tokenizing()
    own = [each for each in wanted if each.imported is None]
    if tokenizing.given is not None:
        check_objectives(tokenizing.given, (*own, *measured))
    families = _families(wanted, measured)
    sources = sources or Sources.from_workspace(store.root)
    listed = resolved_repositories(corpus, families, sources)
    if not store.dry:
        sources.keep_answers()
    sandbox = worker_rights(store, corpus, listed, ("documents", "rows", "tokens"))
    beginning = Coordinator(store=store, workers=workers, sandbox=sandbox, watch=watch)
    with beginning.keeping_workers() as coordinator:
        fixed = RowsSpec(family=VERSIONS_FAMILY, row_length=fixed_length)
        return _build(coordinator, corpus, wanted, listed, (fixed, *measured), tokenizing, indexing)


def _families(wanted: Sequence[RowsSpec], measured: Sequence[RowsSpec]) -> set[str]:
    """Return the families whose documents are built: versions of files always."""
    own = (each for each in wanted if each.imported is None)
    return {each.flat_family for each in (*own, *measured)} | {VERSIONS_FAMILY}


def _build(
    coordinator: Coordinator,
    corpus: CorpusSpec,
    wanted: Sequence[RowsSpec],
    listed: Sequence[Repository],
    measured: Sequence[RowsSpec],
    tokenizing: Tokenizing,
    indexing: Indexing,
) -> Built:
    """Make one stage after another; each takes what those before it published.

    The first of `measured` is that of the sets that every phase is measured on.
    """
    make, store = coordinator.make, coordinator.store
    own = [each for each in wanted if each.imported is None]
    families = _families(wanted, measured)
    files, listed = documents_of_files(coordinator, listed, families, indexing)
    (kept,) = make(SplitDocuments.of_files(store, corpus), files)
    kept_files = KeptDocuments(documents=files, kept=kept)
    selecting = Selection(corpus=corpus, rules=load_domains(corpus.domains))
    (selection,) = make(selecting, kept_files)
    (tokenizer,) = make(Tokenizers(tokenizing=tokenizing), kept_files)
    imported = {each: imported_of(store, tokenizer, each) for each in wanted if each.imported}

    indexes, graphs = documents_of_graphs(coordinator, listed, families, indexing)
    kept_graphs = [
        KeptDocuments(
            documents=some, kept=make(SplitDocuments(corpus=corpus, files=kept_files), some)[0]
        )
        for some in (
            _of(graphs, {family}) for family in families_of("commits") if family in families
        )
    ]
    graph_selections = [make(selecting, each)[0] for each in kept_graphs]
    chats = make(
        Conversations(corpus=corpus), corpus.conversations if CHAT_FAMILY in families else ()
    )
    chat_selections = make(ConversationSelection(corpus=corpus), chats)

    texts = (*files, *graphs, *chats)
    require_few_losses(corpus, (text for text in texts if not text.planned))
    tokens = make(Tokens(tokenizer=tokenizer), _of(texts, families))
    enriched = make(EnrichedDocuments(), _of(texts, {each.base for each in own if each.base}))
    made = RowSources(
        corpus=corpus,
        documents=(*texts, *enriched),
        selection=selection,
        selections={_family(each): each for each in (*graph_selections, *chat_selections)},
        tokenizer=tokenizer,
        tokens=tokens,
    )
    sets, fixed = make_rows(coordinator, made, own, measured)
    rows = dict(zip(own, sets, strict=True)) | imported
    return Built(
        indexes=tuple(index.artefact for index in indexes if index.artefact),
        documents=made.documents,
        kept=(kept, *(kept_graph.kept for kept_graph in kept_graphs)),
        selection=selection,
        selections=made.selections,
        tokenizer=tokenizer,
        tokens=tokens,
        rows=tuple(rows[each] for each in wanted),
        fixed=fixed[measured[0]],
        measured={each: fixed[each] for each in measured[1:]},
    )


@in_lease
def sample(
    store: Store,
    corpus: CorpusSpec,
    wanted: Sequence[RowsSpec],
    *,
    number: int,
    indexing: Indexing = CAREFUL,
    workers: Workers = ALONE,
    sources: Sources | None = None,
    watch: ProgressCallback = ignore_progress,
) -> tuple[Artefact, ...]:
    """Make at most `number` documents, or 8 MB, of each wanted family in each repository, to look at.

    They come from the newest commits, of which not each has a document of each family; nothing is
    selected, tokenised or packed.
    """
    wanted = [each for each in wanted if each.imported is None]
    families = {each.flat_family for each in wanted}
    listed = _newest(
        resolved_repositories(corpus, families, sources or Sources.from_workspace(store.root)),
        number,
    )
    sandbox = worker_rights(store, corpus, listed, ("documents",))
    coordinator = Coordinator(store=store, workers=workers, sandbox=sandbox, watch=watch)
    make = coordinator.make
    of_files = families & {*families_of("changes")}
    texts = [
        *make(Documents(sample=number), listed if of_files else ()),
        *documents_of_graphs(coordinator, listed, families, indexing, sample=number)[1],
        *make(
            Conversations(corpus=corpus, sample=number),
            corpus.conversations if CHAT_FAMILY in families else (),
        ),
    ]
    enriched = make(EnrichedDocuments(), _of(texts, {each.base for each in wanted if each.base}))
    return (*_of(texts, families), *enriched)


def _newest(listed: Sequence[Repository], number: int) -> tuple[Repository, ...]:
    """Limit repositories to the newest commits that a sample of so many documents needs."""
    wanted = number * COMMITS_A_SAMPLE
    limits = (min(wanted, each.spec.max_commits or wanted) for each in listed)
    return tuple(
        replace(each, spec=each.spec.model_copy(update={"max_commits": most}))
        for each, most in zip(listed, limits, strict=True)
    )


def _of(documents: Sequence[Artefact], families: Collection[str]) -> list[Artefact]:
    return [artefact for artefact in documents if _family(artefact) in families]


def _family(artefact: Artefact) -> str:
    return artefact.manifest.labels["family"]
