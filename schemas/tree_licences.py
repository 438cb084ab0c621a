"""Licences that files of a tree state about others: licence files, REUSE.toml and .reuse/dep5."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.path_globs import PathGlob

TOML_NAME, DEP5_PATH = "REUSE.toml", ".reuse/dep5"
"""Files in which REUSE annotates others: in any folder, and at the root."""
MAX_SIZE_ABOVE = 400_000
"""Size of all annotations that a path is compared with: 10,000 globs, or some 50 ms."""
Precedence = Literal["closest", "aggregate", "override"]
"""Rank of an annotation against what a file states itself: gives way, holds beside it, or replaces it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderLicence:
    """Licences that the licence files of one folder state."""

    path: str
    """The first of these files."""
    licences: tuple[str, ...]
    """SPDX expressions, at least one, which all hold."""
    holder: str | None
    """Copyright holder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LicenceAnnotation:
    """Licence and holder of the files that some globs match: a table of REUSE.toml, a paragraph of dep5."""

    globs: tuple[PathGlob, ...]
    precedence: Precedence
    licence: str | None
    holder: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotationFile:
    """A file of annotations; of those that match, the last one holds."""

    path: str
    folder: str
    """The folder that it covers, to which its globs are relative; empty for the root."""
    annotations: tuple[LicenceAnnotation, ...]
    size: int
    """Characters and wildcards of the globs, and 20 for each glob."""

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
    """Licences by the folder that they cover, empty for the root, or by the file."""
    annotations: Mapping[str, AnnotationFile] = field(default_factory=dict)
    """Files of annotations by their paths."""

    def nearest(self, path: str) -> FolderLicence | None:
        """Return the licence files of a file itself, else of its folder, else of the nearest folder above it.

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
        """Yield the annotations that hold for a file, with their files, from the root down.

        An override is the last one: it replaces all that is nearer to the file. From the root down, no file
        beyond MAX_SIZE_ABOVE is looked at.
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
    """Licence of one version of a file."""

    name: str | None
    """An SPDX expression; None where none is known."""
    evidence: str | None
    """header, `file: LICENSE`, or corpus; None where there is none."""
    holder: str | None
    """Copyright holder that the file's head names, else its licence file."""
