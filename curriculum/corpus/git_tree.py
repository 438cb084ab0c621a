"""Files in the tree of one commit: their entries, their contents, and the languages of headers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from curriculum.corpus import git
from curriculum.corpus.encodings import as_utf8
from curriculum.corpus.git_objects import object_heads, parse_head
from curriculum.corpus.header_languages import HeaderLanguages, decide_headers
from curriculum.corpus.paths import HEADER_SUFFIX, source_languages
from schemas.errors import CorpusError

FILE_MODES = frozenset(("100644", "100755", "100664"))
MAX_OPEN_FILES = 200
"""Maximum number of files in memory at a time."""
MAX_OPEN_BYTES = 64 << 20
MAX_FILE_BYTES = 64 << 20
"""Size limit of a file in a tree; source files are never that large."""


class TreeEntry(NamedTuple):
    """Entry of a git tree for one path; if the path doesn't exist, mode and id consist of zeros."""

    path: bytes
    mode: str
    blob_id: str


def list_tree(repository: Path, commit: str) -> Iterator[TreeEntry]:
    """Yield the entries of all files in a commit's tree."""
    for line in git.run(repository, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, blob_id = head.decode().split(" ")
        yield TreeEntry(path, mode, blob_id)


def read_entries(
    repository: Path, entries: Sequence[TreeEntry], *, max_bytes: int = MAX_FILE_BYTES
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, content) of every entry with a readable blob of at most `max_bytes` bytes.

    At most MAX_OPEN_FILES files with MAX_OPEN_BYTES in total are in memory; larger blobs are never inflated.
    """
    window: list[TreeEntry] = []
    size = 0
    heads = object_heads(repository, [entry.blob_id for entry in entries])
    for entry, head in zip(entries, heads, strict=True):
        if head.kind != "blob" or head.size > max_bytes:
            continue
        if len(window) == MAX_OPEN_FILES or (window and size + head.size > MAX_OPEN_BYTES):
            yield from _read_entries(repository, window)
            window, size = [], 0
        window.append(entry)
        size += head.size
    if window:
        yield from _read_entries(repository, window)


def _read_entries(repository: Path, entries: Sequence[TreeEntry]) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, content) of every entry with a readable blob; all contents are in memory at once.

    At a damaged blob, the git process ends without answering for the remaining entries. The entries are then
    read again in two halves, until the damaged blob is alone.
    """
    ids = dict.fromkeys(entry.blob_id for entry in entries)
    asked = "".join(f"{blob_id}\n" for blob_id in ids).encode()
    try:
        output = git.run(repository, "cat-file", "--batch", stdin=asked)
    except CorpusError:
        half = len(entries) // 2
        for part in (entries[:half], entries[half:]) if half else ():
            yield from _read_entries(repository, part)
        return
    found = dict[str, tuple[int, int]]()
    at = 0
    for blob_id in ids:
        start = output.index(b"\n", at) + 1
        head = parse_head(output[at:start])
        assert head is not None
        found[blob_id], at = (start, start + head.size), start + head.size + 1
    for entry in entries:
        start, end = found[entry.blob_id]
        yield entry.path, output[start:end]


def headers_at(repository: Path, commit: str, past: Mapping[bytes, str]) -> HeaderLanguages:
    """Decide the language of each `.h` file of a repository.

    Headers in the tree of `commit` are decided by their content there, and deleted headers by their last
    blob.

    Args:
        repository: A view of the repository.
        commit: Id of the commit.
        past: Last blob of every header in the history, by path.

    Raises:
        CorpusError: if the tree can't be listed.
    """
    entries = {
        entry.path.decode(errors="surrogateescape"): entry
        for entry in list_tree(repository, commit)
        if entry.mode in FILE_MODES
    }
    for raw, blob_id in past.items():
        path = raw.decode(errors="surrogateescape")
        entries.setdefault(path, TreeEntry(raw, "", blob_id))

    def read(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for raw, content in read_entries(repository, [entries[path] for path in paths]):
            yield raw.decode(errors="surrogateescape"), as_utf8(content)

    headers = [path for path in entries if path.endswith(HEADER_SUFFIX)]
    return decide_headers(source_languages(entries), headers, read)
