"""GPU slots of a machine, and the machine that a job asks for. One run at a time uses a slot.

    <folder>/<host>-0.lock   locked while a job trains, by its launcher and by all processes that train
             <host>-0.json   record of the launcher, locked by the launcher
             <host>.0000000001.json   ticket of a waiting run, locked by it; dead tickets are skipped

Locks belong to the operating system, so that nothing must be cleaned up after a killed process. On shared
storage every machine has its own files. Other users may add files to the folder, but must not be able to
rename or remove files of this user. Only the owner of another user's record is read, not its content, and
no process is ended because of such a record.
"""

import contextlib
import fcntl
import os
import pwd
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from curriculum.store import inside
from curriculum.store.owners import HeldFile, is_held, this_process
from curriculum.train.launch.slurm import SbatchTemplate
from curriculum.train.processes import end_all, has_open
from curriculum.train.run_directory import torch_build
from schemas import regular_files
from schemas.errors import StoreError
from schemas.job import DeviceName, SlotState

WORKERS_FOR_A_GPU = 2
"""Number of loader processes per training process on a GPU. On a CPU they would take cores from training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Machine on which a job runs."""

    device: DeviceName
    threads: int
    """Number of threads in each process."""
    workers: int = 0
    processes: int = 1
    context_parallel: int = 1
    """Number of processes that share each row."""
    recompute: bool = False

    @staticmethod
    def local(
        processes: int | None = None,
        *,
        recompute: bool = False,
        loader_workers: int | None = None,
        slots: int = 1,
    ) -> "Machine":
        """Return a slot's part of this machine: its share of the GPUs, or of the CPU cores without a GPU."""
        gpus = _usable_gpus()
        gpu = gpus > 0
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        processes = processes or max(max(gpus, 1) // slots, 1)
        return Machine(
            device="cuda" if gpu else "cpu",
            threads=max(cores // (processes * slots), 1),
            workers=_loaders(loader_workers, gpu=gpu),
            processes=processes,
            recompute=recompute,
        )

    @staticmethod
    def in_slurm(
        template: SbatchTemplate,
        processes: int | None = None,
        *,
        recompute: bool = False,
        loader_workers: int | None = None,
    ) -> "Machine":
        """Return the machine that an sbatch template requests. This machine itself may have no GPU."""
        processes = processes or max(template.gpus, 1)
        return Machine(
            device="cuda" if template.gpus else "cpu",
            threads=max(template.cores // processes, 1),
            workers=_loaders(loader_workers, gpu=bool(template.gpus)),
            processes=processes,
            recompute=recompute,
        )


def _usable_gpus() -> int:
    """Return the number of GPUs that torch can use.

    A torch build for CPUs isn't imported, since that takes seconds.
    """
    if "torch" not in sys.modules and not torch_build().is_for_gpus:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _loaders(asked_for: int | None, *, gpu: bool) -> int:
    if asked_for is not None:
        return asked_for
    return WORKERS_FOR_A_GPU if gpu else 0


POLL_SECONDS = 0.25
GRACE_SECONDS = 15.0
"""Seconds that the processes of a dead launcher get to end, since the signal that they got when it died."""


_DIGITS = 10
_LAST_TICKET = 10**_DIGITS - 1
_MAX_RECORD_BYTES = 1 << 16
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
"""Permissions that allow other users to write a file of this user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """Slot that a run occupies as long as `lock` is open, here or in a process that inherited it."""

    number: int
    of: int
    lock: int
    """File descriptor of the lock, which the job's processes inherit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotRecord:
    """Record of a slot or a ticket. If another user wrote it, only the user is known."""

    is_alive: bool
    """True while the process that wrote the record is alive."""
    host: str = ""
    pid: int = 0
    """Process id of the run's launcher. 0 if unknown, or if the launcher ended and left processes behind."""
    run: str = ""
    """Directory of the run; empty if unknown."""
    user: str = ""
    """Name of another user who wrote the record; empty for this user."""

    def __str__(self) -> str:
        """Describe the run that occupies a slot."""
        if self.user:
            return f"user {self.user}"
        known = f"process {self.pid} on {self.host} with {self.run}" if self.pid else self.run
        return (
            known
            if self.is_alive
            else f"{known} (the launcher has ended, its processes are ending)"
        )


class Slots:
    """Slots of this machine, whose files are in a folder."""

    def __init__(self, folder: Path, number: int) -> None:
        assert number > 0
        self.folder, self.number = folder, number
        self._host = socket.gethostname()

    @contextlib.contextmanager
    def hold(self, run: str, say: Callable[[str], None]) -> Iterator[Slot]:
        """Wait for a slot, first come first served, and occupy it until the context exits.

        `say` is called when waiting begins, and when the reason for waiting changes.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        me = SlotState(**this_process().model_dump(), run=run)
        with self._ticket(me) as ticket:
            slot, record = self._wait(ticket, me, say)
        try:
            yield slot
        finally:
            self._leave(slot, record, run)

    def _leave(self, slot: Slot, record: HeldFile, run: str) -> None:
        """Release a slot.

        If a process of the job still locks it, record the run, so that others can end it.
        """
        with self._guard():
            # Close the lock without unlocking it: the slot belongs to the job while one of its processes
            # lives.
            os.close(slot.lock)
            if is_held(self._lock(slot.number)):
                left = SlotState(host=self._host, pid=0, at="", run=run)
                record.write(left.model_dump_json())
                record.leave()
            else:
                record.release()

    def holders(self) -> list[SlotRecord | None]:
        """Return the record of each slot, or None for a free slot. Nothing is written."""
        return [self._holder(number) for number in range(self.number)]

    def line(self) -> list[SlotRecord]:
        """Return the waiting runs in their order. Nothing is written."""
        records = map(_read, self._all_tickets())
        return [record for record in records if record.is_alive and (record.run or record.user)]

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Ensure that only one process at a time reads or changes the slots and the waiting line."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = inside.open_lock(self.folder / f"{self._host}.lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _ticket(self, me: SlotState) -> Iterator[Path]:
        """Take the last place in the waiting line until the context exits."""
        with self._guard():
            self._tickets()
            before = self._all_tickets()
            number = _number_of(before[-1]) + 1 if before else 1
            if number > _LAST_TICKET:
                raise _in_the_way(before[-1], "its number is the highest possible one")
            ticket = self.folder / f"{self._host}.{number:0{_DIGITS}d}.json"
            lock = inside.open_lock(ticket, fresh=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.write(lock, me.model_dump_json().encode())
        try:
            yield ticket
        finally:
            with self._guard():
                ticket.unlink(missing_ok=True)
            os.close(lock)

    def _all_tickets(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self._host}.{'[0-9]' * _DIGITS}.json"))

    def _tickets(self) -> list[Path]:
        """Return the tickets of processes that still wait, and remove all others."""
        tickets = self._all_tickets()
        held = [ticket for ticket in tickets if _is_held(ticket)]
        for ticket in tickets:
            if ticket not in held:
                with contextlib.suppress(OSError):  # It belongs to another user or isn't a file.
                    ticket.unlink()
        return held

    def _wait(
        self, ticket: Path, me: SlotState, say: Callable[[str], None]
    ) -> tuple[Slot, HeldFile]:
        shown, patience = "", _Patience()
        while True:
            with self._guard():
                if ticket not in (waiting := self._tickets()):
                    raise StoreError(
                        str(ticket),
                        cause="somebody removed or renamed this ticket while its run was waiting",
                        cure="Start the run again",
                    )
                ahead = waiting.index(ticket)
                if ahead == 0 and (slot := self._free()) is not None:
                    return slot, self._write_record(slot, me)
                held = {
                    self._lock(number): holder
                    for number, holder in enumerate(self.holders())
                    if holder is not None
                }
            if (words := _words(held, ahead)) != shown:
                say(words)
                shown = words
            patience.look_at(held)
            time.sleep(POLL_SECONDS)

    def _write_record(self, slot: Slot, me: SlotState) -> HeldFile:
        """Write the record of a slot. If this fails, release the slot."""
        record = HeldFile(self._record(slot.number))
        try:
            record.write(me.model_dump_json())
        except PermissionError:
            os.close(slot.lock)
            raise _in_the_way(self._record(slot.number), "the file can't be replaced") from None
        except BaseException:
            os.close(slot.lock)
            raise
        return record

    def _free(self) -> Slot | None:
        for number in range(self.number):
            lock = inside.open_lock(self._lock(number))
            if _try(lock):
                return Slot(number=number, of=self.number, lock=lock)
            os.close(lock)
        return None

    def _holder(self, number: int) -> SlotRecord | None:
        return _read(self._record(number)) if _is_held(self._lock(number)) else None

    def _lock(self, number: int) -> Path:
        return self.folder / f"{self._host}-{number}.lock"

    def _record(self, number: int) -> Path:
        return self.folder / f"{self._host}-{number}.json"


def _number_of(ticket: Path) -> int:
    return int(ticket.stem[-_DIGITS:])


def _in_the_way(file: Path, cause: str) -> StoreError:
    return StoreError(
        str(file),
        cause=f"{cause}, and it may belong to another user",
        cure="Ask its owner to remove the file, or set CURRICULUM_SLOTS to another folder",
    )


def _is_held(file: Path) -> bool:
    """Return True if a process locks a file. Return False if another user doesn't allow to open it."""
    try:
        return is_held(file)
    except PermissionError:
        return False


def _read(file: Path) -> SlotRecord:
    """Read the record of a slot or a ticket.

    The user is the owner of the opened file. The content of another user's record is ignored, because the run
    that it names would be ended.
    """
    is_alive = _is_held(file)
    try:
        content, found = regular_files.read_with_status(file, most=_MAX_RECORD_BYTES)
    except OSError:
        return SlotRecord(is_alive=is_alive)
    if found.st_uid != os.getuid() or found.st_mode & _WRITABLE:
        return SlotRecord(is_alive=is_alive, user=_user_name(found.st_uid))
    try:
        state = SlotState.model_validate_json(content)
    except ValidationError:
        return SlotRecord(is_alive=is_alive)
    return SlotRecord(is_alive=is_alive, host=state.host, pid=state.pid, run=state.run)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class _Patience:
    """Tracker of runs whose launcher has ended. It ends such runs after GRACE_SECONDS."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look_at(self, held: Mapping[Path, SlotRecord]) -> None:
        """End every run that still locks its slot GRACE_SECONDS after its launcher ended."""
        now = time.monotonic()
        orphans = {
            record.run: lock for lock, record in held.items() if record.run and not record.is_alive
        }
        self._since = {run: self._since.get(run, now) for run in orphans}
        for run, since in self._since.items():
            # The record may be outdated, and another process may hold the slot.
            if now - since >= GRACE_SECONDS and has_open(Path(run), orphans[run]):
                end_all(Path(run))


def share_of(slot: int, slots: int, devices: int) -> list[int]:
    """Return the GPU numbers of a slot. If there are more slots than GPUs, slots share GPUs.

    >>> share_of(1, 2, 8), share_of(1, 2, 5), share_of(2, 3, 2)
    ([4, 5, 6, 7], [2, 3], [0])
    """
    share = devices // slots
    return [slot % devices] if share == 0 else list(range(slot * share, (slot + 1) * share))


def _words(held: Mapping[Path, SlotRecord], ahead: int) -> str:
    listed = ", ".join(str(record) for record in held.values() if record.run or record.user)
    behind = f", behind {ahead} other{'' if ahead == 1 else 's'}" if ahead else ""
    return f"waiting for a GPU slot{behind}; slots are held by {listed or 'another process'}"


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
