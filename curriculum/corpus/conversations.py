"""Conversations in JSON lines, one conversation per line, in OpenAI's or ShareGPT's format.

    {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
    {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}

A system turn may come first. Then user and assistant alternate, and the assistant has the last turn. A line
may also have an `id`, which names the conversation; conversations with the same id are on the same side of
the split. Any other line (see conversation_lines.py) is skipped, counted, and reported as `file:line`. One
line is held in memory at a time.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from pydantic import JsonValue

from curriculum.corpus.conversation_lines import (
    ConversationLine,
    LineError,
    LineReason,
    parse_conversation,
)
from curriculum.corpus.paths import is_plain
from curriculum.exposure import leaves_below
from schemas import regular_files
from schemas.change import Conversation, digest_of
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.errors import CorpusError
from schemas.regular_files import kind_at
from schemas.reports import SkipsReport
from schemas.visible import one_line

REVISION = 2
"""Revision of the reader; increase it when the same lines give other conversations."""
SUFFIX = ".jsonl"
MAX_FILE_BYTES = 64 << 30
"""Maximum size of a file, because all of it is hashed; a sparse file can claim to have terabytes."""
CHUNK_BYTES = 1 << 20
MAX_EXAMPLES = 5
MAX_IGNORED_KEYS, MAX_SHOWN_CHARACTERS = 20, 40
"""Limits on a report: the number of different ignored keys, and the characters of a key or value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationFiles:
    """Files of one source of conversations, with the digests that they had when they were found."""

    spec: ConversationsSpec
    root: Path
    files: tuple[tuple[str, str], ...]
    """Path relative to `root` and SHA-256 of each file, sorted."""

    @property
    def digest(self) -> str:
        """Digest of the names and contents of all files; 40 hex digits, like a commit id."""
        built = hashlib.sha256()
        for name, content in self.files:
            built.update(f"{content} {name}\0".encode())
        return built.hexdigest()[:40]

    @property
    def title(self) -> str:
        """Name of the source in messages."""
        return self.spec.title("path")


@dataclass(kw_only=True, slots=True)
class SkippedLines:
    """Counts of the lines that were read, of skipped lines by reason, and of ignored keys."""

    read: int = 0
    counts: Counter[LineReason] = field(default_factory=Counter)
    examples: dict[LineReason, list[str]] = field(default_factory=dict)
    """First few skipped lines by reason, as `file:line` with the key or value that was the reason."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Number of lines that have an ignored key, by key."""
    ignored_examples: dict[str, str] = field(default_factory=dict)
    """First line that has an ignored key, by key."""

    def add(self, fault: LineError, place: str) -> None:
        """Count a line that was skipped because of `fault`; `place` is its `file:line`."""
        self.counts[fault.reason] += 1
        kept = self.examples.setdefault(fault.reason, [])
        if len(kept) < MAX_EXAMPLES:
            kept.append(f"{place} ({_short(fault.found)})" if fault.found else place)

    def add_read(self, line: ConversationLine, place: str) -> None:
        """Count a line that was read, and its ignored keys; `place` is its `file:line`.

        At most MAX_IGNORED_KEYS different keys are counted.
        """
        self.read += 1
        for key in line.ignored_keys:
            name = _short(key)
            if name in self.ignored_examples or len(self.ignored) < MAX_IGNORED_KEYS:
                self.ignored[name] += 1
                self.ignored_examples.setdefault(name, place)

    @property
    def lost_share(self) -> float:
        """Share of all lines that were skipped; it may be at most `max_skipped`."""
        skipped = self.counts.total()
        return skipped / max(1, self.read + skipped)

    def report(self) -> SkipsReport:
        """Return the counts and examples for the manifest of an artefact, sorted by reason."""
        ignored = {
            "ignored_keys": {key: self.ignored[key] for key in sorted(self.ignored)},
            "ignored_examples": dict(sorted(self.ignored_examples.items())),
        }
        return SkipsReport(
            read=self.read,
            lost=self.lost_share,
            skipped={reason: self.counts[reason] for reason in sorted(self.counts)},
            examples={reason: tuple(self.examples[reason]) for reason in sorted(self.examples)},
            **(ignored if self.ignored else {}),
        )


