"""Licences that some files of a tree state for others: licence files, REUSE.toml and .reuse/dep5."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.path_globs import PathGlob

TOML_NAME, DEP5_PATH = "REUSE.toml", ".reuse/dep5"
"""REUSE annotation files. The first may be in any folder, the second only at the root."""
MAX_SIZE_ABOVE = 400_000
"""Maximum size of all annotations that a path is compared with: 10,000 globs, which take about 50 ms."""
Precedence = Literal["closest", "aggregate", "override"]
"""Effect of an annotation if the file itself states a licence: closest yields to the file, aggregate applies
in addition, override replaces it.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderLicence:
    """Licences that the licence files of one folder state."""

    path: str
    """Path of the first licence file."""
    licences: tuple[str, ...]
    """SPDX expressions, at least one; all of them apply."""
    holder: str | None
    """Copyright holder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LicenceAnnotation:
    """Licence and holder for the files that match globs: a table in REUSE.toml, or a paragraph of dep5."""

    globs: tuple[PathGlob, ...]
    precedence: Precedence
    licence: str | None
    holder: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotationFile:
    """A file of annotations. If several match a path, the last one applies."""

    path: str
    folder: str
    """Folder to which the globs are relative; empty for the root."""
    annotations: tuple[LicenceAnnotation, ...]
    size: int
    """Number of characters and wildcards in the globs, plus 20 per glob."""

    def annotation_of(self, path: str) -> LicenceAnnotation | None:
        """Return the annotation of a file, or None."""
        beginning = f"{self.folder}/" if self.folder else ""
        if not path.startswith(beginning):
            return None
        below = path.removeprefix(beginning)
        for annotation in reversed(self.annotations):
            if any(glob.matches(below) for glob in annotation.globs):
                return annotation
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class LicenceFiles:
    """Licence files and annotations of one tree."""

    folders: Mapping[str, FolderLicence] = field(default_factory=dict)
    """Licences by folder (empty for the root), or by the file to which they apply."""
    annotations: Mapping[str, AnnotationFile] = field(default_factory=dict)
    """Annotation files by path."""

    def nearest(self, path: str) -> FolderLicence | None:
        """Return the licences stated for the file itself, or else those of the nearest folder above it.

        >>> root = FolderLicence(path="LICENSE", licences=("MIT",), holder=None)
        >>> LicenceFiles(folders={"": root}).nearest("src/a.cc").path
        'LICENSE'
        """
        place = path
        while self.folders:
            if place in self.folders:
                return self.folders[place]
            if not place:
                break
            place = place.rpartition("/")[0]
        return None

    def annotations_of(self, path: str) -> Iterator[tuple[str, LicenceAnnotation]]:
        """Yield the annotations that match a file, from the root down, with the paths of their files.

        An override ends the iteration, because it replaces everything nearer to the file. Annotation files
        beyond MAX_SIZE_ABOVE, counted from the root, are ignored.
        """
        size = 0
        folders = [path[:at] for at, letter in enumerate(path) if letter == "/"]
        for place in (DEP5_PATH, TOML_NAME, *(f"{folder}/{TOML_NAME}" for folder in folders)):
            file = self.annotations.get(place)
            if file is None:
                continue
            size += file.size
            annotation = file.annotation_of(path) if size <= MAX_SIZE_ABOVE else None
            if annotation is not None:
                yield place, annotation
                if annotation.precedence == "override":
                    return


NO_LICENCE_FILES = LicenceFiles()


@dataclass(frozen=True, kw_only=True, slots=True)
class FileLicence:
    """Licence of one file version."""

    name: str | None
    """SPDX expression, or None."""
    evidence: str | None
    """Source of the licence: `header`, for example `file: LICENSE`, or `corpus`; None without a licence."""
    holder: str | None
    """Copyright holder in the file's header, or else in its licence file."""
