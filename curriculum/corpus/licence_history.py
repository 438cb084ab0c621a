"""Licence files at every commit of a history.

The log says which licence files each commit changed. The state of licence files passes from parent to child,
so that a commit on a branch has the licences of its own tree. If the parents of a merge have different
states, git is asked what the merge changes, because subtree merges move licence files. There are few licence
files, so their texts are read all together at the end. The author of a history decides how many folders and
commits it has. So a state is stored as its difference from the previous state, and trees share common parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.corpus import git
from curriculum.corpus.git_log import Commit
from curriculum.corpus.git_tree import FILE_MODES, TreeEntry, read_entries
from curriculum.corpus.licence_files import MAX_LICENCE_BYTES, LicenceText, read_licence_files
from curriculum.corpus.licence_names import is_licence_file
from curriculum.corpus.shared_licences import SharedLicences
from curriculum.corpus.tree_differences import Comparison, open_comparison
from schemas.errors import CorpusError
from schemas.tree_licences import NO_LICENCE_FILES, LicenceFiles

MAX_PARENTS = 1_000
"""Maximum number of parents of a merge that is followed.

A merge with more parents gets the licence files of the previous log entry.
"""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class _State:
    """Licence files of a tree, stored as the difference from another tree."""

    before: "_State | None" = None
    changes: Mapping[bytes, str] = field(default_factory=dict)
    """Blobs of the changed files by path; "" for deleted files."""


_NO_FILES = _State()


@contextmanager
def open_tracker(repository: Path, commit: str) -> Iterator["LicenceTracker"]:
    """Open a tracker for the log up to `commit`, for the `with` block.

    Raises:
        CorpusError: if git can't walk the history.
    """
    limits = ("--min-parents=2", f"--max-parents={MAX_PARENTS}")
    walk = ("rev-list", "--parents", *limits, commit, "--")
    lines = (line.split() for line in git.run(repository, *walk).decode().splitlines())
    merges = {line[0]: tuple(line[1:]) for line in lines}
    with open_comparison(repository) as compared:
        yield LicenceTracker(repository=repository, merges=merges, compared=compared)


@dataclass(kw_only=True, slots=True)
class LicenceTracker:
    """Recorder of the licence files at each commit, while the log is read; about 150 bytes per commit."""

    repository: Path
    merges: Mapping[str, Sequence[str]]
    """Parents of each merge; the log doesn't contain merges."""
    compared: Comparison
    _states: dict[bytes, _State] = field(default_factory=dict)
    _before: dict[bytes, _State] = field(default_factory=dict)
    """State before each commit that changes licence files."""
    _last: _State = _NO_FILES
    _made: list[_State] = field(default_factory=list)
    """All states except the empty one; each state comes after the state from which it differs."""

    def follow(self, commit: Commit) -> None:
        """Record the licence files at `commit`, which is the next commit of the log."""
        name = bytes.fromhex(commit.commit)
        before = self._state_after(commit.parents[0]) if commit.parents else _NO_FILES
        state = self._changed(before, _licence_entries(commit))
        if state is not before:
            self._before[name] = before
        self._states[name] = self._last = state

    def _state_after(self, name: str) -> _State:
        """Return the state of licence files after the commit or merge `name`, which is earlier in the log."""
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
        except CorpusError:  # a damaged tree; readers of the tree report it
            return first
        return self._changed(
            first,
            {
                entry.path: entry.blob_id if entry.mode in FILE_MODES else ""
                for entry in entries
                if is_licence_file(entry.path.decode(errors="replace"))
            },
        )

    def _changed(self, state: _State, changes: Mapping[bytes, str]) -> _State:
        if not changes:
            return state
        self._made.append(_State(before=state, changes=changes))
        return self._made[-1]

    def finish(self) -> "LicenceHistory":
        """Read the texts of all licence files in the log and return the history.

        Raises:
            CorpusError: if git fails.
        """
        changed = (file for state in self._made for file in state.changes.items())
        texts = _read(self.repository, sorted({file for file in changed if file[1]}))
        trees = {_NO_FILES: SharedLicences()}
        files = {_NO_FILES: NO_LICENCE_FILES}
        for state in self._made:
            trees[state] = trees[state.before or _NO_FILES].changed(
                {
                    file[0].decode(errors="replace"): texts.get(file)
                    for file in state.changes.items()
                }
            )
            files[state] = trees[state].files
        return LicenceHistory(
            after={commit: files[state] for commit, state in self._states.items()},
            before={commit: files[state] for commit, state in self._before.items()},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LicenceHistory:
    """Licence files in the tree of every commit."""

    after: Mapping[bytes, LicenceFiles]
    before: Mapping[bytes, LicenceFiles]

    def at(self, commit: str) -> LicenceFiles:
        """Return the licence files in the tree of `commit`."""
        return self.after[bytes.fromhex(commit)]

    def in_parent_of(self, commit: str) -> LicenceFiles:
        """Return the licence files in the tree before `commit`."""
        name = bytes.fromhex(commit)
        return self.before.get(name, self.after[name])


def _licence_entries(commit: Commit) -> dict[bytes, str]:
    """Return the blob of each licence file that a commit changes, by path; "" for a deleted file."""
    changed: dict[bytes, str] = {}
    for entry in commit.entries:
        if entry.status == "R" and is_licence_file(entry.old_path.decode(errors="replace")):
            changed.setdefault(entry.old_path, "")
        if is_licence_file(entry.path.decode(errors="replace")):
            changed[entry.path] = entry.after_id if entry.after_mode in FILE_MODES else ""
    return changed


def _read(
    repository: Path, files: Sequence[tuple[bytes, str]]
) -> dict[tuple[bytes, str], LicenceText]:
    """Return what each licence file states, by path and blob; unreadable files are left out."""
    decoded = [path.decode(errors="replace") for path, _ in files]
    numbered = [TreeEntry(str(number).encode(), "", blob) for number, (_, blob) in enumerate(files)]
    return read_licence_files(
        (files[int(number)], decoded[int(number)], raw)
        for number, raw in read_entries(repository, numbered, max_bytes=MAX_LICENCE_BYTES)
    )
