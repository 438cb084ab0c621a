"""Indexes: what a compiler frontend knows of each repository at its pinned commit."""

import json
import platform
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from curriculum.corpus import git, sources
from curriculum.corpus.git_tree import FILE_MODES, list_tree
from curriculum.corpus.kept_answers import KeptAnswer, KeptAnswers
from curriculum.corpus.load import SAMPLES
from curriculum.corpus.sources import Source, Sources
from curriculum.corpus.trees import export_tree
from curriculum.graph import clang
from curriculum.sandbox import landlock
from curriculum.stages.documents import Repository, repositories
from curriculum.stages.stage import Coordinator, Stage
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.corpus import CorpusSpec
from schemas.errors import CorpusError
from schemas.families import need_index
from schemas.progress import ProgressCallback

DATABASES = ("compile_commands.json", "build/compile_commands.json")
"""Paths of a database in a work tree, as clang's own tools look for it."""
NO_DATABASE = "it has no compile_commands.json; name one in the corpus file, or give --configure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The index of a repository, or what it lacks to have one."""

    repository: str
    artefact: Artefact | None = None
    lacks: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexing:
    """Rights that the user gives to the making of indexes, beyond parsing in a sandbox."""

    configure: bool = False
    """Let cmake make the databases that are missing, in a throw-away copy; it runs the repository's code."""
    unsandboxed: bool = False
    """Let libclang parse repositories where the kernel can't confine it."""


CAREFUL = Indexing()


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexTask:
    """A repository with its compilation database; None where cmake makes it."""

    repository: Repository
    database: Path | None

    @property
    def original(self) -> Path | None:
        """The work tree whose paths the database names."""
        source = self.repository.source
        is_work_tree = source.layout is None or (source.path / ".git").exists()
        return source.path if is_work_tree else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexes(Stage[Sequence[Repository], IndexTask]):
    """The index of each repository that can have one; workers share its units, not repositories."""

    name = "index"
    placement = "coordinator"
    indexing: Indexing
    processes: int
    store: Store
    watch: ProgressCallback

    def tasks(self, inputs: Sequence[Repository]) -> Sequence[IndexTask]:
        """Return the repositories that have a database, or get one by cmake.

        Raises:
            CorpusError: for a database that is named and isn't there.
        """
        found = [IndexTask(repository=each, database=_database(each)) for each in inputs]
        return [each for each in found if each.database or self.indexing.configure]

    def title(self, task: IndexTask) -> str:
        """Return the repository's name."""
        return task.repository.name

    def recipes(self, task: IndexTask) -> Sequence[Recipe]:
        """Return the recipe of the index.

        Raises:
            CorpusError: for a database that is none.
        """
        database = "configured"
        if task.database is not None:
            paths = self._paths(task.repository.source)
            read = clang.read_database(task.database, paths, original=task.original)
            database = read.fingerprint(paths)
        recipe = Recipe(
            stage="indexes",
            labels=(("repository", task.repository.name),),
            revision=clang.REVISION,
            config={
                "commit": task.repository.source.commit,
                "database": database,
            },
            tools=clang.versions(),
        )
        return [recipe]

    def run(self, task: IndexTask, drafts: Sequence[StagingDirectory]) -> None:
        """Index a copy of the tree at the pinned commit, unit by unit.

        Raises:
            CorpusError: where cmake fails, and where the kernel can't confine libclang and neither the user
                nor the package vouches for the repository.
        """
        (draft,) = drafts
        is_confined = landlock() > 0
        if not (is_confined or self.indexing.unsandboxed or _is_shipped(task.repository)):
            raise _unconfined(task.repository)
        with tempfile.TemporaryDirectory(prefix="curriculum-") as scratch:
            tree, made = Path(scratch) / "tree", Path(scratch) / "configured"
            export_tree(task.repository.source, tree)
            report = clang.index_tree(
                tree,
                task.database or clang.configure(tree, made).resolve(),
                draft.path,
                original=task.original if task.database else made / "source",
                workers=self.processes,
                unsandboxed=not is_confined,
                watch=lambda seen: self.watch(replace(seen, item=task.repository.name)),
            )
        draft.record(report)

    def _paths(self, source: Source) -> list[str]:
        """Paths of a source's files; those of a commit are kept, they can't change."""
        if source.layout is None:
            return [*_as_text(path for path, _ in sources.directory_sizes(source.path))]
        answers, question = KeptAnswers.from_workspace(self.store.root), ("paths", source.commit)
        kept = answers.find(question, source.commit)
        if kept is None:
            with git.view(source.layout) as repository:
                entries = list_tree(repository, source.commit)
                files = (entry.path for entry in entries if entry.mode in FILE_MODES)
                kept = tuple(_as_text(files))
            if not self.store.dry:
                self.store.open()
                answers.keep(question, KeptAnswer(state=source.commit, answer=kept))
        return [*kept]


