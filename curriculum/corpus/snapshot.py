"""A plain directory, read as one snapshot of its files."""

from collections import Counter
from collections.abc import Iterator

from curriculum.corpus import directory, hunks
from curriculum.corpus.blobs import Unread, decode
from curriculum.corpus.change_filter import is_needed, nothing_to_read, suffix_of
from curriculum.corpus.paths import PathRules, WantedPath, header_language, language_of, path_rules
from curriculum.corpus.skips import Reason, Skips
from curriculum.corpus.sources import Source
from schemas.change import Blob, FileChange
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.errors import CorpusError


def read_directory(
    source: Source, spec: RepositorySpec, corpus: CorpusSpec, skips: Skips
) -> Iterator[FileChange]:
    """Every wanted file of a plain directory in the order of paths, as of time 0.

    Raises:
        CorpusError: if no file is in a wanted language, or the directory changed while it was read.
    """
    rules = _rules(source, spec, corpus)
    seen = directory.Digest()
    for file in directory.files(source.path):
        path = file.raw.decode(errors="replace")
        if file.is_link:
            skips.add("symlink", path=path, commit=source.commit)
            continue
        blob_id, judged = _judge_file(source, spec, file.raw, rules)
        seen.add(file.raw, blob_id)
        if isinstance(judged, FileChange):
            skips.read += 1
            yield judged
        elif judged is not None:
            skips.add(judged, path=path, commit=source.commit)
    if str(seen) != source.commit:
        raise CorpusError(
            f"repository {spec.name}",
            str(source.path),
            cause="the directory changed while it was read",
            cure="Build again, from a copy or a commit",
        )


def _rules(source: Source, spec: RepositorySpec, corpus: CorpusSpec) -> PathRules:
    paths = [file.raw.decode(errors="replace") for file in directory.files(source.path)]
    headers = header_language(paths)
    if not any(is_needed(language_of(path, headers=headers), corpus) for path in paths):
        raise nothing_to_read(spec, corpus, Counter(map(suffix_of, paths)), shallow=False)
    return path_rules(spec, corpus, headers=headers)


def _judge_file(
    source: Source, spec: RepositorySpec, raw: bytes, rules: PathRules
) -> tuple[str, FileChange | Reason | None]:
    """A file's blob id, and the file as a snapshot, or why it is none."""
    quality = rules.corpus.quality
    try:
        blob_id, content = directory.read(source.path, raw, largest=quality.max_bytes)
    except OSError:
        return directory.UNREADABLE, "unreadable"
    wanted = rules.verdict(raw)
    if not isinstance(wanted, WantedPath):
        return blob_id, wanted
    if content is None:
        return blob_id, "too_large"
    version = decode(blob_id, content, quality)
    if isinstance(version, Unread):
        return blob_id, version.reason
    return blob_id, version.against or _snapshot(source, spec, wanted, version.blob)


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
        hunks=hunks.whole(blob.text, added=True),
        lineage=f"{spec.name}:{wanted.path}",
        before_is_new=False,
    )
