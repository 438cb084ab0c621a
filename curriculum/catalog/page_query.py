"""Queries by visitors of a page. Each query runs in its own process, which can't write.

DuckDB's settings don't prevent a SELECT from writing, but the kernel does: the process may read the data
files of the snapshot and may not write any file (see page_query_process.py). The process ends when the
answer is complete or when its time or memory limit is reached, whatever the query does.
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
"""Beginnings of DuckDB's errors for unknown names."""
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
_POLL_S = 0.2
_OVERHEAD = 1 << 30
"""Bytes of memory that a process needs beyond DuckDB's limit: for libraries, stacks and the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one query."""

    rows: int = 10_000
    bytes: int = 32 << 20
    """Maximum size of the answer."""
    seconds: float = 20.0
    memory: int = 1 << 30
    threads: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """Answer to a query, truncated at the query's limits."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """DuckDB types of the columns."""
    table: pa.Table
    truncated: Literal["", "rows", "bytes"]
    """Limit at which the answer was truncated. It is empty if the answer is complete."""
    seconds: float
    landlock: int
    """Version of Landlock, the kernel's mechanism that prevented the query from writing."""
    notices: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Rows of plain Python values.

        If Python can't represent a value, such as the year 20000, all values of its column are text.
        """
        columns = (_values(self.table.select([place])) for place in range(len(self.columns)))
        return list(zip(*columns, strict=True))

    def cells(self, count: int) -> list[tuple[Any, ...]]:
        """Return the first `count` rows: numbers and booleans unchanged, all other values as text."""
        return rows_of(self.table.slice(0, count), "cells")

    def csv(self) -> bytes:
        """Return the answer as CSV in UTF-8 with a header line, in DuckDB's format."""
        rows = rows_of(self.table, "text")
        return "".join(map(csv_line, (self.columns, *rows))).encode()

    def parquet(self) -> bytes:
        """Return the answer as a Parquet file with its original types."""
        sink = io.BytesIO()
        pq.write_table(self.table, sink)
        return sink.getvalue()


def ask(
    home: Path, sql: str, limits: Limits | None = None, given_up: Callable[[], bool] = bool
) -> Reply:
    """Run one untrusted SELECT over the views of a workspace in a process of its own that can't write.

    `given_up` is called several times a second. Once it returns True, the process is killed.

    Raises:
        CatalogError: if the text isn't exactly one SELECT, DuckDB refuses it, it exceeds its limits, it was
            given up, or the kernel can't restrict the process.
    """
    limits = limits or Limits()
    snapshot = take(home)
    text = sql.encode(errors="replace").decode()
    head, body = _run(snapshot, text, limits, given_up, asked=text)
    if str(head.get("message")).startswith(_UNKNOWN_NAMES):
        # The query may build a name at run time, or misspell one. Retry with the whole catalog.
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
    """Run a query in its own process. Return the header of its answer and the answer as an Arrow stream.

    The process enforces its own time limit. Its environment holds only the paths of its libraries. Only the
    views that `asked` needs are created, or all views if it is None.

    Raises:
        CatalogError: if the process ended without an answer.
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
            # Twice the limit, since an Arrow stream has more bytes than its data.
            body = process.stdout.read(2 * limits.bytes + (1 << 20))
        finally:
            # The process has ended, or it writes more than its limit.
            process.kill()
    if given_up():
        cause = "its page is closed, or asks another one"
        raise CatalogError(_QUESTION, cause=cause, cure="Ask again")
    if not head:
        raise _ended_error(process.returncode, limits)
    return json.loads(head), body


def _request(snapshot: Snapshot, sql: str, limits: Limits, asked: str | None) -> bytes:
    """Encode the request: a JSON line with the query, views and files, then the in-memory tables."""
    names = {name: f"{name} of now" for name in snapshot.tables}
    memory = {name: f'"{incoming}"' for name, incoming in names.items()}
    setup = script(snapshot, root="", memory=memory, asked=asked)
    # A view reads either all files of a kind or none, so checking the first file is enough.
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
    """While the block runs, kill a process as soon as its query is given up."""
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
    """Return the error for a query that its process refused."""
    if kind == "kernel":
        return CatalogError(
            "Landlock",
            message,
            cause="without Landlock, a query of the page could write files",
            cure="Run the query with `curriculum query`, or serve the pages on Linux 5.13 or newer with "
            "landlock among its security modules (/sys/kernel/security/lsm)",
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
    """Return the error for a process that ended without an answer."""
    if -code in (signal.SIGALRM, signal.SIGXCPU):
        return CatalogError(
            _QUESTION,
            cause=f"it took longer than {limits.seconds:g} s",
            cure="Filter before you join or aggregate, and select counts instead of lists of tokens; "
            f"{_ELSEWHERE}",
        )
    if -code == signal.SIGABRT:
        return _too_much(limits)
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return CatalogError(
        _QUESTION, cause=f"its process ended by {name}", cure="Ask it in another way"
    )


def _values(column: pa.Table) -> list[Any]:
    """Return the values of a table with one column."""
    try:
        return [_plain_value(value) for value in column[0].to_pylist()]
    except (ValueError, OverflowError, pa.ArrowException):
        return [value for (value,) in rows_of(column, "cells")]


def _plain_value(value: Any) -> Any:
    """Convert a Decimal without decimal places, such as a sum of integers, to an int."""
    if isinstance(value, decimal.Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return value
