"""The table: lines of figures in Markdown and JSON, both written whole with each new line."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from curriculum.whole_files import write_whole
from schemas.errors import JobError

HEAD = ("section", "what", "T", "documents", "figures", "note", "took")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A number under a name that ends in its unit."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name} **{shown(self.value)}**"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultLine:
    """The result of one measurement; without figures, `note` gives the reason."""

    section: str
    subject: str
    row_length: int
    documents: str
    figures: tuple[Figure, ...] = ()
    note: str = ""
    seconds: float = 0.0
    """The time of the measurement, its warm-up and compiling included."""

    @property
    def name(self) -> str:
        """Its labels, by which a later run finds it again."""
        words = (self.section, self.subject, f"T {self.row_length:,}", self.documents)
        return " ".join(filter(None, words))

    def cells(self) -> tuple[str, ...]:
        """The cells of the line in Markdown."""
        figures = "; ".join(map(str, self.figures)) or "–"
        note = self.note.replace("|", "/")
        return (
            self.section,
            self.subject,
            f"{self.row_length:,}",
            self.documents or "–",
            figures,
            note,
            f"{self.seconds:.1f} s",
        )


class Table:
    """gpu.md and gpu.json of a folder; each file is whole at any moment."""

    def __init__(self, folder: Path, environment: tuple[tuple[str, str], ...]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.environment = dict(environment)
        self.ended = "still running, or killed"
        self.left_out: tuple[str, ...] = ()
        self.lines = [*measured_before(folder / "gpu.json", self.environment).values()]
        self.write()

    def has(self, line: ResultLine) -> bool:
        """Return True if the line has figures already."""
        return line.name in {each.name for each in self.lines if each.figures}

    def add(self, line: ResultLine) -> None:
        """Append a line, print it and write both files."""
        self.lines.append(line)
        print(markdown_row(line.cells()), flush=True)
        self.write()

    def write(self) -> None:
        """Replace both files by what is known so far."""
        write_whole(self.folder / "gpu.md", self._markdown())
        write_whole(self.folder / "gpu.json", json.dumps(self._content(), indent=1) + "\n")

    def _markdown(self) -> str:
        known = {**self.environment, "ended": self.ended, "left out": ", ".join(self.left_out)}
        facts = "\n".join(f"- {name}: {value}" for name, value in known.items() if value)
        head = f"{markdown_row(HEAD)}\n|{'---|' * len(HEAD)}"
        rows = "\n".join([head, *(markdown_row(line.cells()) for line in self.lines)])
        return f"{facts}\n\n{rows}\n"

    def _content(self) -> dict[str, object]:
        return {
            "environment": self.environment,
            "ended": self.ended,
            "left_out": self.left_out,
            "lines": [
                asdict(line) | {"figures": {each.name: each.value for each in line.figures}}
                for line in self.lines
            ],
        }


def measured_before(
    file: Path, environment: Mapping[str, str] | None = None
) -> dict[str, ResultLine]:
    """Lines with figures that an earlier run left, by name; others are measured again.

    Raises:
        JobError: for the table of another device or torch than `environment` says.
    """
    if not file.is_file():
        return {}
    there = json.loads(file.read_text())
    for name in ("device", "torch") if environment is not None else ():
        was, now = there["environment"].get(name), (environment or {}).get(name)
        if was != now:
            raise JobError(
                str(file), was, cause=f"its {name} isn't this one, {now}", cure="Give another --out"
            )
    lines = [
        ResultLine(
            **each | {"figures": tuple(Figure(name=n, value=v) for n, v in each["figures"].items())}
        )
        for each in there["lines"]
        if each["figures"]
    ]
    return {line.name: line for line in lines}


def markdown_row(cells: tuple[str, ...]) -> str:
    """Draw cells as a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def shown(value: float) -> str:
    """Show a number with what matters of it: 12345.6 -> 12,346; 1.2345 -> 1.23; 0.00001 -> 1.0e-05."""
    if value == 0 or abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"
