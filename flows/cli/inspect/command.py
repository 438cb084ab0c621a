"""`curriculum inspect`: what is found, in the terminal, as JSON or as a page."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from curriculum import parquet
from curriculum.inspection.checkpoint_weights import tensors
from curriculum.inspection.documents import Line, chosen_lines, document_lines, documents
from curriculum.inspection.formats import count, number
from curriculum.inspection.line_selection import (
    FILTERS,
    InspectOptions,
    LineFilter,
    has_row,
    line_files,
    select_lines,
)
from curriculum.inspection.rows import origins_of, row_of
from curriculum.inspection.runs import report_of
from curriculum.pipeline.attempts import (
    Attempt,
    SlotQueue,
    attempt_state,
    checkpoints,
    specialist_of,
)
from curriculum.pipeline.built_for import last_built_first, of_owner
from curriculum.pipeline.references import Reference, find, store_of
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.checkpoint_files import manifest_of, require_listed
from curriculum.train.run_directory import JOB, read_job
from dashboards.document_page import page, page_content
from dashboards.rows.write import chosen_rows
from flows.cli.console import ACCENT, MUTED, out, plain_table, print_json
from flows.cli.inspect.documents import document_panels, examples_of, row_panels
from flows.cli.inspect.mixtures import plan, selection
from flows.cli.inspect.runs import checkpoint, figures_of, open_run, run, saved_at, spec_at
from flows.cli.inspect.text import counts
from flows.cli.inspect.tokenizers import controls, documents_of, token_panels, tokenizer
from flows.settings.contexts import resources
from schemas.errors import StoreError
from schemas.specialist import spelled
from schemas.visible import one_line

LINED = ("rows", "mixtures", "selections", "runs")
"""Stages whose lines JSON shows as they lie in the files."""
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
    if found.open_run is not None or found.checkpoint is not None:
        only.refuse("checkpoints", "it", known=FILTERS["checkpoints"] if found.checkpoint else ())
        return found
    for stage in sorted(stages):
        only.refuse(stage, "it")
    left = [each for each in found.artefacts if _has_some(store, each, only)]
    if not left:
        asked = " ".join(f"--{name} {only.words(name)}" for name in only.given)
        raise StoreError(
            asked,
            cause=f"nothing in {number(len(found.artefacts), 'artefact')} matches",
            cure="Use fewer filters; --list shows the artefacts that were searched",
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


def content(
    store: Store, found: Reference, options: InspectOptions, *, listed: bool = False
) -> dict[str, object]:
    """Return the found artefacts; of rows and documents the chosen lines, as they lie in the files."""
    if found.checkpoint is not None:
        return _checkpoint(found.checkpoint)
    if found.open_run is not None:
        return _open_run(store, found.open_run)
    if listed:
        return {"artefacts": [_artefact(each) for each in found.artefacts]}
    return _first(store, found.artefacts, options)


def _first(store: Store, found: Sequence[Artefact], options: InspectOptions) -> dict[str, object]:
    """The first artefact, and its lines; lines that are still wished then come of the next ones."""
    first = found[0]
    content = _artefact(first)
    match first.manifest.stage:
        case "runs":
            report = report_of(first)
            content["job"] = Attempt.at(first.path).job.model_dump(mode="json")
            content["figures"] = figures_of(first.path, report, options)
            content["checkpoints"] = _checkpoints(first.path)
        case "tokenizers":
            content["controls"] = controls(load_tokenizer(first))
    lines = [line for each in found for line in _lines(store, each, options)]
    if first.manifest.stage in (*LINED, "documents") or lines:
        content["lines"] = lines[: options.rows]
    return content


def _lines(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[Line]:
    stage = artefact.manifest.stage
    if stage == "documents":
        yield from document_lines(store, artefact, options)
    elif stage == "rows":
        for _, line in itertools.islice(chosen_lines(store, artefact, options), options.rows):
            yield {**line, "documents": _documents(store, artefact, line)}
    elif stage in LINED and (stage != "runs" or options.only.step or options.only.where):
        yield from (
            line
            for _, line in itertools.islice(chosen_lines(store, artefact, options), options.rows)
        )
    elif stage == "tokens" and options.only.given:
        made_of = documents_of(store, artefact)
        if made_of is not None:
            yield from document_lines(store, made_of, options)


def _documents(store: Store, artefact: Artefact, line: Line) -> list[dict[str, object]]:
    """The documents of a row, down to the commit."""
    row = row_of(line)
    known = origins_of(store, artefact, row)
    return [
        {
            "document_id": name,
            "repository": known[name].repository,
            "commit": known[name].commit,
            "path": known[name].path,
            "licence": known[name].licence,
            "start": start,
            "tokens": end - start,
            "scored": sum(row.loss_mask[start:end]),
        }
        for name, (start, end) in zip(row.document_ids, row.spans, strict=True)
    ]


def _artefact(artefact: Artefact) -> dict[str, object]:
    return {
        "path": str(artefact.path),
        "manifest": artefact.manifest.model_dump(mode="json"),
    }


def _open_run(store: Store, begun: Attempt) -> dict[str, object]:
    stands = attempt_state(store, begun, SlotQueue.read(resources().slots_of(store.root)))
    return {
        "path": str(begun.path),
        "state": stands.state,
        "why": stands.why,
        "job": begun.job.model_dump(mode="json"),
        "checkpoints": _checkpoints(begun.path),
    }


def _checkpoint(path: Path) -> dict[str, object]:
    require_listed(path)
    spec, files = spec_at(path), manifest_of(path)
    job = read_job(path.parents[1] / JOB)
    return {
        "path": str(path),
        "manifest": files.model_dump(mode="json", include={"step", "files"}),
        "state": saved_at(path).model_dump(mode="json"),
        "model": spec.model_dump(mode="json") if spec else None,
        "job": job.model_dump(mode="json"),
        "weights": [
            {"name": each.name, "type": each.kind, "shape": list(each.shape)}
            for each in tensors(path)
        ],
    }


def _checkpoints(run: Path) -> list[dict[str, object]]:
    return [{"step": step, "path": str(path)} for step, path in sorted(checkpoints(run))]
