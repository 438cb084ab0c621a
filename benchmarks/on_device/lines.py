"""Results table in Markdown and JSON; both files are replaced with every new result."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from curriculum.whole_files import write_whole
from schemas.errors import JobError

HEAD = ("section", "subject", "row length", "documents", "figures", "note", "duration")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """Number with a name; the name ends with the unit."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name} **{format_number(self.value)}**"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultLine:
    """Result of one measurement; if it has no figures, `note` gives the reason."""

    section: str
    subject: str
    row_length: int
    documents: str
    figures: tuple[Figure, ...] = ()
    note: str = ""
    seconds: float = 0.0
    """Duration of the measurement, including warm-up and compilation."""

    @property
    def name(self) -> str:
        """Section, subject, row length and documents; a later run finds the result by this name."""
        labels = (self.section, self.subject, f"T {self.row_length:,}", self.documents)
        return " ".join(filter(None, labels))

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the result's row in Markdown."""
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
    """gpu.md and gpu.json in `folder`; both files are complete at any moment."""

    def __init__(self, folder: Path, environment: tuple[tuple[str, str], ...]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.environment = dict(environment)
        self.status = "running or killed"
        self.skipped: tuple[str, ...] = ()
        self.lines = [*read_results(folder / "gpu.json", self.environment).values()]
        self.write()

    def has(self, line: ResultLine) -> bool:
        """Return True if the table already has figures for a result of this name."""
        return line.name in {result.name for result in self.lines if result.figures}

    def add(self, line: ResultLine) -> None:
        """Append a result, print it and write both files."""
        self.lines.append(line)
        print(markdown_row(line.cells()), flush=True)
        self.write()

    def write(self) -> None:
        """Replace both files with the results so far."""
        write_whole(self.folder / "gpu.md", self._markdown())
        write_whole(self.folder / "gpu.json", json.dumps(self._content(), indent=1) + "\n")

    def _markdown(self) -> str:
        known = {**self.environment, "status": self.status, "skipped": ", ".join(self.skipped)}
        facts = "\n".join(f"- {name}: {value}" for name, value in known.items() if value)
        head = f"{markdown_row(HEAD)}\n|{'---|' * len(HEAD)}"
        rows = "\n".join([head, *(markdown_row(line.cells()) for line in self.lines)])
        return f"{facts}\n\n{rows}\n"

    def _content(self) -> dict[str, object]:
        return {
            "environment": self.environment,
            "status": self.status,
            "skipped": self.skipped,
            "lines": [
                asdict(line) | {"figures": {figure.name: figure.value for figure in line.figures}}
                for line in self.lines
            ],
        }


def read_results(file: Path, environment: Mapping[str, str] | None = None) -> dict[str, ResultLine]:
    """Read the results of an earlier run that have figures, by name.

    Results without figures are not returned, so that they are measured again.

    Raises:
        JobError: if `environment` names another device or torch version than the file.
    """
    if not file.is_file():
        return {}
    content = json.loads(file.read_text())
    for name in ("device", "torch") if environment is not None else ():
        recorded, current = content["environment"].get(name), (environment or {}).get(name)
        if recorded != current:
            raise JobError(
                str(file),
                recorded,
                cause=f"the results in this file were measured with another {name} than {current}",
                cure="Give another folder as --out",
            )
    lines = [
        ResultLine(
            **fields
            | {"figures": tuple(Figure(name=n, value=v) for n, v in fields["figures"].items())}
        )
        for fields in content["lines"]
        if fields["figures"]
    ]
    return {line.name: line for line in lines}


def markdown_row(cells: tuple[str, ...]) -> str:
    """Join cells to a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def format_number(value: float) -> str:
    """Format a number with about three digits: 12345.6 -> 12,346; 1.2345 -> 1.23; 0.00001 -> 1.0e-05."""
    if value == 0 or abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"
