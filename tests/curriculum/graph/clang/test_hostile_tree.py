"""A repository with a compilation database of its own reads nothing outside of its tree through libclang."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from curriculum.graph.clang import GraphSnapshot, clang_index, index_tree, libclang
from curriculum.sandbox import landlock
from schemas.reports import IndexReport
from tests.curriculum.graph.clang.conftest import write_tree

pytestmark = [
    pytest.mark.clang,
    pytest.mark.skipif(not landlock(), reason="needs Landlock"),
]
CALLS = "int unit() { return from_secret(); }\n"
HAS = '#if __has_include("{outside}/secret.h")\nint it_is_there() { return 1; }\n#endif\n'
ATTACKS = {
    "an absolute include": ('#include "{outside}/secret.h"\n' + CALLS, ""),
    "a step out of the tree": ('#include "../outside/secret.h"\n' + CALLS, ""),
    "a link in the tree": ('#include "link.h"\n' + CALLS, ""),
    "a folder of includes": ("#include <secret.h>\n" + CALLS, "-I{outside}"),
    "a relative folder of includes": ("#include <secret.h>\n" + CALLS, "-I../outside"),
    "a system folder of includes": ("#include <secret.h>\n" + CALLS, "-isystem {outside}"),
    "a forced include": (CALLS, "-include {outside}/secret.h"),
    "forced macros": ("int unit() { return FROM_SECRET; }\n", "-imacros {outside}/secret.h"),
    "another root of the system": ("#include <secret.h>\n" + CALLS, "--sysroot={outside}"),
}


def indexed(
    folder: Path, text: str, flags: str, *, unsandboxed: bool
) -> tuple[IndexReport, set[str]]:
    """The report of an index of one unit, and the names of its functions."""
    outside, root, out = folder / "outside", folder / "tree", folder / f"index-{unsandboxed}"
    for place in (outside / "usr" / "include", root, out):
        place.mkdir(parents=True, exist_ok=True)
    secret = "#define FROM_SECRET 1\ninline int from_secret() { return 1; }\n"
    for place in (outside, outside / "usr" / "include"):
        (place / "secret.h").write_text(secret)
    (root / "a.cpp").write_text(text.replace("{outside}", str(outside)))
    if not (root / "link.h").is_symlink():
        (root / "link.h").symlink_to(outside / "secret.h")
    command = f"c++ {flags} -c a.cpp".replace("{outside}", str(outside))
    database = root / "compile_commands.json"
    database.write_text(json.dumps([{"directory": str(root), "file": "a.cpp", "command": command}]))
    report = index_tree(root, database, out, original=root, workers=1, unsandboxed=unsandboxed)
    return report, {function.name for function in GraphSnapshot.open(out).functions}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_header_outside_of_the_tree_is_not_read(tmp_path: Path, name: str) -> None:
    refused, _ = indexed(tmp_path, *ATTACKS[name], unsandboxed=False)
    assert (refused.indexed, refused.partial) == (0, 1)
    read, _ = indexed(tmp_path, *ATTACKS[name], unsandboxed=True)
    assert (read.indexed, read.partial) == (1, 0)


def test_whether_a_file_exists_decides_no_code(tmp_path: Path) -> None:
    assert "it_is_there" not in indexed(tmp_path, HAS, "", unsandboxed=False)[1]
    assert "it_is_there" in indexed(tmp_path, HAS, "", unsandboxed=True)[1]


@pytest.mark.timeout(60)
def test_random_bytes_without_an_end_are_no_header(tmp_path: Path) -> None:
    text = '#include "/dev/urandom"\nint unit() { return 1; }\n'
    report, names = indexed(tmp_path, text, "", unsandboxed=False)
    assert (report.partial, names) == (1, {"unit"})


@pytest.mark.timeout(60)
def test_a_device_without_an_end_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '#include "/dev/zero"\nint unit() { return 1; }\n'
    report, names = indexed(tmp_path, text, "", unsandboxed=False)
    assert (report.partial, names) == (1, {"unit"})
    monkeypatch.setattr(clang_index, "SYSTEM_HEADERS", (*clang_index.SYSTEM_HEADERS, "/dev/zero"))
    monkeypatch.setattr(clang_index, "UNIT_MEMORY_BYTES", 1 << 29)
    report, names = indexed(tmp_path, text, "", unsandboxed=False)
    assert (report.partial, names) == (0, set())


@pytest.mark.parametrize(
    ("holder", "named", "whole"),
    [("build", "build", {"a.cpp"}), ("build", "private", set()), ("private", "private", {"b.cpp"})],
)
def test_a_database_reaches_headers_beside_itself_and_no_folder_that_it_names(
    tmp_path: Path, holder: str, named: str, whole: set[str]
) -> None:
    tree, out = tmp_path / "tree", tmp_path / "index"
    out.mkdir()
    files = {}
    for unit, folder in (("a", "build"), ("b", "private")):
        (tmp_path / folder / "include").mkdir(parents=True)
        (tmp_path / folder / "include" / f"{folder}.h").write_text("inline int f() { return 1; }\n")
        files[f"{unit}.cpp"] = f"#include <{folder}.h>\nint {unit}() {{ return f(); }}\n"
    write_tree(tree, files)
    flags = f"-I{tmp_path}/build/include -I{tmp_path}/private/include"
    entries = [
        {
            "directory": str(tmp_path / named),
            "file": str(tree / name),
            "command": f"c++ {flags} -c {tree / name}",
        }
        for name in files
    ]
    database = tmp_path / holder / "compile_commands.json"
    database.write_text(json.dumps(entries))
    report = index_tree(tree, database, out, original=tree, workers=1)
    assert files.keys() - {problem.path for problem in report.problems} == whole


def test_a_response_file_outside_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "flags").write_text("-DFROM_SECRET=1")
    text = "int unit() { return FROM_SECRET; }\n"
    report, _ = indexed(tmp_path, text, "@{outside}/flags", unsandboxed=False)
    assert (report.partial, report.database.missing_response_files) == (1, 1)
    (tmp_path / "tree" / "flags").write_text("-DFROM_SECRET=1")
    report, _ = indexed(tmp_path, text, "@flags", unsandboxed=False)
    assert (report.indexed, report.database.missing_response_files) == (1, 0)


def test_the_library_takes_no_other_library_of_the_current_folder(tmp_path: Path) -> None:
    """A clone may hold librt.so.1; what is no library at all ends whoever takes it for one."""
    (tmp_path / "librt.so.1").touch()
    script = Path(str(libclang.__file__))
    done = subprocess.run(
        [sys.executable, "-P", str(script)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == libclang.standard_library(), done.stderr
    bare = f"import ctypes; ctypes.CDLL({libclang.library()._name!r})"
    control = subprocess.run(
        [sys.executable, "-P", "-c", bare], cwd=tmp_path, capture_output=True, text=True
    )
    assert "librt.so.1" in control.stderr
