"""Try broken files on all that reads what comes from elsewhere.

    python -m tests.fuzz --minutes 60 --seed 7
    python -m tests.fuzz --target yaml --cases 500
    python -m tests.fuzz --seed 7 --target tokenizer --number 123      one case again, its input kept

Prints how many cases of each target were taken and refused, and each finding once by its last line; the
input of a finding lies in <findings>/<target>-<seed>-<number>, with said.txt beside it. Exit code 1 where
there are findings.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.arena import Case, Outcome, Ring, arena

NAMES = ("parquet", "tokens", "tokenizer", "record", "yaml", "talks", "commands", "workspace")
"""The targets; those of `tests.fuzz.targets`, which takes a second to import."""
AT_ONCE = 25
"""Cases of a target before the next target's turn."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """Outcomes of the cases so far."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Findings alike: by their last line and place."""

    def add(self, found: Outcome, ring: Ring) -> None:
        """Count a case; keep a finding, and say it where it is the first of its kind."""
        said = "finding" if found.is_finding else found.said
        self.counts[found.case.target, said] += 1
        if found.is_finding:
            place = ring.findings / found.case.name
            place.mkdir(parents=True, exist_ok=True)
            (place / "said.txt").write_text(found.said, errors="backslashreplace")
            kind = kind_of(found)
            self.kinds[kind] += 1
            if self.kinds[kind] == 1:
                _print_line(f"{found.case.name}  {kind}")

    def report(self, minutes: float, seed: int, folder: Path) -> None:
        """Say all counts."""
        for name in dict.fromkeys(name for name, _ in self.counts):
            kinds = ("taken", "refused", "finding")
            _print_line(
                f"{name:10}  {'  '.join(f'{self.counts[name, kind]:,} {kind}' for kind in kinds)}"
            )
        _print_line(
            f"{self.counts.total():,} cases in {minutes:.1f} minutes, seed {seed}; {folder}"
        )
        for kind, number in self.kinds.most_common():
            _print_line(f"{number:6} × {kind}")


def kind_of(found: Outcome) -> str:
    """A line for findings alike: the error, and the place in our code."""
    lines = [line.strip() for line in found.said.strip().splitlines()]
    ours = [line for line in lines if line.startswith("File ") and "site-packages" not in line]
    place = ours[-1][-90:] if ours else ""
    return ascii(f"{lines[-1][:110] if lines else '?'} {place}")


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Broken files on all that reads what comes from elsewhere.",
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, help="of each target, instead of a time")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--target", choices=NAMES, action="append")
    parser.add_argument("--number", type=int, help="only this case of each target")
    parser.add_argument("--findings", type=Path, help="a folder; by default a new one")
    return parser.parse_args()


def _numbers(options: argparse.Namespace) -> Iterator[int]:
    if options.number is not None:
        return iter([options.number])
    if options.cases is not None:
        return iter(range(options.first, options.first + options.cases))
    return itertools.count(options.first)


def main() -> int:
    """The exit code."""
    options = _options()
    folder = options.findings or Path(tempfile.mkdtemp(prefix="fuzz-"))
    ring = Ring(material=folder / "material", findings=folder / "findings")
    numbers, tally, begun = _numbers(options), Tally(), time.monotonic()
    with arena(ring) as ours:
        while batch := list(itertools.islice(numbers, AT_ONCE)):
            for name, number in itertools.product(options.target or NAMES, batch):
                tally.add(ours.attempt(Case(seed=options.seed, target=name, number=number)), ring)
            if options.cases is None and time.monotonic() - begun >= 60 * options.minutes:
                break
    tally.report((time.monotonic() - begun) / 60, options.seed, folder)
    return bool(tally.kinds)


if __name__ == "__main__":
    sys.exit(main())