def conversation_paths(spec: ConversationsSpec) -> tuple[Path, list[str]]:
    """Return the folder of a source, and the sorted paths of its files.

    The files are the one that the source names, or all *.jsonl files below the folder that it names.

    Raises:
        CorpusError: if there is no such file.
    """
    path = Path(spec.path)
    if path.is_dir():
        root, names = path, sorted(_below(path))
    else:
        root, names = path.parent, [path.name] if path.is_file() else []
    if not names:
        raise CorpusError(
            spec.title("path"),
            str(path),
            cause=_no_file_in(path)
            if path.is_dir()
            else f"found {kind_at(path)} instead of a file or a folder",
            cure="Correct the path",
        )
    return root, names


def find_conversations(spec: ConversationsSpec) -> ConversationFiles:
    """Find the files of a source, and read each of them once to compute its digest.

    Raises:
        CorpusError: if there is no file, or a file can't be read or has a name that isn't printable UTF-8.
    """
    root, names = conversation_paths(spec)
    return ConversationFiles(
        spec=spec, root=root, files=tuple((name, _sha256(spec, root, name)) for name in names)
    )


def ingredients(found: ConversationFiles, corpus: CorpusSpec) -> dict[str, JsonValue]:
    """Return everything that decides which conversations are read; later artefacts have it in their keys."""
    return {
        "pin": found.digest,
        "source": found.spec.model_dump(mode="json", include={"name", "licence"}),
        "max_bytes": corpus.quality.max_bytes,
    }


def read_conversations(
    found: ConversationFiles, corpus: CorpusSpec, skips: SkippedLines
) -> Iterator[Conversation]:
    """Yield every conversation of a source, in the order of its files and lines.

    Skipped lines are counted in `skips`, whose counts are complete when the iterator ends. Empty lines are
    not counted.

    Raises:
        CorpusError: if a file changed since it was found.
    """
    for name, content in found.files:
        built = hashlib.sha256()
        with _opened(found.spec, found.root, name) as file:
            for number, line in enumerate(_lines(file, corpus.quality.max_bytes, built), start=1):
                place = f"{name}:{number}"
                try:
                    read = _read(line)
                except LineError as fault:
                    skips.add(fault, place)
                    continue
                if read is not None:
                    skips.add_read(read, place)
                    yield _conversation(found, name, number, line, read)
        if built.hexdigest() != content:
            raise CorpusError(
                found.title,
                name,
                cause="the file changed while it was read",
                cure="Build again when no process writes to it",
            )


