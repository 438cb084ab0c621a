"""The process of a flow run: it ends with the worker that started it, and says when it has ended."""

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
"""The event that a process sends last, after all of its heartbeats."""
END_WITHIN_S = 40.0
"""After the worker's end: Prefect would ask a server that went with it again and again."""
_INIT = 1


def main() -> None:
    """Be Prefect's engine, under our promises."""
    end_with_parent(signal.SIGTERM)
    guard_connections(settings.own_api_port())
    with _last_words():
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


def end_with_parent(number: signal.Signals) -> None:
    """Be signalled when the parent is gone, however it went; at once, where it is gone already.

    Without a worker nobody could cancel a run any more or tell the server how it ended. What doesn't heed
    the signal in time is killed.
    """
    parent = os.getppid()
    signal_with_parent(number)()
    threading.Thread(target=_outlive, args=(parent,), daemon=True).start()
    if os.getppid() == _INIT:
        os.kill(os.getpid(), number)


def _outlive(parent: int) -> None:
    """See the parent go, and this process after it."""
    while os.getppid() == parent != _INIT:
        time.sleep(0.5)
    time.sleep(END_WITHIN_S)
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def _last_words() -> Iterator[None]:
    """Send the event when the block ends; who waits for heartbeats then stops waiting.

    A run that waits for an approval ends its process, and a heartbeat that comes late must not start the
    wait anew.
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
