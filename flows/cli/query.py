"""`curriculum query` and `shell`: an answer as a table or a file, and DuckDB's own command line."""

import codecs
import contextlib
import io
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table
from rich.text import Text

from curriculum import catalog
from curriculum.catalog.answer_text import AnswerForm, csv_line, standard_json
from curriculum.inspection.formats import number
from curriculum.inspection.units import DIGEST, plain
from curriculum.store.artefact import KEY_DIGITS
from curriculum.store.inside import missing_workspace
from flows.cli.app import AnswerFormat
from flows.cli.console import MUTED, err, out, plain_table, warn
from schemas.cures import install_command
from schemas.errors import CatalogError, CurriculumError
from schemas.visible import in_json, one_line, visible

MAX_ROWS = 40
"""Rows of an answer that a terminal shows; every other form gives all."""
MAX_LETTERS = 200
"""Characters of a value in a table."""
STDIN = "-"
_STATUS = re.compile(r"\bstatus\b", re.IGNORECASE)


def query(
    home: Path,
    sql: str,
    *,
    form: AnswerFormat = AnswerFormat.TABLE,
    file: Path | None = None,
    strict: bool = False,
) -> None:
    """Write the answer to a question to the terminal or into a file.

    For one that names the status of the phases it is computed anew. Notices go to stderr, and to the end
    of JSON.

    Raises:
        CurriculumError: with `strict` for an answer that has a notice.
    """
    if (missing := missing_workspace(home)) is not None:
        warn(missing)
    status = None
    if _STATUS.search(sql):
        status = _status_of(home)
    with _noticing(home, sql), catalog.stream(home, sql, _CONTENT[form], status) as answer:
        for notice in answer.notices:
            if strict:
                cure = "Run curriculum check, or ask without --strict"
                raise CurriculumError("--strict", cause=notice.rstrip("."), cure=cure)
            warn(notice)
        if form is AnswerFormat.TABLE and file is None:
            _print(answer)
        elif file is None:
            _require_no_terminal(form)
            target = cast(BinaryIO, _Screen()) if sys.stdout.isatty() else sys.stdout.buffer
            _WRITERS[form](answer, target)
            sys.stdout.flush()
        else:
            with file.open("wb") as target:
                _WRITERS[form](answer, target)


def _status_of(home: Path) -> pa.Table | None:
    """Compute the status of the phases; None where the one that was written holds."""
    # It plans every phase, and most questions are about something else.
    from curriculum.pipeline.status_table import current_status
    from flows.settings.contexts import resources

    try:
        return current_status(home, resources())
    except (CurriculumError, OSError) as failed:
        warn(f"the status of {home} isn't computed: {failed}")
        return None


@contextlib.contextmanager
def _noticing(home: Path, sql: str) -> Iterator[None]:
    """Print the notices of a question beside its refusal, which may follow from what they say."""
    try:
        yield
    except CatalogError:
        for notice in catalog.notices(home, sql):
            warn(notice)
        raise


class _Screen(io.RawIOBase):
    """A terminal that is sent a visible sign for each control character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, content: Any) -> int:
        """Write text, given as its bytes."""
        sys.stdout.write(visible(self._decoder.decode(bytes(content))))
        return len(content)


def text_of(sql: str | None, file: Path | None) -> str:
    """The question: a text, a file, or standard input where either is `-`.

    Raises:
        CurriculumError: for neither or both, and a file that can't be read.
    """
    if (sql is None) == (file is None):
        cause = "a question is a text or a file, one of both"
        cure = 'Ask curriculum query "FROM runs", or curriculum query -f question.sql'
        raise CurriculumError("query", cause=cause, cure=cure)
    if STDIN in (sql, str(file)):
        return sys.stdin.read()
    if file is None:
        return sql or ""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        raise CurriculumError(
            str(file), refused, cause="the question can't be read", cure="Name a file of SQL"
        ) from None


def form_of(form: AnswerFormat | None, file: Path | None, *, as_json: bool) -> AnswerFormat:
    """Return the format: the given one, else by the file's suffix, else a table.

    Raises:
        CurriculumError: for a file whose name tells no form.
    """
    if form is not None:
        return form
    if file is None:
        return AnswerFormat.JSONL if as_json else AnswerFormat.TABLE
    ending = file.suffix.removeprefix(".").lower()
    known = [each.value for each in AnswerFormat if each is not AnswerFormat.TABLE]
    if ending not in known:
        raise CurriculumError(
            "--out",
            file,
            cause="its name doesn't say in which form to write",
            cure=f"Let it end in .{', .'.join(known)}, or give --format",
        )
    return AnswerFormat(ending)


def _print(answer: catalog.Stream) -> None:
    """The first lines as a table, and how many more there are."""
    lines: list[tuple[Any, ...]] = []
    total = 0
    for batch in answer.batches:
        if len(lines) < MAX_ROWS:
            lines += _rows(batch.slice(0, MAX_ROWS - len(lines)))
        total += len(batch)
    out.print(_draw_table(answer.schema.names, lines))
    rest = total - len(lines)
    more = f"; {rest:,} more: --json shows all" if rest > 0 else ""
    err.print(Text(f"{number(total, 'row')}{more}", MUTED))


def _draw_table(names: list[str], lines: Sequence[Sequence[Any]]) -> Table:
    """A line a row; where the terminal isn't as wide, without the columns farthest right."""
    drawn = plain_table(*names, details=())
    for column, values in zip(drawn.columns, zip(*lines, strict=True), strict=False):
        numeric = all(isinstance(value, int | float | Decimal) or value is None for value in values)
        column.justify = "right" if numeric else "left"
    for line in lines:
        drawn.add_row(*map(_shown, line))
    return drawn


