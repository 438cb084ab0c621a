"""Licence files of a tree (LICENSE, COPYING, LICENSES/, REUSE.toml), and the licences that they state."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from curriculum.corpus.licence_names import (
    chosen_files,
    covered_by,
    is_annotation_file,
    reuse_id,
)
from curriculum.corpus.licences import StatedLicence, stated_in_file
from curriculum.corpus.reuse_annotations import annotations_in
from schemas.spdx import UNRECOGNISED
from schemas.tree_licences import AnnotationFile, FolderLicence, LicenceFiles

MAX_LICENCE_BYTES = 1 << 20
"""Size limit of a licence file; larger files are not read as licence files."""
MAX_ANNOTATIONS_SIZE = 4_000_000
"""Limit on the total size of annotations in a tree or history: 100,000 globs, or about 100 MB."""
MAX_FILES_OF_FOLDER = 100
"""Maximum number of licence files that apply in one folder; with more, its licence is unrecognised."""
Key = TypeVar("Key")
_NOTHING = StatedLicence(licence=None, holder=None, offers_choice=False)


LicenceText = StatedLicence | AnnotationFile
"""Statement of a licence file or an annotation file."""


def read_licence_file(path: str, raw: bytes) -> LicenceText:
    """Return the licence or the annotations that a licence file with the content `raw` states."""
    text = raw.decode(errors="replace") if b"\0" not in raw else ""
    if is_annotation_file(path):
        return annotations_in(path, text)
    stated = stated_in_file(text) if text else _NOTHING
    named = reuse_id(path)
    if named is None:
        return stated
    return StatedLicence(licence=named, holder=stated.holder, offers_choice=False)


def read_licence_files(files: Iterable[tuple[Key, str, bytes]]) -> dict[Key, LicenceText]:
    """Return what each licence file states; `files` are (key, path, content), and the result is by key.

    The author of a repository decides how many large annotation files it has. Once their size exceeds
    MAX_ANNOTATIONS_SIZE in total, further annotation files are treated as empty.
    """
    read: dict[Key, LicenceText] = {}
    size = 0
    for key, path, raw in files:
        is_beyond = size > MAX_ANNOTATIONS_SIZE and is_annotation_file(path)
        text = read_licence_file(path, b"" if is_beyond else raw)
        if isinstance(text, AnnotationFile):
            size += text.size
            text = text if size <= MAX_ANNOTATIONS_SIZE else replace(text, annotations=(), size=0)
        read[key] = text
    return read


def licence_files(texts: Mapping[str, LicenceText]) -> LicenceFiles:
    """Return the licence files of a tree, given the content of each by path.

    The texts in LICENSES/ apply to the folder that contains LICENSES/.
    """
    stated = {path: text for path, text in texts.items() if isinstance(text, StatedLicence)}
    covering: dict[str, list[str]] = defaultdict(list)
    for path, text in stated.items():
        if text.licence is not None:
            covering[covered_by(path)].append(path)
    return LicenceFiles(
        folders={
            place: folder_licence({path: stated[path] for path in chosen_files(paths)})
            for place, paths in covering.items()
        },
        annotations={
            path: text for path, text in texts.items() if isinstance(text, AnnotationFile)
        },
    )


def folder_licence(texts: Mapping[str, StatedLicence]) -> FolderLicence:
    """Return the licence that the licence files of one folder state together.

    If there are too many files, the licence is unrecognised.
    """
    if len(texts) > MAX_FILES_OF_FOLDER:
        return FolderLicence(path=min(texts), licences=(UNRECOGNISED,), holder=None)
    stated = [texts[path] for path in sorted(texts)]
    return FolderLicence(
        path=min(texts),
        licences=tuple(dict.fromkeys(text.licence for text in stated if text.licence)),
        holder=next((text.holder for text in stated if text.holder), None),
    )
