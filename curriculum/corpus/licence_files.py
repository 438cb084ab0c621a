"""Licence files of a tree – LICENSE, COPYING, REUSE's LICENSES/, REUSE.toml – at every commit of a history.

The log says which licence files each commit changed. States go from parent to child, so that a commit on a
branch keeps the licence that its own tree has. Of a merge whose sides differ git is asked what it changed:
subtrees move the licence files of others. Licence files are few: their texts are read once, all together.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.corpus import git
from curriculum.corpus.git_log import Commit
from curriculum.corpus.git_tree import FILE_MODES, TreeEntry, contents
from curriculum.corpus.licence_names import (
    chosen_files,
    covered_by,
    is_annotation_file,
    is_licence_file,
    reuse_id,
)
from curriculum.corpus.licences import StatedLicence, stated_in_file
from curriculum.corpus.reuse_annotations import annotations_in
from curriculum.corpus.tree_differences import Comparison, comparing
from schemas.errors import CorpusError
from schemas.tree_licences import AnnotationFile, FolderLicence, LicenceFiles

MAX_LICENCE_BYTES = 1 << 20
"""Bytes of a licence file; a larger one is none."""
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


def licence_files(texts: Mapping[str, LicenceText]) -> LicenceFiles:
    """Return the licence files of a tree by what they state; REUSE's texts belong to the folder above."""
    stated = {path: text for path, text in texts.items() if isinstance(text, StatedLicence)}
    covering: dict[str, list[str]] = {}
    for path, text in stated.items():
        if text.licence is not None:
            covering.setdefault(covered_by(path), []).append(path)
    annotations = [text for text in texts.values() if isinstance(text, AnnotationFile)]
    return LicenceFiles(
        folders={
            place: _folder_licence(chosen_files(paths), stated) for place, paths in covering.items()
        },
        annotations=tuple(
            sorted(
                annotations,
                key=lambda file: (file.folder.count("/") + bool(file.folder), file.path),
            )
        ),
    )


def _folder_licence(paths: Sequence[str], texts: Mapping[str, StatedLicence]) -> FolderLicence:
    stated = [texts[path] for path in paths]
    return FolderLicence(
        path=paths[0],
        licences=tuple(dict.fromkeys(text.licence for text in stated if text.licence)),
        holder=next((text.holder for text in stated if text.holder), None),
    )


_State = Mapping[bytes, str]
"""Blobs of the licence files of a tree, by path."""


@contextmanager
def open_tracker(repository: Path, commit: str) -> Iterator["LicenceTracker"]:
    """Open a tracker for the log up to a commit.

    Raises:
        CorpusError: if git can't walk the history.
    """
    walk = ("rev-list", "--parents", "--min-parents=2", commit, "--")
    lines = (line.split() for line in git.run(repository, *walk).decode().splitlines())
    merges = {line[0]: tuple(line[1:]) for line in lines}
    with comparing(repository) as compared:
        yield LicenceTracker(repository=repository, merges=merges, compared=compared)


@dataclass(kw_only=True, slots=True)
class LicenceTracker:
    """Licence files as the log goes on; some 150 bytes a commit."""

    repository: Path
    merges: Mapping[str, Sequence[str]]
    """Parents of the merges, which the log lacks."""
    compared: Comparison
    _states: dict[bytes, _State] = field(default_factory=dict)
    _before: dict[bytes, _State] = field(default_factory=dict)
    """States before commits that change licence files."""
    _last: _State = field(default_factory=dict)

    def follow(self, commit: Commit) -> None:
        """Go on to the next commit of the log."""
        name = bytes.fromhex(commit.commit)
        before = self._state_after(commit.parents[0]) if commit.parents else {}
        state = _changed(before, _licence_entries(commit))
        if state is not before:
            self._before[name] = before
        self._states[name] = self._last = state

    def _state_after(self, name: str) -> _State:
        """Return the state of a commit or merge that comes before in the history."""
        waiting = [name]
        while waiting:
            key, parents = bytes.fromhex(waiting[-1]), self.merges.get(waiting[-1])
            if key in self._states or parents is None:
                waiting.pop()
                continue
            lacking = [
                parent
                for parent in parents
                if parent in self.merges and bytes.fromhex(parent) not in self._states
            ]
            waiting += lacking
            if not lacking:
                self._states[key] = self._merged(waiting.pop(), parents)
        return self._states.get(bytes.fromhex(name), self._last)

    def _merged(self, name: str, parents: Sequence[str]) -> _State:
        first, *others = (self._states.get(bytes.fromhex(parent), self._last) for parent in parents)
        if all(other is first for other in others):
            return first
        try:
            entries = list(self.compared.entries(parents[0], name))
        except CorpusError:  # a tree is damaged: what needs it says so
            return first
        return _changed(
            first,
            {
                entry.path: entry.blob_id if entry.mode in FILE_MODES else ""
                for entry in entries
                if is_licence_file(entry.path.decode(errors="replace"))
            },
        )

    def finish(self) -> "LicenceHistory":
        """Read the texts of all licence files that the log had.

        Raises:
            CorpusError: if git fails.
        """
        states = {
            id(state): state for found in (self._states, self._before) for state in found.values()
        }
        files = sorted({file for state in states.values() for file in state.items()})
        stated = _read(self.repository, files)
        licences = {
            number: licence_files(
                {
                    file[0].decode(errors="replace"): stated.get(file, _NOTHING)
                    for file in state.items()
                }
            )
            for number, state in states.items()
        }
        return LicenceHistory(
            after={commit: licences[id(state)] for commit, state in self._states.items()},
            before={commit: licences[id(state)] for commit, state in self._before.items()},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LicenceHistory:
    """Licence files of the tree of every commit."""

    after: Mapping[bytes, LicenceFiles]
    before: Mapping[bytes, LicenceFiles]

    def at(self, commit: str) -> LicenceFiles:
        """Return those of a commit's tree."""
        return self.after[bytes.fromhex(commit)]

    def in_parent_of(self, commit: str) -> LicenceFiles:
        """Return those of the tree before a commit."""
        name = bytes.fromhex(commit)
        return self.before.get(name, self.after[name])


def _licence_entries(commit: Commit) -> dict[bytes, str]:
    """Return the licence files that a commit changes with their blobs, empty where they go."""
    changed: dict[bytes, str] = {}
    for entry in commit.entries:
        if entry.status == "R" and is_licence_file(entry.old_path.decode(errors="replace")):
            changed.setdefault(entry.old_path, "")
        if is_licence_file(entry.path.decode(errors="replace")):
            changed[entry.path] = entry.after_id if entry.after_mode in FILE_MODES else ""
    return changed


def _changed(state: _State, changes: Mapping[bytes, str]) -> _State:
    if not changes:
        return state
    return {path: blob for path, blob in {**state, **changes}.items() if blob}


def _read(
    repository: Path, files: Sequence[tuple[bytes, str]]
) -> dict[tuple[bytes, str], LicenceText]:
    """Return what licence files state, by path and blob; one that can't be read states nothing."""
    numbered = [TreeEntry(str(number).encode(), "", blob) for number, (_, blob) in enumerate(files)]
    return {
        files[int(number)]: read_licence_file(files[int(number)][0].decode(errors="replace"), raw)
        for number, raw in contents(repository, numbered, largest=MAX_LICENCE_BYTES)
    }