def _shown(value: Any) -> Text:
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, int | float | Decimal):
        return Text(plain(value))
    text = "" if value is None else one_line(value)
    if DIGEST.fullmatch(text):
        return Text(text[:KEY_DIGITS])
    return Text(text if len(text) <= MAX_LETTERS else f"{text[: MAX_LETTERS - 1]}…")


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _lines(answer: catalog.Stream) -> Iterator[tuple[Any, ...]]:
    return itertools.chain.from_iterable(map(_rows, answer.batches))


def _require_no_terminal(form: AnswerFormat) -> None:
    if form is AnswerFormat.PARQUET and sys.stdout.isatty():
        cause = "a terminal can't show it"
        raise CurriculumError("--format", form, cause=cause, cure="Add --out answer.parquet")


def _csv(answer: catalog.Stream, target: BinaryIO) -> None:
    """A header and a line a row, as DuckDB writes them."""
    for line in itertools.chain([answer.schema.names], _lines(answer)):
        target.write(csv_line(line).encode())


def _jsonl(answer: catalog.Stream, target: BinaryIO) -> None:
    for line in _objects(answer):
        target.write(f"{line}\n".encode())


def _json(answer: catalog.Stream, target: BinaryIO) -> None:
    before = itertools.chain(["[\n"], itertools.repeat(",\n"))
    objects = 0
    for start, line in zip(before, _objects(answer), strict=False):
        target.write(f"{start}{line}".encode())
        objects += 1
    target.write(b"\n]\n" if objects else b"[]\n")


def _objects(answer: catalog.Stream) -> Iterator[str]:
    """The rows as JSON objects of DuckDB's, then one with the notices, if there are any.

    Hidden characters are escaped as JSON has it.
    """
    for (line,) in _lines(answer):
        yield in_json(standard_json(line))
    if answer.notices:
        yield in_json(json.dumps({"notices": answer.notices}, ensure_ascii=False))


def _parquet(answer: catalog.Stream, target: BinaryIO) -> None:
    with pq.ParquetWriter(target, answer.schema, compression="zstd") as writer:
        for batch in answer.batches:
            writer.write_batch(batch)


def _table(answer: catalog.Stream, target: BinaryIO) -> None:
    """The table that a terminal would show, of all lines."""
    names = [*map(one_line, answer.schema.names)]
    cells = [names, *([_shown(value).plain for value in line] for line in _lines(answer))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        target.write(f"{'  '.join(padded).rstrip()}\n".encode())


_WRITERS: dict[AnswerFormat, Callable[[catalog.Stream, BinaryIO], None]] = {
    AnswerFormat.TABLE: _table,
    AnswerFormat.CSV: _csv,
    AnswerFormat.JSON: _json,
    AnswerFormat.JSONL: _jsonl,
    AnswerFormat.PARQUET: _parquet,
}


_CONTENT: dict[AnswerFormat, AnswerForm] = {
    AnswerFormat.TABLE: "cells",
    AnswerFormat.CSV: "text",
    AnswerFormat.JSON: "json",
    AnswerFormat.JSONL: "json",
    AnswerFormat.PARQUET: "arrow",
}


def shell(home: Path, words: Sequence[str]) -> NoReturn:
    """Become DuckDB's command line, in the workspace, with its views; `words` go to it as they are.

    Raises:
        CurriculumError: where there is no workspace, no duckdb, or nothing can be written.
    """
    binary = _binary()
    script = catalog.publish(home)
    if script is None:
        there = (home / "workspace.json").is_file()
        raise CurriculumError(
            str(home),
            cause="its catalog.sql can't be written" if there else "there is no workspace",
            cure='Ask by curriculum query "FROM runs"' if there else "Build one: curriculum demo",
        )
    for notice in catalog.notices(home):
        warn(notice)
    os.chdir(script.parent)
    sys.stdout.flush()
    os.execv(binary, [str(binary), "-init", script.name, *words])


def _binary() -> Path:
    """DuckDB's command line: the one installed with this Python, else the one on the path."""
    beside = Path(sys.executable).with_name("duckdb")
    found = beside if beside.is_file() else shutil.which("duckdb")
    if found is None:
        raise CurriculumError(
            "duckdb",
            cause="its command line isn't installed",
            cure=install_command("duckdb-cli"),
        )
    return Path(found)
