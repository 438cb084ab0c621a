"""`curriculum inspect`: what is found, in the terminal, as JSON or as a page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from curriculum import parquet
from curriculum.inspection.documents import documents
from curriculum.inspection.formats import count, number
from curriculum.inspection.line_selection import InspectOptions, line_files
from curriculum.pipeline.attempts import specialist_of
from curriculum.pipeline.built_for import last_built_first, of_owner
from curriculum.pipeline.references import Reference, find, store_of
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from dashboards.document_page import page, page_content
from dashboards.rows.write import chosen_rows
from flows.cli.console import ACCENT, MUTED, out, plain_table, print_json
from flows.cli.inspect.checkpoints import checkpoint
from flows.cli.inspect.documents import document_panels, examples_of, row_panels
from flows.cli.inspect.json_content import content
from flows.cli.inspect.mixtures import plan, selection
from flows.cli.inspect.narrowing import narrowed
from flows.cli.inspect.runs import open_run, run
from flows.cli.inspect.text import counts
from flows.cli.inspect.tokenizers import token_panels, tokenizer
from schemas.errors import StoreError
from schemas.specialist import spelled
from schemas.visible import one_line

BY_LINE = ("rows", "documents", "tokens")
"""Stages whose lines are looked at one by one: of several artefacts the first lines are shown."""


def show(
    home: Path,
    what: str,
    options: InspectOptions,
    *,
    owner: str | None = None,
    listed: bool = False,
    as_json: bool = False,
    html: Path | None = None,
    draft: Path | None = None,
) -> None:
    """Find an artefact, row, document, run or checkpoint and print it, or write it as a page.

    A `draft` is written in place of the page, for whoever moves it there.

    Of a whole stage only what belongs to `owner`, else first what was built last.

    Raises:
        StoreError: for what isn't there, and for a choice that nothing fits or that means nothing here.
    """
    store = store_of(home, what)
    reference = find(store, what, document=options.document)
    if owner is not None:
        reference = of_owner(store, reference, owner)
    elif what in BY_LINE:
        reference = replace(
            reference, artefacts=tuple(last_built_first(store, reference.artefacts))
        )
    options = replace(
        options,
        pack_id=reference.pack_id or options.pack_id,
        document=reference.document or options.document,
    )
    found = narrowed(store, reference, options)
    if html:
        _write(as_page(store, _sole(found), options), draft or html)
        typer.echo(html.absolute().as_uri())
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
            sheets = [page_content(each) for each in documents(store, artefact, options)]
        case "rows":
            return chosen_rows(store, artefact, options)
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


def look(store: Store, found: Reference, options: InspectOptions) -> Iterator[RenderableType]:
    """Yield the panels of what was found."""
    if found.checkpoint is not None:
        yield from checkpoint(store, found.checkpoint, options)
    elif found.open_run is not None:
        yield from open_run(store, found.open_run)
    else:
        yield from _artefacts(store, found, options)


def _artefacts(store: Store, found: Reference, options: InspectOptions) -> Iterator[RenderableType]:
    """The first artefact; of rows and documents as many as it takes to show what is wished."""
    left = options.rows
    for artefact in found.artefacts:
        stage = artefact.manifest.stage
        mine = replace(options, rows=left) if stage in BY_LINE else options
        if stage in BY_LINE and len(found.artefacts) > 1 and _is_empty(artefact):
            continue
        yield from _header(store, artefact)
        shown = 0
        for piece in _of_stage(store, artefact, mine):
            shown += isinstance(piece, Panel)
            yield piece
        left -= shown if stage in BY_LINE else left
        if left <= 0:
            break
    rest = len(found.artefacts) - found.artefacts.index(artefact) - 1 if found.artefacts else 0
    if rest:
        yield Text(f"… and {number(rest, 'more artefact')}: --list names them", MUTED)


def _is_empty(artefact: Artefact) -> bool:
    files = line_files(artefact)
    return bool(files) and not any(parquet.read_metadata(file).num_rows for file in files)


def _of_stage(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[RenderableType]:
    match artefact.manifest.stage:
        case "rows":
            yield from row_panels(store, artefact, options)
        case "documents":
            yield from document_panels(store, artefact, options)
            yield from examples_of(artefact)
        case "mixtures":
            yield from plan(store, artefact, options)
        case "runs":
            yield from run(store, artefact, options)
        case "selections":
            yield from selection(store, artefact, options)
        case "tokenizers":
            yield from tokenizer(artefact, options)
        case "tokens":
            yield from token_panels(store, artefact, options)
        case _:
            yield counts(artefact)


def index(store: Store, found: Reference) -> Iterator[RenderableType]:
    """The artefacts, a line each."""
    drawn = plain_table("stage", "key", "what", "size", "made")
    drawn.columns[3].justify = "right"
    for each in found.artefacts:
        manifest = each.manifest
        drawn.add_row(
            Text(one_line(manifest.stage), "bold"),
            Text(one_line(each.key[:KEY_DIGITS])),
            Text(one_line(_labels(each))),
            f"{count(sum(record.num_bytes for record in manifest.files))}B",
            Text(one_line(manifest.created[:16].replace("T", " "))),
        )
    yield drawn
    yield Text(f"{number(len(found.artefacts), 'artefact')} of {store.root}", MUTED)


def _labels(artefact: Artefact) -> str:
    labels = artefact.manifest.labels
    if "specialist" in labels:
        return spelled(specialist_of(artefact), labels["phase"])
    return " · ".join(
        f"{name} {value}" if value.isdigit() else value for name, value in labels.items()
    )


def _header(store: Store, artefact: Artefact) -> Iterator[Text]:
    manifest = artefact.manifest
    size = sum(record.num_bytes for record in manifest.files)
    yield Text.assemble(
        (f"{manifest.stage} ", f"bold {ACCENT}"),
        (_labels(artefact), "bold"),
        (f"  {artefact.key[:KEY_DIGITS]}", MUTED),
    )
    yield Text(
        f"{number(len(manifest.files), 'file')} · {count(size)}B · {manifest.created[:19]}", MUTED
    )
    yield Text(artefact.path.relative_to(store.root).as_posix(), MUTED)
