"""Artefacts as `curriculum inspect` shows them: the manifest, and the lines that the user asked for."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.formats import count, number
from curriculum.inspection.line_selection import InspectOptions, Line, first_lines
from curriculum.pipeline.attempts import specialist_of
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from flows.cli.console import ACCENT, MUTED, table
from schemas.manifest import Manifest
from schemas.specialist import format_reference
from schemas.visible import one_line

LINES = 12
"""Default number of lines of a table."""
MAX_VALUE = 200
L = TypeVar("L")


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectedArtefact(Generic[L]):
    """Artefact with those of its lines that are shown, such as rows or training steps."""

    path: Path
    manifest: Manifest
    lines: tuple[L, ...] = ()
    matching: int | None = None
    """Number of lines that match the filter; None without a filter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """Artefacts that are shown; `more` is the number of further artefacts that are not shown."""

    artefacts: tuple[InspectedArtefact[object], ...]
    more: int = 0


def without_lines(artefact: Artefact) -> InspectedArtefact[object]:
    """Return an artefact without its lines."""
    return InspectedArtefact(path=artefact.path, manifest=artefact.manifest)


def with_lines(
    store: Store, artefact: Artefact, options: InspectOptions
) -> InspectedArtefact[Line]:
    """Return an artefact with the first lines of its files that match the filter in `options`."""
    given = options.only.given
    most = None if options.full and given else max(options.rows, LINES)
    lines, matching = first_lines(store, artefact, options, most)
    return InspectedArtefact(
        path=artefact.path,
        manifest=artefact.manifest,
        lines=lines,
        matching=matching if given else None,
    )


def counts(report: Mapping[str, object]) -> RenderableType:
    """Return the counts in a stage's report as a table."""
    lines = []
    for name, value in report.items():
        shown = f"{value:,}" if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
        short = shown if len(shown) < MAX_VALUE else f"{shown[: MAX_VALUE - 1]}…"
        lines.append({"counted": one_line(name), "value": one_line(short)})
    return table(lines)


def index(store: Store, found: Sequence[Artefact]) -> Iterator[RenderableType]:
    """Yield a table of artefacts, then their number."""
    yield table(
        {
            "stage": artefact.manifest.stage,
            "key": artefact.key,
            "what": labels_of(artefact),
            "size": f"{count(_size(artefact))}B",
            "made": artefact.manifest.created[:16].replace("T", " "),
        }
        for artefact in found
    )
    yield Text(f"{number(len(found), 'artefact')} in {store.root}", MUTED)


def header(store: Store, artefact: Artefact) -> Iterator[Text]:
    """Yield the name of an artefact, the number and size of its files, and its path."""
    manifest = artefact.manifest
    yield Text.assemble(
        (f"{manifest.stage} ", f"bold {ACCENT}"),
        (labels_of(artefact), "bold"),
        (f"  {artefact.key[:KEY_DIGITS]}", MUTED),
    )
    files = number(len(manifest.files), "file")
    made = one_line(manifest.created[:19])
    yield Text(f"{files} · {count(_size(artefact))}B · {made}", MUTED)
    yield Text(artefact.path.relative_to(store.root).as_posix(), MUTED)


def labels_of(artefact: Artefact) -> str:
    """Describe an artefact by its labels."""
    labels = artefact.manifest.labels
    if "specialist" in labels:
        return format_reference(specialist_of(artefact), labels["phase"])
    return " · ".join(
        f"{name} {value}" if value.isdigit() else value for name, value in labels.items()
    )


def _size(artefact: Artefact) -> int:
    return sum(file.num_bytes for file in artefact.manifest.files)
