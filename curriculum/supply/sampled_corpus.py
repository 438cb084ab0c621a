"""Sample of a whole corpus, selected and tokenized as in a build, and what its commits touched.

Families that read whole commits make separate documents of functions and of build targets. If some of the
functions that a commit touched are held out, the commit gives no training documents of functions. The same
rule applies to build targets. The domain of such a document is assumed to be the domain of the touched files,
because most sampled commits are not walked, so that their documents are unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from curriculum import frames
from curriculum.corpus.decisions import decisions, read_sides
from curriculum.corpus.domains import load_domains
from curriculum.corpus.survey import sample_commits
from curriculum.stages.conversation_documents import ConversationSelection
from curriculum.stages.documents import Repository
from curriculum.stages.file_shares import FileShare, file_shares
from curriculum.stages.file_sides import FileSide, file_sides
from curriculum.stages.indexes import Index
from curriculum.stages.row_sources import RowSource
from curriculum.stages.selection import KeptDocuments, Selection, SplitDocuments
from curriculum.stages.stage import Coordinator
from curriculum.stages.tokens import Tokenizers, Tokenizing, Tokens, load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.supply.sampled_documents import (
    CommitsTask,
    SampledConversations,
    SampledFiles,
    SampledGraphs,
    read_before,
    read_survey,
    read_touched,
)
from curriculum.tokens.codec import Tokenizer
from schemas.corpus import CONTEXT_BYTES, CorpusSpec
from schemas.errors import CorpusError
from schemas.families import CHAT_FAMILY, FAMILIES, VERSIONS_FAMILY, families_of
from schemas.reports import SurveyReport

MIN_COMMITS, MIN_COMMITS_OF_MANY = 192, 24
"""Minimum number of commits per repository whose files are read.

The first number is for a corpus of up to three repositories, the second for a corpus of many.
"""
WALKED_BYTES = 100_000_000
"""Bytes of source that are parsed per repository at a share of one percent: half a minute on one core."""
COMMIT_BYTES = 1_000_000
"""Cost of making a commit's documents, expressed as the number of bytes that could be parsed instead."""
MIN_GRAPHS, MIN_GRAPHS_OF_MANY = 4, 2
"""Minimum number of commits per repository whose graphs are walked.

The first number is for a corpus of up to three repositories, the second for a corpus of many.
"""
SIZES_SCHEMA = pl.Schema({"unit": pl.String, "domain": pl.String, "size": pl.Float64})
"""Expected number of documents (`size`) by sampled commit and domain.

A commit without documents has no row.
"""


def sizes_of(touched: pl.DataFrame, sides: pl.DataFrame, domains: pl.DataFrame) -> pl.DataFrame:
    """Return the expected number of documents per sampled commit and domain.

    The result is a sorted table of SIZES_SCHEMA. `touched` has TOUCHED_SCHEMA. `sides` has the columns
    lineage and split, and `domains` has unit, lineage and domain. A document holds up to CONTEXT_BYTES of
    functions; a commit that touched fewer bytes still gives one document. Functions and build targets have
    separate documents.
    """
    kind = ["unit", "is_build"]
    meant = touched.filter(pl.col("bytes") > 0).join(sides, on="lineage", how="left")
    whole = pl.col("bytes").sum().over(kind)
    return (
        meant.filter((pl.col("split") == "train").all().over(kind))
        .join(domains, on=["unit", "lineage"], how="inner")
        .with_columns(size=pl.col("bytes") / whole * pl.max_horizontal(1.0, whole / CONTEXT_BYTES))
        .group_by("unit", "domain")
        .agg(pl.col("size").sum())
        .sort("unit", "domain")
        .select(SIZES_SCHEMA.names())
    )


def sampling_depth(repositories: int) -> float:
    """Return the factor by which the sample of each repository shrinks in a corpus of `repositories`.

    The errors of the repositories average out in a sum. So a corpus of more than three repositories is
    sampled with the total effort of three.

    >>> [sampling_depth(number) for number in (1, 3, 6, 30)]
    [1.0, 1.0, 0.5, 0.1]
    """
    return min(1.0, 3 / repositories) if repositories else 1.0


def commits_to_walk(
    sizes: pl.DataFrame, share: float, *, tree_bytes: int, depth: float = 1.0
) -> list[str]:
    """Return the commits whose graphs are walked, in sample order.

    Between two walked commits, most of the tree may change and must then be parsed again. So the larger the
    tree, the fewer commits are walked.

    Args:
        sizes: Table of SIZES_SCHEMA.
        share: Share of commits that is sampled.
        tree_bytes: Size of the repository's tree.
        depth: Factor that reduces the number; see `sampling_depth`.
    """
    number = int(share / 0.01 * WALKED_BYTES * depth) // (tree_bytes + COMMIT_BYTES)
    min_count = max(MIN_GRAPHS_OF_MANY, round(MIN_GRAPHS * depth))
    return sample_commits(sizes["unit"].unique(), 0.0, min_count=max(min_count, number))


