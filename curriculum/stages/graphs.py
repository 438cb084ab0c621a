"""Documents of graphs: one pass over a repository's commits, with the whole tree at each commit."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from curriculum.corpus import history, trees
from curriculum.corpus.skips import Skips
from curriculum.families.render import RenderResult
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.changed_lines import ChangedLines
from curriculum.graph.clang.graph import ClangGraph
from curriculum.graph.names import num_crowded
from curriculum.graph.syntax_tree import grammar_versions
from curriculum.stages.documents import FamilyWriters, Repository, write_or_skip
from curriculum.stages.indexes import Index, snapshot_of
from curriculum.stages.stage import Stage
from curriculum.store import Recipe, StagingDirectory
from schemas.change import CommitChange, TreeDelta
from schemas.corpus import CODE, ContextSettings
from schemas.families import FAMILIES, need_index
from schemas.reports import DocumentsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphTask:
    """A repository, with its index if a family needs one."""

    repository: Repository
    index: Index | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphInputs:
    """Repositories, and the indexes of some of them."""

    repositories: Sequence[Repository]
    indexes: Sequence[Index] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Graphs(Stage[GraphInputs, GraphTask]):
    """Stage that writes the documents of graph families, repository by repository.

    A repository without an index has no documents of families that need one; the manifests of these
    families say why.
    """

    name = "graphs"
    parses = True
    raises_last = True
    families: tuple[str, ...]
    sample: int | None = None
    """Number of documents per family and repository after which reading ends; None to read everything."""

    def tasks(self, inputs: GraphInputs) -> Sequence[GraphTask]:
        """Return the repositories with their indexes; nothing if no graph family is requested."""
        known = {index.repository: index for index in inputs.indexes}
        return [
            GraphTask(repository=repository, index=known.get(repository.name))
            for repository in (inputs.repositories if self.families else ())
        ]

    def title(self, task: GraphTask) -> str:
        """Return the repository's name."""
        return task.repository.name

    def recipes(self, task: GraphTask) -> Sequence[Recipe]:
        """Return the recipe of each family."""
        return [self._recipe(task, family) for family in self.families]

    def run(self, task: GraphTask, drafts: Sequence[StagingDirectory]) -> None:
        """Apply each commit to the graphs, and render its changes for all families with missing artefacts.

        Raises:
            CorpusError: if the repository or more than `max_skipped` of its changes can't be read. If the
            corpus is set to skip unreadable repositories, nothing is raised, and the artefacts of the
            repository stay empty.
        """
        corpus = task.repository.corpus
        write_or_skip(corpus, drafts, functools.partial(self._write, task, drafts))

    def _write(self, task: GraphTask, drafts: Sequence[StagingDirectory]) -> None:
        repository, skips = task.repository, Skips()
        families = [dict(draft.recipe.labels)["family"] for draft in drafts]
        source, spec, corpus = repository.source, repository.spec, repository.corpus
        graphs = RepositoryGraphs.of(families, task.index, corpus.context_settings())
        with FamilyWriters(drafts, sample=self.sample) as writers:
            for commit in trees.read_commits(source, spec, corpus, skips):
                graphs.apply(commit.tree)
                graphs.count(commit)
                for rendered in graphs.documents(commit):
                    writers.add(rendered)
                if writers.are_full:
                    break
        repository.refuse_losses(skips)
        more = DocumentsReport(
            changes=skips.report(),
            changed_lines=graphs.changed.report(),
            without_syntax_tree=tuple(sorted(graphs.incomplete)),
            crowded_names=dict(sorted(graphs.crowded.items())),
        )
        writers.report(more, {family: graphs.report(family, task.index) for family in families})

    def _recipe(self, task: GraphTask, family: str) -> Recipe:
        config: dict[str, JsonValue] = {
            "family": family,
            "reader": history.REVISION,
            "trees": trees.REVISION,
            **task.repository.ingredients(),
            **task.repository.corpus.tolerance(),
            **({} if self.sample is None else {"sample": self.sample}),
            **task.repository.corpus.context_settings().not_usual(),
        }
        index = task.index if FAMILIES[family].needs_index else None
        if index is not None and index.artefact is None:
            config["lacks"] = index.lacks
        return Recipe(
            stage="documents",
            labels=(("family", family), ("repository", task.repository.name)),
            revision=FAMILIES[family].revision,
            config=config,
            inputs=(index.artefact.as_input("index"),) if index and index.artefact else (),
            tools={"git": task.repository.git, **grammar_versions()},
        )


@dataclass(kw_only=True, slots=True)
class RepositoryGraphs:
    """The graphs of one repository, updated commit by commit."""

    families: Sequence[str]
    syntactic: CallGraph
    resolved: ClangGraph | None
    settings: ContextSettings
    incomplete: set[str] = field(default_factory=set)
    """Files that had no complete syntax tree at some commit."""
    crowded: dict[str, int] = field(default_factory=dict)
    """Largest number of names in a file, by path, for files with more names than the graph looks up."""
    changed: ChangedLines = field(default_factory=ChangedLines)

    @classmethod
    def of(
        cls, families: Sequence[str], index: Index | None, settings: ContextSettings
    ) -> "RepositoryGraphs":
        """Return the graphs that `families` need, at the state before the first commit."""
        syntactic = CallGraph()
        snapshot = snapshot_of(index) if need_index(families) else None
        resolved = None if snapshot is None else ClangGraph(syntactic, snapshot)
        return cls(families=families, syntactic=syntactic, resolved=resolved, settings=settings)

    def apply(self, delta: TreeDelta) -> None:
        """Update the graphs from the previous tree to the next one."""
        (self.resolved or self.syntactic).apply(delta)
        self.incomplete.update(self.syntactic.incomplete)
        for file in delta.files:
            crowded = num_crowded(self.syntactic.source(file.path).facts)
            if crowded:
                self.crowded[file.path] = max(crowded, self.crowded.get(file.path, 0))

    def count(self, commit: CommitChange) -> None:
        """Count the changed lines of a commit. Call it after `apply` for the commit's tree."""
        for change in commit.changes:
            if change.language in CODE and change.after is not None:
                self.changed.add(commit.commit, change, self.syntactic.source(change.path).facts)

    def documents(self, commit: CommitChange) -> Iterator[RenderResult]:
        """Yield the documents of a commit. Call it after `apply` for the commit's tree."""
        for name in self.families:
            family = FAMILIES[name]
            graph = self.resolved if family.needs_index else self.syntactic
            if graph is not None:
                yield family.function(commit, graph, family=name, settings=self.settings)

    def report(self, family: str, index: Index | None) -> DocumentsReport:
        """Return the share of the newest tree that an index covers, or the reason that there is no index."""
        if not FAMILIES[family].needs_index:
            return DocumentsReport()
        if self.resolved is None:
            assert index is not None
            return DocumentsReport(lacks=index.lacks)
        return DocumentsReport(coverage=self.resolved.coverage())
