"""Licence files of a tree: LICENSE, COPYING, REUSE's LICENSES/ and REUSE.toml, and what they state."""

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
"""Bytes of a licence file; a larger one is none."""
MAX_ANNOTATED = 4_000_000
"""Size of all annotations of a tree or history: 100,000 globs, or some 100 MB."""
MAX_FILES_OF_FOLDER = 100
"""Licence files that hold together in one folder; the licences of more are unrecognised."""
Key = TypeVar("Key")
_NOTHING = StatedLicence(licence=None, holder=None, offers_choice=False)


LicenceText = StatedLicence | AnnotationFile
"""Content of a licence file, or of a file of annotations."""


def read_licence_file(path: str, raw: bytes) -> LicenceText:
    """Return what the bytes of a licence file state."""
    text = raw.decode(errors="replace") if b"\0" not in raw else ""
    if is_annotation_file(path):
        return annotations_in(path, text)
    stated = stated_in_file(text) if text else _NOTHING
    named = reuse_id(path)
    if named is None:
        return stated
    return StatedLicence(licence=named, holder=stated.holder, offers_choice=False)


def read_licence_files(files: Iterable[tuple[Key, str, bytes]]) -> dict[Key, LicenceText]:
    """Return what files state, given by a key of the caller, path and bytes.

    Whoever writes a repository chooses how often a file of many globs stands in it: beyond MAX_ANNOTATED,
    files of annotations say nothing.
    """
    read: dict[Key, LicenceText] = {}
    size = 0
    for key, path, raw in files:
        is_beyond = size > MAX_ANNOTATED and is_annotation_file(path)
        text = read_licence_file(path, b"" if is_beyond else raw)
        if isinstance(text, AnnotationFile):
            size += text.size
            text = text if size <= MAX_ANNOTATED else replace(text, annotations=(), size=0)
        read[key] = text
    return read


def licence_files(texts: Mapping[str, LicenceText]) -> LicenceFiles:
    """Return the licence files of a tree by what they state; REUSE's texts belong to the folder above."""
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
    """Return what files of one folder state together; of too many, an unrecognised licence."""
    if len(texts) > MAX_FILES_OF_FOLDER:
        return FolderLicence(path=min(texts), licences=(UNRECOGNISED,), holder=None)
    stated = [texts[path] for path in sorted(texts)]
    return FolderLicence(
        path=min(texts),
        licences=tuple(dict.fromkeys(text.licence for text in stated if text.licence)),
        holder=next((text.holder for text in stated if text.holder), None),
    )
