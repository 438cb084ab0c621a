"""Process of a flow run, which ends when its worker ends and sends an event at its own end."""

import contextlib
import os
import runpy
import signal
import threading
import time
from collections.abc import Iterator

from curriculum.train.processes import signal_with_parent
from flows import settings
from flows.settings.api_listener import guard_connections

ENDED = "curriculum.flow-run.ended"
"""Last event of a process, after all heartbeats."""
END_WITHIN_S = 40.0
"""Time from the worker's end, in seconds, after which the process is killed.

Prefect would otherwise keep repeating requests to a server that was stopped with the worker.
"""
_INIT = 1


def main() -> None:
    """Run Prefect's engine for one flow run; end with the worker, and send an event at the end."""
    end_with_parent(signal.SIGTERM)
    guard_connections(settings.own_api_port())
    with _last_words():
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


def end_with_parent(number: signal.Signals) -> None:
    """Make this process receive a signal when its parent ends; send the signal now if the parent has ended.

    The parent is the worker. Without it nobody could cancel the run or report its end to the server. A
    process that ignores the signal is killed after END_WITHIN_S seconds.
    """
    parent = os.getppid()
    signal_with_parent(number)()
    threading.Thread(target=_outlive, args=(parent,), daemon=True).start()
    if os.getppid() == _INIT:
        os.kill(os.getpid(), number)


def _outlive(parent: int) -> None:
    """Wait until the process `parent` has ended, then end this process."""
    while os.getppid() == parent != _INIT:
        time.sleep(0.5)
    time.sleep(END_WITHIN_S)
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def _last_words() -> Iterator[None]:
    """Send the event ENDED when the block ends, so that the crash automation stops waiting for heartbeats.

    A run that waits for an approval ends its process too. Without the event, a heartbeat that arrives late
    would make the automation wait again and report a crash.
    """
    # Prefect reads its settings when it is imported; the parent may die before that.
    from prefect.events import emit_event

    try:
        yield
    finally:
        tag = {
            "prefect.resource.id": f"prefect.tag.{settings.tag()}",
            "prefect.resource.role": "tag",
        }
        emit_event(
            event=ENDED,
            resource={"prefect.resource.id": f"prefect.flow-run.{settings.flow_run()}"},
            related=[tag],
        )


if __name__ == "__main__":
    main()
