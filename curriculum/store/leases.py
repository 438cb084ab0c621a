"""Leases: records of the keys that running processes use, so that gc keeps their artefacts.

    leases/<uuid>.json   a process, the keys that it found or builds, and its last heartbeat; locked by the
    process
    .locks/gc.guard      locked shared while keys are written and looked up, exclusively while gc decides

A build never loses an artefact that it uses. It writes the key into its lease and looks up the artefact
under the shared guard; gc reads leases, decides and renames to .trash under the exclusive guard. If the
build comes first, gc reads the key. If gc comes first, the build rebuilds the missing artefact.

On one machine, no clock is involved: a lease is valid as long as its owner holds the lock of its file.
Marks need no guard: a build writes them before it removes its lease, and gc reads leases before marks, so
gc finds the key in one of the two.

A build's workers, in other processes or on other machines, have no lease. The coordinator writes the keys
of all tasks into its own lease before it hands the tasks out.
"""

import contextlib
import datetime
import fcntl
import functools
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from curriculum.store import inside
from curriculum.store.owners import HeldFile, is_elsewhere, is_held, this_process
from schemas.errors import StoreError
from schemas.json_text import read_json
from schemas.manifest import Lease

FOLDER = "leases"
ENTRY = re.compile(r"[0-9a-f]{32}\.json|\.[0-9a-f]{32}\.json\.draft")
BEAT_SECONDS = 600.0
SILENT = datetime.timedelta(hours=24)
"""Age of the last heartbeat after which the lease of another machine is ignored."""
_GUARD = "gc.guard"
_held: dict[Path, "_Held"] = {}
_registry = threading.Lock()


class Leasable(Protocol):
    """A store."""

    def leased(self) -> AbstractContextManager[None]:
        """Return a context in which gc keeps everything that this process finds or builds."""
        ...


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Leasable)


@contextlib.contextmanager
def leased(root: Path) -> Iterator[None]:
    """Keep everything that this process looks up or builds in a workspace from gc.

    Blocks may be nested. The lease is written with the first key. Leftovers of killed commands are removed.
    """
    place = root.resolve()
    with _registry:
        if place not in _held:
            _held[place] = _Held(place)
            _remove_dead_unless_busy(place)
        lease = _held[place]
        lease.users += 1
    try:
        yield
    finally:
        with _registry:
            lease.users -= 1
            if not lease.users:
                del _held[place]
                lease.release()


def in_lease(work: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a function over a store, so that gc keeps everything that it looks up or builds."""

    @functools.wraps(work)
    def leased_work(store: S, /, *arguments: P.args, **options: P.kwargs) -> R:
        with store.leased():
            return work(store, *arguments, **options)

    return leased_work


@contextlib.contextmanager
def lease_keys(root: Path, keys: Iterable[str]) -> Iterator[None]:
    """Write keys into this process's lease; gc makes no decision until the block ends.

    So artefacts that are looked up in the block can't be removed in between. Without a lease, or if the
    workspace doesn't exist yet, nothing is written.
    """
    lease = _held.get(root.resolve()) if _held else None
    if lease is None:
        yield
    elif not root.is_dir():
        # There is nothing to find or to remove yet; the next call also writes these keys.
        lease.add(keys)
        yield
    else:
        with _guard(root, fcntl.LOCK_SH):
            lease.add(keys)
            lease.write()
            yield


@contextlib.contextmanager
def deciding(root: Path) -> Iterator[None]:
    """Keep other processes from looking up artefacts while gc decides."""
    with _guard(root, fcntl.LOCK_EX):
        yield


def leased_keys(root: Path) -> set[str]:
    """Return the keys in live leases.

    Raises:
        StoreError: if a file isn't a lease.
    """
    return {
        key
        for file in _files(root)
        if (lease := _read(file)) is not None and _is_live(file, lease)
        for key in lease.keys
    }


def remove_dead(root: Path) -> None:
    """Remove incomplete leases, and those of dead processes. Call it only within `deciding`.

    Files that aren't leases stay.
    """
    live = set()
    for file in _files(root):
        with contextlib.suppress(StoreError):
            lease = _read(file)
            if lease is not None and _is_live(file, lease):
                live.add(file.name)
            elif ENTRY.fullmatch(file.name):
                file.unlink(missing_ok=True)
    for draft in (root / FOLDER).glob(".*.draft"):
        lease_name = draft.name.removeprefix(".").removesuffix(".draft")
        if lease_name not in live and ENTRY.fullmatch(draft.name):
            draft.unlink(missing_ok=True)


def _remove_dead_unless_busy(root: Path) -> None:
    """Remove leftovers of killed commands, unless another process holds the guard."""
    if not any((root / FOLDER).glob("*")):
        return
    with contextlib.suppress(BlockingIOError), _guard(root, fcntl.LOCK_EX | fcntl.LOCK_NB):
        remove_dead(root)


class _Held:
    """The lease of this process in one workspace, shared by all threads."""

    def __init__(self, root: Path) -> None:
        self.users = 0
        self._folder = root / FOLDER
        self._file = HeldFile(self._folder / f"{uuid.uuid4().hex}.json")
        self._owner, self._begun = this_process(), _now()
        self._keys: set[str] = set()
        self._unwritten = False
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def add(self, keys: Iterable[str]) -> None:
        """Add keys; they take effect with the next `write`."""
        with self._mutex:
            more = set(keys) - self._keys
            self._keys |= more
            self._unwritten = self._unwritten or bool(more)

    def write(self) -> None:
        """Write the file if keys were added; the first call also starts the heartbeat."""
        with self._mutex:
            if not self._unwritten:
                return
            self._write()
            self._unwritten = False
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, name="lease", daemon=True)
                self._heart.start()

    def release(self) -> None:
        """Remove the file, and end the heartbeat."""
        self._ended.set()
        if self._heart is not None:
            self._heart.join()
            self._file.release()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            # A full disk must not end the heartbeat; the build reports the error itself.
            with self._mutex, contextlib.suppress(OSError):
                self._write()

    def _write(self) -> None:
        self._folder.mkdir(exist_ok=True)
        lease = Lease(
            **self._owner.model_dump(),
            begun=self._begun,
            heartbeat=_now(),
            keys=tuple(sorted(self._keys)),
        )
        self._file.write(lease.model_dump_json(indent=1))


def _files(root: Path) -> list[Path]:
    return sorted((root / FOLDER).glob("*.json"))


def _read(file: Path) -> Lease | None:
    """Return the lease in a file; None if it was removed in the meantime.

    Raises:
        StoreError: if the file isn't a lease.
    """
    try:
        return read_json(
            Lease,
            file,
            error=StoreError,
            cause="the file isn't a lease of this version",
            cure="Delete it when no build runs in this workspace",
        )
    except FileNotFoundError:
        return None


def _is_live(file: Path, lease: Lease) -> bool:
    if is_held(file):
        return True
    # Locks of another machine may not be visible here.
    return is_elsewhere(lease) and _now() - lease.heartbeat < SILENT


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@contextlib.contextmanager
def _guard(root: Path, how: int) -> Iterator[None]:
    """Hold the guard of a workspace; the system releases it if this process dies."""
    lock = inside.open_lock(inside.lock(root, _GUARD))
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)
