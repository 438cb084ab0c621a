"""The git log of a repository: every commit with its changed paths and blob ids, without contents."""

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from curriculum.corpus import git
from curriculum.corpus.git_objects import object_heads
from schemas.whole_numbers import whole_number

FORMAT = "%x01%H%x00%P%x00%ct%x00%s"
ARGUMENTS = (
    "log",
    "--no-walk=unsorted",
    "--stdin",
    "--raw",
    "-z",
    "--no-abbrev",
    "--root",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-notes",
    "--no-show-signature",
    "--encoding=UTF-8",
    "-l2000",
    f"--format={FORMAT}",
)
MAX_TIMESTAMP_S = 253_402_300_799
"""Maximum timestamp, the last second of the year 9999; a commit may claim any time."""
CHUNK_BYTES = 1 << 18
BATCH = 256
"""Number of commits that one git process compares with their parents."""
MAX_COMMIT_BYTES = 1 << 20
"""Size limit of a commit object, which consists of a message and about 48 bytes per parent."""
MAX_OVERSIZED_COMMITS = 8
"""Maximum number of commits that exceed git's limits, because each may take the whole time limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEntry:
    """One path that a commit changed, as in `git log --raw`.

    Paths are bytes, because git doesn't define their encoding. A mode has six octal digits. As in git, an id
    of zeros means that the file doesn't exist.
    """

    before_mode: str
    after_mode: str
    before_id: str
    after_id: str
    status: str
    old_path: bytes
    path: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A commit with its changes; merges are not included.

    `timestamp` is the time of the committer, in UTC seconds.
    """

    commit: str
    parents: tuple[str, ...]
    timestamp: int
    subject: str
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitLog:
    """A complete git log in a temporary file.

    If `exact_renames` is true, only renames without edits were detected.
    """

    file: IO[bytes]
    exact_renames: bool
    oversized: tuple[str, ...] = ()
    """Commits that are left out because git can't read them within its limits."""


@contextmanager
def read_log(repository: Path, commit: str) -> Iterator[CommitLog]:
    """Record the log up to `commit` in a temporary file, which exists until the end of the `with` block.

    Git finishes before the first byte of the log is read. The file needs about 200 bytes per changed path. To
    detect renames with edits, git needs every blob. If a blob is unreadable, only exact renames are detected,
    for which ids are enough.

    Raises:
        CorpusError: if git can't walk the whole history, or more than MAX_OVERSIZED_COMMITS exceed git's
            limits.
    """
    ids, large = _listed(repository, commit)
    with tempfile.TemporaryFile() as file:
        recorded = _Recorder(repository=repository, file=file, ids=ids, renames="-M50%")
        ended = recorded.record()
        exact = ended.code == git.DAMAGED and not ended.hit_limit
        if exact:
            recorded = _Recorder(repository=repository, file=file, ids=ids, renames="-M100%")
            ended = recorded.record()
        if ended.code:
            raise git.exit_error("log", ended.code, ended.stderr)
        yield CommitLog(file=file, exact_renames=exact, oversized=(*large, *recorded.oversized))


def _listed(repository: Path, commit: str) -> tuple[list[bytes], list[str]]:
    """Return the commits up to `commit` except merges, oldest first, and separately the oversized commits."""
    walk = ("rev-list", "--no-merges", "--date-order", "--reverse", commit, "--")
    names = git.run(repository, *walk).decode().split()
    heads = object_heads(repository, names)
    sized = [(name, head.size) for name, head in zip(names, heads, strict=True) if head.size]
    if len(sized) != len(names):
        raise git.exit_error("cat-file", 0, b"error: a commit is missing")
    return (
        [name.encode() for name, size in sized if size <= MAX_COMMIT_BYTES],
        [name for name, size in sized if size > MAX_COMMIT_BYTES],
    )


