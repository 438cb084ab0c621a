"""`curriculum inspect`: one artefact, or one document, for human eyes.

find.py       which artefact, and which document of it, is meant
read.py       what lies in its files; row.py one packed row
tree.py       a context document as a tree; pieces.py text cut by structure
documents.py  rows.py  others.py    what the terminal shows of each stage
painted.py    structure in colour; colours.py has the colours, safe.py keeps terminals from harm
sheet.py      what a page shows of document_sheet.py; page.py writes it; rows have flows/page/rows
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.console import RenderableType
from rich.text import Text

from curriculum.store import Artefact, Store
from flows.lines import count, number
from flows.look.document_sheet import document_sheet
from flows.look.documents import document_panels
from flows.look.find import find, store_of
from flows.look.others import counts, plan, run
from flows.look.page import page
from flows.look.read import document_lines, documents, lines
from flows.look.row import Row
from flows.look.rows import STRIP_WIDTH, row_panels, strip
from flows.look.wish import Wish
from flows.show import ACCENT, MUTED, out
from schemas.errors import StoreError

__all__ = ["STRIP_WIDTH", "Row", "Wish", "as_page", "as_text", "find", "look", "show", "strip"]


def show(
    home: Path, what: str, wish: Wish, *, as_json: bool = False, html: Path | None = None
) -> None:
    """Find an artefact or a document and print it, or write it as a page."""
    store = store_of(home, what)
    artefact, wish = find(store, what, wish)
    if html:
        _write(as_page(store, artefact, wish), html)
    if as_json:
        typer.echo(as_text(store, artefact, wish))
    if html or as_json:
        return
    for piece in look(store, artefact, wish):
        out.print(piece)


def look(store: Store, artefact: Artefact, wish: Wish) -> Iterator[RenderableType]:
    """The artefact, piece by piece."""
    yield _header(store, artefact)
    match artefact.manifest.stage:
        case "rows":
            yield from row_panels(store, artefact, wish)
        case "documents":
            yield from document_panels(store, artefact, wish)
        case "mixtures":
            yield from plan(artefact, wish)
        case "runs":
            yield from run(artefact)
        case _:
            yield counts(artefact)


def as_text(store: Store, artefact: Artefact, wish: Wish) -> str:
    """The manifest, and of rows and documents what is wished, as it lies in the files."""
    content: dict[str, object] = {
        "path": str(artefact.path),
        "manifest": artefact.manifest.model_dump(mode="json"),
    }
    match artefact.manifest.stage:
        case "documents":
            content["lines"] = [*document_lines(store, artefact, wish)]
        case "rows" | "mixtures":
            content["lines"] = [*itertools.islice(lines(artefact, wish), wish.rows)]
    return json.dumps(content, indent=1, ensure_ascii=False)


def as_page(store: Store, artefact: Artefact, wish: Wish) -> str:
    """Documents or rows as one self-contained page.

    Raises:
        StoreError: for a stage that has neither.
    """
    match artefact.manifest.stage:
        case "documents":
            sheets = [document_sheet(each) for each in documents(store, artefact, wish)]
        case "rows":
            # It is made of parts of ours, so it can't be imported before we are.
            from flows.page.rows.write import wished

            return wished(store, artefact, wish)
        case stage:
            raise StoreError(
                str(artefact.path),
                f"stage {stage}",
                cause="pages show documents and rows",
                cure="Leave --html out",
            )
    labels = artefact.manifest.labels
    title = " ".join(value for name, value in labels.items() if name in ("family", "repository"))
    return page(title, artefact.path.relative_to(store.root).as_posix(), sheets)


def _write(page: str, file: Path) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as failed:
        raise StoreError(
            str(file), failed.strerror, cause="the page can't be written", cure="Name another file"
        ) from None
    typer.echo(file.absolute().as_uri())


def _header(store: Store, artefact: Artefact) -> Text:
    manifest = artefact.manifest
    labels = " · ".join(
        f"{name} {value}" if value.isdigit() else value for name, value in manifest.labels.items()
    )
    where = artefact.path.relative_to(store.root).as_posix()
    size = sum(record.num_bytes for record in manifest.files)
    return Text.assemble(
        (f"{manifest.stage} ", f"bold {ACCENT}"),
        (labels, "bold"),
        (
            f"\n{where} · {number(len(manifest.files), 'file')} · {count(size)}B · {manifest.created[:19]}",
            MUTED,
        ),
    )
