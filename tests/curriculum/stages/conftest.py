"""One small workspace that all tests of the build read: the sample corpus, two versions a file."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from curriculum.corpus.load import load_corpus
from curriculum.stages import Built, RowsSpec, Tokenizing, Workers, build
from curriculum.store import Store
from schemas.corpus import CorpusSpec, HistorySpec

WANTED = (
    RowsSpec(family="v2_simple", row_length=512),
    RowsSpec(family="v3_doxygen", row_length=1024),
    RowsSpec(family="v3_doxygen", objective="fim", variant=1, row_length=1024),
    RowsSpec(family="v2_simple", objective="doc_to_code", row_length=512),
    RowsSpec(family="v3_doxygen", objective="code_to_doc", row_length=1024),
)
ALONE = Workers()
GIT = """#!/bin/sh
case " $* " in *" cat-file "*) . {folder}/first > {folder}/said 2>&1;; esac
exec {git} "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Git:
    """A git that comes first on the PATH; who begins to read blobs through it is in the middle of a task."""

    folder: Path

    @staticmethod
    def in_folder(folder: Path) -> "Git":
        """A git in a folder, that does what the other does."""
        program, in_folder = folder / "git", Git(folder=folder)
        program.write_text(GIT.format(folder=folder, git=shutil.which("git")))
        program.chmod(0o755)
        in_folder.first("")
        return in_folder

    def first(self, lines: str) -> None:
        """Lines of shell that it goes through first; $PPID is who called it."""
        draft = self.folder / "draft"
        draft.write_text(lines)
        draft.replace(self.folder / "first")

    def kill_one(self, home: Path) -> None:
        """Kill one caller that has something in the making, when something else is published."""
        self.first(
            f"if [ $PPID != {os.getpid()} ] && [ -d {home}/documents ] "
            f'&& [ -n "$(ls {home}/.drafts)" ] && mkdir {self.folder}/killed; '
            "then kill -9 $PPID; fi"
        )

    def has_killed(self) -> bool:
        """True once the process was killed."""
        self.first("")
        return (self.folder / "killed").is_dir()

    def let_meet(self, number: int) -> Path:
        """Hold callers until there are so many; returns the folder with a file for each."""
        met = self.folder / "met"
        met.mkdir()
        self.first(
            f"touch {met}/$PPID; until [ $(ls {met} | wc -l) -ge {number} ]; do sleep 0.02; done"
        )
        return met


def small_corpus() -> CorpusSpec:
    corpus = load_corpus("sample")
    return corpus.model_copy(
        update={"history": HistorySpec(versions_per_path=2), "val_fraction": 0.1}
    )


def small_build(
    store: Store, *, workers: Workers = ALONE, vocab_size: int = 800, domains: str = "domains"
) -> Built:
    return build(
        store,
        small_corpus().model_copy(update={"domains": domains}),
        WANTED,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=vocab_size),
        workers=workers,
    )


def tiny_build(store: Store, *, workers: Workers = ALONE) -> Built:
    """All kinds of stages over a few commits: what is cut by repository, by family and by data set."""
    corpus = small_corpus()
    repositories = [each.model_copy(update={"max_commits": 2}) for each in corpus.repositories]
    return build(
        store,
        corpus.model_copy(update={"repositories": tuple(repositories)}),
        (
            RowsSpec(family="v2_simple", row_length=512),
            RowsSpec(family="v4_context_graph", row_length=1024),
            RowsSpec(family="v6_enriched", base="v2_simple", row_length=512),
        ),
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=400),
        workers=workers,
    )


def built_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Store], Built]) -> Built:
    """A build in a workspace that all test processes look at: the first makes it, the others find it."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with FileLock(shared / f"{name}.lock"):
        return make(Store(shared / name))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A tiny build by one process."""
    return built_once(tmp_path_factory, "tiny", tiny_build)


@pytest.fixture(scope="session")
def make_git() -> Callable[[Path], Git]:
    """A git for the PATH of those that build, in a folder."""
    return Git.in_folder


@pytest.fixture(scope="session")
def make_tiny() -> Callable[..., Built]:
    """The tiny build again, elsewhere or by others."""
    return tiny_build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built_once(tmp_path_factory, "built", small_build)


@pytest.fixture(scope="session")
def workspace(built: Built) -> Path:
    return built.selection.path.parents[2]


@pytest.fixture(scope="session")
def make() -> Callable[..., Built]:
    """The same build again, elsewhere or with other settings."""
    return small_build
