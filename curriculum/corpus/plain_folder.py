"""Files of a plain folder, which is read like a history with a single commit."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from curriculum.corpus import sources
from curriculum.corpus.batch_diff import whole_text_hunks
from curriculum.corpus.blobs import Unread, decode
from curriculum.corpus.change_filter import is_needed, no_source_files, suffix_of
from curriculum.corpus.encodings import as_utf8
from curriculum.corpus.folder_origins import licences_in, vendored_in
from curriculum.corpus.header_languages import MAX_JUDGED_BYTES, HeaderLanguages, decide_headers
from curriculum.corpus.paths import (
    HEADER_SUFFIX,
    PathRules,
    WantedPath,
    language_of,
    path_rules,
    source_languages,
)
from curriculum.corpus.skips import Reason, Skips
from curriculum.corpus.sources import Source
from curriculum.corpus.vendored import NOTHING_VENDORED
from schemas.change import Blob, FileChange
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.errors import CorpusError
from schemas.tree_licences import LicenceFiles


def read_directory(
    source: Source, spec: RepositorySpec, corpus: CorpusSpec, skips: Skips
) -> Iterator[FileChange]:
    """Yield every wanted file of a plain folder as an added file with timestamp 0, sorted by path.

    Raises:
        CorpusError: if no file is in a wanted language, if no file is readable, or if the folder changed
            while it was read.
    """
    licences = licences_in(source)
    rules = _rules(source, spec, corpus, licences)
    seen = sources.DirectoryDigest()
    skips.vendored = rules.vendored.counted()
    before = skips.read
    for file in sources.directory_files(source.path):
        path = file.raw.decode(errors="backslashreplace")
        if file.is_link:
            skips.add("symlink", path=path, commit=source.commit)
            continue
        blob_id, judged = _judge_file(source, spec, file.raw, rules, skips)
        seen.add(file.raw, blob_id)
        if isinstance(judged, FileChange):
            skips.read += 1
            yield replace(judged, licence_files=licences, old_licence_files=licences)
        elif judged is not None:
            skips.add(judged, path=path, commit=source.commit)
    if str(seen) != source.commit:
        raise CorpusError(
            spec.title("path"),
            str(source.path),
            cause="the folder changed while it was read",
            cure="Build again from a copy or a commit",
        )
    if skips.read == before:
        why = ", ".join(
            f"{reason.replace('_', ' ')} {count:,}"
            for reason, count in sorted(skips.counts.items())
        )
        raise CorpusError(
            spec.title("path"),
            str(source.path),
            cause=f"it is not a git repository, and all files of the plain folder were skipped: {why}",
            cure="Give the path of a clone, or of a folder with usable files",
        )


def require_files(source: Source, spec: RepositorySpec, corpus: CorpusSpec) -> None:
    """Raise unless a plain folder has a readable file in a wanted language.

    Reading stops at the first such file. Git repositories are not checked.

    Raises:
        CorpusError: if `read_directory` would yield no file.
    """
    if source.layout is None:
        next(read_directory(source, spec, corpus, Skips()), None)


def _rules(
    source: Source, spec: RepositorySpec, corpus: CorpusSpec, licences: LicenceFiles
) -> PathRules:
    files = list(sources.directory_files(source.path))
    paths = [os.fsdecode(file.raw) for file in files]
    headers = folder_headers(
        source.path, [os.fsdecode(file.raw) for file in files if not file.is_link]
    )
    languages = (language_of(path, headers=headers.language_of(path)) for path in paths)
    if not any(is_needed(language, corpus) for language in languages):
        every = map(os.fsdecode, sources.directory_paths(os.fsencode(source.path)))
        raise no_source_files(spec, corpus, Counter(map(suffix_of, every)), kind="folder")
    vendored = NOTHING_VENDORED
    if not corpus.quality.vendored:
        vendored = vendored_in(source, files, licences, max_bytes=corpus.quality.max_bytes)
    return path_rules(spec, corpus, headers=headers, vendored=vendored)


def folder_headers(folder: Path, paths: Sequence[str]) -> HeaderLanguages:
    """Decide the languages of the `.h` files in a plain folder; `paths` are relative to the folder."""

    def read(wanted: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for path in wanted:
            with suppress(OSError):
                raw = os.fsencode(path)
                content = sources.read_in_directory(folder, raw, max_bytes=MAX_JUDGED_BYTES)[1]
                yield path, as_utf8(content or b"")

    headers = [path for path in paths if path.endswith(HEADER_SUFFIX)]
    return decide_headers(source_languages(paths), headers, read)


def _judge_file(
    source: Source, spec: RepositorySpec, raw: bytes, rules: PathRules, skips: Skips
) -> tuple[str, FileChange | Reason | None]:
    """Return the blob id of a file, and its snapshot, the reason why it is skipped, or None."""
    quality = rules.corpus.quality
    try:
        blob_id, content = sources.read_in_directory(source.path, raw, max_bytes=quality.max_bytes)
    except OSError:
        return sources.UNREADABLE, "unreadable"
    wanted = rules.verdict(raw)
    if not isinstance(wanted, WantedPath):
        return blob_id, wanted
    if content is None:
        return blob_id, "too_large"
    version = decode(blob_id, content, quality)
    if isinstance(version, Unread):
        return blob_id, version.reason
    if version.against:
        return blob_id, version.against
    skips.add_decoded(version.encoding)
    return blob_id, _snapshot(source, spec, wanted, version.blob)


def _snapshot(source: Source, spec: RepositorySpec, wanted: WantedPath, blob: Blob) -> FileChange:
    return FileChange(
        kind="snapshot",
        repository=spec.name,
        licence=spec.licence,
        commit=source.commit,
        timestamp=0,
        subject="",
        path=wanted.path,
        old_path=wanted.path,
        language=wanted.language,
        before=None,
        after=blob,
        hunks=whole_text_hunks(blob.text, added=True),
        lineage=f"{spec.name}:{wanted.path}",
        before_is_new=False,
    )
