"""A source of a corpus that can't be read stops a build after all others, or is skipped; it is named."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from curriculum.corpus import git
from curriculum.inspection.losses import lack_warnings
from curriculum.stages import RowsSpec, Tokenizing, Workers, build
from curriculum.store import Store
from schemas.corpus import ConversationsSpec, CorpusSpec, OnError, RepositorySpec
from schemas.errors import CorpusError
from schemas.families import CHAT_FAMILY
from schemas.reports import DocumentsReport
from tests.curriculum.corpus.conftest import Built
from tests.curriculum.corpus.test_bombs import commit_of, files, nested

WANTED = [RowsSpec(family=family, row_length=512) for family in ("v2_simple", "v4_context_graph")]
SOURCE = """\
// Adds the numbers of list number {number} from its first element to its last, and returns the sum of them.
int sum_{number}(const int* begin, const int* end) {{
    int total = {number};
    for (; begin != end; ++begin) total += *begin;
    return total;
}}
"""


def folder(path: Path, *, broken: int = 0, odd: int = 0) -> RepositorySpec:
    """A plain folder with 40 files, some in Latin-1, and some with a name that isn't UTF-8."""
    path.mkdir()
    for number in range(40):
        text = SOURCE.format(number=f"{path.name}_{number}")
        encoding = "latin-1" if number < broken else "utf-8"
        (path / f"f{number}.cpp").write_text(text + "// façade\n", encoding=encoding)
    for number in range(odd):
        name = os.fsencode(path) + b"/f\xfc%d.cpp" % number
        Path(os.fsdecode(name)).write_text(SOURCE.format(number=number))
    return RepositorySpec(name=path.name, path=str(path))


def without_blobs(path: Path) -> RepositorySpec:
    """A git repository that lost the texts of its files."""
    folder(path)
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "All")):
        subprocess.run([*git, *words], cwd=path, check=True)
    listed = ("git", "ls-files", "--format=%(objectname)")
    for name in subprocess.run(
        listed, cwd=path, check=True, capture_output=True, text=True
    ).stdout.split():
        (path / ".git" / "objects" / name[:2] / name[2:]).unlink()
    return RepositorySpec(name=path.name, path=str(path))


@pytest.fixture
def repositories(tmp_path: Path) -> tuple[RepositorySpec, ...]:
    return (
        folder(tmp_path / "latin", broken=3),
        folder(tmp_path / "odd", odd=6),
        without_blobs(tmp_path / "lost"),
        folder(tmp_path / "good"),
    )


def corpus(repositories: tuple[RepositorySpec, ...], on_error: OnError = "stop") -> CorpusSpec:
    return CorpusSpec(name="mixed", repositories=repositories, on_error=on_error, val_fraction=0.1)


def built(home: Path, corpus: CorpusSpec, workers: int = 1):
    return build(
        Store(home),
        corpus,
        WANTED,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=400),
        workers=Workers(processes=workers),
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_sources_that_fail_are_named_together_once_the_others_are_built(
    tmp_path: Path, repositories: tuple[RepositorySpec, ...], workers: int
) -> None:
    home = tmp_path / "home"
    with pytest.raises(CorpusError) as refused:
        built(home, corpus(repositories), workers)
    words = str(refused.value)
    for name in ("latin", "odd", "lost"):
        assert f"repository {name}" in words
    for path in ("f0.cpp", "f1.cpp", "f2.cpp", r"f\xfc0.cpp"):
        assert path in words
    made = {
        tuple(artefact.manifest.labels.values()) for artefact in Store(home).artefacts("documents")
    }
    assert {name for _, name in made} == {"good"}
    assert {family for family, _ in made} >= {"v2_simple", "v4_context_graph"}


def test_documents_of_a_corpus_that_allows_more_are_refused_by_one_that_allows_less(
    tmp_path: Path,
) -> None:
    """Another corpus of the workspace doesn't change what a build accepts."""
    home, asked = tmp_path / "home", corpus((folder(tmp_path / "latin", broken=3),))
    built(home, asked.model_copy(update={"max_skipped": 0.5}))
    for place in (home, tmp_path / "fresh"):
        with pytest.raises(CorpusError) as refused:
            built(place, asked)
        assert "latin" in refused.value.name
        assert "max_skipped allows 1.0%" in refused.value.cause
        assert "encoding 3" in str(refused.value.value)


