"""The process that one question of a page runs in: it reads the files that it is given and writes none.

It is a script that needs DuckDB and pyarrow alone. Its standard input is the request, files to read and the
question; its standard output the answer; both are a line of JSON and Arrow streams. Before
DuckDB is loaded it gives up for good, by Landlock and by limits of the kernel, whatever the question
could do harm with: each thread that DuckDB starts inherits that. What DuckDB itself refuses comes on
top of it.
"""

import bisect
import importlib
import io
import json
import os
import re
import signal
import sys
import time
from typing import Any, Literal, NamedTuple, NoReturn

from curriculum.sandbox import MACHINE, Sandbox, SandboxError

STARTING_SECONDS = 60
"""Until the question begins; then its own limit holds."""

_CONFIG = {
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "secret_directory": "",
    "python_enable_replacements": "false",
}
_OWN_TYPES = re.compile(r"\b(VARIANT|UHUGEINT|BIGNUM|BIT|INTERVAL|UNION|GEOMETRY|TIME WITH)\b")
Kind = Literal["kernel", "gate", "sql", "memory", "start"]


class RefusedError(Exception):
    """A question without an answer: the kind of reason, and DuckDB's message or ours."""

    def __init__(self, kind: Kind, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.kind: Kind = kind


class AnswerTable(NamedTuple):
    """An answer as it leaves this process."""

    types: list[str]
    truncated: Literal["", "rows", "bytes"]
    seconds: float
    body: bytes


def answer(options: dict[str, Any], tables: dict[str, Any]) -> AnswerTable:
    """Answer the question over tables, and over views that `options` sets up on its files."""
    import duckdb

    try:
        connection = duckdb.connect(config={**_CONFIG, **options["config"]})
        _set_up(connection, options, tables)
        sql = gated(connection, options["sql"])
    except duckdb.Error as refused:
        raise RefusedError("sql", str(refused)) from None
    try:
        return _run_question(connection, sql, options)
    except (duckdb.OutOfMemoryException, MemoryError) as short:
        raise RefusedError("memory", str(short)) from None
    except (duckdb.Error, OSError) as refused:
        # An Arrow stream that has begun carries DuckDB's errors as its own, by their text.
        message = _with_question_lines(str(refused), sql)
        raise RefusedError("memory" if "Out of Memory" in message else "sql", message) from None


def _set_up(connection: Any, options: dict[str, Any], tables: dict[str, Any]) -> None:
    """Make the views, then forbid to open other files and to change a setting."""
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute(options["setup"])
    for name in tables:
        connection.unregister(name)
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in options["data"])
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _with_question_lines(message: str, sql: str) -> str:
    r"""Return the message with the line as the question counts it, not as its wrapper does.

    >>> _with_question_lines("no such column\nLINE 4: FROM a", "SELECT b\nFROM a")
    'no such column\nLINE 2: FROM a'
    """

    def counted(found: re.Match[str]) -> str:
        shown = found[2].strip(".")
        at = (at for at, line in enumerate(sql.splitlines(), 1) if shown in line)
        return f"LINE {next(at, found[1])}: {found[2]}"

    return re.sub(r"^LINE (\d+): (.*)$", counted, message, flags=re.MULTILINE)


def _run_question(connection: Any, sql: str, options: dict[str, Any]) -> AnswerTable:
    """Run the question within its time, and encode its answer."""
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, options["seconds"])
    # One row more than wanted shows whether there are more. Below top level DuckDB refuses a COPY that
    # hides in a WITH.
    result = connection.sql(f"SELECT * FROM (\n{sql}\n) LIMIT {options['rows'] + 1}")
    types = [str(kind) for kind in result.types]
    columns = map(portable, types, result.columns, range(1, len(types) + 1))
    reader = result.project(", ".join(columns)).to_arrow_reader(1024)
    body, truncated = written(reader, options["rows"], options["bytes"])
    signal.alarm(STARTING_SECONDS)
    return AnswerTable(types, truncated, time.perf_counter() - start, body)


