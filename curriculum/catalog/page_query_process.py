"""Process that runs one query of a page. It reads only the given files and can't write.

The script needs only DuckDB and pyarrow. Standard input has the request: a JSON line with the files and
the query, then Arrow streams. Standard output receives the answer in the same format. Before DuckDB is
loaded, Landlock and resource limits take away every harmful permission from the process for good, and
from the threads that DuckDB starts. DuckDB's own restrictions apply in addition.
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
"""Maximum number of seconds until the query starts. From then on the query's own time limit applies."""

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
    """Query without an answer. It has the kind of reason, and a message from DuckDB or from this module."""

    def __init__(self, kind: Kind, message: str) -> None:
        """Store the kind of reason and the message."""
        super().__init__(message)
        self.kind: Kind = kind


class AnswerTable(NamedTuple):
    """Encoded answer, its column types, the time that it took, and the limit at which it was truncated."""

    types: list[str]
    truncated: Literal["", "rows", "bytes"]
    seconds: float
    body: bytes


def answer(options: dict[str, Any], tables: dict[str, Any]) -> AnswerTable:
    """Run the query over the in-memory `tables`, and over the views on files that `options` define."""
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
        # Once an Arrow stream has begun, DuckDB's errors arrive as Arrow errors with the same text.
        message = _with_question_lines(str(refused), sql)
        raise RefusedError("memory" if "Out of Memory" in message else "sql", message) from None


def _set_up(connection: Any, options: dict[str, Any], tables: dict[str, Any]) -> None:
    """Create the views, then forbid DuckDB to open other files and to change settings."""
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
    r"""Replace line numbers in an error message: those of the wrapping query by those of the user's query.

    >>> _with_question_lines("no such column\nLINE 4: FROM a", "SELECT b\nFROM a")
    'no such column\nLINE 2: FROM a'
    """

    def counted(found: re.Match[str]) -> str:
        shown = found[2].strip(".")
        at = (at for at, line in enumerate(sql.splitlines(), 1) if shown in line)
        return f"LINE {next(at, found[1])}: {found[2]}"

    return re.sub(r"^LINE (\d+): (.*)$", counted, message, flags=re.MULTILINE)


def _run_question(connection: Any, sql: str, options: dict[str, Any]) -> AnswerTable:
    """Run the query within its time limit, and encode its answer."""
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, options["seconds"])
    # One row beyond the limit shows whether the answer is cut. In a subquery DuckDB refuses a COPY
    # inside a WITH.
    result = connection.sql(f"SELECT * FROM (\n{sql}\n) LIMIT {options['rows'] + 1}")
    types = [str(kind) for kind in result.types]
    columns = map(portable, types, result.columns, range(1, len(types) + 1))
    reader = result.project(", ".join(columns)).to_arrow_reader(1024)
    body, truncated = written(reader, options["rows"], options["bytes"])
    signal.alarm(STARTING_SECONDS)
    return AnswerTable(types, truncated, time.perf_counter() - start, body)


def portable(kind: str, name: str, number: int) -> str:
    """Return the SQL expression for column `number`.

    It casts a type to text that Arrow or Parquet doesn't have.
    """
    as_text = f"CAST(#{number} AS VARCHAR) AS {quoted_name(name)}"
    return as_text if _OWN_TYPES.search(kind) else f"#{number}"


def quoted_name(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def gated(connection: Any, sql: str) -> str:
    """Return the query without its final semicolon; raise unless the query is exactly one SELECT.

    >>> import duckdb
    >>> gated(duckdb.connect(), "SELECT ';' ; -- one;")
    "SELECT ';' "

    Raises:
        RefusedError: if it isn't; the message names the statements that were found.
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
    """Return an Arrow stream of at most `rows` rows and about `most` bytes, and the limit that was hit."""
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
    """Return how many of the first `rows` rows of a batch fit into `room` bytes."""
    if batch.slice(0, rows).nbytes <= room:
        return rows
    return max(
        0, bisect.bisect_right(range(rows), room, key=lambda at: batch.slice(0, at).nbytes) - 1
    )


def _load(names: list[str]) -> dict[str, Any]:
    """Read the tables `names` from standard input.

    Import the libraries too, since they can't be read later.
    """
    importlib.import_module("duckdb")
    arrow = importlib.import_module("pyarrow.ipc")
    return {name: arrow.open_stream(sys.stdin.buffer).read_all() for name in names}


def _sandbox_of(options: dict[str, Any]) -> Sandbox:
    """Return the sandbox for a query. In it, the process can read the query's files and can't write."""
    return Sandbox(
        # DuckDB aborts if it can't read the machine's properties.
        read=(*options["kept"], *options["data"], *MACHINE),
        memory=options["process_memory"],
        cpu_seconds=int(STARTING_SECONDS + options["seconds"] * (options["threads"] + 1)) + 1,
    )


def main() -> NoReturn:
    """Read a request, restrict this process, write the answer, and exit without cleanup."""
    signal.alarm(STARTING_SECONDS)
    version = 0
    try:
        # Confine the process before a library starts a thread: Landlock doesn't apply to existing threads.
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
    # DuckDB's threads may still be running, and waiting for them has no purpose.
    os._exit(0)


if __name__ == "__main__":
    main()
