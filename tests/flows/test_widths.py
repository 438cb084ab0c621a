"""Tables at the widths of terminals: names and keys stay whole, columns are left out by priority."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flows.cli.console import table

SPECIALIST = "a_specialist_whose_name_has_40_letters__"
KEY = "0123456789ab"
LINE = {
    "specialist": SPECIALIST,
    "phase": "fine_tune",
    "state": "done",
    "attempt": "1",
    "val_bpb": "2.3456 → 1.2345",
    "anchor": "2.1000 → 1.3000",
    "cost": "",
    "key": KEY,
    "why": "the rows of its mixture have changed since it was trained",
}
ORDER = ("anchor", "attempt", "cost")


def _drawn(lines: list[dict[str, str]], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(table(lines, dropped_first=ORDER))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_name_of_40_characters_and_a_key_stand_whole_on_one_line(width: int) -> None:
    drawn = _drawn([LINE], width)
    assert any(all(each in line for each in (SPECIALIST, "fine_tune", KEY)) for line in drawn)
    assert all(len(line) <= width for line in drawn)


def test_what_is_left_out_is_named_and_nothing_else_is() -> None:
    drawn = _drawn([LINE], 100)
    (named,) = (line for line in drawn if line.startswith("not shown"))
    missing = set(named.partition(": ")[2].split(", "))
    assert "anchor" in missing, "it is the first to go"
    shown = set(drawn[0].split())
    assert shown | missing == set(LINE)
    assert not shown & missing


def test_a_wide_terminal_is_shown_every_column() -> None:
    drawn = _drawn([LINE], 200)
    assert drawn[0].split() == [*LINE]
    assert not any("not shown" in line for line in drawn)


@given(
    names=st.lists(st.text("abcdefgh_", min_size=1, max_size=40), min_size=1, max_size=5),
    others=st.lists(st.text("xyz ", max_size=60), max_size=8),
    width=st.sampled_from([80, 100, 140]),
)
def test_no_name_is_ever_broken(names: list[str], others: list[str], width: int) -> None:
    cells = {f"column{index}": text for index, text in enumerate(others)}
    drawn = _drawn([{**cells, "name": name, "key": KEY} for name in names], width)
    for name in names:
        assert any(name in line and KEY in line for line in drawn)
    assert all(len(line) <= width for line in drawn)
