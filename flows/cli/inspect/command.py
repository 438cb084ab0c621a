"""`curriculum inspect`: find something and show it in the terminal, as JSON or as a page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType
from rich.text import Text

from curriculum import parquet
from curriculum.inspection.document_view import documents
from curriculum.inspection.formats import number
from curriculum.inspection.line_selection import FILTERS, InspectOptions, has_lines, line_files
from curriculum.pipeline.built_for import last_built_first, of_owner
from curriculum.pipeline.references import Reference, find, store_of
from curriculum.store import Artefact, Store
from dashboards.document_page import articles, page
from dashboards.rows.write import chosen_rows
from flows.cli.console import MUTED, out, print_json
from flows.cli.inspect.artefacts import (
    InspectedArtefact,
    Inspection,
    counts,
    header,
    index,
    without_lines,
)
from flows.cli.inspect.checkpoints import checkpoint_panels, checkpoint_view
from flows.cli.inspect.documents import require_some
from flows.cli.inspect.runs import open_run_panels, open_run_view
from flows.cli.inspect.stages import BY_LINE, PANELS, WHOLE
from schemas.errors import StoreError


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

    If `what` is a stage, its newest artefacts come first; with `owner`, only the artefacts of that owner are
    shown. A page is written to the path `draft` if that is given; the caller then moves the file to `html`.

    Raises:
        StoreError: if nothing is found, nothing matches the filter, or the filter doesn't apply.
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
        print_json(view_of(store, found, options, listed=listed))
    if html or as_json:
        return
    for piece in index(store, found.artefacts) if listed else look(store, found, options):
        out.print(piece, soft_wrap=isinstance(piece, Text) and "\n" not in piece.plain)


def narrowed(store: Store, found: Reference, options: InspectOptions) -> Reference:
    """Return a reference to only those artefacts that have a line which matches the filter.

    Raises:
        StoreError: if no artefact is left, or if the filter doesn't apply.
    """
    only, asked = options.only, []
    if found.open_run is not None or found.checkpoint is not None:
        only.refuse("checkpoints", "it", known=FILTERS["checkpoints"] if found.checkpoint else ())
        return found
    for stage in sorted({artefact.manifest.stage for artefact in found.artefacts}):
        only.refuse(stage, "it")
    if options.pack_id is not None:
        asked.append(options.pack_id)
    asked += [f"--{name} {only.words(name)}" for name in only.given]
    if not asked:
        return found
    left = [artefact for artefact in found.artefacts if has_lines(store, artefact, options)]
    if not left:
        raise StoreError(
            " ".join(asked),
            cause=f"no match in {number(len(found.artefacts), 'artefact')}",
            cure="Remove filters; --list shows the searched artefacts",
        )
    return replace(found, artefacts=tuple(left))


def view_of(
    store: Store, found: Reference, options: InspectOptions, *, listed: bool = False
) -> object:
    """Return the value that --json prints for the thing to which a reference refers."""
    if found.checkpoint is not None:
        return checkpoint_view(store, found.checkpoint)
    if found.open_run is not None:
        return open_run_view(store, found.open_run)
    if listed:
        return Inspection(artefacts=tuple(map(without_lines, found.artefacts)))
    shown = [view for _, view in _views(store, found, options)]
    return Inspection(artefacts=tuple(shown), more=_rest(found, shown))


def look(store: Store, found: Reference, options: InspectOptions) -> Iterator[RenderableType]:
    """Yield the panels that show the thing to which a reference refers."""
    if found.checkpoint is not None:
        yield from checkpoint_panels(store, checkpoint_view(store, found.checkpoint), options)
        return
    if found.open_run is not None:
        yield from open_run_panels(store, open_run_view(store, found.open_run))
        return
    shown = []
    for artefact, view in _views(store, found, options):
        shown.append(view)
        yield from header(store, artefact)
        if panels := PANELS.get(artefact.manifest.stage):
            yield from panels(store, artefact, view, options)
        else:
            yield counts(artefact.manifest.report)
    if rest := _rest(found, shown):
        yield Text(f"… and {number(rest, 'more artefact')} (--list)", MUTED)


def _views(
    store: Store, found: Reference, options: InspectOptions
) -> Iterator[tuple[Artefact, InspectedArtefact[Any]]]:
    """Yield artefacts and their views, until the requested number of lines is reached.

    Only rows, documents and tokens have lines that are shown one by one. Of other stages, only the first
    artefact is yielded.
    """
    left = options.rows
    for artefact in found.artefacts:
        stage = artefact.manifest.stage
        if stage not in BY_LINE:
            view = WHOLE.get(stage)
            yield artefact, view(store, artefact, options) if view else without_lines(artefact)
            return
        if len(found.artefacts) > 1 and _is_empty(artefact):
            continue
        lines = tuple(BY_LINE[stage](store, artefact, replace(options, rows=left)))
        yield artefact, replace(without_lines(artefact), lines=lines)
        left -= len(lines)
        if left <= 0:
            return


def _rest(found: Reference, shown: list[InspectedArtefact[Any]]) -> int:
    """Return the number of found artefacts that follow the last shown artefact."""
    paths = [artefact.path for artefact in found.artefacts]
    return len(paths) - paths.index(shown[-1].path) - 1 if shown else 0


def _is_empty(artefact: Artefact) -> bool:
    files = line_files(artefact)
    return bool(files) and not any(parquet.read_metadata(file).num_rows for file in files)


def as_page(store: Store, artefact: Artefact, options: InspectOptions) -> str:
    """Return documents or rows as an HTML page that needs no other files.

    Raises:
        StoreError: for a stage without documents and rows.
    """
    match artefact.manifest.stage:
        case "documents":
            shown = require_some(artefact, documents(store, artefact, options))
        case "rows":
            return chosen_rows(store, artefact, options)
        case stage:
            raise StoreError(
                str(artefact.path),
                f"stage {stage}",
                cause="pages can show only documents and rows",
                cure="Omit --html",
            )
    labels = artefact.manifest.labels
    title = " ".join(value for name, value in labels.items() if name in ("family", "repository"))
    return page(title, artefact.path.relative_to(store.root).as_posix(), [*articles(shown)])


def _sole(found: Reference) -> Artefact:
    if not found.artefacts:
        raise StoreError(
            "--html", cause="pages can show only documents and rows", cure="Omit --html"
        )
    return found.artefacts[0]


def _write(page: str, file: Path) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as failed:
        raise StoreError(
            str(file), failed.strerror, cause="the page can't be written", cure="Give another path"
        ) from None
