"""Some seeded cases of every target, and that the arena finds what it is there to find."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import material
from tests.fuzz.__main__ import NAMES
from tests.fuzz.arena import Arena, Case, Ring, arena, outcome_of, write_case
from tests.fuzz.targets import TARGETS

SEED = 7
QUICK = {
    "parquet": 8, "tokens": 8, "tokenizer": 12, "record": 60, "yaml": 30, "talks": 60, "commands": 60,
}  # fmt: skip
"""Cases in this process; those of a workspace take a second each."""


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Ring:
    folder = tmp_path_factory.mktemp("fuzz")
    material.make(folder / "material")
    return Ring(material=folder / "material", findings=folder / "findings", cpu_seconds=10.0)


@pytest.fixture(scope="module")
def ours(ring: Ring) -> Iterator[Arena]:
    strict = Ring(
        material=ring.material, findings=ring.findings, cpu_seconds=2.0, memory_bytes=1 << 29
    )
    with arena(strict) as write_case:
        yield write_case


def test_the_command_knows_every_target() -> None:
    assert set(NAMES) == set(TARGETS)


@pytest.mark.parametrize("name", QUICK)
def test_broken_files_are_taken_or_refused(ring: Ring, name: str) -> None:
    said: dict[int, str] = {}
    for number in range(QUICK[name]):
        case = Case(seed=SEED, target=name, number=number)
        said[number] = outcome_of(case, write_case(case, ring), ring)
    assert {number: each for number, each in said.items() if each not in ("taken", "refused")} == {}
    assert {"refused", "taken"} & set(said.values())


def test_a_case_is_the_same_when_it_is_made_again(ring: Ring, tmp_path: Path) -> None:
    for name in ("record", "yaml", "tokenizer"):
        case = Case(seed=SEED, target=name, number=5)
        places = [
            write_case(case, Ring(material=ring.material, findings=tmp_path / each))
            for each in "ab"
        ]
        one, other = (
            {file.name: file.read_bytes() for file in place.iterdir()} for place in places
        )
        assert one == other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("_hang", "hang"),
        ("_grow", "memory"),
        ("_crash", "crash: exit code -11"),
        ("_raise", "KeyError"),
    ],
)
def test_the_arena_finds_a_hang_a_flood_a_crash_and_a_traceback(
    ours: Arena, target: str, said: str
) -> None:
    found = ours.attempt(Case(seed=SEED, target=target, number=0))
    assert found.is_finding
    assert said in found.said
    after = ours.attempt(Case(seed=SEED, target="talks", number=0))
    assert not after.is_finding


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_minute_of_broken_files_has_no_finding(ring: Ring) -> None:
    found = []
    with arena(ring) as ours:
        for number in range(100, 130):
            for name in NAMES:
                outcome = ours.attempt(Case(seed=SEED, target=name, number=number))
                found += [outcome] if outcome.is_finding else []
    assert found == []
