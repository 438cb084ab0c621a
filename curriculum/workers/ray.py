"""Map a function over tasks on the workers of a Ray cluster, like WorkerPool.

Ray places tasks and retries those whose worker or machine is lost. Only tasks and results are transferred.
"""

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from curriculum.listening import is_here, is_told, listening_users
from curriculum.stop_signals import handlers_restored
from curriculum.workers.answers import Failure, attempt
from curriculum.workers.pool import TRIES, Backlog, Outcomes, Pool
from schemas.cures import install_command
from schemas.errors import WorkerError

if TYPE_CHECKING:
    from types import ModuleType

Task = TypeVar("Task")
Result = TypeVar("Result")
ANSWER_SECONDS = 10.0
"""Time limit in seconds for a cluster to answer; Ray itself would try for many minutes."""
LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, kw_only=True, slots=True)
class RayPool(Pool):
    """A pool like WorkerPool, but with the workers of a cluster.

    Ray ends running tasks when this process ends, however it ends.
    """

    address: str
    """host:port"""
    in_flight: int
    """Maximum number of tasks that are submitted at a time."""
    tries: int = TRIES
    """Maximum number of attempts at a task whose worker or machine is lost."""

    def _outcomes(
        self, work: Callable[[Task], Result], backlog: Backlog[Task]
    ) -> Outcomes[Result | Failure]:
        with _connected(self.address) as ray:
            # A retried task finds its finished artefacts, like any build.
            remote = ray.remote(
                num_cpus=1, max_retries=self.tries - 1, scheduling_strategy="SPREAD"
            )(_attempt_with)
            mask = _umask()
            running = dict[Any, int]()
            while running or backlog.waiting:
                while backlog.waiting and len(running) < self.in_flight:
                    number = backlog.waiting.popleft()
                    running[remote.remote(mask, work, backlog.tasks[number])] = number
                (done, *_), _ = ray.wait([*running])
                number = running.pop(done)
                yield number, self._answer(ray, done, backlog.name(backlog.tasks[number]))

    def _answer(self, ray: "ModuleType", done: Any, title: str) -> Any:
        try:
            return ray.get(done)
        except ray.exceptions.RayTaskError as failed:
            # `attempt` catches errors of tasks, so this task couldn't even start.
            raise WorkerError(
                title,
                f"{type(failed.cause).__name__}: {failed.cause}",
                cause="a node can't run the task",
                cure="Install the same version of curriculum on all nodes",
            ) from failed
        except ray.exceptions.RayError as lost:
            error = WorkerError(
                title,
                type(lost).__name__,
                cause=f"its worker or machine was lost {self.tries} times, often because memory ran out",
                cure="Finished work is kept. Use fewer --workers, or nodes with more memory",
            )
            kind = type(lost).__name__
            return Failure(outcome="crashed", reason=kind, error=error, trace=str(lost))


def _umask() -> int:
    """Return the umask of this process; reading it requires setting another one for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _attempt_with(mask: int, work: Callable[[Task], Result], task: Task) -> Result | Failure:
    """Attempt a task on a node of the cluster, with the umask `mask`.

    A node's workers have the umask of the process that started Ray there. With `mask`, files that the task
    writes into the workspace get no more permissions than other files of the build.
    """
    os.umask(_umask() | mask)
    return attempt(work, task)


@contextlib.contextmanager
def _connected(address: str) -> "Iterator[ModuleType]":
    """Yield Ray, connected to a cluster; an existing connection is reused and left open."""
    _require_address(address)
    try:
        import ray
    except ImportError as lacking:
        raise WorkerError(
            "Ray",
            address,
            cause="Ray is not installed",
            cure=install_command("curriculum[ray]"),
        ) from lacking
    if ray.is_initialized():
        yield ray
        return
    _require_seen(ray, address)
    with handlers_restored(signal.SIGTERM):
        _connect(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: "ModuleType", address: str) -> None:
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as refused:
        if "AuthenticationError" in f"{refused.__cause__!r} {refused.__cause__}":
            words = (
                "it requires a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN if the token isn't in "
                "~/.ray"
            )
            raise _unanswered(address, words) from refused
        raise _unanswered(address, str(refused).splitlines()[0]) from refused
    if ray.cluster_resources().get("CPU", 0) < 1:
        ray.shutdown()
        raise _unanswered(address, "the cluster has no CPU")


def _require_address(address: str) -> None:
    """Raise unless something listens at an address; on this machine, it must be this user or root.

    Answers of a cluster are unpickled, so whoever listens there can run code here.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise _unanswered(address, "the address must be host:port")
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as probe:
            there = probe.getpeername()[0]
    except (OSError, OverflowError) as refused:
        raise _unanswered(address, str(refused)) from refused
    if is_told() and is_here(there) and not listening_users(there, int(port)) <= {0, os.getuid()}:
        raise _unanswered(address, "a process of another user listens there")


def _require_seen(ray: "ModuleType", address: str) -> None:
    """Raise unless Ray uses the given address, because Ray sometimes replaces 127.0.0.1 by another one."""
    host, _, port = address.rpartition(":")
    if host in LOOPBACK and ray.util.get_node_ip_address() not in LOOPBACK:
        _require_address(f"{ray.util.get_node_ip_address()}:{port}")


def _unanswered(address: str, cause: str) -> WorkerError:
    return WorkerError(
        "$CURRICULUM_RAY_ADDRESS",
        address,
        cause=f"no Ray cluster answers at this address ({cause})",
        cure="Start one (ray start --head …), correct the address, or unset it to build on this machine",
    )