@dataclass(kw_only=True, slots=True)
class _Recorder:
    """Recorder that writes the log in batches, without the commits for which git exceeds a limit."""

    repository: Path
    file: IO[bytes]
    ids: Sequence[bytes]
    renames: str
    oversized: list[str] = field(default_factory=list)

    def record(self) -> git.GitResult:
        """Write the log from the start of the file.

        Return the result of the first git process that fails, else that of a process that succeeded.
        """
        self.file.seek(0)
        self.file.truncate()
        at = alone = 0
        while at < len(self.ids):
            part = self.ids[at : at + (1 if alone else BATCH)]
            start = self.file.seek(0, os.SEEK_END)
            asked = b"".join(name + b"\n" for name in part)
            ended = git.run_into(self.repository, self.file, *ARGUMENTS, self.renames, stdin=asked)
            if not ended.code:
                at, alone = at + len(part), max(0, alone - 1)
            elif not ended.hit_limit or len(self.oversized) == MAX_OVERSIZED_COMMITS:
                return ended
            elif len(part) > 1:
                at, alone = at + self._keep_whole(start, part), 2
            else:
                self.file.truncate(start)
                self.oversized.append(part[0].decode())
                at, alone = at + 1, alone - 1
        return git.GitResult(code=0, stderr=b"")

    def _keep_whole(self, start: int, part: Sequence[bytes]) -> int:
        """Truncate the file after the last complete commit of an interrupted batch; return their number.

        The last written commit is removed too, because it may be incomplete. The commit at which git exceeded
        the limit is this one or the next.
        """
        if self.file.seek(0, os.SEEK_END) == start:
            return 0
        places = [start]
        with mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for name in part:
                place = text.find(b"\x01" + name + b"\0", places[-1])
                if place < 0:
                    break
                places.append(place)
        self.file.truncate(places[-1])
        return max(0, len(places) - 2)


def commits(log: CommitLog) -> Iterator[Commit]:
    """Yield the commits of a recorded log, oldest first; parents come before their children."""
    tokens = _tokens(log.file)
    token = next(tokens, None)
    while token is not None:
        assert token.startswith(b"\x01"), "a commit of the log begins with 1"
        parents, timestamp, subject = next(tokens), next(tokens), next(tokens)
        entries: list[LogEntry] = []
        name = token[1:].decode()
        while (token := next(tokens, None)) is not None and not token.startswith(b"\x01"):
            if token:
                entries.append(_entry(token.lstrip(b"\n"), tokens))
        yield Commit(
            commit=name,
            parents=tuple(parents.decode().split()),
            timestamp=_moment(timestamp),
            subject=_text(subject),
            entries=tuple(entries),
        )


def _moment(written: bytes) -> int:
    """Return a timestamp that git printed, but at most MAX_TIMESTAMP_S; 0 if it is not a number."""
    if not written.isdigit():
        return 0
    number = whole_number(written.lstrip(b"0") or b"0")
    return MAX_TIMESTAMP_S if number is None else min(number, MAX_TIMESTAMP_S)


def _entry(meta: bytes, tokens: Iterator[bytes]) -> LogEntry:
    before_mode, after_mode, before_id, after_id, status = meta[1:].decode().split(" ")
    old_path = next(tokens)
    return LogEntry(
        before_mode=before_mode,
        after_mode=after_mode,
        before_id=before_id,
        after_id=after_id,
        status=status[0],
        old_path=old_path,
        path=next(tokens) if status[0] == "R" else old_path,
    )


def _tokens(file: IO[bytes]) -> Iterator[bytes]:
    r"""Yield the texts between NULs, each truncated to MAX_COMMIT_BYTES: `a\0bc\0` gives `a`, `bc`."""
    rest = bytearray()
    place = 0
    while chunk := _chunk(file, place):
        place += len(chunk)
        first, *others = chunk.split(b"\0")
        rest += first[: MAX_COMMIT_BYTES - len(rest)]
        for token in others:
            yield bytes(rest)
            rest = bytearray(token)
    if rest:
        yield bytes(rest)


def _chunk(file: IO[bytes], place: int) -> bytes:
    """Read bytes at `place`; each read seeks first, so that several readers can read a log at once."""
    file.seek(place)
    return file.read(CHUNK_BYTES)


def _text(subject: bytes) -> str:
    """Decode the subject of a commit; if it isn't UTF-8, return "" rather than garbled text."""
    try:
        return subject.decode()
    except UnicodeDecodeError:
        return ""
