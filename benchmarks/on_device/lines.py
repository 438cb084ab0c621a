"""The table: lines of figures in Markdown and JSON, both written whole with each new line."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from curriculum.train.run_directory import write_text

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
        self.lines: list[ResultLine] = []
        self.write()

    def add(self, line: ResultLine) -> None:
        """Append a line, print it and write both files."""
        self.lines.append(line)
        print(markdown_row(line.cells()), flush=True)
        self.write()

    def write(self) -> None:
        """Replace both files by what is known so far."""
        write_text(self.folder / "gpu.md", self._markdown())
        write_text(self.folder / "gpu.json", json.dumps(self._content(), indent=1) + "\n")

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


def markdown_row(cells: tuple[str, ...]) -> str:
    """Draw cells as a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def shown(value: float) -> str:
    """Show a number with what matters of it: 12345.6 -> 12,346; 1.2345 -> 1.23; 0.00001 -> 1.0e-05."""
    if value == 0 or abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"
