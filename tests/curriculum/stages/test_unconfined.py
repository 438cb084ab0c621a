"""Without Landlock, libclang parses only the shipped sample and what --unsandboxed allows."""

import json
import shutil
from pathlib import Path

import pytest

from curriculum.corpus.load import load_corpus
from curriculum.corpus.sources import Sources
from curriculum.graph import clang
from curriculum.stages import Indexing, indexes
from curriculum.stages.documents import repositories
from curriculum.stages.indexes import make_indexes
from curriculum.stages.stage import Coordinator
from curriculum.store import Store
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.errors import CorpusError

pytestmark = [
    pytest.mark.clang,
    pytest.mark.skipif(clang.missing() is not None, reason="needs libclang"),
]


def foreign_repository(folder: Path) -> RepositorySpec:
    folder.mkdir()
    (folder / "a.cpp").write_text("int a() { return 1; }\n")
    entry = {"directory": str(folder), "file": "a.cpp", "command": "c++ -c a.cpp"}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return RepositorySpec(name="foreign", path=str(folder))


def indexed(home: Path, spec: RepositorySpec, *, unsandboxed: bool = False) -> int:
    corpus = CorpusSpec(name="c", repositories=(spec,))
    made = make_indexes(
        Coordinator(store=Store(home)),
        repositories(corpus, Sources.from_workspace(home)),
        indexing=Indexing(unsandboxed=unsandboxed),
    )
    return sum(index.artefact is not None for index in made)


def test_a_repository_from_elsewhere_is_indexed_only_where_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "landlock", lambda: 0)
    spec = foreign_repository(tmp_path / "foreign")
    with pytest.raises(CorpusError) as refused:
        indexed(tmp_path / "home", spec)
    assert "foreign" in refused.value.name
    assert "Landlock" in refused.value.cause
    assert "--unsandboxed" in refused.value.cure
    assert indexed(tmp_path / "home", spec, unsandboxed=True) == 1


def test_the_shipped_sample_is_indexed_everywhere_and_a_copy_of_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "landlock", lambda: 0)
    spec = next(each for each in load_corpus("sample").repositories if each.name == "ringlog")
    assert indexed(tmp_path / "home", spec) == 1
    assert spec.path
    copy = shutil.copy(spec.path, tmp_path / "ringlog.bundle")
    with pytest.raises(CorpusError):
        indexed(tmp_path / "other", spec.model_copy(update={"path": str(copy)}))


def test_a_database_behind_a_link_out_of_its_repository_is_used_where_it_is_named_alone(
    tmp_path: Path,
) -> None:
    """Headers beside it would come in: the link may lead into a private folder."""
    spec, private = foreign_repository(tmp_path / "foreign"), tmp_path / "private"
    private.mkdir()
    link = tmp_path / "foreign" / "compile_commands.json"
    file = link.rename(private / link.name)
    link.symlink_to(file)
    with pytest.raises(CorpusError) as refused:
        indexed(tmp_path / "home", spec, unsandboxed=True)
    assert refused.value.value == f"{link} is a link to {file}"
    named = spec.model_copy(update={"compile_commands": str(link)})
    assert indexed(tmp_path / "home", named, unsandboxed=True) == 1
    link.unlink()
    link.symlink_to(file.rename(tmp_path / "foreign" / "own.json"))
    assert indexed(tmp_path / "home", spec, unsandboxed=True) == 1
