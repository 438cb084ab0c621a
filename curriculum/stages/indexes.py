"""Indexes: facts of a compiler frontend about each repository at its pinned commit."""

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
"""Paths at which a work tree may have a compilation database, as in clang's own tools."""
NO_DATABASE = "it has no compile_commands.json; name one in the corpus file, or give --configure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The index of a repository, or the reason that it has none."""

    repository: str
    artefact: Artefact | None = None
    lacks: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexing:
    """Permissions that a user gives for building indexes, beyond parsing in a sandbox."""

    configure: bool = False
    """Allow cmake to create missing databases in a temporary copy, which runs the repository's code."""
    unsandboxed: bool = False
    """Allow libclang to parse repositories without a sandbox if the kernel has none."""


CAREFUL = Indexing()


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexTask:
    """A repository with its compilation database, which is None if cmake has to create it."""

    repository: Repository
    database: Path | None

    @property
    def original(self) -> Path | None:
        """Work tree that the paths in the database refer to."""
        source = self.repository.source
        is_work_tree = source.layout is None or (source.path / ".git").exists()
        return source.path if is_work_tree else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexes(Stage[Sequence[Repository], IndexTask]):
    """Stage that indexes each repository that can have an index.

    The repositories are indexed one after the other, each by all workers together.
    """

    name = "index"
    placement = "coordinator"
    indexing: Indexing
    processes: int
    store: Store
    watch: ProgressCallback

    def tasks(self, inputs: Sequence[Repository]) -> Sequence[IndexTask]:
        """Return the repositories that have a database, or for which cmake may create one.

        Raises:
            CorpusError: for a named database that doesn't exist.
        """
        found = [
            IndexTask(repository=repository, database=_database(repository))
            for repository in inputs
        ]
        return [task for task in found if task.database or self.indexing.configure]

    def title(self, task: IndexTask) -> str:
        """Return the repository's name."""
        return task.repository.name

    def recipes(self, task: IndexTask) -> Sequence[Recipe]:
        """Return the recipe of the index.

        Raises:
            CorpusError: for an invalid database.
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
        """Index a copy of the tree at the pinned commit, one translation unit after the other.

        Raises:
            CorpusError: if cmake fails, or the kernel can't sandbox libclang and neither user nor package
            trusts the repository.
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
        """Return the paths of a source's files; those of a commit are cached, since they can't change."""
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
    """Return the index of every repository, or the reason that it has none.

    Raises:
        CorpusError: for a missing or invalid database, and if cmake fails.
    """
    lacks = clang.missing()
    if lacks:
        return tuple(Index(repository=repository.name, lacks=lacks) for repository in repositories)
    processes, watch = coordinator.workers.processes, coordinator.watch
    stage = Indexes(indexing=indexing, processes=processes, store=coordinator.store, watch=watch)
    made = coordinator.make(stage, repositories)
    by_name = {artefact.manifest.labels["repository"]: artefact for artefact in made}
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
        cause="this kernel has no Landlock, so a flaw in libclang could run code of the repository",
        cure="Build on Linux 5.13 or newer with Landlock; or give --unsandboxed if you trust the repository",
    )


def snapshot_of(index: Index | None) -> clang.GraphSnapshot | None:
    """Return the opened snapshot of an index, or None."""
    return clang.GraphSnapshot.open(index.artefact.path) if index and index.artefact else None


def _database(repository: Repository) -> Path | None:
    """Return the compilation database of a repository: the corpus may name one, or its work tree has one."""
    named = repository.spec.compile_commands
    if named is not None:
        if not Path(named).is_file():
            raise CorpusError(
                repository.spec.title("compile_commands"),
                f"compile_commands = {named}",
                cause="the file doesn't exist",
                cure="Generate it, or remove the line from the corpus file",
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
            cause="it leads out of the repository, possibly to a build of another one",
            cure=f"Write compile_commands: {json.dumps(str(target))} in the corpus file, or remove the link",
        )
    return target


def _as_text(paths: Iterable[bytes]) -> Iterator[str]:
    return (path.decode(errors="replace") for path in paths)


def indexes_for(
    store: Store, corpus: CorpusSpec, families: Collection[str], sources: Sources
) -> tuple[Index, ...]:
    """Return the indexes that exist in a workspace or would be built, if one of `families` needs them."""
    if not need_index(families):
        return ()
    coordinator = Coordinator(store=Store(store.root, dry=True))
    return make_indexes(coordinator, repositories(corpus.trained(), sources))
