"""Names and texts in the field's words: tests/language.txt lists what the tree doesn't say."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards", "benchmarks", "tests")
SECTION = re.compile(r"^\[(.+)\]$")
LAST_FREE_SUBJECT = "9f6ce83151e8"
"""The last commit that was made before subjects had rules."""


@cache
def _sections() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in (ROOT / "tests" / "language.txt").read_text().splitlines():
        if match := SECTION.match(line):
            found[match[1].split()[0]] = lines = []
        elif line and not line.startswith("#"):
            lines.append(line.partition(":")[0])
    return {name: tuple(lines) for name, lines in found.items()}


@cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return tuple((file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())) for file in files)


def _names() -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each module, class and function."""
    for file, tree in _trees():
        yield file, Path(file).stem
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file}:{node.lineno}", node.name.strip("_")


def _docstrings() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each string that stands alone: docstrings of all kinds."""
    for file, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                text = node.value.value
                if isinstance(text, str):
                    yield f"{file}:{node.lineno}", text


def _texts() -> Iterator[tuple[str, str]]:
    """Yield docstrings, which hold the help of commands and fields, then pages and documents."""
    yield from _docstrings()
    for pattern in ("*.md", "docs/*.md", "dashboards/templates/*", "dashboards/queries/**/*.sql"):
        for file in sorted(ROOT.glob(pattern)):
            yield file.relative_to(ROOT).as_posix(), file.read_text()


def test_no_module_class_or_function_has_a_private_name() -> None:
    private = set(_sections()["names"])
    assert len(private) > 80
    assert [(place, name) for place, name in _names() if name in private] == []


def test_no_text_has_a_private_word() -> None:
    words = _sections()["words"]
    assert 10 < len(words) <= 40
    pattern = re.compile(rf"\b({'|'.join(words)})\b", re.IGNORECASE)
    found = [(place, match[0]) for place, text in _texts() for match in pattern.finditer(text)]
    assert found == []


def test_no_name_of_a_test_has_a_private_word() -> None:
    words = set(_sections()["words"])
    assert [(place, name) for place, name in _names() if words.intersection(name.split("_"))] == []


def test_every_docstring_opens_with_an_imperative_or_a_noun_phrase() -> None:
    openers = set(_sections()["first"])
    texts = list(_docstrings())
    assert len(texts) > 3_000
    assert [
        (place, text.split("\n")[0])
        for place, text in texts
        if re.split(r"[ ,.:;]", text.strip(), maxsplit=1)[0].strip("`") in openers
    ] == []


def _subjects() -> list[str]:
    """Return the subjects of all commits since subjects have rules; skip where git has no history of them."""
    since = ("git", "log", "--format=%s", f"{LAST_FREE_SUBJECT}..HEAD")
    log = subprocess.run(since, cwd=ROOT, capture_output=True, text=True, check=False)
    if log.returncode:
        pytest.skip(f"no git history since {LAST_FREE_SUBJECT}: {log.stderr.strip()}")
    return log.stdout.splitlines()


def _areas() -> set[str]:
    tops = [ROOT / package for package in PACKAGES]
    parts = [
        part for top in tops for part in top.rglob("*") if part.is_dir() or part.suffix == ".py"
    ]
    return {*_sections()["areas"], *(part.stem for part in (*tops, *parts))}


def test_commit_subjects_name_an_area_and_one_change() -> None:
    areas = _areas()
    wrong = [
        subject
        for subject in _subjects()
        if len(subject) > 72 or ";" in subject or subject.partition(": ")[0] not in areas
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "subject", ["Fix a test", "docs, tests: name areas", "nothing: add a page"]
)
def test_a_subject_without_one_area_is_found(subject: str) -> None:
    assert subject.partition(": ")[0] not in _areas()
