"""docs/coverage.md: each claim has a verdict, and each command, test and file beside it is there."""

import ast
import re
import shlex
import shutil
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.test_blocks import MINUTES, accept, run_as_printed

ROOT = Path(__file__).parents[1]
HEAD = "| claim | verdict | shown by, or the reason |"
VERDICTS = {"shown", "otherwise", "wrong", "left out"}
CODE = re.compile(r"`([^`]+)`")
FILE = re.compile(r"[\w/]+\.(?:py|yaml)")
PROMISE = re.compile(r"\b(?:later|soon|planned|yet|TODO)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A row of a table: a claim, the verdict, and what shows it or the reason."""

    text: str
    verdict: str
    beside: str

    @property
    def code(self) -> tuple[str, ...]:
        """Commands, tests, files and settings beside the claim."""
        return tuple(CODE.findall(self.beside))

    @property
    def evidence(self) -> tuple[str, ...]:
        """Commands, tests and files beside the claim."""
        return tuple(
            each for each in self.code if is_command(each) or "::" in each or is_file(each)
        )


def is_command(code: str) -> bool:
    return code.startswith("curriculum ")


def is_file(code: str) -> bool:
    return "/" in code and FILE.fullmatch(code) is not None


@cache
def claims() -> tuple[Claim, ...]:
    """The rows of all tables of claims."""
    found: list[Claim] = []
    inside = False
    for line in (ROOT / "docs" / "coverage.md").read_text().splitlines():
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line not in (HEAD, "|---|---|---|"):
            text, verdict, beside = re.split(r"(?<!\\) \| ", line.strip("| "), maxsplit=2)
            found.append(Claim(text=text, verdict=verdict, beside=beside))
    return tuple(found)


def commands() -> list[str]:
    """Each command once."""
    return [*dict.fromkeys(each for claim in claims() for each in claim.code if is_command(each))]


def test_every_claim_has_a_verdict_and_what_bears_it_out() -> None:
    assert len(claims()) >= 100
    assert {each.verdict for each in claims()} == VERDICTS
    assert [each.text for each in claims() if not each.beside.strip()] == []
    assert [each.text for each in claims() if each.verdict == "shown" and not each.evidence] == []


def test_the_page_counts_its_verdicts() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text()
    counted = re.findall(r"^\| ([a-z ]+) \| (\d+) \| ", text, flags=re.MULTILINE)
    found = Counter(each.verdict for each in claims())
    assert {verdict: int(count) for verdict, count in counted} == found


def test_no_claim_is_listed_twice_in_the_same_words() -> None:
    assert [
        text for text, count in Counter(each.text for each in claims()).items() if count > 1
    ] == []


def test_nothing_is_promised() -> None:
    assert [each for each in claims() if PROMISE.search(each.beside)] == []


@pytest.mark.parametrize("command", commands())
def test_every_command_is_accepted_with_its_options(command: str) -> None:
    accept(*shlex.split(command)[1:])


def test_every_test_and_file_is_there() -> None:
    named = [each for claim in claims() for each in claim.evidence if not is_command(each)]
    assert len(named) > 100
    assert [each for each in named if not is_there(each)] == []


def test_a_test_or_file_that_there_is_not_is_noticed() -> None:
    own = Path(__file__).relative_to(ROOT).as_posix()
    assert is_there(f"{own}::test_nothing_is_promised")
    assert is_there(own)
    assert not is_there(f"{own}::test_nothing")
    assert not is_there("tests/nothing.py::test_nothing_is_promised")
    assert not is_there("benchmarks/nothing.py")


def is_there(name: str) -> bool:
    """True if the file is there, and has the test where one is named."""
    file, _, function = name.partition("::")
    path = ROOT / file
    return path.is_file() and (not function or function in _tests(path))


@cache
def _tests(path: Path) -> frozenset[str]:
    functions = (
        each for each in ast.parse(path.read_text()).body if isinstance(each, ast.FunctionDef)
    )
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


@pytest.fixture(scope="module")
def folder(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the demo's workspace, in which all commands run."""
    folder = tmp_path_factory.mktemp("coverage")
    shutil.copytree(demo_home, folder / "workspace")
    return folder


@pytest.mark.parametrize("command", [each for each in commands() if each not in MINUTES])
def test_every_command_runs_in_the_demos_workspace(
    command: str, folder: Path, curriculum: str
) -> None:
    run_as_printed(command, folder, curriculum)
