"""Work over the workers of a Ray cluster: the same tasks, the same function, the same store on shared disks.

Ray places tasks and tries again those whose worker or machine is lost. Nothing travels but tasks and
manifests: what is made lies in the workspace, which every node sees under the same path.
"""

import contextlib
import logging
import platform
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from curriculum.store import Artefact, Store
from curriculum.store.store import WORKSPACE_NAME
from curriculum.workers.pool import TRIES, Failed, attempt
from schemas.errors import WorkerError

if TYPE_CHECKING:
    from types import ModuleType

Task = TypeVar("Task")
Result = TypeVar("Result")
ANSWER_SECONDS = 10.0
"""Ray itself looks for a cluster that isn't there for many minutes."""
LOOPBACK = ("127.0.0.1", "localhost")
SHARED = "Keep the workspace on storage that all nodes share, under the same path"


def each(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    address: str,
    size: int,
    name: Callable[[Task], str],
) -> Generator[tuple[int, Result], None, None]:
    """The results of all tasks with their numbers, as they come; `size` of them are handed out at once.

    After a task that fails no more are handed out, those that run are waited for, and its error is
    raised. Ray ends what runs when this process ends, whatever ends it.

    Raises:
        WorkerError: where no cluster answers, or a task's worker was lost at each try.
    """
    with _connected(address) as ray:
        # Past its first try a task finds what it had finished, as any build does.
        remote = ray.remote(num_cpus=1, max_retries=TRIES - 1, scheduling_strategy="SPREAD")(
            attempt
        )
        waiting, running = deque(range(len(tasks))), dict[Any, int]()
        failed: Exception | None = None
        while running or waiting:
            while waiting and len(running) < size:
                at = waiting.popleft()
                running[remote.remote(work, tasks[at])] = at
            (done, *_), _ = ray.wait([*running])
            at = running.pop(done)
            answer = _answer(ray, done, name(tasks[at]))
            if isinstance(answer, Failed):
                failed = failed or answer.raised()
                waiting.clear()
            else:
                yield at, answer
        if failed is not None:
            raise failed


def make_elsewhere(
    make: Callable[[Store, Task], tuple[Artefact, ...]], root: Path, uuid: str, task: Task
) -> tuple[Artefact, ...]:
    """Make a task's artefacts on a node, in the workspace that has this uuid.

    Raises:
        WorkerError: where the node sees another folder under that path.
    """
    store = Store(root, trusts=True)
    if not (root / WORKSPACE_NAME).is_file() or store.workspace().uuid != uuid:
        raise WorkerError(
            f"node {platform.node()}",
            str(root),
            cause="it sees another folder there than the machine that began the build",
            cure=SHARED,
        )
    return make(store, task)


def require_same(planned: Sequence[Artefact], made: Sequence[Artefact]) -> None:
    """Pass if a worker made what was planned here: its code and tools are the same as ours.

    Raises:
        WorkerError: naming what differs.
    """
    for ours, theirs in zip(planned, made, strict=True):
        if ours.key != theirs.key:
            raise WorkerError(
                str(theirs.path),
                _difference(ours, theirs),
                cause="a worker made something else than this machine planned",
                cure="Install the same version of curriculum, git and parsers on all nodes",
            )


def _difference(ours: Artefact, theirs: Artefact) -> str:
    told = ("revision", "config", "tools", "inputs")
    fields = [
        name for name in told if getattr(ours.manifest, name) != getattr(theirs.manifest, name)
    ]
    here = {name: getattr(ours.manifest, name) for name in fields}
    there = {name: getattr(theirs.manifest, name) for name in fields}
    return f"{', '.join(fields)} here {here}, there {there}"


def _answer(ray: "ModuleType", done: Any, title: str) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as failed:
        # Our function catches what a task raises: what comes here couldn't even begin.
        raise WorkerError(
            title,
            f"{type(failed.cause).__name__}: {failed.cause}",
            cause="a node can't run it",
            cure="Install the same version of curriculum on all nodes",
        ) from failed
    except ray.exceptions.RayError as lost:
        return Failed(
            error=WorkerError(
                title,
                type(lost).__name__,
                cause=f"its worker or machine was lost {TRIES} times; often memory ran out",
                cure="What is finished is kept. Give fewer --workers, or nodes with more memory",
            ),
            told=str(lost),
        )


@contextlib.contextmanager
def _connected(address: str) -> "Iterator[ModuleType]":
    """Ray, connected to a cluster; a connection that stands already is used, and left standing."""
    _require_address(address)
    try:
        import ray
    except ImportError as lacking:
        raise WorkerError(
            "Ray", address, cause="it isn't installed here", cure="pip install 'curriculum[ray]'"
        ) from lacking
    if ray.is_initialized():
        yield ray
        return
    _require_seen(ray, address)
    with _handler_kept():
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
            words = "it asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN if it isn't in ~/.ray"
            raise _unanswered(address, words) from refused
        raise _unanswered(address, str(refused).splitlines()[0]) from refused
    if ray.cluster_resources().get("CPU", 0) < 1:
        ray.shutdown()
        raise _unanswered(address, "the cluster has no CPU to give")


def _require_address(address: str) -> None:
    """Pass if somebody listens there; `auto` is Ray's to find."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise _unanswered(address, "it isn't host:port or auto")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except OSError as refused:
        raise _unanswered(address, str(refused)) from refused


def _require_seen(ray: "ModuleType", address: str) -> None:
    """Pass if Ray looks where the address says: by itself it takes 127.0.0.1 for another address of ours."""
    host, _, port = address.rpartition(":")
    if host in LOOPBACK and ray.util.get_node_ip_address() not in LOOPBACK:
        _require_address(f"{ray.util.get_node_ip_address()}:{port}")


def _unanswered(address: str, cause: str) -> WorkerError:
    return WorkerError(
        "$CURRICULUM_RAY_ADDRESS",
        address,
        cause=f"no Ray cluster answers there ({cause})",
        cure="Start one (ray start --head …), correct the address, or unset it to build here",
    )


@contextlib.contextmanager
def _handler_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; whoever called us has a use for it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
