"""A process that gets no more memory ends with one line that says so, and how to give it more."""

import resource
from typing import Any, NoReturn

import duckdb
import pyarrow as pa
import pytest

from tests.flows.cli_runner import curriculum

ERRORS = (
    MemoryError(),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate data"),
    ImportError("libarrow.so.2600: failed to map segment from shared object"),
    ImportError("libtorch.so: cannot allocate memory in static TLS block"),
)


def _failing(monkeypatch: pytest.MonkeyPatch, failed: Exception) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise failed

    monkeypatch.setattr("flows.cli.query.query", fail)


@pytest.mark.parametrize("failed", ERRORS, ids=lambda failed: type(failed).__name__)
@pytest.mark.parametrize("limit", [1_500_000 << 10, resource.RLIM_INFINITY])
def test_a_process_that_gets_no_more_memory_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, failed: Exception, limit: int
) -> None:
    _failing(monkeypatch, failed)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    done = curriculum("query", "SELECT 1")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert ("ulimit -v 1500000" in line) == (limit != resource.RLIM_INFINITY)
    assert "memory" in line


def test_an_import_that_fails_otherwise_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _failing(monkeypatch, ImportError("cannot import name 'x'"))
    done = curriculum("query", "SELECT 1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
