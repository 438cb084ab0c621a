"""Cached answers of git serve read-only commands while the repository is unchanged."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.corpus import git
from curriculum.corpus.kept_answers import KeptAnswer, KeptAnswers
from curriculum.corpus.sources import Sources
from schemas.corpus import RepositorySpec
from schemas.errors import CorpusError

AUTHOR = ["-c", "user.name=a", "-c", "user.email=a@example.org"]


def git_in(folder: Path, *words: str) -> str:
    command = ["git", *AUTHOR, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    """Commit a file; the id of the commit."""
    (folder / "a.c").write_text(text)
    git_in(folder, "add", ".")
    git_in(folder, "commit", "--quiet", "--message", text)
    return git_in(folder, "rev-parse", "HEAD")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of one commit."""
    made = tmp_path / "mine"
    made.mkdir()
    git_in(made, "init", "--quiet", "--initial-branch", "main")
    commit(made, "int a;\n")
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the recorded questions to git."""
    verbs: list[str] = []
    run = git.run

    def noted(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
        verbs.append(arguments[0])
        return run(repository, *arguments, stdin=stdin)

    monkeypatch.setattr(git, "run", noted)
    return verbs


def pin(folder: Path, name: str = "HEAD") -> RepositorySpec:
    return RepositorySpec(name="mine", path=str(folder), commit=name)


def built(home: Path, spec: RepositorySpec) -> str:
    """Resolve a pin as a build does, which keeps the answers."""
    sources = Sources.from_workspace(home)
    found = sources.resolve(spec).commit
    sources.keep_answers()
    return found


def looked(home: Path, spec: RepositorySpec) -> str:
    return Sources.from_workspace(home, clones="none").resolve(spec).commit


def test_a_look_after_a_build_asks_git_nothing(
    folder: Path, tmp_path: Path, asked: list[str]
) -> None:
    found = built(tmp_path / "home", pin(folder))
    asked.clear()
    assert looked(tmp_path / "home", pin(folder)) == found
    assert asked == []


def test_a_new_table_of_references_is_a_change(
    folder: Path, tmp_path: Path, asked: list[str]
) -> None:
    """Git's reftable format keeps references in tables, and lists them in this file."""
    tables = folder / ".git" / "reftable" / "tables.list"
    tables.parent.mkdir()
    tables.write_text("0x1-0x1-a.ref\n")
    built(tmp_path / "home", pin(folder))
    looked(tmp_path / "home", pin(folder))
    asked.clear()
    tables.write_text("0x1-0x2-b.ref\n")
    looked(tmp_path / "home", pin(folder))
    assert asked


def test_a_build_asks_git_of_each_pin_again(folder: Path, tmp_path: Path, asked: list[str]) -> None:
    built(tmp_path / "home", pin(folder))
    asked.clear()
    built(tmp_path / "home", pin(folder))
    assert asked == ["rev-parse"]


MOVES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a commit on its branch": ("main", lambda folder: commit(folder, "int b;\n")),
    "another branch": ("HEAD", lambda folder: git_in(folder, "checkout", "--quiet", "other")),
    "packed refs": ("other", lambda folder: git_in(folder, "pack-refs", "--all")),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_look_sees_what_moves_a_pin(folder: Path, tmp_path: Path, name: str) -> None:
    first = git_in(folder, "rev-parse", "HEAD")
    commit(folder, "int other;\n")
    git_in(folder, "branch", "other", first)
    ref, move = MOVES[name]
    built(tmp_path / "home", pin(folder, ref))
    move(folder)
    assert looked(tmp_path / "home", pin(folder, ref)) == git_in(folder, "rev-parse", ref)


def test_a_kept_answer_that_is_no_commit_is_not_believed(folder: Path, tmp_path: Path) -> None:
    """It would be an option of the next git."""
    home = tmp_path / "home"
    found = built(home, pin(folder))
    for file in KeptAnswers.from_workspace(home).folder.iterdir():
        kept = KeptAnswer.model_validate_json(file.read_text())
        forged = kept.model_copy(update={"answer": ("--output=/tmp/forged",)})
        file.write_text(forged.model_dump_json())
    assert looked(home, pin(folder)) == found


def test_a_damaged_answer_is_asked_for_anew(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    found = built(home, pin(folder))
    for file in KeptAnswers.from_workspace(home).folder.iterdir():
        file.write_text("{")
    assert looked(home, pin(folder)) == found


def test_a_link_among_the_refs_is_refused_however_often_it_was_resolved(
    folder: Path, tmp_path: Path
) -> None:
    built(tmp_path / "home", pin(folder))
    (folder / ".git" / "refs" / "heads" / "away").symlink_to("/etc/passwd")
    with pytest.raises(CorpusError):
        looked(tmp_path / "home", pin(folder))
