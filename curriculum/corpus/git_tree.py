"""Files of one commit's tree: entries, their bytes, and the languages of its headers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from curriculum.corpus import git
from curriculum.corpus.header_languages import HeaderLanguages, decide_headers
from curriculum.corpus.paths import HEADER_SUFFIX, source_languages
from schemas.errors import CorpusError

FILE_MODES = frozenset(("100644", "100755", "100664"))
MAX_OPEN_FILES = 200
"""Number of files whose bytes are held at a time."""


class TreeEntry(NamedTuple):
    """Entry at a path of a tree; an absent one has mode and id of zeros."""

    path: bytes
    mode: str
    blob_id: str


def listed(repository: Path, commit: str) -> Iterator[TreeEntry]:
    """All files of a commit's tree."""
    for line in git.run(repository, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, blob_id = head.decode().split(" ")
        yield TreeEntry(path, mode, blob_id)


def contents(repository: Path, entries: Sequence[TreeEntry]) -> Iterator[tuple[bytes, bytes]]:
    """Path and bytes of every entry whose blob can be read, MAX_OPEN_FILES in memory at a time."""
    for start in range(0, len(entries), MAX_OPEN_FILES):
        yield from _contents(repository, entries[start : start + MAX_OPEN_FILES])


def _contents(repository: Path, entries: Sequence[TreeEntry]) -> Iterator[tuple[bytes, bytes]]:
    """Path and bytes of every entry whose blob can be read; all bytes are held at once.

    A damaged blob ends its git without a word about the rest, so halves are tried until it is alone.
    """
    asked = "".join(f"{entry.blob_id}\n" for entry in entries).encode()
    try:
        output = git.run(repository, "cat-file", "--batch", stdin=asked)
    except CorpusError:
        half = len(entries) // 2
        for part in (entries[:half], entries[half:]) if half else ():
            yield from _contents(repository, part)
        return
    at = 0
    for entry in entries:
        end = output.index(b"\n", at)
        head, at = output[at:end].split(), end + 1
        if head[1] == b"blob":
            size = int(head[2])
            yield entry.path, output[at : at + size]
            at += size + 1


def headers_at(repository: Path, commit: str, past: Mapping[bytes, str]) -> HeaderLanguages:
    """Decide the languages of all headers of a commit's tree, and of `past` headers by their last blobs.

    Raises:
        CorpusError: if the tree can't be listed.
    """
    entries = {
        entry.path.decode(errors="surrogateescape"): entry
        for entry in listed(repository, commit)
        if entry.mode in FILE_MODES
    }
    for raw, blob_id in past.items():
        path = raw.decode(errors="surrogateescape")
        entries.setdefault(path, TreeEntry(raw, "", blob_id))

    def read(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for raw, content in contents(repository, [entries[path] for path in paths]):
            yield raw.decode(errors="surrogateescape"), content

    headers = [path for path in entries if path.endswith(HEADER_SUFFIX)]
    return decide_headers(source_languages(entries), headers, read)
