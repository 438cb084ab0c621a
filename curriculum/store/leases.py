"""Leases: the keys that running processes use, which gc keeps.

    leases/<uuid>.json   a process, the keys that it found or makes, and when it last was alive; locked by it
    .locks/gc.guard      held shared while a key is written and looked up, alone while gc decides

A build never loses what it uses: it writes a key into its lease and looks the artefact up while it holds the
guard shared; gc reads leases, decides and renames to .trash while it holds the guard alone. Either the build
comes first, and gc reads the key; or gc comes first, and the build finds nothing and makes the artefact anew.
No clock decides between processes of one machine: a lease counts as long as its owner holds the lock of
its file. Pins need no guard: a build writes them before it removes
its lease, and gc reads leases before pins, so that it finds the key in one of the two.

Workers of a build, in other processes or on other machines, use what the lease of their coordinator names:
it holds the keys of all tasks before it hands them out.
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
"""The age of its heartbeat from which the lease of another host isn't believed any more."""
_GUARD = "gc.guard"
_held: dict[Path, "_Held"] = {}
_registry = threading.Lock()


class Leasable(Protocol):
    """A store."""

    def leased(self) -> AbstractContextManager[None]:
        """Keep from gc what this process finds or makes there."""
        ...


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Leasable)


@contextlib.contextmanager
def leased(root: Path) -> Iterator[None]:
    """Keep from gc all that this process looks up or makes in a workspace; may be nested.

    Nothing is written before the first key. What killed commands left is removed.
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
    """Decorate work over a store, so that gc keeps what it looks up or makes there until it ends."""

    @functools.wraps(work)
    def leased_work(store: S, /, *arguments: P.args, **options: P.kwargs) -> R:
        with store.leased():
            return work(store, *arguments, **options)

    return leased_work


@contextlib.contextmanager
def noting(root: Path, keys: Iterable[str]) -> Iterator[None]:
    """Write keys into this process's lease, then let them be looked up before gc may decide.

    Without a lease, and where there is no workspace yet, nothing is written.
    """
    lease = _held.get(root.resolve()) if _held else None
    if lease is None:
        yield
    elif not root.is_dir():
        # There is nothing to find, nor to remove; the next call writes these keys as well.
        lease.add(keys)
        yield
    else:
        with _guard(root, fcntl.LOCK_SH):
            lease.add(keys)
            lease.write()
            yield


@contextlib.contextmanager
def deciding(root: Path) -> Iterator[None]:
    """Keep all others from looking artefacts up, while gc decides what goes."""
    with _guard(root, fcntl.LOCK_EX):
        yield


def leased_keys(root: Path) -> set[str]:
    """The keys that live leases name.

    Raises:
        StoreError: for a file that isn't a lease.
    """
    return {
        key
        for file in _files(root)
        if (lease := _read(file)) is not None and _is_live(file, lease)
        for key in lease.keys
    }


def remove_dead(root: Path) -> None:
    """Remove the leases of processes that are gone, and half written ones; only while `deciding`.

    A file that isn't a lease stays.
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
    """Remove what killed commands left, unless somebody looks a key up or decides at this moment."""
    if not any((root / FOLDER).glob("*")):
        return
    with contextlib.suppress(BlockingIOError), _guard(root, fcntl.LOCK_EX | fcntl.LOCK_NB):
        remove_dead(root)


class _Held:
    """The lease of this process in one workspace, for all of its threads."""

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
        """Take keys up; they count once they are written."""
        with self._mutex:
            more = set(keys) - self._keys
            self._keys |= more
            self._unwritten = self._unwritten or bool(more)

    def write(self) -> None:
        """Let others read the keys, where there are new ones; the first time starts its heartbeat."""
        with self._mutex:
            if not self._unwritten:
                return
            self._write()
            self._unwritten = False
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, name="lease", daemon=True)
                self._heart.start()

    def release(self) -> None:
        """Remove the file, and end the thread that wrote it."""
        self._ended.set()
        if self._heart is not None:
            self._heart.join()
            self._file.release()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            # A full disk must not end the beat: the build meets it too, and says so.
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
    """Read a lease; None for one that ended meanwhile.

    Raises:
        StoreError: for a file that isn't a lease.
    """
    try:
        return read_json(
            Lease,
            file,
            error=StoreError,
            cause="this is no lease of this version",
            cure="Delete it when no build runs in this workspace",
        )
    except FileNotFoundError:
        return None


def _is_live(file: Path, lease: Lease) -> bool:
    if is_held(file):
        return True
    # The locks of another machine may not reach this one.
    return is_elsewhere(lease) and _now() - lease.heartbeat < SILENT


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@contextlib.contextmanager
def _guard(root: Path, how: int) -> Iterator[None]:
    """Hold the guard of a workspace; the system lets go of it when the holder dies."""
    lock = inside.open_lock(inside.lock(root, _GUARD))
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)
