"""Sandboxed git, which reads a repository without running anything that the repository contains.

Git never uses the config of the repository. Git works in a view instead: an empty bare repository that is
created here and borrows the objects of the repository and, if requested, its refs.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from schemas import regular_files
from schemas.errors import CorpusError
from schemas.regular_files import IrregularFileError

OVERRIDES = {
    "core.attributesFile": "/dev/null",
    "core.commitGraph": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.multiPackIndex": "false",
    "core.quotePath": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "all",
}
"""Settings for every git process.

The commit graph and the multi-pack index are disabled, because they are caches that a repository could forge.
A multi-pack index names packs by path, which may be anywhere on the machine.
"""

ENVIRONMENT = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "TZ": "UTC",
}
TRANSPORTS = "file:git:http:https:ssh"
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
HEAD = re.compile(rf"ref: refs/[^\x00-\x20]+|{COMMIT_ID.pattern}")
DAMAGED = 128
"""Exit code of git for several errors, among them an unreadable object."""
DISK_FULL_MESSAGES = ("No space left on device", "Disk quota exceeded", "File too large")
"""Messages that git prints if a write fails; they are in English because LC_ALL is set."""
DIGESTS = {"sha1": 40, "sha256": 64}
MAX_MEMORY_BYTES = 1 << 30
"""Memory limit of a git process that reads a repository; mapped packs don't count.

A limit is needed because a forged tree that contains one folder ten times, on ten levels, has 10^10 paths.
"""
MAX_CPU_S = 120
"""CPU time limit, in seconds, of a git process that runs one command.

A forged tree of nested folders without files takes only time.
"""
MAX_LOG_CPU_S = 30
"""CPU time limit, in seconds, of a git process that compares one batch of commits."""
MAX_OUTPUT_BYTES = 256 << 20
"""Size limit of the output of `run`; so large is the list of a tree with two million files."""
_LIMITED = 'ulimit -S -c 0; ulimit -S -d "$1" || :; ulimit -S -t "$2" || :; shift 2; exec "$@"'
"""Shell script that sets limits and then executes git.

The limits are soft limits and never above the user's own limits.
"""
_CLONE_OVER = (b"File too large", b"died of signal")
MAX_ERROR_BYTES = 1 << 16
"""Maximum size of stderr that is kept, because a server can make a clone print any text."""
MAX_CLONE_MEMORY_BYTES = 4 << 30
"""Memory limit of a clone, which unpacks the received objects to compute their ids."""
MAX_CLONE_FILE_BYTES = 128 << 30
"""Size limit of a file that a clone writes; a single pack contains all objects."""
MAX_CLONE_S = 6 * 3600
"""Time limit of a clone in seconds, and CPU time limit of each of its processes."""
_CLONE_LIMITS = (
    'trap "" XFSZ; ulimit -S -c 0; ulimit -S -d "$1" || :; ulimit -S -t "$2" || :; ulimit -S -f "$3" || :; '
    'shift 3; exec "$@"'
)
CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryLayout:
    """Paths of the parts of a repository.

    A linked work tree has a HEAD of its own and shares the other parts with its repository.
    """

    head: Path
    common: Path
    name: str
    """Name of the repository in errors."""


class GitError(CorpusError):
    """Failure of git in a view, which doesn't know the name of the repository."""

    def with_name(self, name: str) -> CorpusError:
        """Return the error with `name` as the name of the repository."""
        ended = self.name if self.value is None else f"{self.name}: {self.value}"
        return CorpusError(name, ended, cause=self.cause, cure=self.cure)


@dataclass(frozen=True, kw_only=True, slots=True)
class GitResult:
    """Exit code and stderr of a git process that has exited."""

    code: int
    stderr: bytes

    @property
    def hit_limit(self) -> bool:
        """True if git exited because it exceeded its limit of memory, stack or CPU time."""
        return self.code in (-signal.SIGXCPU, -signal.SIGSEGV) or any(
            words in self.stderr for words in (b"ut of memory", b"Cannot allocate memory")
        )


