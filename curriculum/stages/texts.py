"""Repositories of a corpus, and documents of their files and graphs, for the whole history or a sample."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from curriculum.corpus.source_errors import combine_errors
from curriculum.corpus.sources import Sources
from curriculum.stages.conversation_documents import require_conversations
from curriculum.stages.documents import Documents, Repository, repositories, require_sources
from curriculum.stages.graphs import GraphInputs, Graphs
from curriculum.stages.indexes import Index, Indexing, make_indexes
from curriculum.stages.stage import Coordinator
from curriculum.store import Artefact, Store
from schemas.corpus import CorpusSpec
from schemas.errors import CorpusError
from schemas.families import CHAT_FAMILY, families_of, need_index
from schemas.reports import DocumentsReport


def documents_of_files(
    coordinator: Coordinator,
    listed: Sequence[Repository],
    families: Collection[str],
    indexing: Indexing,
) -> tuple[tuple[Artefact, ...], list[Repository]]:
    """Build documents of files, and return them with the repositories that aren't skipped.

    Raises:
        CorpusError: if some repositories fail, after the graphs of the others are built; and if all
        repositories are skipped.
    """
    try:
        made = coordinator.by_task(Documents(), listed)
    except CorpusError as failed:
        dry = replace(coordinator, store=Store(coordinator.store.root, dry=True))
        planned = zip(listed, dry.by_task(Documents(), listed), strict=True)
        sound = [source for source, texts in planned if not any(text.planned for text in texts)]
        try:
            documents_of_graphs(coordinator, sound, families, indexing)
        except CorpusError as more:
            raise combine_errors([failed, more]) from None
        raise
    sound = [source for source, texts in zip(listed, made, strict=True) if not _lacks(texts)]
    if not sound:
        raise CorpusError(
            f"corpus {listed[0].corpus.name}",
            cause=". ".join(map(_lacks, made)),
            cure="A corpus needs at least one repository that isn't skipped",
        )
    return tuple(artefact for documents in made for artefact in documents), sound


def _lacks(documents: Sequence[Artefact]) -> str:
    """Return why a repository is skipped; empty if it isn't skipped, or if it isn't built yet."""
    there = (artefact for artefact in documents if not artefact.planned)
    lacks = (artefact.reported(DocumentsReport).lacks for artefact in there)
    return next(filter(None, lacks), "")


def documents_of_graphs(
    coordinator: Coordinator,
    listed: Sequence[Repository],
    families: Collection[str],
    indexing: Indexing,
    *,
    sample: int | None = None,
) -> tuple[tuple[Index, ...], tuple[Artefact, ...]]:
    """Build documents of graphs, and the indexes that the families need. Held-out data isn't used."""
    listed = [repository.trained() for repository in listed if not repository.spec.unseen]
    indexed = listed if need_index(families) else ()
    indexes = make_indexes(coordinator, indexed, indexing=indexing)
    inputs = GraphInputs(repositories=listed, indexes=indexes)
    wanted = tuple(family for family in families_of("commits") if family in families)
    return indexes, coordinator.make(Graphs(families=wanted, sample=sample), inputs)


def require_few_losses(corpus: CorpusSpec, texts: Iterable[Artefact]) -> None:
    """Raise if documents that were built earlier lost more of their source than `max_skipped` allows now.

    Raises:
        CorpusError: naming the source, with counts by reason.
    """
    for artefact in texts:
        report = artefact.reported(DocumentsReport)
        skips = max(report.changes, report.lines, key=lambda report: report.lost)
        if skips.lost > corpus.max_skipped:
            counts = ", ".join(f"{reason} {number:,}" for reason, number in skips.skipped.items())
            raise CorpusError(
                f"documents of {artefact.manifest.labels['repository']} of corpus {corpus.name}",
                f"{skips.lost:.1%} of their input can't be read ({counts})",
                cause=f"max_skipped allows {corpus.max_skipped:.1%}, but allowed more when they were built",
                cure=(
                    "Fix or exclude the unreadable input, raise max_skipped in the corpus file, "
                    "or set on_error: skip to build without the source"
                ),
            )


def resolved_repositories(
    corpus: CorpusSpec, families: Collection[str], sources: Sources
) -> tuple[Repository, ...]:
    """Return the repositories with resolved pins, after checking that conversations exist if needed.

    Raises:
        CorpusError: for anything missing.
    """
    if CHAT_FAMILY in families:
        require_conversations(corpus)
    require_sources(corpus, sources, chat=CHAT_FAMILY in families)
    return repositories(corpus, sources)
