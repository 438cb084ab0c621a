"""A folder without workspace.json that holds clones, answers or locks isn't this user's new workspace."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.corpus import git
from curriculum.corpus.kept_answers import KeptAnswer, KeptAnswers
from curriculum.corpus.sources import Sources
from flows.settings import trust
from schemas.corpus import RepositorySpec
from schemas.errors import StoreError
from tests.flows.cli_runner import curriculum

URL = "https://example.invalid/fmt.git"
WRONG = 2
QUESTION = ("commit", "any", "HEAD")
Plant = Callable[[Path, Path], RepositorySpec]


@pytest.fixture(autouse=True)
def _nothing_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("CURRICULUM_TRUST")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A repository that no corpus names."""
    return _repository(tmp_path / "private", "int private_of_the_owner;\n")


def _repository(folder: Path, text: str) -> Path:
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "a.cpp").write_text(text)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("add", "-A"), (*author, "commit", "-q", "-m", "one")):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder


def _url_name() -> str:
    return f"url-{hashlib.sha256(URL.encode()).hexdigest()[:32]}.git"


def linked_clone(clones: Path, private: Path) -> RepositorySpec:
    (clones / _url_name()).symlink_to(private / ".git")
    return RepositorySpec(name="fmt", url=URL)


def other_clone(clones: Path, private: Path) -> RepositorySpec:
    shutil.copytree(private / ".git", clones / _url_name())
    return RepositorySpec(name="fmt", url=URL)


def linked_bundle(clones: Path, private: Path) -> RepositorySpec:
    own = _repository(private.with_name("own"), "int mine;\n")
    bundle = private.with_name("own.bundle")
    subprocess.run(["git", "-C", own, "bundle", "create", "-q", bundle, "HEAD"], check=True)
    named = hashlib.sha256(bundle.read_bytes()).hexdigest()[:32]
    (clones / f"bundle-{named}.git").symlink_to(private / ".git")
    return RepositorySpec(name="fmt", path=str(bundle))


PLANTS = [linked_clone, other_clone, linked_bundle]


@pytest.fixture
def clones_folder(tmp_path: Path) -> Path:
    """The folder of clones in a folder that was sent."""
    clones = tmp_path / "sent" / "repositories"
    clones.mkdir(parents=True)
    return clones


def _refuses(words: tuple[str, ...], home: Path) -> bool:
    before = sorted(home.rglob("*"))
    done = curriculum(*words, "--home", str(home))
    assert "no workspace.json" in done.stderr, done.stderr
    assert not trust.is_trusted(home)
    return done.returncode == WRONG and sorted(home.rglob("*")) == before


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_clone_is_not_read_for_a_repository_of_the_corpus(
    clones_folder: Path, private: Path, tmp_path: Path, plant: Plant
) -> None:
    spec, home = plant(clones_folder, private), clones_folder.parent
    head = subprocess.check_output(["git", "-C", private, "rev-parse", "HEAD"], text=True).strip()
    assert Sources.from_workspace(home).resolve(spec).commit == head, (
        "the planted one is there to be taken"
    )
    assert not trust.is_new(home)
    corpus = tmp_path / "mine.yaml"
    place = f'url: "{spec.url}"' if spec.url else f"path: {spec.path}"
    corpus.write_text(f"name: mine\nrepositories:\n  - {{name: fmt, licence: MIT, {place}}}\n")
    for words in (
        ("build", "templates.demo", "--corpus", str(corpus)),
        ("supply", str(corpus), "--phases-file", "phases.demo"),
    ):
        assert _refuses(words, home)


def test_no_answer_is_kept_through_a_planted_link(clones_folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (clones_folder / "answers").symlink_to(outside)
    assert _refuses(("build", "templates.demo"), clones_folder.parent)
    assert [*outside.iterdir()] == []
    KeptAnswers.from_workspace(clones_folder.parent).keep(
        QUESTION, KeptAnswer(state="s", answer=("a",))
    )
    assert [*outside.iterdir()] != [], "the link leads outside"


def test_what_was_sent_without_workspace_json_may_be_trusted_but_for_links(
    clones_folder: Path, private: Path
) -> None:
    home = clones_folder.parent
    linked_clone(clones_folder, private)
    assert curriculum("trust", str(home)).returncode == WRONG
    (clones_folder / _url_name()).unlink()
    other_clone(clones_folder, private)
    assert curriculum("trust", str(home)).returncode == 0
    trust.require_trusted(home)


def test_a_workspace_is_made_and_trusted_before_its_first_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed as it clones leaves a workspace, which the next one may use."""
    home, corpus = tmp_path / "home", tmp_path / "mine.yaml"
    corpus.write_text(f'name: mine\nrepositories:\n  - {{name: fmt, licence: MIT, url: "{URL}"}}\n')
    seen: list[tuple[bool, list[str]]] = []

    def transfer(*_: str) -> None:
        seen.append((trust.is_trusted(home), sorted(each.name for each in home.iterdir())))
        raise git.GitError("git clone", cause="the test ends it", cure="None")

    monkeypatch.setattr(git, "transfer", transfer)
    for _ in range(2):
        done = curriculum(
            "build", "templates.demo", "--corpus", str(corpus), "--home", str(home)
        )  # fmt: skip
        assert "the test ends it" in done.stderr
    assert [is_trusted for is_trusted, _ in seen] == [True, True]
    assert all("workspace.json" in names for _, names in seen)


def test_answers_are_kept_in_a_workspace_alone(tmp_path: Path, private: Path) -> None:
    sources = Sources.from_workspace(tmp_path / "home")
    sources.resolve(RepositorySpec(name="own", path=str(private)))
    assert not (tmp_path / "home").exists()
    sources.keep_answers()
    assert (tmp_path / "home" / "workspace.json").is_file()


def test_empty_locks_of_an_interrupted_command_leave_a_folder_new(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lock = home / ".locks" / "workspace.json.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert trust.is_new(home)
    trust.require_trusted(home)
    lock.write_text("told")
    assert not trust.is_new(home)
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"workspace\.json"):
        trust.require_trusted(home)
