"""Licence files of all trees of a history, in persistent maps whose common parts are stored once.

A changed tree costs memory and time only for the folders that the change touches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rpds import HashTrieMap

from curriculum.corpus.licence_files import LicenceText, folder_licence
from curriculum.corpus.licence_names import (
    RANKS,
    chosen_ranks,
    covered_by,
    is_annotation_file,
    rank_of,
)
from curriculum.corpus.licences import StatedLicence
from schemas.tree_licences import AnnotationFile, FolderLicence, LicenceFiles


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedLicences:
    """Licence files of one tree, and the licences that they state."""

    folders: "HashTrieMap[str, FolderLicence]" = field(default_factory=HashTrieMap)
    annotations: "HashTrieMap[str, AnnotationFile]" = field(default_factory=HashTrieMap)
    stated: "HashTrieMap[tuple[str, int], HashTrieMap[str, StatedLicence]]" = field(
        default_factory=HashTrieMap
    )
    """Licence texts by path, in one map for each pair of place and rank.

    The place is the folder or file to which the licence applies; the rank is that of the file's name.
    """

    @property
    def files(self) -> LicenceFiles:
        """Licence files by the folder or file to which they apply."""
        return LicenceFiles(folders=self.folders, annotations=self.annotations)

    def changed(self, texts: Mapping[str, LicenceText | None]) -> "SharedLicences":
        """Return the tree that results if some licence files change.

        None in `texts` means that a file is deleted or unreadable.
        """
        annotations, stated = self.annotations, self.stated
        for path, text in texts.items():
            if isinstance(text, AnnotationFile):
                annotations = annotations.insert(path, text)
            elif is_annotation_file(path):
                annotations = annotations.discard(path)
            else:
                ranked = covered_by(path), rank_of(path)
                beside = stated.get(ranked, _NO_TEXTS)
                if text is not None and text.licence is not None:
                    beside = beside.insert(path, text)
                else:
                    beside = beside.discard(path)
                stated = stated.insert(ranked, beside) if beside else stated.discard(ranked)
        folders = self.folders
        for place in dict.fromkeys(map(covered_by, texts)):
            licence = _licence_at(place, stated)
            folders = folders.insert(place, licence) if licence else folders.discard(place)
        return SharedLicences(folders=folders, annotations=annotations, stated=stated)


_NO_TEXTS: "HashTrieMap[str, StatedLicence]" = HashTrieMap()


def _licence_at(
    place: str, stated: Mapping[tuple[str, int], Mapping[str, StatedLicence]]
) -> FolderLicence | None:
    ranks = [rank for rank in range(RANKS) if (place, rank) in stated]
    if not ranks:
        return None
    texts = [stated[place, rank] for rank in chosen_ranks(ranks)]
    return folder_licence(texts[0] if len(texts) == 1 else {**texts[0], **texts[1]})