def test_sources_that_fail_are_skipped_where_the_corpus_says_so(
    tmp_path: Path, repositories: tuple[RepositorySpec, ...]
) -> None:
    home = tmp_path / "home"
    found = built(home, corpus(repositories, on_error="skip"))
    reports = {
        (
            artefact.manifest.labels["repository"],
            artefact.manifest.labels["family"],
        ): artefact.reported(DocumentsReport)
        for artefact in found.documents
    }
    assert reports["good", "v2_simple"].documents == 40
    assert reports["good", "v4_context_graph"].documents > 0
    for name in ("latin", "odd", "lost"):
        assert reports[name, "v2_simple"].documents == 0
        assert name in reports[name, "v2_simple"].lacks
        assert (name, "v4_context_graph") not in reports
    warned = [*lack_warnings(found)]
    assert len(warned) == 3, "one a repository"
    again = built(home, corpus(repositories, on_error="skip"))
    assert not any(artefact.made for artefact in again.artefacts())


def test_an_excluded_file_is_not_lost_whatever_its_name(tmp_path: Path) -> None:
    odd = folder(tmp_path / "odd", odd=6).model_copy(update={"exclude": ("f[!0-9]*.cpp",)})
    found = built(tmp_path / "home", corpus((odd,)))
    assert found.documents[0].reported(DocumentsReport).documents == 40


def test_lost_conversations_are_skipped_as_repositories_are(tmp_path: Path) -> None:
    file = tmp_path / "talks.jsonl"
    file.write_text("no conversation\n" * 3)
    good = folder(tmp_path / "good")
    talks = ConversationsSpec(name="talks", path=str(file))
    asked = corpus((good,), on_error="skip").model_copy(update={"conversations": (talks,)})
    found = build(
        Store(tmp_path / "home"),
        asked,
        [WANTED[0], RowsSpec(family=CHAT_FAMILY, objective="chat", row_length=512)],
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=400),
    )
    (chats,) = (
        artefact
        for artefact in found.documents
        if artefact.manifest.labels["family"] == CHAT_FAMILY
    )
    assert "talks" in chats.reported(DocumentsReport).lacks
    shutil.rmtree(tmp_path / "home")


def test_a_corpus_of_which_everything_is_skipped_is_refused(
    tmp_path: Path, repositories: tuple[RepositorySpec, ...]
) -> None:
    with pytest.raises(CorpusError, match="is skipped"):
        built(tmp_path / "home", corpus(repositories[:3], on_error="skip"))


def tree_bomb(path: Path) -> RepositorySpec:
    """A repository whose newest commit has a thousand paths in a kilobyte."""
    built = Built(path=path)
    path.mkdir()
    built.git("init", "--quiet", "--initial-branch=main", "--template=")
    built.commit(a_cc="int a;\n")
    tree = nested(built, width=10, depth=3, leaf=files(built))
    built.git("update-ref", "HEAD", commit_of(built, tree, built.ids[-1]))
    return RepositorySpec(name=path.name, path=str(path))


def test_a_pinned_tree_bomb_is_refused_or_skipped_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = (tree_bomb(tmp_path / "bomb"), folder(tmp_path / "good"))
    whole = built(tmp_path / "whole", corpus(specs))
    assert {"bomb", "good"} == {each.manifest.labels["repository"] for each in whole.documents}
    monkeypatch.setattr(git, "MAX_OUTPUT_BYTES", 30_000)
    with pytest.raises(CorpusError) as refused:
        built(tmp_path / "stopped", corpus(specs))
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=tmp_path / "bomb",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    assert commit in str(refused.value)
    assert refused.value.cure
    found = built(tmp_path / "skipped", corpus(specs, on_error="skip"))
    lacks = {
        each.manifest.labels["repository"]: each.reported(DocumentsReport).lacks
        for each in found.documents
    }
    assert lacks["good"] == ""
    assert commit in lacks["bomb"]
    (warning,) = lack_warnings(found)
    assert "bomb" in warning
