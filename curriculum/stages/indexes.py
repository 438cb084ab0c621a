"""Indexes: what a compiler frontend knows of each repository at its pinned commit."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from curriculum.corpus import directory, git
from curriculum.corpus.choice import FILE_MODES
from curriculum.corpus.listing import listed
from curriculum.corpus.sources import Source
from curriculum.corpus.trees import export_tree
from curriculum.graph import clang
from curriculum.stages.coordinator import Team
from curriculum.stages.repositories import Repository
from curriculum.store import Artefact, Draft, Recipe
from schemas.errors import CorpusError
from schemas.progress import Progress
from schemas.reports import IndexReport

INDEXED_FAMILY = "v5_clang_graph"
"""The family that reads indexes."""
DATABASES = ("compile_commands.json", "build/compile_commands.json")
"""Where a database is looked for in a work tree, as clang's own tools do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The index of a repository, or what it lacks to have one."""

    repository: str
    artefact: Artefact | None = None
    lacks: str = ""


def indexes_of(
    team: Team, repositories: Sequence[Repository], *, configure: bool = False
) -> tuple[Index, ...]:
    """The index of every repository that can have one; units are shared out, not repositories.

    With `configure`, cmake makes the database of a repository that has none, in a throw-away copy; that
    runs the repository's own code.

    Raises:
        CorpusError: for a database that is named and isn't there or is none, and where cmake fails.
    """
    made = []
    for done, each in enumerate(repositories, start=1):
        ours = replace(team, store=team.store_for(done - 1))
        index = _index(ours, each, configure=configure)
        while index.artefact and not team.store.keep([index.artefact]):
            index = _index(ours, each, configure=configure)
        made.append(index)
        total = len(repositories)
        team.watch(Progress(stage="index", item=each.name, done=done, total=total, unit="tasks"))
    return tuple(made)


def snapshot_of(index: Index | None) -> clang.Snapshot | None:
    """What an index says, if there is one."""
    return clang.Snapshot.open(index.artefact.path) if index and index.artefact else None


def _index(team: Team, repository: Repository, *, configure: bool) -> Index:
    lacks = clang.missing()
    if lacks:
        return Index(repository=repository.name, lacks=lacks)
    database = _database(repository)
    if database is None and not configure:
        return Index(
            repository=repository.name,
            lacks="it has no compile_commands.json; name one in the corpus file, or give --configure",
        )
    artefact = _produce(team, repository, database)
    return Index(repository=repository.name, artefact=artefact)


def _database(repository: Repository) -> Path | None:
    """The compilation database of a repository: the one that is named, else one in its work tree."""
    named = repository.spec.compile_commands
    if named is not None:
        if not Path(named).is_file():
            raise CorpusError(
                f"repository {repository.name}",
                f"compile_commands = {named}",
                cause="there is no such file",
                cure="Generate it, or take the line out of the corpus file",
            )
        return Path(named)
    found = (repository.source.path / name for name in DATABASES)
    return next((each for each in found if each.is_file()), None)


def _produce(team: Team, repository: Repository, database: Path | None) -> Artefact:
    source = repository.source
    original = source.path if _is_work_tree(source) else None
    recipe = Recipe(
        stage="indexes",
        labels=(("repository", repository.name),),
        revision=clang.REVISION,
        config={
            "commit": source.commit,
            "database": _fingerprint(source, database, original) if database else "configured",
        },
        tools=clang.versions(),
    )

    def fill(drafts: Sequence[Draft]) -> None:
        with tempfile.TemporaryDirectory(prefix="curriculum-") as scratch:
            tree, made = Path(scratch) / "tree", Path(scratch) / "configured"
            export_tree(source, tree)
            report = clang.index_tree(
                tree,
                database or clang.configure(tree, made),
                drafts[0].path,
                original=original if database else made / "source",
                workers=team.workers,
                watch=lambda seen: team.watch(replace(seen, item=repository.name)),
            )
        drafts[0].record(IndexReport.model_validate(asdict(report)))

    return team.store.produce([recipe], fill)[0]


def _fingerprint(source: Source, database: Path, original: Path | None) -> str:
    paths = _paths(source)
    return clang.read_database(database, paths, original=original).fingerprint(paths)


def _is_work_tree(source: Source) -> bool:
    return source.layout is None or (source.path / ".git").exists()


def _paths(source: Source) -> list[str]:
    return [path.decode(errors="replace") for path in _raw_paths(source)]


def _raw_paths(source: Source) -> Iterator[bytes]:
    if source.layout is None:
        yield from (path for path, _ in directory.everything(source.path))
        return
    with git.view(source.layout) as repository:
        entries = listed(repository, source.commit)
        yield from (entry.path for entry in entries if entry.mode in FILE_MODES)
