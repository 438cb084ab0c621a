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
from curriculum.inspection.line_selection import (
    FILTERS,
    InspectOptions,
    LineFilter,
    has_row,
    line_files,
    select_lines,
)
from curriculum.pipeline.attempts import specialist_of, spelled
from curriculum.pipeline.references import Reference, find, store_of
from curriculum.store import Artefact, Store
from curriculum.store.recipe import KEY_DIGITS
from dashboards.inspect.document_page import document_page
from dashboards.inspect.page import page
from dashboards.rows.write import chosen_rows as wished_rows
from flows.cli.console import ACCENT, MUTED, out, plain_table, print_json
from flows.cli.inspect.as_json import content
from flows.cli.inspect.documents import document_panels
from flows.cli.inspect.mixtures import plan
from flows.cli.inspect.rows import row_panels
from flows.cli.inspect.runs import checkpoint, open_run, run
from flows.cli.inspect.selections import selection
from flows.cli.inspect.tables import counts
from flows.cli.inspect.tokenizers import documents_of, token_panels, tokenizer
from schemas.errors import StoreError
from schemas.visible import one_line


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


BY_LINE = ("rows", "documents", "tokens")
"""Stages whose lines are looked at one by one: of several artefacts the first lines are shown."""


def look(store: Store, found: Reference, options: InspectOptions) -> Iterator[RenderableType]:
    """Yield the panels of what was found."""
    if found.checkpoint is not None:
        yield from checkpoint(store, found.checkpoint, options)
    elif found.begun is not None:
        yield from open_run(store, found.begun)
    else:
        yield from _artefacts(store, found, options)


def narrowed(store: Store, found: Reference, options: InspectOptions) -> Reference:
    """Without the artefacts that have no line of what is asked for.

    Raises:
        StoreError: where none is left, and for what can't be chosen by.
    """
    only, stages = options.only, {each.manifest.stage for each in found.artefacts}
    if options.pack_id is not None:
        found = _with_row(found, options.pack_id)
    if not only.given:
        return found
    if found.begun is not None or found.checkpoint is not None:
        only.refuse("checkpoints", "it", known=FILTERS["checkpoints"] if found.checkpoint else ())
        return found
    for stage in sorted(stages):
        only.refuse(stage, "it")
    left = [each for each in found.artefacts if _has_some(store, each, only)]
    if not left:
        asked = " ".join(f"--{name} {only.words(name)}" for name in only.given)
        raise StoreError(
            asked,
            cause=f"nothing in {number(len(found.artefacts), 'artefact')} is so",
            cure="Ask for less; --list shows the artefacts that were looked at",
        )
    return replace(found, artefacts=tuple(left))


def _with_row(found: Reference, pack_id: str) -> Reference:
    holders = [
        each for each in found.artefacts if each.manifest.stage == "rows" and has_row(each, pack_id)
    ]
    if not holders:
        raise StoreError(
            pack_id,
            cause=f"no row in {number(len(found.artefacts), 'artefact')} has this pack_id",
            cure="A pack_id begins with the first digits of its artefact's key",
        )
    return replace(found, artefacts=tuple(holders))


def _has_some(store: Store, artefact: Artefact, only: LineFilter) -> bool:
    stage = artefact.manifest.stage
    if stage == "runs":
        # A run's figures are chosen where they are shown.
        only = LineFilter(step=only.step, where=only.where)
    if stage == "tokens":
        made_of = documents_of(store, artefact)
        if made_of is None:
            return False
        artefact = made_of
    masks = select_lines(store, artefact, only)
    return masks is None or any(mask.any() for mask in masks)


def _artefacts(store: Store, found: Reference, options: InspectOptions) -> Iterator[RenderableType]:
    """The first artefact; of rows and documents as many as it takes to show what is wished."""
    left = options.rows
    for artefact in found.artefacts:
        stage = artefact.manifest.stage
        mine = replace(options, rows=left) if stage in BY_LINE else options
        if stage in BY_LINE and len(found.artefacts) > 1 and _is_empty(artefact):
            continue
        yield _header(store, artefact)
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


def _header(store: Store, artefact: Artefact) -> Text:
    manifest = artefact.manifest
    where = artefact.path.relative_to(store.root).as_posix()
    size = sum(record.num_bytes for record in manifest.files)
    return Text.assemble(
        (f"{manifest.stage} ", f"bold {ACCENT}"),
        (_labels(artefact), "bold"),
        (
            f"\n{where} · {number(len(manifest.files), 'file')} · {count(size)}B · {manifest.created[:19]}",
            MUTED,
        ),
    )
