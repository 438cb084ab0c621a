"""Documents of graphs: one pass over a repository's commits, with its whole tree at hand at each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pydantic import JsonValue

from curriculum.corpus import git, history, trees
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import Source, resolve
from curriculum.families import v4_context_graph, v5_clang_graph
from curriculum.families.render import tools
from curriculum.families.rendered import Rendered
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.clang_graph import ClangGraph
from curriculum.graph.names import num_crowded
from curriculum.stages.coordinator import Team
from curriculum.stages.documents import Sheaf
from curriculum.stages.indexes import Index, snapshot_of
from curriculum.stages.repositories import Repository, clones, repositories
from curriculum.store import Artefact, Draft, Recipe, Store
from schemas.change import CommitChange, TreeDelta
from schemas.corpus import CorpusSpec
from schemas.reports import CoverageReport, DocumentsReport

REVISIONS: Mapping[str, int] = {
    "v4_context_graph": v4_context_graph.REVISION,
    "v5_clang_graph": v5_clang_graph.REVISION,
}


def graphs_of(
    team: Team,
    corpus: CorpusSpec,
    families: Sequence[str],
    indexes: Sequence[Index],
    *,
    sample: int | None = None,
) -> tuple[Artefact, ...]:
    """The documents of some families of graphs, repository by repository.

    A repository without an index has no document of v5_clang_graph, and its manifest says what it lacks.
    """
    known = {index.repository: index for index in indexes}
    tasks = [
        _Task(
            repository=each,
            families=tuple(families),
            index=known.get(each.name),
            sample=sample,
        )
        for each in repositories(corpus)
    ]
    made = team.each("graphs", tasks, _make, lambda task: task.repository.name)
    return tuple(artefact for artefacts in made for artefact in artefacts)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    repository: Repository
    families: tuple[str, ...]
    index: Index | None
    sample: int | None


def _make(store: Store, task: _Task) -> tuple[Artefact, ...]:
    source = resolve(task.repository.spec, cache=clones(store.root))
    recipes = [_recipe(task, source, family) for family in task.families]

    def fill(drafts: Sequence[Draft]) -> None:
        _fill(task, source, drafts)

    return tuple(store.produce(recipes, fill))


def _recipe(task: _Task, source: Source, family: str) -> Recipe:
    repository = task.repository
    config: dict[str, JsonValue] = {
        "family": family,
        "reader": history.REVISION,
        "trees": trees.REVISION,
        **history.ingredients(source, repository.spec, repository.corpus),
        **({} if task.sample is None else {"sample": task.sample}),
    }
    index = task.index if family == v5_clang_graph.FAMILY else None
    if index is not None and index.artefact is None:
        config["lacks"] = index.lacks
    return Recipe(
        stage="documents",
        labels=(("family", family), ("repository", repository.name)),
        revision=REVISIONS[family],
        config=config,
        inputs=(index.artefact.as_input("index"),) if index and index.artefact else (),
        tools={"git": git.version(), **tools()},
    )


def _fill(task: _Task, source: Source, drafts: Sequence[Draft]) -> None:
    repository, skips = task.repository, Skips()
    families = [dict(draft.recipe.labels)["family"] for draft in drafts]
    graphs = Graphs.of(families, task.index)
    with Sheaf(drafts, sample=task.sample) as sheaf:
        for commit in trees.read_commits(source, repository.spec, repository.corpus, skips):
            graphs.apply(commit.tree)
            for rendered in graphs.documents(commit):
                sheaf.add(rendered)
            if sheaf.is_full:
                break
    repository.refuse_losses(skips)
    more = DocumentsReport(
        changes=skips.report(),
        without_syntax_tree=tuple(sorted(graphs.incomplete)),
        crowded_names=dict(sorted(graphs.crowded.items())),
    )
    sheaf.report(more, {family: graphs.report(family, task.index) for family in families})


@dataclass(kw_only=True, slots=True)
class Graphs:
    """The graphs of one repository as they go from commit to commit."""

    families: Sequence[str]
    syntactic: CallGraph
    resolved: ClangGraph | None
    incomplete: set[str] = field(default_factory=set)
    """Files that had no whole syntax tree at some commit."""
    crowded: dict[str, int] = field(default_factory=dict)
    """Paths, each with the most names at a commit of which the graph doesn't look up everything."""

    @classmethod
    def of(cls, families: Sequence[str], index: Index | None) -> "Graphs":
        """Those that the families need, over an empty tree."""
        syntactic = CallGraph()
        snapshot = snapshot_of(index) if v5_clang_graph.FAMILY in families else None
        resolved = None if snapshot is None else ClangGraph(syntactic, snapshot)
        return cls(families=families, syntactic=syntactic, resolved=resolved)

    def apply(self, delta: TreeDelta) -> None:
        """Take what differs from the tree before."""
        (self.resolved or self.syntactic).apply(delta)
        self.incomplete.update(self.syntactic.incomplete)
        for file in delta.files:
            crowded = num_crowded(self.syntactic.source(file.path).facts)
            if crowded:
                self.crowded[file.path] = max(crowded, self.crowded.get(file.path, 0))

    def documents(self, commit: CommitChange) -> Iterator[Rendered]:
        """The documents of one commit, whose tree was applied."""
        if v4_context_graph.FAMILY in self.families:
            yield v4_context_graph.documents(commit, self.syntactic)
        if self.resolved is not None:
            yield v5_clang_graph.documents(commit, self.resolved)

    def report(self, family: str, index: Index | None) -> DocumentsReport:
        """What an index covers of the newest tree, or what there is none for."""
        if family != v5_clang_graph.FAMILY:
            return DocumentsReport()
        if self.resolved is None:
            assert index is not None
            return DocumentsReport(lacks=index.lacks)
        coverage = CoverageReport(**asdict(self.resolved.coverage()))
        return DocumentsReport(coverage=coverage)
