"""YAML that would take memory or time: refused with file and cure, within both."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from curriculum.corpus.load import corpus_names, load_corpus
from curriculum.mixing.diet_files import diet_names, load_diet, load_phases, phases_files
from schemas import text
from schemas.errors import CurriculumError, DietError
from schemas.text import MAX_NODES, MAX_TEXT, read_yaml, text_of
from tests.bounded import bounded

READERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "diets": (lambda home: load_diet("x", home=home), diet_names),
    "corpora": (lambda home: load_corpus("x", home), corpus_names),
    "phases": (lambda home: load_phases("x", home), phases_files),
}


def _sparse(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(20 << 30)


KINDS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "fifo": os.mkfifo,
    "device": lambda file: file.symlink_to("/dev/zero"),
    "loop": lambda file: file.symlink_to(file),
    "sparse": _sparse,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("folder", READERS)
def test_what_is_no_small_file_is_refused_by_name(tmp_path: Path, folder: str, kind: str) -> None:
    load, names = READERS[folder]
    file = tmp_path / folder / "x.yaml"
    file.parent.mkdir()
    KINDS[kind](file)
    assert "x" in names(tmp_path)  # type: ignore[operator]
    with bounded(seconds=1, mebibytes=8), pytest.raises(CurriculumError) as refused:
        load(tmp_path)
    assert str(file) == refused.value.name
    assert refused.value.cure


def aliases(levels: int) -> str:
    lines = ["a0: &a0 x"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, levels)
    ]
    return "\n".join(lines)


DEEP = "a: " + "[" * 900 + "]" * 900
WIDE = "a: [" + "1," * (MAX_TEXT // 2 - 10) + "1]"
BOMBS = {
    "aliases": aliases(20),
    "merge keys": "a: &a {x: 1}\nb: {<<: [" + "*a, " * 10_000 + "*a]}",
    "deep flow": "a: " + "[" * (MAX_TEXT // 2),
    "deep block": "a:\n" + "".join(f"{' ' * depth}- \n" for depth in range(1, 1000)),
    "deep dashes": "a:\n " + "- " * (MAX_TEXT // 4) + "x",
    "wide": WIDE,
    "keys": "\n".join(f"k{number}: 1" for number in range(80_000)),
    "long": "a: " + "x" * MAX_TEXT,
    "indents": "a:\n" + " " * (MAX_TEXT // 10) + "b: *x",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_yaml_bomb_is_refused_within_time_and_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_NODES", MAX_NODES // 25)
    with bounded(seconds=2, mebibytes=16), pytest.raises(DietError) as refused:
        read_yaml(BOMBS[name], file="bomb.yaml", error=DietError)
    assert refused.value.name.startswith("bomb.yaml")
    assert refused.value.cure


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wide", "keys"])
def test_many_values_are_refused_within_time_and_memory(name: str) -> None:
    with bounded(seconds=30, mebibytes=200), pytest.raises(DietError):
        read_yaml(BOMBS[name], file="bomb.yaml", error=DietError)


def test_the_bombs_go_off_in_a_reader_without_limits() -> None:
    with pytest.raises(RecursionError):
        yaml.safe_load(DEEP)
    expanded = repr(yaml.safe_load(aliases(6)))
    assert len(expanded) > 9**5 > 100 * len(aliases(6))


def test_a_reader_without_a_limit_of_values_takes_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    values = f"a: [{'1,' * 4_000}1]"
    assert len(read_yaml(values, file="x.yaml", error=DietError).content["a"]) == 4_001
    monkeypatch.setattr(text, "MAX_NODES", 4_000)
    with pytest.raises(DietError):
        read_yaml(values, file="x.yaml", error=DietError)


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: 1\n" * 10)
    assert text_of(file, error=DietError) == "a: 1\n" * 10
    file.write_bytes(b"a" * (4 * MAX_TEXT + 1))
    with bounded(seconds=1, mebibytes=1), pytest.raises(DietError):
        text_of(file, error=DietError)


NUMBERS = {
    "beyond C": ('a: 1\nb: "\\UFFFFFFFF"', 2),
    "beyond Unicode": ('a: 1\nb:\n- "\\U00110000"', 3),
    "a name": ('"\\U00110000": 1', 1),
    "a directive": (f"%YAML {'1' * 5_000}.1\n---\na: 1", 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_yaml_cannot_hold_is_refused_on_its_line(name: str) -> None:
    written, line = NUMBERS[name]
    with pytest.raises((ValueError, OverflowError)):
        yaml.safe_load(written)
    with pytest.raises(DietError) as refused:
        read_yaml(written, file="x.yaml", error=DietError)
    assert refused.value.name == f"x.yaml:{line}"


def test_the_last_character_of_unicode_is_read() -> None:
    assert read_yaml('a: "\\U0010FFFF"', file="x.yaml", error=DietError).content == {
        "a": "\U0010ffff"
    }
