"""`curriculum inspect`: one artefact for human eyes."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.lines import count, figure_lines, mixture_lines, number, percent, report_of, run_line
from flows.show import ACCENT, MUTED, colour, out, plain_table, table
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME

STRIP_WIDTH = 96
TEXT_LINES = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What of an artefact to show."""

    rows: int = 1
    pack_id: str | None = None
    full: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a document came from: the first of its provenance."""

    repository: str
    commit: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What one packed row holds, for showing."""

    pack_id: str
    input_ids: list[int]
    loss_mask: list[int]
    doc_starts: list[int]
    valid: int
    scored: int
    document_ids: list[str]
    domain: str

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Half-open token ranges of the documents.

        >>> Row(..., doc_starts=[0, 3], valid=5).spans
        [(0, 3), (3, 5)]
        """
        return list(itertools.pairwise([*self.doc_starts[: len(self.document_ids)], self.valid]))


def find(store: Store, path_or_key: str) -> Artefact:
    """The artefact at a path, the first one below a folder of several, or the one whose key begins so.

    Raises:
        StoreError: where there is none, or several keys begin so.
    """
    path = Path(path_or_key)
    if path.exists():
        folder = path if path.is_dir() else path.parent
        below = [each for each in folder.rglob(MANIFEST_NAME) if "checkpoints" not in each.parts]
        first = min(below, default=folder / MANIFEST_NAME)
        return store.load(first.parent.absolute())
    found = [each for each in store.artefacts() if each.key.startswith(path_or_key.lower())]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(each.path.relative_to(store.root).as_posix() for each in found[:3])
    raise StoreError(
        path_or_key,
        listed or None,
        cause="several keys begin so" if found else "it is no path, and no key begins so",
        cure="Give more digits" if found else "`curriculum status` lists what there is",
    )


def look(store: Store, artefact: Artefact, wish: Wish) -> Iterator[RenderableType]:
    """The artefact, piece by piece."""
    stage = artefact.manifest.stage
    yield _header(store, artefact)
    match stage:
        case "rows":
            yield from _rows(store, artefact, wish)
        case "documents":
            yield from _documents(artefact, wish)
        case "mixtures":
            yield table(mixture_lines(artefact))
            yield ""
            yield _plan(artefact, wish)
        case "runs":
            yield table([run_line(report_of(artefact))])
            yield ""
            yield table(figure_lines(report_of(artefact)))
        case _:
            yield _counts(artefact)


def as_text(artefact: Artefact, wish: Wish) -> str:
    """The manifest, and of rows and documents the first few lines of data."""
    content: dict[str, object] = {
        "path": str(artefact.path),
        "manifest": artefact.manifest.model_dump(mode="json"),
    }
    if artefact.manifest.stage in ("rows", "documents", "mixtures"):
        content["lines"] = list(itertools.islice(_lines(artefact, wish), wish.rows))
    return json.dumps(content, indent=1, ensure_ascii=False)


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


def _rows(store: Store, artefact: Artefact, wish: Wish) -> Iterator[RenderableType]:
    tokenizer = _tokenizer(store, artefact)
    for line in itertools.islice(_lines(artefact, wish), wish.rows):
        row = Row(
            pack_id=line["pack_id"],
            input_ids=line["input_ids"],
            loss_mask=line["loss_mask"],
            doc_starts=line["doc_starts"],
            valid=line["valid_token_count"],
            scored=line["loss_token_count"],
            document_ids=line["document_ids"],
            domain=line["domain"],
        )
        yield _row_panel(row, _origins(store, artefact, row), tokenizer, full=wish.full)


def _row_panel(row: Row, origins: dict[str, Origin], tokenizer: Tokenizer, *, full: bool) -> Panel:
    length = len(row.input_ids)
    header = Text(
        f"{row.valid:,}/{length:,} tokens · {number(len(row.document_ids), 'document')} · "
        f"{percent(row.valid / length)} packed · {percent(row.scored / row.valid)} scored · "
        f"{row.domain}"
    )
    body = Group(
        header, strip(row), _document_table(row, origins), "", *_text(row, tokenizer, full)
    )
    return Panel(body, title=row.pack_id, title_align="left", border_style=MUTED, padding=(0, 1))


def strip(row: Row) -> Text:
    """The row as a bar, a colour a document, padding dim; every document has at least one cell."""
    length = len(row.input_ids)
    drawn = Text()
    for index, (start, end) in enumerate(row.spans):
        cells = round(end * STRIP_WIDTH / length) - round(start * STRIP_WIDTH / length)
        drawn.append("█" * max(cells, 1), colour(index))
    drawn.append("░" * max(STRIP_WIDTH - len(drawn), 0), MUTED)
    return drawn


def _document_table(row: Row, origins: dict[str, Origin]) -> Table:
    table = plain_table("doc", "repository", "commit", "path", "start", "tokens", "scored")
    for index, (start, end) in enumerate(row.spans):
        origin = origins[row.document_ids[index]]
        table.add_row(
            Text(f"■ {index}", colour(index)),
            origin.repository,
            origin.commit[:10],
            origin.path,
            f"{start:,}",
            f"{end - start:,}",
            f"{sum(row.loss_mask[start:end]):,}",
        )
    return table


def _text(row: Row, tokenizer: Tokenizer, full: bool) -> Iterator[Text]:
    """The documents' text, a coloured bar beside each; tokens that no prediction is scored on are dim."""
    predicted = [0, *row.loss_mask[:-1]]
    most = None if full else max(TEXT_LINES // max(len(row.spans), 1), 3)
    for index, (start, end) in enumerate(row.spans):
        text = Text()
        for scored, run in itertools.groupby(range(start, end), key=lambda at: predicted[at]):
            shown = tokenizer.decode([row.input_ids[at] for at in run])
            text.append(shown, None if scored else "dim")
        lines = text.split("\n")
        for line in lines[:most]:
            line.expand_tabs(4)
            yield Text.assemble(("▎", colour(index)), line, no_wrap=True, overflow="ellipsis")
        if most and len(lines) > most:
            yield Text.assemble(
                ("▎", colour(index)), (f"… {len(lines) - most} more lines (--full)", MUTED)
            )


def _documents(artefact: Artefact, wish: Wish) -> Iterator[RenderableType]:
    for line in itertools.islice(_lines(artefact, wish), wish.rows):
        origin = line["provenance"][0]
        header = Text(
            f"{line['num_bytes']:,} bytes · {number(len(line['parts']), 'part')} · {line['language']} · "
            f"{line['licence'] or 'no licence'} · {origin['repository']} {origin['commit'][:10]} "
            f"{origin['path']}"
        )
        table = plain_table("part", "kind", "start", "bytes", "elidable", "first line")
        content = line["text"].encode()
        for index, part in enumerate(line["parts"]):
            text = content[part["start"] : part["end"]].decode(errors="replace")
            table.add_row(
                Text(f"■ {index}", colour(index)),
                part["kind"],
                f"{part['start']:,}",
                f"{part['end'] - part['start']:,}",
                f"rank {part['rank']}" if part["elidable"] else "no",
                Text(text.lstrip().partition("\n")[0][:80]),
            )
        body: list[RenderableType] = [header, table]
        if wish.full:
            body += ["", Text(line["text"])]
        yield Panel(
            Group(*body),
            title=line["document_id"],
            title_align="left",
            border_style=MUTED,
            padding=(0, 1),
        )


def _plan(artefact: Artefact, wish: Wish) -> Table:
    names = ("slot", "position", "serving", "stratum", "row_length", "pack_id", "repetition")
    table = plain_table(*names, "valid_tokens")
    for line in itertools.islice(_lines(artefact, wish), max(wish.rows, 12)):
        table.add_row(*(str(line[name]) for name in (*names, "valid_tokens")))
    return table


def _counts(artefact: Artefact) -> Table:
    table = plain_table("counted", "value")
    for name, value in artefact.manifest.report.items():
        shown = f"{value:,}" if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
        table.add_row(name, shown if len(shown) < 200 else f"{shown[:199]}…")
    return table


def _lines(artefact: Artefact, wish: Wish) -> Iterator[dict[str, Any]]:
    """The lines of an artefact's Parquet files in order, or the one with a pack_id."""
    for file in artefact.files(".parquet"):
        if wish.pack_id:
            wanted = pc.field("pack_id") == wish.pack_id
            yield from pq.read_table(file, filters=wanted).to_pylist()
            continue
        for batch in pq.ParquetFile(file).iter_batches(batch_size=8):
            yield from batch.to_pylist()


def _inputs(store: Store, artefact: Artefact, stage: str) -> list[Artefact]:
    """The artefacts of a stage that this one was made from, at any depth."""
    by_key = {each.key: each for each in store.artefacts()}
    keys = [artefact.key]
    seen: dict[str, Artefact] = {}
    while keys:
        for record in by_key[keys.pop()].manifest.inputs:
            if record.key in by_key and record.key not in seen:
                seen[record.key] = by_key[record.key]
                keys.append(record.key)
    return [each for each in seen.values() if each.manifest.stage == stage]


def _origins(store: Store, artefact: Artefact, row: Row) -> dict[str, Origin]:
    """Where the row's documents came from; one whose documents artefact is gone has no origin."""
    origins = dict.fromkeys(row.document_ids, Origin(repository="?", commit="", path=""))
    wanted = pc.field("document_id").isin(row.document_ids)
    for documents in _inputs(store, artefact, "documents"):
        for file in documents.files(".parquet"):
            if not file.name.startswith("part-"):
                continue
            columns = ["document_id", "provenance"]
            for line in pq.read_table(file, columns=columns, filters=wanted).to_pylist():
                first = line["provenance"][0]
                origins[line["document_id"]] = Origin(
                    repository=first["repository"], commit=first["commit"], path=first["path"]
                )
    return origins


def _tokenizer(store: Store, artefact: Artefact) -> Tokenizer:
    found = _inputs(store, artefact, "tokenizers")
    if not found:
        raise StoreError(
            str(artefact.path),
            cause="the tokenizer that it was made with is gone",
            cure="Build again, or read it with --json",
        )
    return Tokenizer.load(found[0].path / "tokenizer.json")


def show(home: Path, what: str, wish: Wish, as_json: bool) -> None:
    """Find an artefact and print it."""
    store = Store(home, dry=True)
    artefact = find(store, what)
    if as_json:
        typer.echo(as_text(artefact, wish))
        return
    for piece in look(store, artefact, wish):
        out.print(piece)
