"""Binary files that clang would load in place of a header, or as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import export_tree
from curriculum.graph.clang import GraphSnapshot, index_tree
from schemas.corpus import RepositorySpec
from tests.curriculum.corpus.conftest import Built

NAMES = ("a.h.pch", "a.h.gch", "a.h.gch.d/x.pcm", "sub/A.H.PCH", "b.h.gch/any", "m.ast", "i.hmap")


def write(root: Path) -> None:
    for name in ("a.h", "main.cc", "gch", "pch/kept.h", *NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("int a;\n")


@pytest.mark.parametrize("is_git", [True, False])
def test_precompiled_headers_are_not_exported(tmp_path: Path, *, is_git: bool) -> None:
    root, tree = tmp_path / "repo", tmp_path / "tree"
    write(root)
    if is_git:
        built = Built(path=root)
        built.git("init", "--quiet", "--initial-branch=main", "--template=")
        built.commit()
    spec = RepositorySpec(name="repo", path=str(root))
    export_tree(resolve(spec, cache=tmp_path / "cache"), tree)
    exported = {file.relative_to(tree).as_posix() for file in tree.rglob("*") if file.is_file()}
    assert exported == {"a.h", "main.cc", "gch", "pch/kept.h"}


@pytest.fixture
def forged(tmp_path: Path) -> Any:
    """A work tree whose a.h.pch, a.h.gch and b.h.gch/any are the beginning of a precompiled header."""
    from clang import cindex

    from curriculum.graph.clang.libclang import library

    library()
    root = tmp_path / "work"
    root.mkdir()
    for name in ("a.h", "b.h", "c.h"):
        (root / name).write_text("inline int from_text() { return 1; }\n")
    (root / "main.cc").write_text("int main() { return from_text(); }\n")
    unit = cindex.Index.create().parse(str(root / "c.h"), ["-x", "c++-header"])
    unit.save(str(tmp_path / "made"))
    content = (tmp_path / "made").read_bytes()[:2000]
    (root / "b.h.gch").mkdir()
    for name in ("a.h.pch", "b.h.gch/any", "c.h.gch"):
        (root / name).write_bytes(content)
    return root


@pytest.mark.clang
@pytest.mark.parametrize("header", ["a.h", "b.h", "c.h"])
def test_an_included_header_is_text_whatever_lies_beside_it(
    forged: Path, tmp_path: Path, header: str
) -> None:
    from curriculum.graph.clang.libclang import parse

    unit, at = str(forged / "main.cc"), str(forged / header)
    assert (
        parse(unit, ["-x", "c++", "-include", at]) is None
    )  # clang tries the binary, and gives up
    database, folder = tmp_path / "compile_commands.json", tmp_path / "index"
    command = f"c++ -include {header} -c main.cc"
    database.write_text(json.dumps([{"directory": str(forged), "file": unit, "command": command}]))
    folder.mkdir()
    report = index_tree(forged, database, folder, original=None, workers=1)
    assert (report.indexed, report.problems) == (1, ())
    names = {node.name for node in GraphSnapshot.open(folder).nodes}
    assert names == {"from_text", "main"}
