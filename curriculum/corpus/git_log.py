"""The log of a repository without its texts: every commit, and which blobs it changed under which paths."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from curriculum.corpus import git

FORMAT = "%x01%H%x00%P%x00%ct%x00%s"
ARGUMENTS = (
    "log",
    "--no-merges",
    "--date-order",
    "--reverse",
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
LATEST = 253_402_300_799
"""The last second of the year 9999; a commit may claim any time at all."""
CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One path in one commit, as `git log --raw` says it; `path` is bytes, for git knows no encoding.

    A mode is six octal digits and an id of zeros stands for nothing, as in git.
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
    """A commit that is no merge, with what it changed; `timestamp` is the committer's, seconds UTC."""

    commit: str
    parents: tuple[str, ...]
    timestamp: int
    subject: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """A whole log in a temporary file; `exact_renames` says that only those without edits are known."""

    file: IO[bytes]
    exact_renames: bool


@contextmanager
def read_log(repository: Path, commit: str) -> Iterator[Log]:
    """The log up to `commit`, complete before its first byte is read.

    Costs about 200 bytes of disk a changed path. Renames with edits need every blob; where one can't be
    read, exact renames remain, for which the ids are enough.

    Raises:
        CorpusError: if git can't walk the history to its end.
    """
    with tempfile.TemporaryFile() as file:
        ended = git.run_into(repository, file, *ARGUMENTS, "-M50%", commit, "--")
        exact = ended.code == git.DAMAGED
        if exact:
            file.seek(0)
            file.truncate()
            ended = git.run_into(repository, file, *ARGUMENTS, "-M100%", commit, "--")
        if ended.code:
            raise git.failure("log", ended.code, ended.stderr)
        yield Log(file=file, exact_renames=exact)


def commits(log: Log) -> Iterator[Commit]:
    """The commits in a recorded log, oldest first, a parent always before its children."""
    tokens = _tokens(log.file)
    token = next(tokens, None)
    while token is not None:
        assert token.startswith(b"\x01"), "a commit of the log begins with 1"
        parents, timestamp, subject = next(tokens), next(tokens), next(tokens)
        entries: list[Entry] = []
        name = token[1:].decode()
        while (token := next(tokens, None)) is not None and not token.startswith(b"\x01"):
            if token:
                entries.append(_entry(token.lstrip(b"\n"), tokens))
        yield Commit(
            commit=name,
            parents=tuple(parents.decode().split()),
            timestamp=min(int(timestamp), LATEST) if timestamp.isdigit() else 0,
            subject=_text(subject),
            entries=tuple(entries),
        )


def _entry(meta: bytes, tokens: Iterator[bytes]) -> Entry:
    before_mode, after_mode, before_id, after_id, status = meta[1:].decode().split(" ")
    old_path = next(tokens)
    return Entry(
        before_mode=before_mode,
        after_mode=after_mode,
        before_id=before_id,
        after_id=after_id,
        status=status[0],
        old_path=old_path,
        path=next(tokens) if status[0] == "R" else old_path,
    )


def _tokens(file: IO[bytes]) -> Iterator[bytes]:
    r"""Yield the texts between NULs: `a\0bc\0` gives `a`, `bc`."""
    rest = b""
    place = 0
    while chunk := _chunk(file, place):
        place += len(chunk)
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
    if rest:
        yield rest


def _chunk(file: IO[bytes], place: int) -> bytes:
    """The bytes from `place` on: a log may have several readers at once."""
    file.seek(place)
    return file.read(CHUNK)


def _text(subject: bytes) -> str:
    """A subject as text; one that isn't UTF-8 says nothing, rather than something garbled."""
    try:
        return subject.decode()
    except UnicodeDecodeError:
        return ""
