"""`curriculum inspect`: what is found, in the terminal, as JSON or as a page."""

from dataclasses import replace
from pathlib import Path

import typer
from rich.text import Text

from curriculum.inspection.documents import documents
from curriculum.pipeline.references import Reference, find, store_of
from curriculum.store import Artefact, Store
from dashboards.inspect.document_page import document_page
from dashboards.inspect.page import page
from dashboards.rows.write import chosen_rows as wished_rows
from flows.cli.console import out, print_json
from flows.cli.inspect import InspectOptions, index, look, narrowed
from flows.cli.inspect.as_json import content
from schemas.errors import StoreError


def show(
    home: Path,
    what: str,
    options: InspectOptions,
    *,
    listed: bool = False,
    as_json: bool = False,
    html: Path | None = None,
) -> None:
    """Find an artefact, row, document, run or checkpoint and print it, or write it as a page.

    Raises:
        StoreError: for what isn't there, and for a choice that nothing fits or that means nothing here.
    """
    store = store_of(home, what)
    reference = find(store, what, document=options.document)
    options = replace(
        options,
        pack_id=reference.pack_id or options.pack_id,
        document=reference.document or options.document,
    )
    found = narrowed(store, reference, options)
    if html:
        _write(as_page(store, _sole(found), options), html)
    if as_json:
        print_json(content(store, found, options, listed=listed))
    if html or as_json:
        return
    for piece in index(store, found) if listed else look(store, found, options):
        out.print(piece, soft_wrap=isinstance(piece, Text) and "\n" not in piece.plain)


def as_page(store: Store, artefact: Artefact, options: InspectOptions) -> str:
    """Documents or rows as one self-contained page.

    Raises:
        StoreError: for a stage that has neither.
    """
    match artefact.manifest.stage:
        case "documents":
            sheets = [document_page(each) for each in documents(store, artefact, options)]
        case "rows":
            return wished_rows(store, artefact, options)
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


def _sole(found: Reference) -> Artefact:
    if not found.artefacts:
        raise StoreError("--html", cause="pages show documents and rows", cure="Leave --html out")
    return found.artefacts[0]


def _write(page: str, file: Path) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as failed:
        raise StoreError(
            str(file), failed.strerror, cause="the page can't be written", cure="Name another file"
        ) from None
    typer.echo(file.absolute().as_uri())
