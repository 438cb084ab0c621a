"""Random bytes changed in a workspace: the next reader names the file, or makes the same as before."""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from curriculum.store import Store
from flows.cli import app
from schemas.errors import SchemaError
from tests.flows.faults import conftest

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

DIET = conftest.DIET.replace("token_budget: 52K", "token_budget: 10K")
FEW = ("--max-commits", "4", "--versions-per-path", "1", "--workers", "1")
SYNTAX, FILE_GRAPH = ("runs/*/*/phase-syntax", "runs/*/*/phase-file_graph")
ROWS = ("rows", "mixtures")
LATER = ("selections", "tokens", "rows", "mixtures")
COUNTS = "SELECT path, key, content, num_bytes FROM artefacts ORDER BY path"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind of file, what must be made anew so that it is read, and the command that reads it."""

    files: str
    without: tuple[str, ...] = ()
    verb: str = "mix"
    phase: str = "syntax"

    @property
    def trains(self) -> bool:
        """True if a training process reads the file."""
        return self.verb == "train"


CASES = (
    Case(files="documents/**/part-*.parquet", without=LATER),
    Case(files="selections/**/kept.parquet", without=("selections/*/[0-9a-f]*", *ROWS)),
    Case(files="selections/**/selection.parquet", without=ROWS),
    Case(files="selections/**/sides.parquet", without=ROWS),
    Case(files="tokens/**/tokens.bin", without=ROWS),
    Case(files="tokens/**/offsets.bin", without=ROWS),
    Case(files="tokens/**/parts.parquet", without=ROWS),
    Case(files="tokenizers/**/tokenizer.json", without=("tokens", *ROWS)),
    Case(files="rows/**/split-train/**/part-*.parquet", without=("mixtures",)),
    Case(files="*/**/[0-9a-f]*/manifest.json", without=("mixtures",)),
    Case(files="current/*.txt", verb="gc"),
    Case(files="workspace.json", without=("mixtures",)),
    Case(files="catalog/*/*.parquet", verb="query"),
    Case(files="rows/**/part-*.parquet", without=(SYNTAX, FILE_GRAPH), verb="train"),
    Case(files="mixtures/**/phase-syntax/*/plan.parquet", without=(SYNTAX, FILE_GRAPH), verb="train"),
    Case(files="tokenizers/**/token_bytes.parquet", without=(SYNTAX, FILE_GRAPH), verb="train"),
    Case(
        files="runs/*/*/phase-syntax/*/attempt=1/checkpoints/*/*",
        without=(FILE_GRAPH,),
        verb="train",
        phase="file_graph",
    ),
    *(
        Case(
            files=f"runs/*/*/phase-syntax/*/attempt=1/{name}",
            without=(FILE_GRAPH,),
            verb="train",
            phase="file_graph",
        )
        for name in ("report.json", "job.json")
    ),
    Case(
        files="runs/*/*/phase-syntax/*/attempt=1/job.json",
        without=("runs/*/*/phase-syntax/*/attempt=1/manifest.json", FILE_GRAPH),
        verb="train",
    ),
)  # fmt: skip


class World:
    """A workspace in which both phases were trained, and copies of it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "workspace"
        self.diet = folder / "faulty.yaml"
        self.diet.write_text(DIET)

    def give(self, *words: str, home: Path) -> tuple[int, str]:
        """Give a command in this process: its exit code, and what it printed."""
        done = CliRunner().invoke(app, [*words, "--home", str(home)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            return -1, f"{done.stdout}{done.stderr}{done.exception!r}"
        return done.exit_code, done.stdout + done.stderr

    def read(self, case: Case, home: Path) -> tuple[int, str]:
        """Give the command of a case."""
        if case.verb == "gc":
            return self.give("gc", "--yes", home=home)
        if case.verb == "query":
            return self.give("query", COUNTS, home=home)
        order = (case.verb, str(self.diet), *FEW)
        return self.give(*order, "--phase", case.phase, home=home)

    def contents(self, home: Path) -> dict[tuple[str, str], str]:
        """Return the content of each artefact of a workspace, by stage and key."""
        return {(each.manifest.stage, each.key): each.content for each in Store(home).artefacts()}


def _world(folder: Path, verb: str) -> Iterator[World]:
    world = World(folder)
    for words in ((verb, str(world.diet), *FEW), ("query", COUNTS)):
        code, said = world.give(*words, home=world.home)
        assert code == 0, said
    yield world
    shutil.rmtree(world.home)


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A workspace up to the plans of both phases."""
    yield from _world(tmp_path_factory.mktemp("mixed"), "mix")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A workspace in which both phases were trained."""
    yield from _world(tmp_path_factory.mktemp("trained"), "train")


def damage(home: Path, case: Case, dice: random.Random) -> str:
    """Change one byte of one file of a kind, leaving its times; the file and the place."""
    file = dice.choice(sorted(each for each in home.glob(case.files) if each.is_file()))
    before, content = file.stat(), bytearray(file.read_bytes())
    at = dice.randrange(len(content))
    content[at] ^= 1 << dice.randrange(8)
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return f"{file.relative_to(home)} at {at} of {len(content)}"


def outcome(world: World, case: Case, folder: Path, dice: random.Random) -> str | None:
    """Return what is wrong after a changed byte, or None if it was reported or changed nothing."""
    home = folder / "workspace"
    shutil.copytree(world.home, home)
    place = damage(home, case, dice)
    name = place.partition(" ")[0]
    for pattern in case.without:
        for each in home.glob(pattern):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    code, said = world.read(case, home)
    if code == 2:
        folder_name, _, file_name = name.rpartition("/")
        named = folder_name in said and file_name in said
        return None if named else f"{place}: isn't named: {said}"
    if code:
        return f"{place}: exit code {code}: {said}"
    if case.verb == "query":
        same = said == world.read(case, world.home)[1]
        return None if same else f"{place}: another answer"
    try:
        there, expected = world.contents(home), world.contents(world.home)
    except SchemaError as damaged:
        # The command had no need of it; whatever reads it next names it.
        return None if name in str(damaged) else f"{place}: isn't named: {damaged}"
    if case.verb == "gc":
        return None if there == expected else f"{place}: gc removed artefacts in use"
    other = [key for key, content in there.items() if expected.get(key) != content]
    return f"{place}: other bytes of {', '.join(stage for stage, _ in other)}" if other else None


def failures(world: World, cases: Iterator[Case], folder: Path, dice: random.Random) -> list[str]:
    """Return the failures of all cases."""
    found = []
    for number, case in enumerate(cases):
        made = folder / str(number)
        made.mkdir()
        fault = outcome(world, case, made, dice)
        shutil.rmtree(made)
        if fault is not None:
            found.append(fault)
    return found


def test_a_changed_byte_is_named_or_changes_nothing_that_is_made(
    mixed: World, tmp_path: Path
) -> None:
    cases = (case for case in CASES if not case.trains)
    assert failures(mixed, cases, tmp_path, random.Random(11)) == []


@pytest.mark.slow
def test_of_200_changed_bytes_each_is_named_or_changes_nothing_that_is_made(
    trained: World, tmp_path: Path
) -> None:
    cases = (CASES[number % len(CASES)] for number in range(200))
    assert failures(trained, cases, tmp_path, random.Random(12)) == []
