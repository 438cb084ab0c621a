"""Blobs as decoded text, the rules of quality that refuse a text, and counts of what was skipped."""

import re
import subprocess
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, get_args

from curriculum.corpus import git
from schemas.change import Blob
from schemas.corpus import QualitySpec
from schemas.errors import CorpusError
from schemas.reports import SkipsReport

Unreadable = Literal["binary", "corrupt", "encoding", "missing", "oversized", "path", "unreadable"]
"""Lost data: NUL bytes in a source file, a damaged object, text that isn't UTF-8, an object that isn't
there, a commit that git can't read within its limits, a path that isn't printable UTF-8 inside the tree or
is too long, a file that the system won't let us read."""
Unwanted = Literal[
    "boundary",
    "excluded",
    "generated",
    "line_length",
    "submodule",
    "symlink",
    "too_large",
    "too_small",
    "unchanged",
    "vendored",
    "versions",
]
"""Choices: the commit that a shallow clone ends at, include and exclude, the rules of quality, what
isn't a file, a change of nothing but line ends, and versions beyond `versions_per_path`."""
Reason = Literal[Unreadable, Unwanted]

EXAMPLES = 5
"""Number of examples of each reason that are kept."""
MAX_SHOWN_CHARACTERS = 300
"""Characters of an example's path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One thing that was skipped."""

    path: str
    commit: str


@dataclass(kw_only=True, slots=True)
class Skips:
    """Counts of changes that were read, and of those that were not by reason."""

    read: int = 0
    exact_renames: bool = False
    """True if lineages end at renames with edits, since a blob that tells them can't be read."""
    counts: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[Example]] = field(default_factory=dict)
    trees: Counter[Reason] = field(default_factory=Counter)
    """Versions of files that came into a commit's tree and are in no graph, whatever became of the
    changes that made them."""

    def add(self, reason: Reason, *, path: str, commit: str) -> None:
        """Count one, and keep it as an example while there are few, each of another path."""
        self.counts[reason] += 1
        path = path[:MAX_SHOWN_CHARACTERS]
        kept = self.examples.setdefault(reason, [])
        if len(kept) < EXAMPLES and all(example.path != path for example in kept):
            kept.append(Example(path=path, commit=commit))

    @property
    def lost_share(self) -> float:
        """The share of the wanted input that could not be read, to compare with `max_skipped`."""
        unreadable = sum(self.counts[reason] for reason in get_args(Unreadable))
        return unreadable / max(1, self.read + unreadable)

    def unreadable_words(self) -> str:
        r"""Count by reason what could not be read, with some paths: encoding 2: a.c, b.c; path 1: f\xfc.c."""
        reasons = sorted(set(self.counts) & {*get_args(Unreadable)})
        return "; ".join(
            f"{reason} {self.counts[reason]:,}: "
            + ", ".join(example.path for example in self.examples[reason])
            for reason in reasons
        )

    def report(self) -> SkipsReport:
        """The counts and examples as a manifest carries them, sorted by reason."""
        return SkipsReport(
            read=self.read,
            lost=self.lost_share,
            renames="exact" if self.exact_renames else "similar",
            skipped={reason: self.counts[reason] for reason in sorted(self.counts)},
            examples={
                reason: tuple(f"{each.commit}:{each.path}" for each in self.examples[reason])
                for reason in sorted(self.examples)
            },
            trees={reason: self.trees[reason] for reason in sorted(self.trees)},
        )


VENDORED = re.compile(
    r"(?:^|/)(?:third[_-]?party|3rd[_-]?party|thirdparty|vendor|vendored|externals?|extern|bundled|"
    r"single_include|node_modules|gtest|gmock|googletest|googlemock|deps)/",
    re.IGNORECASE,
)
GENERATED = re.compile(
    r"@generated\b"
    r"|\bdo not (?:edit|modify)\b"
    r"|\bauto(?:matically)?[- ]?generated\b"
    r"|^\W*(?:this file (?:is|was) |code )?generated (?:by|from|using|with)\b"
    r"|^\W*a (?:lexical scanner|bison parser)",
    re.IGNORECASE | re.MULTILINE,
)
HINTS = (b"generated", b"do not edit", b"do not modify", b"a lexical scanner", b"a bison parser")
"""One of these stands in whatever GENERATED finds; looked for first, since few texts have any."""
HEAD = 2000
"""Bytes in which a file would say that it was generated."""
LEADING_COMMENT = re.compile(
    r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#(?!\s*include)[^\n]*|--[^\n]*)*", re.DOTALL
)
"""Comments, guards and pragmas before the first include or line of code, in every language we read."""


