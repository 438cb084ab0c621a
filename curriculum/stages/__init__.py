"""Build: repositories in, packed rows out, stage by stage.

    stage.py                   Stage: tasks, recipes and code of one kind of artefact; Coordinator: runs
    missing tasks
    shard.py                   part of a build that is split over several machines
    worker_rights.py           sandbox of the workers
    same_versions.py           check that workers have the coordinator's versions
    documents.py               documents of files: one pass over a history for all families
    indexes.py                 facts of a compiler frontend about each repository at its pinned commit
    graphs.py                  documents of graphs: a commit within its whole tree
    conversation_documents.py  documents of conversations, and their selection
    enriched_documents.py      documents of another family with their code structure
    selection.py               kept documents, with split and domain
    tokens.py                  a trained or given tokenizer, and the ids of each document
    texts.py                   repositories, and documents of their files and graphs
    row_sources.py             requested data sets of rows, and the artefacts that they are made of
    row_recipe.py              everything that decides the bytes of rows
    row_sides.py               one split of a data set: encodings are spooled, planned and written
    first_showings.py          lines that a repository's documents show for the first time
    fixed_sets.py              documents of the validation sets shared by all phases
    rows.py                    documents fitted, scored, packed, checked and published as rows
    trained_text.py            validation text that also occurs in training documents, left unscored
    held_out_text.py           check that no row contains text of files in another split
    merge.py                   artefacts of other workspaces

`build` runs all stages. Each stage reads published artefacts and publishes its own; artefacts that are up
to date are reused. Graphs, indexes, structure and conversations are only built if rows of them are
requested.
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
"""Number of commits that a sample reads per document, since not every commit has a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """Artefacts of a build, stage by stage."""

    indexes: tuple[Artefact, ...]
    documents: tuple[Artefact, ...]
    kept: tuple[Artefact, ...]
    """Artefacts that decide which documents the selections keep; the first is that of files."""
    selection: Artefact
    selections: Mapping[str, Artefact]
    """Selections of graph and conversation families, by family."""
    tokenizer: Artefact
    tokens: tuple[Artefact, ...]
    rows: tuple[RowSet, ...]
    fixed: Mapping[FixedSet, Artefact]
    """Rows of the validation sets that are the same in every phase."""
    measured: Mapping[RowsSpec, Mapping[FixedSet, Artefact]] = field(default_factory=dict)
    """Rows of the fixed sets in other requested formats, by data set and set."""

    def rows_of(self, wanted: RowsSpec) -> RowSet:
        """Return the rows of a requested data set."""
        return next(row for row in self.rows if row.wanted == wanted)

    def artefacts(self) -> list[Artefact]:
        """Return all artefacts in stage order."""
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
        """Planned artefacts: tasks of other shards, and everything that depends on them."""
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
    """Build the requested rows and everything that they are made of.

    `fixed_length` is the row length of the fixed sets: the smallest row length of the curriculum. The fixed
    sets are also built in the formats of the data sets `measured`. A dry store returns planned artefacts. A
    shard builds its own tasks, and returns missing artefacts of other shards as planned. Imported rows are
    used unchanged. Unless `sources` are given, the pins of the corpus are resolved again.

    Raises:
        CorpusError: for an unresolvable pin, before anything except clones is written; and for sources that
        lose more than `max_skipped`, unless the corpus skips them, after all other sources are built.
        DietError: for imported rows of another tokenizer.
        TokenizerError: if the tokenizer isn't usable.
        PackError: if a document can't be packed.
        SchemaError: if written rows violate their schema.
        WorkerError: if a worker is killed repeatedly, or a cluster isn't available.
    """
    tokenizing = tokenizing or Tokenizing()
    own = [spec for spec in wanted if spec.imported is None]
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
    """Return the families to build. The family of whole file versions is always one of them."""
    own = (spec for spec in wanted if spec.imported is None)
    return {spec.flat_family for spec in (*own, *measured)} | {VERSIONS_FAMILY}


def _build(
    coordinator: Coordinator,
    corpus: CorpusSpec,
    wanted: Sequence[RowsSpec],
    listed: Sequence[Repository],
    measured: Sequence[RowsSpec],
    tokenizing: Tokenizing,
    indexing: Indexing,
) -> Built:
    """Run the stages in order; each stage reads the published artefacts of earlier ones.

    The first entry of `measured` is the format of the fixed sets that every phase is measured on.
    """
    make, store = coordinator.make, coordinator.store
    own = [spec for spec in wanted if spec.imported is None]
    families = _families(wanted, measured)
    files, listed = documents_of_files(coordinator, listed, families, indexing)
    (kept,) = make(SplitDocuments.of_files(store, corpus), files)
    kept_files = KeptDocuments(documents=files, kept=kept)
    selecting = Selection(corpus=corpus, rules=load_domains(corpus.domains))
    (selection,) = make(selecting, kept_files)
    (tokenizer,) = make(Tokenizers(tokenizing=tokenizing), kept_files)
    imported = {spec: imported_of(store, tokenizer, spec) for spec in wanted if spec.imported}

    indexes, graphs = documents_of_graphs(coordinator, listed, families, indexing)
    kept_graphs = [
        KeptDocuments(
            documents=some, kept=make(SplitDocuments(corpus=corpus, files=kept_files), some)[0]
        )
        for some in (
            _of(graphs, {family}) for family in families_of("commits") if family in families
        )
    ]
    graph_selections = [make(selecting, kept_graph)[0] for kept_graph in kept_graphs]
    chats = make(
        Conversations(corpus=corpus), corpus.conversations if CHAT_FAMILY in families else ()
    )
    chat_selections = make(ConversationSelection(corpus=corpus), chats)

    texts = (*files, *graphs, *chats)
    require_few_losses(corpus, (text for text in texts if not text.planned))
    tokens = make(Tokens(tokenizer=tokenizer), _of(texts, families))
    enriched = make(EnrichedDocuments(), _of(texts, {spec.base for spec in own if spec.base}))
    made = RowSources(
        corpus=corpus,
        documents=(*texts, *enriched),
        selection=selection,
        selections={_family(chosen): chosen for chosen in (*graph_selections, *chat_selections)},
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
        rows=tuple(rows[spec] for spec in wanted),
        fixed=fixed[measured[0]],
        measured={spec: fixed[spec] for spec in measured[1:]},
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
    """Build at most `number` documents, or 8 MB, per requested family and repository, for inspection.

    The documents come from the newest commits, so some families may have fewer. Nothing is selected,
    tokenized or packed.
    """
    wanted = [spec for spec in wanted if spec.imported is None]
    families = {spec.flat_family for spec in wanted}
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
    enriched = make(EnrichedDocuments(), _of(texts, {spec.base for spec in wanted if spec.base}))
    return (*_of(texts, families), *enriched)


def _newest(listed: Sequence[Repository], number: int) -> tuple[Repository, ...]:
    """Return repositories that are limited to the newest commits, as many as the sample needs."""
    wanted = number * COMMITS_A_SAMPLE
    limits = (min(wanted, repository.spec.max_commits or wanted) for repository in listed)
    return tuple(
        replace(repository, spec=repository.spec.model_copy(update={"max_commits": limit}))
        for repository, limit in zip(listed, limits, strict=True)
    )


def _of(documents: Sequence[Artefact], families: Collection[str]) -> list[Artefact]:
    return [artefact for artefact in documents if _family(artefact) in families]


def _family(artefact: Artefact) -> str:
    return artefact.manifest.labels["family"]