def portable(kind: str, name: str, number: int) -> str:
    """Return the column of a number and type; as text where Arrow or Parquet have no such type."""
    as_text = f"CAST(#{number} AS VARCHAR) AS {quoted_name(name)}"
    return as_text if _OWN_TYPES.search(kind) else f"#{number}"


def quoted_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def gated(connection: Any, sql: str) -> str:
    """The question without the semicolon at its end, if it is exactly one SELECT.

    >>> import duckdb
    >>> gated(duckdb.connect(), "SELECT ';' ; -- one;")
    "SELECT ';' "

    Raises:
        RefusedError: with what it is instead.
    """
    import duckdb

    found = [statement.type.name for statement in connection.extract_statements(sql)]
    if found != ["SELECT"]:
        raise RefusedError("gate", ", ".join(found).replace("_", " ") or "nothing")
    text = sql.encode()
    end = len(text)
    for at, kind in reversed(duckdb.tokenize(sql)):
        if text[at : at + 1] == b";":
            end = at
        elif kind != duckdb.token_type.comment:
            break
    return text[:end].decode()


def written(reader: Any, rows: int, most: int) -> tuple[bytes, Literal["", "rows", "bytes"]]:
    """An Arrow stream of at most `rows` rows and about `most` bytes, and which of the two cut it."""
    import pyarrow as pa

    sink = io.BytesIO()
    left = rows
    cut: Literal["", "rows", "bytes"] = ""
    with pa.ipc.new_stream(sink, reader.schema) as stream:
        for batch in reader:
            wanted = min(left, batch.num_rows)
            part = batch.slice(0, _count_fitting(batch, wanted, most - sink.tell()))
            stream.write_batch(part)
            left -= part.num_rows
            if part.num_rows < batch.num_rows:
                cut = "bytes" if part.num_rows < wanted else "rows"
                break
    return sink.getvalue(), cut


def _count_fitting(batch: Any, rows: int, room: int) -> int:
    """Return how many of the first `rows` rows of a batch have room."""
    if batch.slice(0, rows).nbytes <= room:
        return rows
    return max(
        0, bisect.bisect_right(range(rows), room, key=lambda at: batch.slice(0, at).nbytes) - 1
    )


def _load(names: list[str]) -> dict[str, Any]:
    """The tables that follow on standard input, and the libraries, which can't be read any more later."""
    importlib.import_module("duckdb")
    arrow = importlib.import_module("pyarrow.ipc")
    return {name: arrow.open_stream(sys.stdin.buffer).read_all() for name in names}


def _sandbox_of(options: dict[str, Any]) -> Sandbox:
    """Return the sandbox of a question: its files can be read, and nothing can be written."""
    return Sandbox(
        # DuckDB ends where it can't read about the machine.
        read=(*options["kept"], *options["data"], *MACHINE),
        memory=options["process_memory"],
        cpu_seconds=int(STARTING_SECONDS + options["seconds"] * (options["threads"] + 1)) + 1,
    )


def main() -> NoReturn:
    """Read a request, confine this process, answer, and exit without any cleanup."""
    signal.alarm(STARTING_SECONDS)
    version = 0
    try:
        # Before any library could start a thread, which Landlock would pass over.
        version = Sandbox(read=("/",)).enter()
        options = json.loads(sys.stdin.buffer.readline())
        tables = _load(options["tables"])
        _sandbox_of(options).enter()
        table = answer(options, tables)
        head = {**table._asdict(), "landlock": version, "body": len(table.body)}
        body = table.body
    except SandboxError as refusal:
        head, body = {"refused": "kernel", "message": str(refusal), "landlock": version}, b""
    except RefusedError as refusal:
        head, body = {"refused": refusal.kind, "message": str(refusal), "landlock": version}, b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + body)
    sys.stdout.buffer.flush()
    # DuckDB's threads may be in the midst of something that nobody waits for.
    os._exit(0)


if __name__ == "__main__":
    main()
