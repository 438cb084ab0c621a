"""Sandbox of a process that handles foreign text, files or queries.

Landlock restricts reading and writing to given paths, a system call filter refuses sockets, and resource
limits bound memory, processor time and files. Neither a process nor its threads and children can leave the
sandbox. Threads that were started before it enters stay outside. So this module imports only the standard
library: a process can enter before a library starts a thread.
"""

import ctypes
import errno
import os
import platform
import resource
import stat
import struct
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

# Numbers of linux/landlock.h, linux/seccomp.h and linux/audit.h; these calls have one number on all machines.
_CREATE, _ADD, _RESTRICT, _IO_URING = 444, 445, 446, 425
_MACHINES = {
    "x86_64": (0xC000003E, 41),
    "aarch64": (0xC00000B7, 198),
    "riscv64": (0xC00000F3, 198),
    "loongarch64": (0xC0000102, 198),
    "ppc64le": (0xC0000015, 326),
    "s390x": (0x80000016, 359),
}
"""Supported machines: the architecture number for filters, and the number of the call `socket`."""
_RUN, _READ_FILE, _READ_FOLDER = 1, 1 << 2, 1 << 3
_CHANGE = sum(1 << bit for bit in (1, 4, 5, 7, 8, 13, 14))
"""Rights to write and truncate files, and to create, remove and move files and folders."""
_MAKE_LINK = 1 << 12
_CHANGE_FILE = 1 << 1 | 1 << 14
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights by version of Landlock.

Version 1 has the rights to open, create and remove; later versions add moving, truncating and devices.
"""
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_OTHER_CALLS = 0x40000000
"""First number of the x32 system calls, which a filter for the numbers of x86_64 wouldn't refuse."""


_OWN_CODE = Path(__file__).parent
SYSTEM_CODE = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache")
ENDLESS = "/dev/urandom"
MACHINE = (
    "/proc/self/cgroup",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/dev/null",
    ENDLESS,
)
"""Files with the number of processors and the size of memory, and devices without state."""


PYTHON = (sys.executable, "-P", "-s", "-B")
"""Command of a process that will enter a sandbox. It imports modules only from `bare_environment`."""


class SandboxError(RuntimeError):
    """A kernel that can't sandbox this process, with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """The files, memory and time available to a process in the sandbox."""

    read: tuple[str, ...] = ()
    """Readable files and folders, including their contents. Missing paths are ignored."""
    foreign: tuple[str, ...] = ()
    """Readable files and folders that others may change; their paths must have no links. A path that has a
    link when the process enters is left out.
    """
    write: tuple[str, ...] = ()
    """Folders in which the process may also create, change and remove files and folders."""
    run: tuple[str, ...] = ()
    """Programs, and folders of programs and libraries, that the process may start. Started programs stay in
    the sandbox.
    """
    scratch: str | None = None
    """A folder for private files, in which symbolic links may also be created."""
    file_bytes: int = 0
    """Maximum size in bytes of each file that the process writes."""
    memory: int | None = None
    """Limit of this process's memory in bytes; None leaves the limit unchanged."""
    cpu_seconds: int | None = None
    """Limit of the processor time of all threads together, in seconds; None leaves the limit unchanged."""

    def enter(self) -> int:
        """Restrict this thread, and everything that it starts, permanently; return the version of Landlock.

        Open files and the environment aren't affected.

        Raises:
            SandboxError: if the kernel can't enforce it.
        """
        version = landlock()
        if not version:
            raise SandboxError("this kernel doesn't enforce Landlock")
        _restrict_files(version, self)
        _refuse_sockets()
        self.limit()
        return version

    def limit(self) -> None:
        """Limit memory, time and file sizes of this process permanently, without restricting what it reads.

        Lower existing limits stay in place.
        """
        for limit, value in (
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, self.memory),
            (resource.RLIMIT_CPU, self.cpu_seconds),
        ):
            if value is not None:
                hard = resource.getrlimit(limit)[1]
                lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(limit, (lower, lower))


def bare_environment() -> dict[str, str]:
    """Return an environment that has nothing but the paths of Python's libraries."""
    folders = dict.fromkeys([*filter(None, sys.path), str(_OWN_CODE.parent)])
    return {"LC_ALL": "C.UTF-8", "PYTHONPATH": ":".join(folders), "TZ": "UTC"}


