"""Databases of other places, of other compilers and of no use at all; none of it needs libclang."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.clang import Database, read_database
from curriculum.graph.clang import database as database_module
from curriculum.graph.clang.database import read_flags, resolve_placeholder
from schemas.errors import CorpusError
from tests.error_fields import fields

PATHS = (
    "db/impl.cc",
    "util/env.cc",
    "util/env.h",
    "include/leveldb/db.h",
    "third_party/db/impl.cc",
)


def read(
    folder: Path, entries: object, *, paths: Sequence[str] = PATHS, original: Path | None = None
) -> Database:
    file = folder / "compile_commands.json"
    file.write_text(json.dumps(entries))
    return read_database(file, paths, original=original)


def entry(command: str | list[str], file: str = "db/impl.cc", at: str = "/src/leveldb") -> Any:
    form = "command" if isinstance(command, str) else "arguments"
    return {"directory": at, form: command, "file": file}


def arguments(folder: Path, command: str | list[str]) -> tuple[str, ...]:
    (unit,) = read(folder, [entry(command)]).units
    return unit.arguments


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    command = 'g++ -std=c++17 -Iinclude "-DNAME=a b" -DTEXT=\\"x\\" -c db/impl.cc -o build/impl.o'
    words = ["g++", "-std=c++17", "-Iinclude", "-DNAME=a b", '-DTEXT="x"', "-c", "db/impl.cc"]
    one, other = (read(tmp_path, [entry(each)]).units for each in (command, words))
    assert one == other
    (unit,) = one
    assert (unit.path, unit.language, unit.standard) == ("db/impl.cc", "c++", "c++17")
    assert unit.arguments == ("-I", "@ROOT@/include", "-DNAME=a b", '-DTEXT="x"')


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["-I", "include"], ("-I", "@ROOT@/include")),
        (["-isystem", "include/leveldb/.."], ("-isystem", "@ROOT@/include")),
        (["-I/src/leveldb"], ("-I", "@ROOT@")),
        (["-I/nowhere/at/all"], ()),
        (["-include", "util/env.h"], ("-include", "@ROOT@/util/env.h")),
        (["-include", "absent.h"], ("-include", "absent.h")),
        (["-D", "A", "-UB"], ("-DA", "-UB")),
        (["-Xclang", "-include-pch", "-Xclang", "x.pch", "-DA"], ("-DA",)),
        (["-MD", "-MF", "-I", "-MT", "x", "-O2", "-Wall", "-Werror", "-fPIC", "-march=native"], ()),
        (["-fno-rtti", "-mavx2", "-pthread"], ("-fno-rtti", "-mavx2", "-pthread")),
        (["-I"], ()),
    ],
)
def test_only_flags_that_decide_a_meaning_are_kept(
    tmp_path: Path, words: list[str], kept: tuple[str, ...]
) -> None:
    assert arguments(tmp_path, ["c++", *words, "-c", "db/impl.cc", "-o", "impl.o"]) == kept


@pytest.mark.parametrize(
    ("compiler", "file", "language"),
    [
        ("gcc", "a.c", "c"),
        ("g++", "a.c", "c++"),
        ("/usr/bin/x86_64-linux-gnu-gcc-12", "a.c", "c"),
        ("clang++-17", "a.cc", "c++"),
        ("cc", "a.cpp", "c++"),
        ("nvcc", "a.cu", None),
        ("nvcc", "a.cpp", None),
        ("cl.exe", "a.cpp", None),
        ("clang-cl", "a.cpp", None),
        ("nvc++", "a.cpp", None),
        ("gcc", "a.S", None),
        ("clang", "a.mm", None),
    ],
)
def test_compilers_and_languages_that_libclang_does_not_stand_for_are_counted(
    tmp_path: Path, compiler: str, file: str, language: str | None
) -> None:
    database = read(tmp_path, [entry([compiler, "-c", file], file)], paths=(file,))
    if language is None:
        assert database.units == ()
        assert database.count.not_understood == 1
    else:
        assert [unit.language for unit in database.units] == [language]


def test_a_launcher_before_the_compiler_is_passed_over(tmp_path: Path) -> None:
    assert arguments(tmp_path, "ccache distcc g++ -DA -c db/impl.cc") == ("-DA",)


@pytest.mark.parametrize("flag", ["-xc", "-x c", "-x c++ -std=c11"])
def test_a_standard_of_the_other_language_is_none(tmp_path: Path, flag: str) -> None:
    (unit,) = read(tmp_path, [entry(f"g++ -std=gnu++20 {flag} -c db/impl.cc")]).units
    assert unit.standard is None


def test_a_database_of_another_place_is_placed_by_its_files(tmp_path: Path) -> None:
    far = "/home/somebody/leveldb"
    database = read(
        tmp_path,
        [
            entry(f"c++ -I{far}/include -c {far}/db/impl.cc", f"{far}/db/impl.cc", f"{far}/build"),
            entry("c++ -I../include -c ../util/env.cc", "../util/env.cc", f"{far}/build"),
        ],
    )
    assert [unit.path for unit in database.units] == ["db/impl.cc", "util/env.cc"]
    assert {unit.arguments for unit in database.units} == {("-I", "@ROOT@/include")}


def test_the_shipped_placeholder_stands_for_the_root(tmp_path: Path) -> None:
    database = read(
        tmp_path, [entry("c++ -I@ROOT@/include -c db/impl.cc", "@ROOT@/db/impl.cc", "@ROOT@")]
    )
    assert [unit.arguments for unit in database.units] == [("-I", "@ROOT@/include")]


def test_headers_that_a_build_made_are_found_where_it_made_them(tmp_path: Path) -> None:
    work, build = tmp_path / "work", tmp_path / "elsewhere" / "build"
    for folder in (work / "include", work / "generated", build / "include"):
        folder.mkdir(parents=True)
    (work / "generated" / "config.h").write_text("#define A 1\n")
    command = f"c++ -Iinclude -Igenerated -I{build}/include -c db/impl.cc"
    database = read(tmp_path, [entry(command, at=str(work)), entry("c++ -c x", "x", str(build))])
    (unit,) = database.units
    assert unit.arguments == (
        *("-I", "@ROOT@/include", "-I", "@ORIGINAL@/include"),
        *("-I", "@ORIGINAL@/generated", "-I", "@BUILD@/include"),
    )
    assert resolve_placeholder(unit.arguments[5], database.places) == str(work / "generated")
    assert resolve_placeholder(unit.arguments[7], database.places) == str(build / "include")


def test_the_fingerprint_follows_meaning_and_not_places(tmp_path: Path) -> None:
    prints = []
    for name in ("one", "two"):
        work = tmp_path / name
        (work / "include").mkdir(parents=True)
        database = read(tmp_path, [entry("c++ -Iinclude -c db/impl.cc", at=str(work))])
        prints.append(database.fingerprint(PATHS))
    nowhere = read(tmp_path, [entry("c++ -Iinclude -c db/impl.cc")])
    assert {*prints, nowhere.fingerprint(PATHS)} == {prints[0]}
    (tmp_path / "two" / "include" / "config.h").write_text("#define A 1\n")
    assert database.fingerprint(PATHS) != prints[0]
    assert database.fingerprint((*PATHS, "include/config.h")) == prints[0]
    flag = read(tmp_path, [entry("c++ -DA -Iinclude -c db/impl.cc", at=str(work))])
    assert flag.fingerprint((*PATHS, "include/config.h")) != prints[0]


def test_response_files_stand_for_their_words(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.rsp").write_text('-DA "-DB=x y"\n@b.rsp')
    (work / "b.rsp").write_text("-DC @a.rsp @absent.rsp")
    database = read(tmp_path, [entry("c++ @a.rsp -c db/impl.cc", at=str(work))])
    (unit,) = database.units
    assert unit.arguments[:3] == ("-DA", "-DB=x y", "-DC")
    assert set(unit.arguments) == {"-DA", "-DB=x y", "-DC"}
    assert database.count.missing_response_files > 0


def test_every_entry_is_accounted_for(tmp_path: Path) -> None:
    database = read(
        tmp_path,
        [
            entry("c++ -DFIRST -c db/impl.cc"),
            entry("c++ -DSECOND -c db/impl.cc"),
            entry("c++ -c util/env.cc", "util/env.cc"),
            entry("c++ -c util/gone.cc", "util/gone.cc"),
            entry("c++ -c /usr/src/x.cc", "/usr/src/x.cc"),
            entry("nvcc -c util/env.cc", "util/env.cc"),
            entry("c++ 'unmatched", "util/env.cc"),
        ],
    )
    count = database.count
    files = [[unit.path for unit in units] for units in database.files()]
    assert files == [["db/impl.cc", "db/impl.cc"], ["util/env.cc"]]
    assert [unit.arguments for unit in database.units] == [("-DFIRST",), ("-DSECOND",), ()]
    assert (count.entries, count.matched, count.duplicates) == (7, 2, 1)
    assert (count.missing, count.not_understood) == (2, 2)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "isn't valid JSON"),
        ("[{", "isn't valid JSON"),
        ("\xff\xfe", "isn't valid JSON"),
        ("[" * 100_000, "isn't valid JSON"),
        ("{}", "must be a list"),
        ("[1]", "entry 0"),
        ('[{"file": "a.c"}]', "entry 0"),
        ('[{"file": "a.c", "directory": 1, "command": "cc"}]', "entry 0"),
        ('[{"file": "a.c", "directory": "/", "arguments": ["cc", 1]}]', "entry 0"),
        ('[{"file": "a.c", "directory": "/"}]', "entry 0"),
    ],
)
def test_a_broken_database_is_named_with_its_cause(tmp_path: Path, text: str, cause: str) -> None:
    file = tmp_path / "compile_commands.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(CorpusError, match=cause) as caught:
        read_database(file, PATHS, original=None)
    assert str(file) in str(caught.value)


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, check=fields(name=tmp_path / "absent.json")):
        read_database(tmp_path / "absent.json", PATHS, original=None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["file", "directory", "command", "arguments"]), inner)
    ),
    max_leaves=12,
)


@given(value=JSON)
def test_no_json_whatever_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    folder = tmp_path_factory.mktemp("any")
    try:
        database = read(folder, value)
    except CorpusError:
        return
    count = database.count
    lost = count.duplicates + count.missing + count.not_understood
    assert count.entries == count.matched + lost


@given(
    words=st.lists(st.sampled_from(["-I", "-D", "-x", "-o", "-Xclang", "-std=c++17", "a", "@x"]))
)
def test_no_command_line_whatever_breaks_the_reader(words: list[str]) -> None:
    flags = read_flags(words, "a.cc", is_cpp=True)
    assert all(kept.value for kept in flags.kept)


pytestmark = pytest.mark.timeout(60)


def database(folder: Path, **changes: Any) -> Path:
    unit = {"directory": "/src", "file": "a.cc", "command": "c++ -c a.cc"}
    (folder / "compile_commands.json").write_text(json.dumps([unit | changes]))
    return folder / "compile_commands.json"


def test_a_folder_whose_name_is_too_long_is_none(tmp_path: Path) -> None:
    for name in ("x" * 100_000, f"/{'x' * 300}"):
        file = database(tmp_path, directory=name, file=f"{name}/a.cc")
        read_database(file, ["a.cc"], original=None)


def test_a_response_file_that_names_itself_twice_is_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "twice").write_text("@twice " * 50)
    file = database(tmp_path, directory=str(tmp_path), command="c++ @twice -c a.cc")
    found = read_database(file, ["a.cc"], original=tmp_path)
    assert 0 < found.count.missing_response_files < 10_000


def test_a_pipe_as_response_file_is_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "words")
    file = database(tmp_path, directory=str(tmp_path), command="c++ @words -c a.cc")
    found = read_database(file, ["a.cc"], original=tmp_path)
    assert found.count.missing_response_files == 1


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[NaN]", "[" + "9" * 5_000 + "]", '[{"a":1,"a":2}]']
)
def test_what_is_no_strict_json_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "compile_commands.json"
    file.write_text(text)
    with pytest.raises(CorpusError, match="JSON", check=fields(name=file)):
        read_database(file, ["a.cc"], original=None)


@pytest.mark.parametrize("swap", ["config.h", "."])
def test_a_header_that_a_link_replaces_once_it_was_found_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    work, private, copies = tmp_path / "work", tmp_path / "private", tmp_path / "copies"
    for folder in (work / "include", private, copies):
        folder.mkdir(parents=True)
    (work / "include" / "config.h").write_text("#define A 1\n")
    (private / "config.h").write_text("#define SECRET 1\n")
    database = read(work, [entry("c++ -Iinclude -c db/impl.cc", at=str(work))], original=work)
    before, find = database.fingerprint(PATHS), database_module._headers
    database.copy_headers(PATHS, copies)
    (copy,) = copies.rglob("config.h")
    assert copy.read_text() == "#define A 1\n"
    copy.unlink()

    def raced(place: Path) -> Iterator[Path]:
        found = [*find(place)]
        link = place / swap
        if not link.is_symlink():
            link.rename(tmp_path / "before")
            link.symlink_to(private / swap)
        yield from found

    monkeypatch.setattr(database_module, "_headers", raced)
    database.copy_headers(PATHS, copies)
    assert [*copies.rglob("config.h")] == []
    assert (work / "include" / "config.h").read_text() == "#define SECRET 1\n", "it came in time"
    assert database.fingerprint(PATHS) != before


@pytest.mark.parametrize("bound", ["MAX_GENERATED", "MAX_GENERATED_BYTES"])
def test_headers_without_end_beside_the_tree_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    work, copies = tmp_path / "work", tmp_path / "copies"
    for folder in (work / "include", copies):
        folder.mkdir(parents=True)
    for number in range(3):
        (work / "include" / f"{number}.h").write_text("#define A 1\n")
    database = read(work, [entry("c++ -Iinclude -c db/impl.cc", at=str(work))], original=work)
    database.copy_headers(PATHS, copies)
    assert len([*copies.rglob("*.h")]) == 3
    monkeypatch.setattr(database_module, bound, 2)
    for look in (database.fingerprint, lambda paths: database.copy_headers(paths, copies)):
        with pytest.raises(CorpusError):
            look(PATHS)


def test_a_response_file_that_a_link_replaces_once_it_was_found_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, private = tmp_path / "work", tmp_path / "private"
    for folder in (work, private):
        folder.mkdir()
        (folder / "flags").write_text(f"-DOF_{folder.name}=1")
    command = [entry("c++ @flags -c db/impl.cc", at=str(work))]
    (unit,) = read(work, command, original=work).units
    assert unit.arguments == ("-DOF_work=1",)
    resolve = Path.resolve

    def raced(path: Path, *, strict: bool = False) -> Path:
        found = resolve(path, strict=strict)
        if path == work / "flags" and not path.is_symlink():
            path.unlink()
            path.symlink_to(private / "flags")
        return found

    monkeypatch.setattr(Path, "resolve", raced)
    database = read(work, command, original=work)
    assert (database.units[0].arguments, database.count.missing_response_files) == ((), 1)
    assert (work / "flags").read_text() == "-DOF_private=1", "the swap came in time"