_LINE_END = re.compile(rb"(?<!\\)\n")


def is_vendored(path: str) -> bool:
    """Return True if a folder of the path says that other people's code lies there."""
    return VENDORED.search(path) is not None


def is_generated(text: bytes) -> bool:
    """Return True if the comments that a text begins with say that a program wrote it."""
    head = text[:HEAD]
    lowered = head.lower()
    if not any(hint in lowered for hint in HINTS):
        return False
    leading = LEADING_COMMENT.match(head.decode(errors="replace"))
    assert leading is not None
    return GENERATED.search(leading[0]) is not None


def reason_against(text: bytes, quality: QualitySpec) -> Reason | None:
    """Return the first rule of size, lines and head that refuses a text in UTF-8, or None."""
    if len(text) > quality.max_bytes:
        return "too_large"
    if len(text) < quality.min_bytes:
        return "too_small"
    if has_longer_line(text, quality.max_line_bytes):
        return "line_length"
    if not quality.generated and is_generated(text):
        return "generated"
    return None


def has_longer_line(text: bytes, limit: int) -> bool:
    """Find a line of more than `limit` bytes without its end; lines that backslashes join are one.

    The grammar takes the square of such a line's length. Looks at few of the bytes where none is joined.
    """
    if b"\\\n" in text:
        return any(len(line) > limit for line in _LINE_END.split(text))
    start = 0
    while len(text) - start > limit:
        end = text.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            return True
        start = end + 1
    return False


CACHED_BYTES = 64_000_000
"""Texts that are kept because they may be the next change's before."""
WINDOW = 400
"""Ids that are asked for at once: they fit into a pipe, so neither side ever waits for the other."""
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A decoded blob; `as_stored` says that its text is byte for byte what git stores."""

    blob: Blob
    as_stored: bool
    against: Reason | None = None
    """The rule of quality that it breaks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """A blob that has no text for us."""

    reason: Reason


def decode(blob_id: str, raw: bytes, quality: QualitySpec) -> Version | Unread:
    r"""The text of a blob: UTF-8 without BOM, lines ended by `\n`; nothing is guessed.

    >>> decode("id", b"a\r\nb\rc\n", QualitySpec(min_bytes=0)).blob.text
    'a\nb\nc\n'
    """
    if b"\0" in raw:
        return Unread(reason="binary")
    body = raw.removeprefix(BOM)
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return Unread(reason="encoding")
    return Version(
        blob=Blob(blob_id=blob_id, text=text),
        as_stored=body is raw,
        against=reason_against(body, quality),
    )