def require_one_thread() -> None:
    """Raise unless this process has one thread; other threads would stay outside of its sandbox.

    Raises:
        SandboxError: if another thread is running.
    """
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        raise SandboxError("a thread of a library would stay outside")


def landlock() -> int:
    """Return the version of Landlock that this kernel enforces; 0 without Landlock."""
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def code_paths() -> tuple[str, ...]:
    """Return the code folders that a process may import from in a sandbox: Python's, libraries' and ours.

    Folders of `sys.path` that have more than code, like that of a checkout, are left out. Next to our code,
    the names in its parent folder may be listed, because Python finds no package there otherwise.
    """
    paths = sysconfig.get_paths()
    names = ("schemas", "curriculum", "flows", "dashboards")
    packages = [str(_OWN_CODE.parent / name) for name in names]
    libraries = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    python = [sys.base_prefix + "/lib", sys.prefix + "/pyvenv.cfg"]
    everything = [*libraries, *python, *packages, *SYSTEM_CODE, *MACHINE]
    return tuple(dict.fromkeys(everything))


class _Rights(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _restrict_files(version: int, left: Sandbox) -> None:
    """Restrict files to the paths of a sandbox, by version of Landlock.

    Versions from 4 on also refuse TCP, and versions from 6 on also refuse signals to other processes.
    """
    all_rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    rights = _Rights(
        files=all_rights,
        net=0b11 if version >= 4 else 0,
        scoped=0b11 if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _call(_CREATE, ctypes.byref(rights), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path in left.read:
        _allow(rules, path, _READ_FILE | _READ_FOLDER)
    for path in left.foreign:
        _allow(rules, path, _READ_FILE | _READ_FOLDER, over_links=False)
    if str(_OWN_CODE) in left.read:
        _allow(rules, str(_OWN_CODE.parent), _READ_FOLDER)
    for path in left.run:
        _allow(rules, path, _READ_FILE | _READ_FOLDER | _RUN)
    _allow(rules, os.devnull, (_READ_FILE | _CHANGE_FILE) & all_rights)
    for path in left.write:
        _allow(rules, path, (_READ_FILE | _READ_FOLDER | _CHANGE) & all_rights)
    if left.scratch is not None:
        allowed = (_READ_FILE | _READ_FOLDER | _CHANGE | _MAKE_LINK) & all_rights
        _allow(rules, left.scratch, allowed)
    if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise SandboxError(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    _call(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)


def _allow(rules: int, path: str, allowed: int, *, over_links: bool = True) -> None:
    try:
        parent = _opened(path) if over_links else _opened_without_links(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            allowed &= _RUN | _READ_FILE | _CHANGE_FILE
        rule = _Rule(allowed=allowed, parent=parent)
        _call(_ADD, ctypes.c_int(rules), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(parent)


def _opened(path: str, flags: int = 0, beside: int | None = None) -> int:
    """Open a path and return a descriptor that names the path, but doesn't give access to its content."""
    return os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=beside)


def _opened_without_links(path: str) -> int:
    """Open an absolute path component by component, without following links.

    Raises:
        NotADirectoryError: for a link.
    """
    handle = _opened("/")
    for name in Path(path).parts[1:]:
        try:
            below = _opened(name, os.O_NOFOLLOW, handle)
        finally:
            os.close(handle)
        handle = below
    if stat.S_ISLNK(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotADirectoryError(errno.ENOTDIR, "it is a link", path)
    return handle


def _refuse_sockets() -> None:
    """Refuse to open sockets, directly or through io_uring, because Landlock only refuses TCP."""
    machine, socket = _MACHINES[platform.machine()]
    # Each line: operation, number of lines to skip if it matches, number to skip otherwise, operand.
    lines = (
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, 4, machine),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 2, 0, _OTHER_CALLS),
        (_EQUAL, 1, 0, socket),
        (_EQUAL, 0, 1, _IO_URING),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = b"".join(struct.pack("HBBI", *line) for line in lines)
    filters = _Program(length=len(lines), filter=program)
    if _libc().prctl(_SET_FILTER, _FILTER, ctypes.byref(filters), 0, 0):
        raise SandboxError(f"seccomp: {os.strerror(ctypes.get_errno())}")


def _call(number: int, *arguments: object) -> int:
    returned = int(_libc().syscall(number, *arguments))
    if returned < 0:
        raise SandboxError(f"Landlock: {os.strerror(ctypes.get_errno())}")
    return returned
