"""Questions of people whom a page lets in: each answered in a process of its own that can write nothing.

DuckDB's own settings don't keep a SELECT from writing. What does is the kernel: the process of a question
may read the data files of the snapshot and write none (see page_query_process.py). It ends with its answer,
with its time or with its memory, whatever is asked.
"""

import contextlib
import decimal
import io
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.catalog import page_query_process
from curriculum.catalog.answer_text import csv_line, rows_of
from curriculum.catalog.notices import notices_of
from curriculum.catalog.parquet_files import pattern, quoted
from curriculum.catalog.refusals import refusal
from curriculum.catalog.snapshot import Snapshot, take
from curriculum.catalog.views import script
from curriculum.sandbox import PYTHON, bare_environment
from schemas.errors import CatalogError

_SCRIPT = Path(page_query_process.__file__)
_QUESTION = "the question"
_ELSEWHERE = "`curriculum query` in a terminal asks without these limits"
_UNKNOWN_NAMES = ("Catalog Error", "Binder Error")
"""DuckDB's errors for a name that isn't there."""
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
_POLL_S = 0.2
_OVERHEAD = 1 << 30
"""Bytes that a process needs beside DuckDB's own: libraries, stacks, and the answer on its way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one question."""

    rows: int = 10_000
    bytes: int = 32 << 20
    """Bytes of the answer."""
    seconds: float = 20.0
    memory: int = 1 << 30
    threads: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The answer to a question, as much of it as its limits let through."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """DuckDB's."""
    table: pa.Table
    truncated: Literal["", "rows", "bytes"]
    """The limit that cut it; empty where it is whole."""
    seconds: float
    landlock: int
    """The version of Landlock that kept the question from writing."""
    notices: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Plain Python values; a column with what Python has no value for, as the year 20000, is text."""
        columns = (_values(self.table.select([place])) for place in range(len(self.columns)))
        return list(zip(*columns, strict=True))

    def cells(self, count: int) -> list[tuple[Any, ...]]:
        """Return the first rows as a table shows them: numbers and booleans, all else as text."""
        return rows_of(self.table.slice(0, count), "cells")

    def csv(self) -> bytes:
        """Comma-separated, in UTF-8, with a line of names, as DuckDB writes it."""
        rows = rows_of(self.table, "text")
        return "".join(map(csv_line, (self.columns, *rows))).encode()

    def parquet(self) -> bytes:
        """A Parquet file with the types that the answer has."""
        sink = io.BytesIO()
        pq.write_table(self.table, sink)
        return sink.getvalue()


def ask(
    home: Path, sql: str, limits: Limits | None = None, given_up: Callable[[], bool] = bool
) -> Reply:
    """The answer to one SELECT over the views of a workspace, asked by somebody whom nobody trusts.

    Its process ends soon after `given_up` returns True, which is asked several times a second.

    Raises:
        CatalogError: for anything else than one SELECT, one that DuckDB refuses, one that is beyond its
            limits, one that is given up, and where the kernel can't confine it.
    """
    limits = limits or Limits()
    snapshot = take(home)
    text = sql.encode(errors="replace").decode()
    head, body = _run(snapshot, text, limits, given_up, asked=text)
    if str(head.get("message")).startswith(_UNKNOWN_NAMES):
        # A name that the question doesn't spell out, or a wrong one: try with all of the catalog.
        head, body = _run(snapshot, text, limits, given_up, asked=None)
    if "refused" in head:
        raise _refused(sql, head["refused"], head["message"], limits)
    table = pa.ipc.open_stream(body).read_all()
    return Reply(
        columns=tuple(table.column_names),
        types=tuple(head["types"]),
        table=table,
        truncated=head["truncated"],
        seconds=head["seconds"],
        landlock=head["landlock"],
        notices=notices_of(snapshot, text),
    )


def _run(
    snapshot: Snapshot,
    sql: str,
    limits: Limits,
    given_up: Callable[[], bool],
    *,
    asked: str | None,
) -> tuple[dict[str, Any], bytes]:
    """Run a question in a process of its own; the head of its answer, and the Arrow stream after it.

    The process ends itself in time. Of our environment it gets nothing but where its libraries are.

    Raises:
        CatalogError: where it ended without an answer.
    """
    home, request = snapshot.home, _request(snapshot, sql, limits, asked)
    process = subprocess.Popen(
        [*PYTHON, str(_SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=home if home.is_dir() else "/",
        env={**_ENVIRONMENT, **bare_environment()},
    )
    with process, _kill_when(given_up, process):
        assert process.stdin
        assert process.stdout
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(request)
            head = process.stdout.readline(limits.bytes)
            # Twice, for what a line of an Arrow stream takes isn't only its data.
            body = process.stdout.read(2 * limits.bytes + (1 << 20))
        finally:
            # It has ended, or writes more than it may.
            process.kill()
    if given_up():
        cause = "its page is closed, or asks another one"
        raise CatalogError(_QUESTION, cause=cause, cure="Ask again")
    if not head:
        raise _ended_error(process.returncode, limits)
    return json.loads(head), body


def _request(snapshot: Snapshot, sql: str, limits: Limits, asked: str | None) -> bytes:
    """Encode a request: the question, the views it needs, their files; then tables in memory."""
    names = {name: f"{name} of now" for name in snapshot.tables}
    memory = {name: f'"{incoming}"' for name, incoming in names.items()}
    setup = script(snapshot, root="", memory=memory, asked=asked)
    # A view reads all files of a kind.
    kinds = [
        files for files in snapshot.files.values() if files and quoted(pattern(files[0])) in setup
    ]
    options = {
        "sql": sql,
        "setup": setup,
        "kept": [file for file in snapshot.kept.values() if quoted(pattern(file)) in setup],
        "data": [file for files in kinds for file in files],
        "tables": list(names.values()),
        "rows": limits.rows,
        "bytes": limits.bytes,
        "seconds": limits.seconds,
        "threads": limits.threads,
        "process_memory": limits.memory + limits.bytes + _OVERHEAD,
        "config": {"memory_limit": f"{limits.memory}B", "threads": limits.threads},
    }
    sink = io.BytesIO()
    for table in snapshot.tables.values():
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    return json.dumps(options).encode() + b"\n" + sink.getvalue()


@contextlib.contextmanager
def _kill_when(given_up: Callable[[], bool], process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kill a process once its question is given up, as long as the block lasts."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            if given_up():
                process.kill()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _refused(sql: str, kind: page_query_process.Kind, message: str, limits: Limits) -> CatalogError:
    """Return the error of a question that its process refused."""
    if kind == "kernel":
        return CatalogError(
            "Landlock",
            message,
            cause="nothing else keeps a question from writing",
            cure="Ask with `curriculum query`, or show the pages on Linux 5.13 or newer with landlock "
            "among its security modules (/sys/kernel/security/lsm)",
        )
    if kind == "gate":
        return CatalogError(
            _QUESTION,
            message,
            cause="it must be exactly one SELECT (or SHOW TABLES, DESCRIBE rows)",
            cure="Ask one thing at a time; a PIVOT needs its columns named by IN (…)",
        )
    if kind == "memory":
        return _too_much(limits)
    return refusal(_QUESTION, sql, message, with_line=True)


def _too_much(limits: Limits) -> CatalogError:
    return CatalogError(
        _QUESTION,
        cause=f"it needs more than {limits.memory / (1 << 30):.3g} GiB of memory",
        cure=f"Keep fewer rows or columns before you sort or group; {_ELSEWHERE}",
    )


def _ended_error(code: int, limits: Limits) -> CatalogError:
    """Return the reason why a sandbox ended without an answer."""
    if -code in (signal.SIGALRM, signal.SIGXCPU):
        return CatalogError(
            _QUESTION,
            cause=f"it took longer than {limits.seconds:g} s",
            cure=f"Filter earlier, and leave token lists alone: counts stand beside them; {_ELSEWHERE}",
        )
    if -code == signal.SIGABRT:
        return _too_much(limits)
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return CatalogError(
        _QUESTION, cause=f"its process ended by {name}", cure="Ask it in another way"
    )


def _values(column: pa.Table) -> list[Any]:
    """Return the values of a table of one column."""
    try:
        return [_plain_value(value) for value in column[0].to_pylist()]
    except (ValueError, OverflowError, pa.ArrowException):
        return [value for (value,) in rows_of(column, "cells")]


def _plain_value(value: Any) -> Any:
    """A sum of whole numbers as one."""
    if isinstance(value, decimal.Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return value
