"""A process that parses foreign bytes is confined with all its threads."""

import json
import os
import subprocess
import sys

import pytest

from curriculum import sandboxed_process
from curriculum.sandbox import landlock

pytestmark = pytest.mark.skipif(
    not landlock(),
    reason="needs Landlock: Linux 5.13 or newer with it in /sys/kernel/security/lsm",
)
THREADS = """
import re
from pathlib import Path
threads = [*Path("/proc/self/task").iterdir()]
texts = [(thread / "status").read_text() for thread in threads]
print(len(threads), {re.search(r"Seccomp:\\s(\\d)", text)[1] for text in texts})
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    limits = {"read": ["/"], "write": [], "file_bytes": 0, "memory": None, "cpu_seconds": None}
    message = {"sandbox": limits, "is_confined": True, "request": None}
    return subprocess.run(
        [sys.executable, "-c", script + THREADS],
        input=json.dumps(message) + "\n",
        env={**os.environ, **sandboxed_process._ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "door",
    [
        "curriculum.foreign_decoding",
        "curriculum.foreign_tokenizers",
        "curriculum.interop.import_process",
    ],
)
def test_libraries_of_a_door_start_their_threads_in_its_sandbox(door: str) -> None:
    enter = "curriculum.sandboxed_process.enter_sandbox()"
    done = run(f"import curriculum.sandboxed_process, {door}\n{enter}\nimport pyarrow\n")
    count, kinds = done.stdout.split(" ", 1)
    assert (int(count) > 1, kinds) == (True, "{'2'}\n"), done.stderr


def test_a_process_with_a_thread_of_a_library_does_not_enter() -> None:
    """Without the check the thread stays outside."""
    enter = "curriculum.sandboxed_process.enter_sandbox()"
    done = run(f"import curriculum.sandboxed_process, pyarrow\n{enter}\n")
    assert "SandboxError" in done.stderr
    outside = "curriculum.sandbox.Sandbox(read=('/',)).enter()"
    done = run(f"import curriculum.sandbox, pyarrow\n{outside}\n")
    assert "'0'" in done.stdout


def test_a_small_file_gets_little_memory_on_a_large_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 28, "SC_PAGE_SIZE": 1 << 12}.get)
    least = sandboxed_process.MIN_MEMORY
    assert sandboxed_process.usual_memory(0) == least
    assert sandboxed_process.usual_memory(1_498) < least + (1 << 20)
    assert sandboxed_process.usual_memory(1 << 33) > 16 << 30
    assert sandboxed_process.usual_memory(1 << 40) == 1 << 39


def test_no_file_however_large_gets_more_than_a_day() -> None:
    assert sandboxed_process.usual_seconds(1_000_000_000) == 60 + 10_000
    assert sandboxed_process.usual_seconds(1 << 60) == sandboxed_process.MAX_SECONDS
