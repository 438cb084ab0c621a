"""Estimates that a workspace keeps: the same as without them, and never those of other settings."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from curriculum.corpus.sources import Sources
from curriculum.stages import Tokenizing
from curriculum.store import Store
from curriculum.supply import DocumentKind, EstimateTask, estimate, known_estimate
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec

KIND = DocumentKind(family="v2_simple", row_length=512)
OTHER = DocumentKind(family="v3_simple", row_length=512)


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits of two files."""
    folder = tmp_path_factory.mktemp("own")
    git(folder, "init", "-q", "-b", "main")
    for number in range(3):
        for name in ("heap", "list"):
            body = "".join(f"int {name}_{at}() {{ return {at}; }}\n" for at in range(number + 4))
            (folder / f"{name}.cpp").write_text(body)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Add function {number}")
    git(folder, "branch", "earlier", "HEAD~1")
    return folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """All that an estimate is asked with."""

    corpus: CorpusSpec
    share: float = 1.0
    kinds: tuple[DocumentKind, ...] = (KIND,)
    tokenizing: Tokenizing = field(default_factory=lambda: Tokenizing(vocab_size=300))

    def task(self, cache: Path) -> EstimateTask:
        return EstimateTask.from_corpus(
            self.corpus,
            self.kinds,
            tokenizing=self.tokenizing,
            share=self.share,
            sources=Sources(cache=cache),
        )


def own(setting: Setting, **changes: object) -> Setting:
    return replace(setting, corpus=setting.corpus.model_copy(update=changes))


def pinned(setting: Setting, **changes: object) -> Setting:
    (repository,) = setting.corpus.repositories
    return own(setting, repositories=(repository.model_copy(update=changes),))


CHANGES: dict[str, Callable[[Setting], Setting]] = {
    "share": lambda it: replace(it, share=0.5),
    "vocabulary": lambda it: replace(it, tokenizing=Tokenizing(vocab_size=301)),
    "row length": lambda it: replace(it, kinds=(replace(KIND, row_length=256),)),
    "family": lambda it: replace(it, kinds=(OTHER,)),
    "commit": lambda it: pinned(it, commit="earlier"),
    "most commits": lambda it: pinned(it, max_commits=2),
    "excluded files": lambda it: pinned(it, exclude=("list.cpp",)),
    "versions of a path": lambda it: own(it, history=HistorySpec(versions_per_path=1)),
    "held out": lambda it: own(it, val_fraction=0.5),
}


@pytest.fixture(scope="module")
def setting(repository: Path) -> Setting:
    spec = RepositorySpec(name="own", path=str(repository), licence="MIT")
    return Setting(corpus=CorpusSpec(name="own", repositories=(spec,), files=("cpp",)))


@pytest.fixture(scope="module")
def home(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace that holds the estimate of the setting, and no other."""
    home = tmp_path_factory.mktemp("home")
    estimate(setting.task(home), store=Store(home))
    return home


def test_what_is_kept_is_what_is_estimated_anew(setting: Setting, home: Path) -> None:
    task = setting.task(home)
    assert known_estimate(task, Store(home, dry=True)) == estimate(task)


@pytest.mark.parametrize("change", CHANGES)
def test_a_kept_estimate_is_never_taken_for_another_setting(
    setting: Setting, home: Path, change: str
) -> None:
    task = CHANGES[change](setting).task(home)
    assert known_estimate(task, Store(home, dry=True)) is None


def test_a_size_of_context_documents_changes_the_estimates_of_their_families_alone(
    setting: Setting, home: Path, tmp_path: Path
) -> None:
    graphs = replace(setting, kinds=(DocumentKind(family="v4_context_graph", row_length=512),))
    estimate(graphs.task(tmp_path), store=Store(tmp_path))
    larger = {"context_bytes": 1_048_576}
    assert known_estimate(graphs.task(tmp_path), Store(tmp_path, dry=True)) is not None
    assert known_estimate(own(graphs, **larger).task(tmp_path), Store(tmp_path, dry=True)) is None
    assert known_estimate(own(setting, **larger).task(home), Store(home, dry=True)) is not None


def test_an_estimate_of_some_kinds_is_known_without_the_others(
    setting: Setting, home: Path
) -> None:
    both = replace(setting, kinds=(KIND, OTHER))
    found = known_estimate(both.task(home), Store(home, dry=True))
    assert found is not None
    assert found.kinds == {KIND}
    assert found == known_estimate(setting.task(home), Store(home, dry=True))


def test_looking_for_an_estimate_makes_nothing(setting: Setting, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert known_estimate(setting.task(tmp_path), Store(home, dry=True)) is None
    assert not home.exists()
