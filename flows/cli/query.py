"""`curriculum query` and `shell`: print or write the result of a SQL query, or start DuckDB's shell."""

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
"""Maximum number of rows that a terminal shows; other formats contain all rows."""
MAX_LETTERS = 200
"""Maximum number of characters of a value in a table."""
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
    """Write the result of a query to the terminal or to a file.

    The status of the phases is computed first if the query uses it. Notices about the data go to stderr; in
    JSON, they also follow the rows.

    Raises:
        CurriculumError: with `strict`, if the result has a notice.
    """
    if (missing := missing_workspace(home)) is not None:
        warn(missing)
    status = None
    if _STATUS.search(sql):
        status = _status_of(home)
    with (
        _print_notices_on_failure(home, sql),
        catalog.stream(home, sql, _CONTENT[form], status) as answer,
    ):
        for notice in answer.notices:
            if strict:
                cure = "Run curriculum check, or omit --strict"
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
    """Return the status of the phases; None if the stored status is current, or if computing it fails."""
    # This plans every phase, and most queries don't need it.
    from curriculum.pipeline.status_table import current_status
    from flows.settings.contexts import resources

    try:
        return current_status(home, resources())
    except (CurriculumError, OSError) as failed:
        warn(f"could not compute the status of {home}: {failed}")
        return None


@contextlib.contextmanager
def _print_notices_on_failure(home: Path, sql: str) -> Iterator[None]:
    """Print the notices of a query if it fails in the block, since a notice may explain the failure."""
    try:
        yield
    except CatalogError:
        for notice in catalog.notices(home, sql):
            warn(notice)
        raise


class _Screen(io.RawIOBase):
    """Binary stream to a terminal that shows control characters as symbols."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, content: Any) -> int:
        """Write text, given as UTF-8 bytes."""
        sys.stdout.write(visible(self._decoder.decode(bytes(content))))
        return len(content)


def sql_text(sql: str | None, file: Path | None) -> str:
    """Return the SQL text from the argument `sql` or from a file; `-` means standard input.

    Raises:
        CurriculumError: if neither or both are given, or the file can't be read.
    """
    if (sql is None) == (file is None):
        cause = "give either a SQL text or --file"
        cure = 'For example: curriculum query "FROM runs", or curriculum query -f query.sql'
        raise CurriculumError("query", cause=cause, cure=cure)
    if STDIN in (sql, str(file)):
        return sys.stdin.read()
    if file is None:
        return sql or ""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        raise CurriculumError(
            str(file), refused, cause="the file can't be read", cure="Give a SQL file"
        ) from None


def answer_format(form: AnswerFormat | None, file: Path | None, *, as_json: bool) -> AnswerFormat:
    """Return the output format: `form` if it is given, else the format of the file's suffix, else a table.

    Raises:
        CurriculumError: if the file's suffix is no known format.
    """
    if form is not None:
        return form
    if file is None:
        return AnswerFormat.JSONL if as_json else AnswerFormat.TABLE
    ending = file.suffix.removeprefix(".").lower()
    known = [
        known_format.value
        for known_format in AnswerFormat
        if known_format is not AnswerFormat.TABLE
    ]
    if ending not in known:
        raise CurriculumError(
            "--out",
            file,
            cause="its extension isn't a known format",
            cure=f"Use the extension .{', .'.join(known)}, or give --format",
        )
    return AnswerFormat(ending)


def _print(answer: catalog.Stream) -> None:
    """Print the first rows of the result as a table, and the number of rows that are left."""
    lines: list[tuple[Any, ...]] = []
    total = 0
    for batch in answer.batches:
        if len(lines) < MAX_ROWS:
            lines += _rows(batch.slice(0, MAX_ROWS - len(lines)))
        total += len(batch)
    out.print(_draw_table(answer.schema.names, lines))
    rest = total - len(lines)
    more = f"; {rest:,} more (--json)" if rest > 0 else ""
    err.print(Text(f"{number(total, 'row')}{more}", MUTED))


def _draw_table(names: list[str], lines: Sequence[Sequence[Any]]) -> Table:
    """Return a table with one line per row; on a narrow terminal, the last columns are left out."""
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
        cause = "a terminal can't show this format"
        raise CurriculumError("--format", form, cause=cause, cure="Add --out answer.parquet")


def _csv(answer: catalog.Stream, target: BinaryIO) -> None:
    """Write a header and one line per row; values are written as DuckDB writes them to CSV."""
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
    """Yield the rows as JSON objects, with values as DuckDB writes them, then the notices if there are any.

    Invisible characters become JSON escapes.
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
    """Write the table that a terminal would show, but with all rows."""
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
    """Replace this process by DuckDB's shell, in which the workspace's tables are views.

    `words` are passed to DuckDB's shell unchanged.

    Raises:
        CurriculumError: if the workspace or DuckDB's shell is missing, or the views can't be written.
    """
    binary = _binary()
    script = catalog.publish(home)
    if script is None:
        there = (home / "workspace.json").is_file()
        raise CurriculumError(
            str(home),
            cause="catalog.sql can't be written to the workspace"
            if there
            else "there is no workspace",
            cure='Use curriculum query "FROM runs" instead'
            if there
            else "Create a workspace: curriculum demo",
        )
    for notice in catalog.notices(home):
        warn(notice)
    os.chdir(script.parent)
    sys.stdout.flush()
    os.execv(binary, [str(binary), "-init", script.name, *words])


def _binary() -> Path:
    """Return the path of DuckDB's shell: the one installed with this Python, or else the one on $PATH."""
    beside = Path(sys.executable).with_name("duckdb")
    found = beside if beside.is_file() else shutil.which("duckdb")
    if found is None:
        raise CurriculumError(
            "duckdb",
            cause="DuckDB's command line isn't installed",
            cure=install_command("duckdb-cli"),
        )
    return Path(found)
