"""One table printer: cells by the names of fields, columns without values, and lines beyond a limit."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from flows.cli.console import print_json, table
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

COMMIT = "c" * 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Eaten:
    """A line of figures."""

    name: str
    commit: str
    valid_tokens: int
    share: float
    share_change: float
    seconds: float
    row_length: int
    is_short: bool
    why: str
    values: tuple[float | None, ...]


LINES = [
    Eaten(
        name=f"n{at}",
        commit=COMMIT,
        valid_tokens=12_345,
        share=1 / 3,
        share_change=-0.021 * at,
        seconds=75.0,
        row_length=4096,
        is_short=at == 1,
        why="",
        values=(0.5, None),
    )
    for at in range(3)
]


def _printed(*names: str, limit: int | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=160, force_terminal=False)
    drawn = table(LINES, names, heads={"values": ("a/x", "b/x")}, limit=limit, things="runs")
    console.print(drawn)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_cells_have_the_unit_of_their_names_and_empty_columns_are_left_out() -> None:
    head, first, second, _ = (line.split() for line in _printed())
    names = "name commit valid_tokens share share_change seconds row_length is_short a/x b/x"
    assert head == names.split()
    assert first == ["n0", "c" * 12, "12.3k", "33.3%", "1", "min", "15", "s", "4,096", "0.5", "–"]
    assert second[4:5] == ["−2.1%"]
    assert second[-3:] == ["yes", "0.5", "–"]


def test_lines_beyond_the_limit_are_counted_and_columns_may_be_chosen() -> None:
    assert _printed("name", "share", limit=1) == [
        "name  share",
        "n0    33.3%",
        "… 2 more runs (--full)",
    ]
    assert _printed("name", "share", limit=3)[-1] == "n2    33.3%"


def test_json_has_the_same_names_and_unrounded_figures(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"lines": LINES})
    first, *_ = json.loads(capsys.readouterr().out)["lines"]
    assert first["share"] == 1 / 3
    assert first["commit"] == COMMIT
    assert first["values"] == [0.5, None]
    assert {*first} == {*Eaten.__dataclass_fields__}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two runs of one specialist."""
    home = tmp_path_factory.mktemp("tables")
    larder = TinyWorkspace(home)
    for plan, key, bpb in ((larder.syntax, "1" * 64, 3.0), (larder.file_graph, "2" * 64, 2.0)):
        run(home, job(plan, home, run_key=key), [figure(bpb, 0.1)])
    return home


COMMANDS = {
    "compare": ("compare", "fmt/syntax", "fmt/file_graph"),
    "diff of mixtures": ("diff", "fmt/syntax", "fmt/file_graph"),
    "diff of diets": ("diff", "templates", "testing"),
    "ls": ("ls",),
}
"""Commands of which every table is of the values that --json prints."""


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_columns_of_a_command_are_fields_of_its_json(
    home: Path, words: tuple[str, ...]
) -> None:
    said = curriculum(*words, "--json", home=home)
    known = {*_names(json.loads(said.stdout))}
    lines = curriculum(*words, home=home).stdout.splitlines()
    titles = {"fmt/syntax", "fmt/file_graph"}
    heads = [line.split() for line in lines if len(known & {*line.split()}) > 1]
    assert heads
    assert {head for line in heads for head in line} - titles <= known


def _names(value: object) -> Iterator[str]:
    """Yield the names of all fields of a JSON value."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _names(part)
    for part in value if isinstance(value, list) else ():
        yield from _names(part)
