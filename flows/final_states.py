"""Final states of flow and task runs that don't end with a result: a user's mistake, an interrupt."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from prefect import runtime
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed, get_state_exception

from flows.artifacts import Log
from schemas.errors import CurriculumError
from schemas.visible import visible

P = ParamSpec("P")
Result = TypeVar("Result")
INTERRUPTED = (
    "Interrupted from the terminal. Finished work is kept; run the same command again to continue."
)


def ending_plainly(body: Callable[P, Result]) -> Callable[P, Result]:
    """Decorate the body of a flow or a task, so that a user's mistake and Ctrl-C end it in plain states.

    Prefect logs the traceback of an error, and takes an interrupt for a crash. Here a CurriculumError is
    the message of a Failed state, and an interrupt of a command's own process makes a Cancelled one; whoever
    asks such a state for its result gets the exception. A flow run of a deployment is interrupted by its
    worker alone, which reports its state itself.
    """

    @functools.wraps(body)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return body(*args, **kwargs)
        except CurriculumError as mistake:
            if runtime.task_run.id is None:  # The end of a task is logged by Prefect as an error.
                Log().error(str(mistake))
            state: State[Any] = Failed(message=visible(str(mistake)), data=mistake)
        except KeyboardInterrupt as interrupt:
            if runtime.deployment.id is not None:
                raise
            state = Cancelled(message=INTERRUPTED, data=interrupt)
        return cast("Result", state)

    return wrapped


def result_of(state: State[Result]) -> Result:
    """Return the result of a run that ended in a state; raise the exception of one that has none.

    An interrupt is raised here: Prefect would raise it in the thread of its event loop, and end that.
    """
    if state.is_cancelled():
        raise cast("BaseException", get_state_exception(state))
    return state.result()