def domains_of(documents: Sequence[Artefact], selection: Artefact) -> pl.DataFrame:
    """Return a table with the columns unit, lineage and domain, from documents that show files.

    Each pair of unit and lineage occurs once.
    """
    found = [pl.DataFrame(schema=dict.fromkeys(("unit", "lineage", "domain"), pl.String))]
    for document in documents:
        rows = frames.scan(document.shards(), ["provenance", "lineage"]).select(
            pl.col("provenance").list.first().struct.field("commit").alias("unit"), "lineage"
        )
        picked = decisions(selection, document)
        names = [picked.domains[int(code)] for code in picked.domain]
        domains = pl.Series("domain", names, dtype=pl.String)
        found.append(rows.collect().with_columns(domains))
    return pl.concat(found).unique(["unit", "lineage"], keep="last", maintain_order=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingPlan:
    """Parameters of a sample: corpus, families, share of commits, repositories and indexes."""

    corpus: CorpusSpec
    families: frozenset[str]
    """Families of the documents that are sampled; never v6_enriched."""
    share: float
    """Share of each repository's commits that is sampled."""
    repositories: Sequence[Repository]
    """Repositories of the corpus."""
    indexes: Sequence[Index]
    """Existing or planned indexes, for families that need one."""

    @property
    def depth(self) -> float:
        """Factor by which each repository's sample is reduced; see `sampling_depth`."""
        return sampling_depth(len(self.corpus.repositories))

    @property
    def files_stage(self) -> SampledFiles:
        """Stage that reads the files of sampled commits."""
        min_count = max(MIN_COMMITS_OF_MANY, round(MIN_COMMITS * self.depth))
        return SampledFiles(share=self.share, min_count=min_count)

    def graphs_of(self, repository: str) -> tuple[str, ...]:
        """Return the families for which a repository's commits are walked.

        A family that needs the repository's index is included only if the index is built.
        """
        index = self._index(repository)
        there = index is not None and index.artefact is not None and not index.artefact.planned
        return tuple(
            family
            for family in families_of("commits")
            if family in self.families and (there or not FAMILIES[family].needs_index)
        )

    def stands_in(self, repository: str) -> bool:
        """Return True if the repository's index isn't built yet, so that another family must stand in."""
        index = self._index(repository)
        return index is not None and index.artefact is not None and index.artefact.planned

    def graph_tasks(self, walked: Mapping[str, Sequence[str]], parts: int) -> Iterator[CommitsTask]:
        """Yield tasks that walk the commits in `walked`, up to `parts` tasks per repository.

        More parts cost more time, because each part parses one whole tree first.
        """
        for repository in self.repositories:
            families, commits = self.graphs_of(repository.name), walked[repository.name]
            size = -(-len(commits) // parts)
            for number in range(parts if families else 0):
                some = tuple(commits[number * size : (number + 1) * size])
                if some:
                    yield CommitsTask(
                        repository=repository,
                        families=families,
                        index=self._index(repository.name),
                        commits=some,
                        number=number,
                    )

    def _index(self, repository: str) -> Index | None:
        return next((index for index in self.indexes if index.repository == repository), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledCorpus:
    """Artefacts and tables of a sample."""

    histories: Mapping[str, SurveyReport]
    """Numbers of all commits and of excluded commits, by repository or source of conversations."""
    surveys: Mapping[str, pl.DataFrame]
    """Tables of SURVEY_SCHEMA, by repository or source of conversations."""
    before: Mapping[str, pl.DataFrame]
    """Tables of BEFORE_SCHEMA, by repository: the lines of each file before its sampled changes."""
    sampled: Mapping[str, Sequence[str]]
    """Sampled commits of each repository, and sampled conversations of each source."""
    sizes: Mapping[str, pl.DataFrame]
    """Tables of SIZES_SCHEMA, by repository."""
    walked: Mapping[str, Sequence[str]]
    """Commits whose graphs were walked, by repository."""
    documents: Sequence[Artefact]
    tokens: Sequence[Artefact]
    """Tokens artefact of each artefact in `documents`, in the same order."""
    selections: Mapping[str, Artefact]
    """Selections by family."""
    tokenizer: Tokenizer
    files: Sequence[FileSide]
    """Files with versions in the sample."""
    shares: Sequence[FileShare]
    """Files with the most tokens, by family."""

    def sources(self, family: str, repository: str, corpus: CorpusSpec) -> list[RowSource]:
        """Return the documents and tokens of one family in one repository, one source per part."""
        wanted = {"family": family, "repository": repository}
        return [
            RowSource(
                documents=documents,
                base=documents,
                tokens=tokens,
                overlong=corpus.overlong_of(repository),
                licences=corpus.licences,
            )
            for documents, tokens in zip(self.documents, self.tokens, strict=True)
            if documents.manifest.labels == wanted
        ]


def readable_plan(coordinator: Coordinator, plan: SamplingPlan) -> SamplingPlan:
    """Sample the files of all repositories, and return the plan with the readable repositories only.

    Raises:
        CorpusError: if a repository is unreadable and the corpus doesn't skip such repositories, or if all
            are unreadable.
    """
    stage = plan.files_stage
    try:
        coordinator.by_task(stage, plan.repositories)
    except CorpusError:
        if plan.corpus.on_error == "stop":
            raise
        dry = replace(coordinator, store=Store(coordinator.store.root, dry=True))
        made = zip(plan.repositories, dry.by_task(stage, plan.repositories), strict=True)
        kept = [
            repository
            for repository, found in made
            if not any(artefact.planned for artefact in found)
        ]
        if not kept:
            raise
        return replace(plan, repositories=kept)
    return plan


def sample_corpus(
    coordinator: Coordinator, plan: SamplingPlan, tokenizing: Tokenizing
) -> SampledCorpus:
    """Sample a corpus; without a given tokenizer, train one on the sampled files.

    Raises:
        CorpusError, TokenizerError: as in a build.
    """
    corpus, listed = plan.corpus, plan.repositories
    sampled = coordinator.by_task(plan.files_stage, listed)
    made = dict(zip((repository.name for repository in listed), sampled, strict=True))
    surveys = {name: found[0] for name, found in made.items()}
    files = [artefact for found in made.values() for artefact in found[1:]]
    (kept,) = coordinator.make(SplitDocuments(corpus=corpus), files)
    selecting = Selection(corpus=corpus, rules=load_domains(corpus.domains))
    kept_files = KeptDocuments(documents=files, kept=kept)
    (selection,) = coordinator.make(selecting, kept_files)
    sides, sizes = read_sides(selection), dict[str, pl.DataFrame]()
    for name, (survey, *texts) in made.items():
        versions = [text for text in texts if _family(text) == VERSIONS_FAMILY]
        sizes[name] = sizes_of(read_touched(survey), sides, domains_of(versions, selection))
    walked = {name: _walked(sizes[name], surveys[name], plan) for name in made}
    parts = max(1, coordinator.workers.processes // len(listed))
    graphs = coordinator.make(SampledGraphs(), list(plan.graph_tasks(walked, parts)))
    chats = _chats(coordinator, plan)
    surveys |= {name: survey for name, (survey, _) in chats.items()}
    counts = [found for _, found in chats.values()]
    (tokenizer,) = coordinator.make(Tokenizers(tokenizing=tokenizing), kept_files)
    chat_selections = coordinator.make(ConversationSelection(corpus=corpus), counts)
    documents = [
        document for document in (*files, *graphs, *counts) if _family(document) in plan.families
    ]
    tokens = coordinator.make(Tokens(tokenizer=tokenizer), documents)
    return SampledCorpus(
        histories={name: survey.reported(SurveyReport) for name, survey in surveys.items()},
        surveys={name: read_survey(survey) for name, survey in surveys.items()},
        before={name: read_before(found[0]) for name, found in made.items()},
        sampled={
            name: read_touched(survey)["unit"].unique(maintain_order=True).to_list()
            for name, survey in surveys.items()
        },
        sizes=sizes,
        walked=walked if graphs else {},
        documents=documents,
        tokens=tokens,
        selections={
            **dict.fromkeys(families_of("changes"), selection),
            **_selections_of_graphs(coordinator, selecting, graphs, kept_files),
            **{_family(chat_selection): chat_selection for chat_selection in chat_selections},
        },
        tokenizer=load_tokenizer(tokenizer),
        files=file_sides(files, selection),
        shares=file_shares(documents, tokens, selection),
    )


def _walked(sizes: pl.DataFrame, survey: Artefact, plan: SamplingPlan) -> list[str]:
    """Return the commits whose graphs are walked, oldest first."""
    tree_bytes = survey.reported(SurveyReport).tree_bytes
    walked = commits_to_walk(sizes, plan.share, tree_bytes=tree_bytes, depth=plan.depth)
    chosen = frozenset(walked)
    commits = read_survey(survey)["commit"].unique(maintain_order=True)
    return [commit for commit in commits if commit in chosen]


def _chats(coordinator: Coordinator, plan: SamplingPlan) -> dict[str, tuple[Artefact, Artefact]]:
    """Return the survey and the documents of each source of conversations, by its name."""
    if CHAT_FAMILY not in plan.families:
        return {}
    corpus = plan.corpus
    stage = SampledConversations(corpus=corpus, share=plan.share)
    made = coordinator.by_task(stage, corpus.conversations)
    return {
        spec.name: (survey, documents)
        for spec, (survey, documents) in zip(corpus.conversations, made, strict=True)
    }


def _selections_of_graphs(
    coordinator: Coordinator,
    selecting: Selection,
    graphs: Sequence[Artefact],
    files: KeptDocuments,
) -> dict[str, Artefact]:
    keeping, found = SplitDocuments(corpus=selecting.corpus, files=files), dict[str, Artefact]()
    for family in sorted({_family(graph) for graph in graphs}):
        own = [graph for graph in graphs if _family(graph) == family]
        (kept_graphs,) = coordinator.make(keeping, own)
        inputs = KeptDocuments(documents=own, kept=kept_graphs)
        (found[family],) = coordinator.make(selecting, inputs)
    return found


def _family(artefact: Artefact) -> str:
    return artefact.manifest.labels["family"]