def control_file(path: Path) -> bytes | None:
    """Read a small control file of a repository, such as HEAD; return None if the file doesn't exist.

    Errors never contain the file's content. Otherwise a repository could put a link in its place and so
    disclose any file of the user.

    Raises:
        CorpusError: for a link, a folder, a pipe, a device, or a file of more than 64 MiB.
    """
    try:
        return regular_files.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IrregularFileError:
        raise CorpusError(
            str(path),
            cause="it is a link, a special file, or larger than any file that git writes there",
            cure="Clone the repository again and give the path of the clone",
        ) from None


def shallow_commits(layout: RepositoryLayout) -> tuple[str, ...]:
    """Return the commits at which the history of a shallow clone begins, sorted; empty for a full clone.

    Raises:
        CorpusError: if the repository's file `shallow` contains anything but commit ids.
    """
    path = layout.common / "shallow"
    found = (control_file(path) or b"").decode("ascii", errors="replace").split()
    if not all(COMMIT_ID.fullmatch(name) for name in found):
        raise CorpusError(
            str(path),
            cause="it contains something other than commit ids",
            cure="Clone the repository again",
        )
    return tuple(sorted(found))


@contextmanager
def view(layout: RepositoryLayout, *, refs: bool = False) -> Iterator[Path]:
    """Create a temporary bare repository, the view, which reads the objects of `layout`.

    New objects are written into the view. With `refs`, the view has the repository's HEAD, branches and tags;
    otherwise only object ids can be resolved.

    Raises:
        CorpusError: for an invalid HEAD, an unsupported ref storage, a config that git can't parse, and a git
            failure in the `with` block.
    """
    with tempfile.TemporaryDirectory(prefix="git-view-") as folder, name_repository(layout.name):
        path = Path(folder)
        for name in ("objects/info", "objects/pack"):
            (path / name).mkdir(parents=True)
        (path / "config").write_text(_config(layout))
        alternate = _quoted(layout.common.resolve() / "objects")
        (path / "objects/info/alternates").write_bytes(alternate)
        if boundary := shallow_commits(layout):
            (path / "shallow").write_text("".join(f"{commit}\n" for commit in boundary))
        _link_refs(path, layout) if refs else _no_refs(path)
        yield path


@contextmanager
def name_repository(repository: str) -> Iterator[None]:
    """Put the name of the repository into git errors that are raised in the `with` block.

    Raises:
        CorpusError: if git fails.
    """
    try:
        yield
    except GitError as failed:
        raise failed.with_name(repository) from None