@contextmanager
def reading(repository: Path, quality: QualitySpec) -> Iterator["BlobReader"]:
    """A reader of the repository's blobs; its git ends with the block."""
    reader = BlobReader(repository=repository, quality=quality)
    try:
        yield reader
    finally:
        reader.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class _CatFile:
    """A git that answers ids of objects in their order."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @staticmethod
    def start(repository: Path, option: str) -> "_CatFile":
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        process = subprocess.Popen(
            git.limited("cat-file", option),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=git.environment(repository),
            cwd="/",
        )
        return _CatFile(process=process, errors=errors)

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def ask(self, ids: Sequence[str]) -> None:
        """Raise a CorpusError where git has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("".join(f"{blob_id}\n" for blob_id in ids).encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.death() from None

    def death(self) -> CorpusError:
        code = self.process.wait()
        self.errors.seek(0)
        return git.failure("cat-file", code, self.errors.read())

    def end(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            assert stream is not None
            _close(stream)
        self.process.wait()


@dataclass(kw_only=True, slots=True)
class BlobReader:
    """Reads blobs by id; memory is a window's texts and the cache's.

    Sizes are asked for first: a blob that is too large is never inflated.
    """

    repository: Path
    quality: QualitySpec
    _cache: OrderedDict[str, Version | Unread] = field(default_factory=OrderedDict)
    _cached_bytes: int = 0
    _sizes: _CatFile | None = None
    _texts: _CatFile | None = None

    def read(self, ids: Sequence[str]) -> dict[str, Version | Unread]:
        """The versions of all `ids`, or why one has none.

        Raises:
            CorpusError: if git ends before it answered, other than for a damaged object.
        """
        found: dict[str, Version | Unread] = {}
        missing: list[str] = []
        for blob_id in dict.fromkeys(ids):
            known = self._cache.get(blob_id)
            if known is None:
                missing.append(blob_id)
            else:
                self._cache.move_to_end(blob_id)
                found[blob_id] = known
        for start in range(0, len(missing), WINDOW):
            found.update(self._fetch(missing[start : start + WINDOW]))
        return found

    def close(self) -> None:
        """End git; what it was still saying no longer matters."""
        for program in (self._sizes, self._texts):
            if program is not None:
                program.end()
        self._sizes = self._texts = None

    def _fetch(self, ids: Sequence[str]) -> dict[str, Version | Unread]:
        found: dict[str, Version | Unread] = self._without_text(ids)
        waiting = [blob_id for blob_id in ids if blob_id not in found]
        while waiting:
            if self._texts is None:
                self._texts = _CatFile.start(self.repository, "--batch")
            self._texts.ask(waiting)
            while waiting and self._texts is not None:
                found[waiting[0]] = self._answer(self._texts)
                del waiting[0]
        for blob_id, answer in found.items():
            self._remember(blob_id, answer)
        return found

    def _without_text(self, ids: Sequence[str]) -> dict[str, Version | Unread]:
        """Return those whose kind or size says that they have no text for us."""
        if self._sizes is None:
            self._sizes = _CatFile.start(
                self.repository, "--batch-check=%(objecttype) %(objectsize)"
            )
        self._sizes.ask(ids)
        found: dict[str, Version | Unread] = {}
        for blob_id in ids:
            line = self._sizes.output.readline()
            if not line.endswith(b"\n"):
                raise self._sizes.death()
            kind, _, size = line.strip().partition(b" ")
            if size == b"missing":
                found[blob_id] = Unread(reason="missing")
            elif kind != b"blob":
                found[blob_id] = Unread(reason="corrupt")
            elif int(size) > self.quality.max_bytes:
                found[blob_id] = Unread(reason="too_large")
        return found

    def _answer(self, texts: _CatFile) -> Version | Unread:
        """The next answer of git; one that breaks off because the object is damaged ends this git."""
        head = texts.output.readline().split()
        if head[1:] == [b"missing"]:
            return Unread(reason="missing")
        if len(head) != 3:
            return self._broken_off(texts)
        blob_id, _, size = head
        raw = texts.output.read(int(size))
        if len(raw) < int(size) or texts.output.read(1) != b"\n":
            return self._broken_off(texts)
        return decode(blob_id.decode(), raw, self.quality)

    def _broken_off(self, texts: _CatFile) -> Unread:
        if texts.process.wait() != git.DAMAGED:
            raise texts.death()
        texts.end()
        self._texts = None
        return Unread(reason="corrupt")

    def _remember(self, blob_id: str, answer: Version | Unread) -> None:
        self._cache[blob_id] = answer
        self._cached_bytes += _size(answer)
        while self._cached_bytes > CACHED_BYTES:
            _, dropped = self._cache.popitem(last=False)
            self._cached_bytes -= _size(dropped)


def _size(answer: Version | Unread) -> int:
    return 100 + (len(answer.blob.text) if isinstance(answer, Version) else 0)


def _close(stream: IO[bytes]) -> None:
    """Close a stream to a process that may be gone, for which unsent requests no longer matter."""
    try:
        stream.close()
    except BrokenPipeError:
        return
