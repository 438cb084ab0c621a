"""Blobs of a repository as decoded texts; a long-running git process reads them."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.corpus import git
from curriculum.corpus.encodings import UTF8, decode_source, is_marked
from curriculum.corpus.git_objects import parse_head
from curriculum.corpus.git_process import GitProcess
from curriculum.corpus.quality import reason_against
from curriculum.corpus.skips import Reason
from schemas.change import Blob
from schemas.corpus import QualitySpec

MAX_CACHED_BYTES = 64_000_000
"""Size of the cache of texts. The `after` of one change is often the `before` of the next."""
WINDOW = 400
"""Number of ids per request.

So many ids fit into the buffer of a pipe, so that the two processes never block each other.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A decoded blob; `as_stored` is True if the text has exactly the bytes that git stores."""

    blob: Blob
    as_stored: bool
    encoding: str = UTF8
    against: Reason | None = None
    """Quality rule that rejects the text; None if no rule does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """A blob that gives no usable text, and the reason."""

    reason: Reason


def decode(blob_id: str, raw: bytes, quality: QualitySpec) -> Version | Unread:
    r"""Decode a blob, remove its byte order mark, and change all line ends to `\n`.

    Sizes are measured in bytes of UTF-8.

    >>> decode("id", b"a\r\nb\rc\n", QualitySpec(min_bytes=0)).blob.text
    'a\nb\nc\n'
    """
    if b"\0" in raw and not is_marked(raw):
        return Unread(reason="binary")
    decoded = decode_source(raw)
    if decoded is None:
        return Unread(reason="encoding")
    text = decoded.text
    if "\0" in text:
        return Unread(reason="binary")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    body = text.encode()
    return Version(
        blob=Blob(blob_id=blob_id, text=text),
        as_stored=body == raw,
        encoding=decoded.encoding,
        against=reason_against(body, quality),
    )


@dataclass(kw_only=True, slots=True)
class BlobReader:
    """Reader of blobs by their ids, with a cache of texts.

    Memory is one window of texts plus the cache. Sizes are requested before contents, so that a blob over the
    size limit is never inflated.
    """

    repository: Path
    quality: QualitySpec
    _cache: OrderedDict[str, Version | Unread] = field(default_factory=OrderedDict)
    _cached_bytes: int = 0
    _sizes: GitProcess | None = None
    _texts: GitProcess | None = None

    def read(self, ids: Sequence[str]) -> dict[str, Version | Unread]:
        """Return for each of `ids` the decoded blob, or the reason why there is none.

        Raises:
            CorpusError: if git exits early for any reason other than a damaged object.
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
        """Kill the git processes and discard unread output."""
        for program in (self._sizes, self._texts):
            if program is not None:
                program.close()
        self._sizes = self._texts = None

    def _fetch(self, ids: Sequence[str]) -> dict[str, Version | Unread]:
        found: dict[str, Version | Unread] = self._without_text(ids)
        waiting = [blob_id for blob_id in ids if blob_id not in found]
        while waiting:
            if self._texts is None:
                self._texts = GitProcess.start(self.repository, "cat-file", "--batch")
            self._texts.send(_lines(waiting))
            while waiting and self._texts is not None:
                found[waiting[0]] = self._answer(self._texts, waiting[0])
                del waiting[0]
        for blob_id, answer in found.items():
            self._remember(blob_id, answer)
        return found

    def _without_text(self, ids: Sequence[str]) -> dict[str, Version | Unread]:
        """Return those of `ids` that are not blobs, are missing or exceed the size limit, with the reason."""
        if self._sizes is None:
            self._sizes = GitProcess.start(self.repository, "cat-file", "--batch-check")
        self._sizes.send(_lines(ids))
        found: dict[str, Version | Unread] = {}
        for blob_id in ids:
            head = parse_head(self._sizes.output.readline())
            if head is None:
                raise self._sizes.exit_error()
            if head.kind == "missing":
                found[blob_id] = Unread(reason="missing")
            elif head.kind != "blob":
                found[blob_id] = Unread(reason="corrupt")
            elif head.size > self.quality.max_bytes:
                found[blob_id] = Unread(reason="too_large")
        return found

    def _answer(self, texts: GitProcess, blob_id: str) -> Version | Unread:
        """Read git's next answer.

        A damaged object ends the git process in the middle of the answer.
        """
        head = parse_head(texts.output.readline())
        if head is None:
            return self._broken_off(texts)
        if head.kind == "missing":
            return Unread(reason="missing")
        raw = texts.output.read(head.size)
        if len(raw) < head.size or texts.output.read(1) != b"\n":
            return self._broken_off(texts)
        return decode(blob_id, raw, self.quality)

    def _broken_off(self, texts: GitProcess) -> Unread:
        if texts.process.wait() != git.DAMAGED:
            raise texts.exit_error()
        texts.close()
        self._texts = None
        return Unread(reason="corrupt")

    def _remember(self, blob_id: str, answer: Version | Unread) -> None:
        self._cache[blob_id] = answer
        self._cached_bytes += _size(answer)
        while self._cached_bytes > MAX_CACHED_BYTES:
            _, dropped = self._cache.popitem(last=False)
            self._cached_bytes -= _size(dropped)


def _lines(ids: Sequence[str]) -> bytes:
    return "".join(f"{blob_id}\n" for blob_id in ids).encode()


def _size(answer: Version | Unread) -> int:
    return 100 + (len(answer.blob.text) if isinstance(answer, Version) else 0)