def make_indexes(
    coordinator: Coordinator, repositories: Sequence[Repository], *, indexing: Indexing = CAREFUL
) -> tuple[Index, ...]:
    """Return the index of every repository, or what it lacks to have one.

    Raises:
        CorpusError: for a database that is named and isn't there or is none, and where cmake fails.
    """
    lacks = clang.missing()
    if lacks:
        return tuple(Index(repository=each.name, lacks=lacks) for each in repositories)
    processes, watch = coordinator.workers.processes, coordinator.watch
    stage = Indexes(indexing=indexing, processes=processes, store=coordinator.store, watch=watch)
    made = coordinator.make(stage, repositories)
    by_name = {each.manifest.labels["repository"]: each for each in made}
    return tuple(
        Index(
            repository=repository.name,
            artefact=by_name.get(repository.name),
            lacks="" if repository.name in by_name else NO_DATABASE,
        )
        for repository in repositories
    )


def _is_shipped(repository: Repository) -> bool:
    path = repository.spec.path
    return path is not None and Path(path).resolve().parent == SAMPLES.resolve()


def _unconfined(repository: Repository) -> CorpusError:
    return CorpusError(
        repository.spec.title(),
        f"{platform.system()} {platform.release()}",
        cause="this kernel has no Landlock, so that a flaw in libclang could run code of the repository",
        cure="Build on Linux 5.13 or newer with Landlock; or give --unsandboxed if you trust the repository",
    )


def snapshot_of(index: Index | None) -> clang.GraphSnapshot | None:
    """Open the snapshot of an index, if there is one."""
    return clang.GraphSnapshot.open(index.artefact.path) if index and index.artefact else None


def _database(repository: Repository) -> Path | None:
    """The compilation database of a repository: the one that is named, else one in its work tree."""
    named = repository.spec.compile_commands
    if named is not None:
        if not Path(named).is_file():
            raise CorpusError(
                repository.spec.title("compile_commands"),
                f"compile_commands = {named}",
                cause="there is no such file",
                cure="Generate it, or take the line out of the corpus file",
            )
        return Path(named).resolve()
    tree = repository.source.path
    found = next((tree / name for name in DATABASES if (tree / name).is_file()), None)
    if found is None:
        return None
    if not (target := found.resolve()).is_relative_to(tree.resolve()):
        raise CorpusError(
            repository.spec.title("compile_commands"),
            f"{found} is a link to {target}",
            cause="it leads out of the repository, to a build that may be another one's",
            cure=f"Say compile_commands = {json.dumps(str(target))} in the corpus file, or remove the link",
        )
    return target


def _as_text(paths: Iterable[bytes]) -> Iterator[str]:
    return (path.decode(errors="replace") for path in paths)


def indexes_for(
    store: Store, corpus: CorpusSpec, families: Collection[str], sources: Sources
) -> tuple[Index, ...]:
    """Return the indexes that a workspace has or would make, where a family needs them."""
    if not need_index(families):
        return ()
    coordinator = Coordinator(store=Store(store.root, dry=True))
    return make_indexes(coordinator, repositories(corpus.trained(), sources))
