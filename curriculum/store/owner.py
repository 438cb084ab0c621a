"""The identity of a process, and whether the owner that a record names still runs."""

import os
import socket
from pathlib import Path

from schemas.job import RunState
from schemas.moment import now


def this_process() -> RunState:
    """The identity of this process, which a later one with its pid doesn't share."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return RunState(
        host=socket.gethostname(),
        pid=os.getpid(),
        process_started=process_started(os.getpid()) or 0.0,
        boot_id=boot.read_text().strip() if boot.is_file() else "",
        at=now(),
    )


def process_started(pid: int) -> float | None:
    """Seconds from boot to the start of a process, or None where there is none that still runs."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        # The name of a program stands in brackets and may hold spaces; field 22 is counted after it.
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None  # It has ended, and whoever started it hasn't noticed.
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_alive(state: RunState) -> bool:
    """Return True where the owner in a record of this machine still runs."""
    here = this_process()
    same_machine = (state.host, state.boot_id) == (here.host, here.boot_id)
    return same_machine and process_started(state.pid) == state.process_started