def run(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git on a repository with `arguments` and return its output.

    Raises:
        CorpusError: with git's error message if git's exit code isn't 0; also if git exceeds its limits of
            output, memory or CPU time.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
        asked.write(stdin)
        asked.seek(0)
        with subprocess.Popen(
            limited_command(*arguments, cpu_s=MAX_CPU_S),
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(repository),
            cwd="/",
        ) as process:
            output = _bounded_output(process, arguments)
        errors.seek(0)
        if process.returncode:
            raise exit_error(arguments[0], process.returncode, errors.read())
    return output


def _bounded_output(process: "subprocess.Popen[bytes]", arguments: Sequence[str]) -> bytes:
    assert process.stdout is not None
    chunks: list[bytes] = []
    size = 0
    while chunk := process.stdout.read(CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_OUTPUT_BYTES:
            process.kill()
            asked = " ".join(filter(COMMIT_ID.fullmatch, arguments))
            needed = f"more than {MAX_OUTPUT_BYTES >> 20:,} MiB of output"
            raise limit_error(f"{arguments[0]} {asked}".rstrip(), needed)
    return b"".join(chunks)


def run_into(repository: Path, file: IO[bytes], *arguments: str, stdin: bytes = b"") -> GitResult:
    """Run git and append its output to `file`; the output is complete only if the result's code is 0."""
    done = subprocess.run(
        limited_command(*arguments, cpu_s=MAX_LOG_CPU_S),
        input=stdin,
        stdout=file,
        stderr=subprocess.PIPE,
        env={**environment(repository), "GIT_FLUSH": "1"},
        cwd="/",
    )
    return GitResult(code=done.returncode, stderr=done.stderr)


def transfer(*arguments: str) -> None:
    """Run a git command that may use the network, such as `git clone`, with the user's proxies and agents.

    Empty proxy variables such as all_proxy="" are unset for git. In Python they mean that no proxy is used,
    but in git they don't override ALL_PROXY.

    Raises:
        CorpusError: with git's error message if git's exit code isn't 0; also if git exceeds the limits of a
            clone for memory, output or time.
    """
    ours = {**ENVIRONMENT, "GIT_ALLOW_PROTOCOL": TRANSPORTS}
    unset = (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_TEMPLATE_DIR",
        *(name for name in PROXIES if os.environ.get(name) == ""),
    )
    # A block of `ulimit -f` has 512 bytes in some shells and 1,024 in others.
    limits = (MAX_CLONE_MEMORY_BYTES >> 10, MAX_CLONE_S, MAX_CLONE_FILE_BYTES >> 10)
    words = [
        "env",
        *(f"--unset={name}" for name in unset),
        *(f"{name}={value}" for name, value in ours.items()),
        *("/bin/sh", "-c", _CLONE_LIMITS, "git", *map(str, limits)),
        *command(*arguments),
    ]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            start_new_session=True,
        )
        try:
            code = process.wait(MAX_CLONE_S)
        except subprocess.TimeoutExpired:
            raise _clone_over(arguments, f"it did not finish within {MAX_CLONE_S:,} s") from None
        finally:
            _kill_session(process)
        errors.seek(0)
        words_of_git = errors.read(MAX_ERROR_BYTES)
    result = GitResult(code=code, stderr=words_of_git)
    if result.hit_limit or any(words in words_of_git for words in _CLONE_OVER):
        raise _clone_over(
            arguments, "it exceeded the limits of a clone for memory, CPU time or file size"
        )
    if code:
        raise exit_error(arguments[0], code, words_of_git)


def command(*arguments: str) -> list[str]:
    """Return the command line for git; it overrides every setting that could make git run a program."""
    settings = [part for name, value in OVERRIDES.items() for part in ("-c", f"{name}={value}")]
    return [_program(), "--no-pager", *settings, *arguments]


def limited_command(*arguments: str, cpu_s: int | None = None) -> list[str]:
    """Return the command line for git with limits of memory and CPU time, for reading a repository."""
    limits = (str(MAX_MEMORY_BYTES >> 10), "unlimited" if cpu_s is None else str(cpu_s))
    return ["/bin/sh", "-c", _LIMITED, "git", *limits, *command(*arguments)]


def environment(repository: Path) -> dict[str, str]:
    """Return all environment variables for a git process in `repository`; no others are inherited."""
    return {
        **ENVIRONMENT,
        "GIT_DIR": str(repository),
        "HOME": str(repository),
        "PATH": f"{Path(_program()).parent}:{os.defpath}",
    }


@functools.cache
def version() -> str:
    """Return git's version, such as `2.39.5`; versions may give different hunks and renames."""
    output = subprocess.run(command("version"), capture_output=True, check=True, text=True).stdout
    return output.split()[2]


def program_state() -> str:
    """Return the path and digest of the git executable.

    While they stay the same, git's version stays the same too.
    """
    place = _program()
    with Path(place).open("rb") as program:
        return f"{place} {hashlib.file_digest(program, 'sha256').hexdigest()}"


def exit_error(verb: str, code: int, stderr: bytes) -> GitError:
    """Return the error for a git process that exited with `code`."""
    if GitResult(code=code, stderr=stderr).hit_limit:
        memory = f"{MAX_MEMORY_BYTES >> 20:,} MiB of memory"
        return limit_error(verb, f"more than {memory}, or too much CPU time")
    lines = stderr.decode(errors="replace").splitlines()
    words = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines
    cure = "Run `git fsck` in the repository, and clone it again if it is damaged"
    if verb == "clone":
        cure = "Correct the url, or clone the repository yourself and give its path"
    if any(reason in line for reason in DISK_FULL_MESSAGES for line in words):
        cure = "Free disk space and run the command again"
    return GitError(
        f"git {verb}",
        f"exit code {code}",
        cause="; ".join(words[:3]).strip(". ") or "git printed no error message",
        cure=cure,
    )


def _kill_session(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process of a clone and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _clone_over(arguments: Sequence[str], cause: str) -> GitError:
    return GitError(
        f"git {arguments[0]}",
        cause=cause,
        cure="Clone the repository yourself and give its path, or remove it from the corpus",
    )


def limit_error(verb: str, needed: str) -> GitError:
    """Return the error for a git process that exceeded a limit."""
    return GitError(
        f"git {verb}",
        cause=f"it needs {needed}, probably because of a maliciously crafted commit or tree",
        cure="Pin an earlier commit, or remove the repository from the corpus",
    )


def _program() -> str:
    found = shutil.which("git")
    if found is None:
        raise CorpusError(
            "git", cause="the program is not on the PATH", cure="Install git 2.30 or newer"
        )
    return found


def _config(layout: RepositoryLayout) -> str:
    """Return the config of a view; of the repository's own config, only the object format is used."""
    core = "[core]\n\tbare = true\n"
    kind = _extension(layout, "objectformat") or "sha1"
    if kind not in DIGESTS or _extension(layout, "refstorage") not in ("", "files"):
        raise CorpusError(
            str(layout.common),
            cause="its object format or ref storage is not supported",
            cure="Give a bundle of it: `git bundle create repository.bundle --all`",
        )
    if kind == "sha1":
        return f"{core}\trepositoryformatversion = 0\n"
    return f"{core}\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = {kind}\n"


def _extension(layout: RepositoryLayout, name: str) -> str:
    config = control_file(layout.common / "config") or b""
    if b"extensions" not in config.lower():
        return ""
    return setting(config, f"extensions.{name}").lower()


def setting(config: bytes, name: str) -> str:
    """Return the setting `name` in a repository's config, or "" if it isn't set; includes aren't followed.

    Raises:
        GitError: if git can't parse the config; `name_repository` adds the repository's name.
    """
    asked = command("config", "--file", "-", "--no-includes", "--get", name)
    nowhere = environment(Path("/nonexistent"))
    done = subprocess.run(asked, input=config, capture_output=True, env=nowhere, cwd="/")
    if done.returncode not in (0, 1):
        raise exit_error("config", done.returncode, done.stderr)
    return os.fsdecode(done.stdout).removesuffix("\n")


def _no_refs(path: Path) -> None:
    (path / "refs").mkdir()
    (path / "HEAD").write_text("ref: refs/heads/none\n")


def _link_refs(path: Path, layout: RepositoryLayout) -> None:
    for name in ("refs", "packed-refs"):
        (path / name).symlink_to(layout.common.resolve() / name)
    head = (control_file(layout.head) or b"")[:1000].decode(errors="replace").strip()
    if not HEAD.fullmatch(head):
        raise CorpusError(
            str(layout.head),
            cause="it refers to neither a branch nor a commit",
            cure="Clone the repository again",
        )
    (path / "HEAD").write_text(f"{head}\n")


def _quoted(path: Path) -> bytes:
    r"""Return a path in the quoting of objects/info/alternates: `/a"b` becomes `"/a\"b"`."""
    raw = str(path).encode(errors="surrogateescape")
    if not re.search(rb'[\x00-\x1f"\\]', raw):
        return raw + b"\n"
    escaped = re.sub(rb'[\x00-\x1f"\\]', lambda found: b"\\%03o" % found[0][0], raw)
    return b'"' + escaped + b'"\n'
