"""Final states of flow and task runs that don't end with a result: a user's mistake, an interrupt."""

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
CANCELLED = "Cancelled. Finished work is kept; Retry continues from it."


class HeldInterrupts:
    """The handler of Ctrl-C while Prefect starts and ends a flow run, where it takes one for a crash.

    An interrupt is raised where the run's own body begins; a second one is raised at once.
    """

    def __init__(self) -> None:
        self._came, self._raises = False, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Keep a first interrupt; raise one that comes within a body, or again."""
        if self._came or self._raises:
            raise KeyboardInterrupt
        self._came = True

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raise interrupts within the block, and one that came before it."""
        before, self._raises = self._raises, True
        try:
            self.raise_kept()
            yield
        finally:
            self._raises = before

    def raise_kept(self) -> None:
        """Raise the interrupt that came and wasn't raised yet, if one did."""
        if self._came:
            self._came = False
            raise KeyboardInterrupt


_held: ContextVar[HeldInterrupts | None] = ContextVar("held", default=None)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C off within the block, but for the bodies that `ending_plainly` decorates."""
    handler = HeldInterrupts()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # Only the main thread may handle signals; one that is ignored stays so.
        return
    token, before = _held.set(handler), signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _held.reset(token)
    handler.raise_kept()


def ending_plainly(body: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate the body of a flow or a task, so that a mistake, Ctrl-C and Cancel end it in plain states.

    Prefect logs the traceback of an error, and takes an interrupt for a crash. Here a CurriculumError is
    the message of a Failed state, and an interrupt of a command's own process makes a Cancelled one, as
    the signal does by which a worker cancels a run of a deployment; notes of that signal are its message.
    Whoever asks such a state for its result gets the exception. Any other signal of a worker is left to
    Prefect.
    """

    @functools.wraps(body)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Result:
        held = _held.get()
        try:
            with held.raised() if held else contextlib.nullcontext():
                return body(*args, **kwargs)
        except CurriculumError as mistake:
            if runtime.task_run.id is None:  # The end of a task is logged by Prefect as an error.
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
    """Return True where somebody cancels this flow run, by its server; False where that is gone."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(runtime.flow_run.id)).state
    except httpx.HTTPError:
        return False
    return state is not None and (state.is_cancelling() or state.is_cancelled())


def result_of(state: State[Result]) -> Result:
    """Return the result of a run that ended in a state; raise the exception of one that has none.

    An interrupt is raised here: Prefect would raise it in the thread of its event loop, and end that.
    """
    if state.is_cancelled():
        raise cast("BaseException", get_state_exception(state))
    return state.result()
