"""SECURITY.md fits on a page, and each of its promises names tests that are there."""

import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text()
MAX_LINES = 100
WITHOUT_PROMISES = {"Trusted and not trusted", "Not protected", "How to report"}


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _tests(text: str) -> list[PurePosixPath]:
    """Return the tests that a text names in brackets; … is the folder of the one before."""
    found: list[PurePosixPath] = []
    for brackets in re.findall(r"\[(`[^]]+`)\]", text):
        for name in re.findall(r"`([^`]+)`", brackets):
            folder = found[-1].parent if name.startswith("…/") else PurePosixPath()
            found.append(folder / name.removeprefix("…/"))
    return found


def test_the_page_has_at_most_100_lines() -> None:
    assert 50 < PAGE.count("\n") <= MAX_LINES


def test_every_promise_names_a_test() -> None:
    promises = [
        promise
        for title, text in _sections().items()
        if title not in WITHOUT_PROMISES
        for promise in re.split(r"\n(?=- )|\n\n", text.strip())
        if not promise.startswith("|")
    ]
    assert len(promises) > 15
    assert [promise for promise in promises if not _tests(promise)] == []


def test_the_named_tests_are_there() -> None:
    named = _tests(PAGE)
    assert len(named) > 20
    assert [str(name) for name in named if not (ROOT / "tests" / name).is_file()] == []
