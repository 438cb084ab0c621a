"""Final states of flow and task runs that end without a result because of a mistake or an interrupt."""

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelled, Failed, get_state_exception

from flows.artifacts import Log
from flows.stored_results import refuse_stored_results
from schemas.errors import CurriculumError
from schemas.visible import visible

refuse_stored_results()
P = ParamSpec("P")
Result = TypeVar("Result")
INTERRUPTED = (
    "Interrupted from the terminal. Finished work is kept; run the same command again to continue."
)
CANCELLED = "Cancelled. Finished work is kept; Retry resumes the run."


class DeferredInterrupts:
    """Handler of Ctrl-C that defers interrupts while Prefect starts or ends a flow run.

    Prefect would report an interrupt in its own code as a crash. The handler therefore keeps the first
    interrupt and raises it when the body of the flow starts. A second interrupt is raised at once.
    """

    def __init__(self) -> None:
        self._came, self._raises = False, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Defer the interrupt, or raise it if it is the second one or comes within a `raised` block."""
        if self._came or self._raises:
            raise KeyboardInterrupt
        self._came = True

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raise interrupts within the block, and a deferred interrupt at its start."""
        before, self._raises = self._raises, True
        try:
            self.raise_deferred()
            yield
        finally:
            self._raises = before

    def raise_deferred(self) -> None:
        """Raise the deferred interrupt, if any."""
        if self._came:
            self._came = False
            raise KeyboardInterrupt


_held: ContextVar[DeferredInterrupts | None] = ContextVar("held", default=None)


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Defer Ctrl-C within the block, except while a function runs that `as_prefect_state` decorates."""
    handler = DeferredInterrupts()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # Only the main thread may handle signals; an ignored signal stays ignored.
        return
    token, before = _held.set(handler), signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _held.reset(token)
    handler.raise_deferred()


def as_prefect_state(body: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate the body of a flow or task, so that mistakes and interrupts end it without a traceback.

    By default Prefect logs the traceback of every error and reports an interrupt as a crash. Here:

    - A CurriculumError becomes a Failed state with the error's message.
    - An interrupt of a command in a terminal becomes a Cancelled state.
    - The signal by which a worker cancels a run of a deployment becomes a Cancelled state; the notes of the
      exception are the message.

    Reading the result of such a state raises the exception. Other signals of a worker are left to Prefect.
    """

    @functools.wraps(body)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Result:
        held = _held.get()
        try:
            with held.raised() if held else contextlib.nullcontext():
                return body(*args, **kwargs)
        except CurriculumError as mistake:
            if runtime.task_run.id is None:  # Prefect logs the end of a task as an error.
                Log().error(str(mistake))
            state: State[Any] = Failed(message=visible(str(mistake)), data=mistake)
        except KeyboardInterrupt as interrupt:
            if runtime.deployment.id is not None:
                raise
            state = Cancelled(message=INTERRUPTED, data=interrupt)
        except TerminationSignal as ended:
            if not _is_cancelling():
                raise
            notes = " ".join(getattr(ended, "__notes__", [CANCELLED]))
            state = Cancelled(message=visible(notes), data=ended)
        return cast("Result", state)

    return wrapped


def _is_cancelling() -> bool:
    """Return True if this flow run is being cancelled; False also if the server is unavailable."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(runtime.flow_run.id)).state
    except httpx.HTTPError:
        return False
    return state is not None and (state.is_cancelling() or state.is_cancelled())


def result_of(state: State[Result]) -> Result:
    """Return the result of a state, or raise its exception.

    Interrupts are raised here, because Prefect would raise them in the thread of its event loop and end the
    loop.
    """
    if state.is_cancelled():
        raise cast("BaseException", get_state_exception(state))
    return state.result()