def refuse_losses(found: ConversationFiles, corpus: CorpusSpec, skips: SkippedLines) -> None:
    """Raise if a source has no conversation, or if more than `max_skipped` of its lines were skipped.

    `max_skipped` is a share of the lines.

    Raises:
        CorpusError: with the count and one example of each reason.
    """
    if skips.lost_share > corpus.max_skipped:
        listed = ", ".join(
            f"{reason} {skips.counts[reason]}, such as {places[0]}"
            for reason, places in sorted(skips.examples.items())
        )
        raise CorpusError(
            found.title,
            f"{skips.lost_share:.1%} of its lines give no conversation ({listed})",
            cause=f"max_skipped allows {corpus.max_skipped:.1%}",
            cure="Correct the lines, raise max_skipped in the corpus file, or skip the source with on_error",
        )
    if not skips.read:
        raise CorpusError(
            found.title,
            found.spec.path,
            cause="it contains no conversation",
            cure="Give a file of JSON lines, or remove it from the corpus file",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _RawLine:
    start: int
    end: int
    """Position in the file at which the line ends, without the line feed."""
    content: bytes | None
    """Bytes of the line; None if the line is too long."""


def _lines(file: BinaryIO, max_bytes: int, built: "hashlib._Hash") -> Iterator[_RawLine]:
    start = 0
    while head := file.readline(max_bytes + 1):
        built.update(head)
        end, tail = start + len(head), head
        while not tail.endswith(b"\n") and (tail := file.readline(CHUNK_BYTES)):
            built.update(tail)
            end += len(tail)
        is_whole = end - start == len(head)
        content = head.removesuffix(b"\n") if is_whole else None
        yield _RawLine(
            start=start, end=end if content is None else start + len(content), content=content
        )
        start = end


def _read(line: _RawLine) -> ConversationLine | None:
    """Return the conversation in a line, or None if the line is empty."""
    if line.content is None:
        raise LineError("too_large")
    try:
        text = line.content.decode("utf-8-sig" if line.start == 0 else "utf-8").strip()
    except UnicodeDecodeError:
        raise LineError("encoding") from None
    return parse_conversation(text) if text else None


def _short(text: str) -> str:
    return one_line(text[:MAX_SHOWN_CHARACTERS])


def _conversation(
    found: ConversationFiles, name: str, number: int, line: _RawLine, parsed: ConversationLine
) -> Conversation:
    digest = digest_of(parsed.turns)
    return Conversation(
        source=found.spec.name,
        pin=found.digest,
        licence=found.spec.licence,
        file=name,
        line=number,
        start=line.start,
        end=line.end,
        name=parsed.name or digest,
        digest=digest,
        turns=parsed.turns,
    )


def _below(root: Path) -> Iterator[str]:
    """Yield the relative paths of all *.jsonl files below a folder; links are left out."""
    for path in _named(root):
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(root).as_posix()


def _named(root: Path) -> Iterator[Path]:
    """Yield the paths below a folder that end with .jsonl, except folders."""
    yield from (leaf for leaf in leaves_below(root) if leaf.suffix == SUFFIX)


def _no_file_in(folder: Path) -> str:
    """Return the cause of the error for a folder without usable files.

    The cause lists entries named *.jsonl that are not files.
    """
    others = [
        f"{path.relative_to(folder).as_posix()} is {kind_at(path, follow_links=False)}"
        for path in sorted(_named(folder))
    ]
    more = f" and {len(others) - MAX_EXAMPLES} more" if len(others) > MAX_EXAMPLES else ""
    listed = f": {', '.join(others[:MAX_EXAMPLES])}{more}" if others else ""
    return f"it contains no {SUFFIX} file{listed}"


def _sha256(spec: ConversationsSpec, root: Path, name: str) -> str:
    if not is_plain(os.fsencode(name)):
        raise CorpusError(
            spec.title("path"),
            ascii(name),
            cause="its name isn't printable UTF-8",
            cure="Rename the file",
        )
    with _opened(spec, root, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise CorpusError(
                spec.title("path"),
                f"{name}, {size:,} bytes",
                cause=f"a file of conversations may have at most {MAX_FILE_BYTES:,} bytes",
                cure="Split the file",
            )
        return hashlib.file_digest(file, "sha256").hexdigest()


def _opened(spec: ConversationsSpec, root: Path, name: str) -> BufferedReader:
    """Open a file of a source for reading.

    A link is followed only if the source names this file itself.

    Raises:
        CorpusError: if the file can't be opened, or is a link inside the source's folder.
    """
    try:
        if root == Path(spec.path):
            return os.fdopen(regular_files.opened_below(root, name), "rb")
        return os.fdopen(regular_files.opened(root / name, follow_links=True), "rb")
    except OSError as refused:
        raise CorpusError(
            spec.title("path"),
            name,
            cause=f"the file can't be read ({refused.strerror})",
            cure="Make it readable, or remove it from the corpus file",
        ) from None
