"""The parts of a repository on disk, and that each of them lies in that repository.

A repository from elsewhere is a folder of files that its author wrote. Git follows links among them, and
files that name another repository, and would read that one's objects as this one's.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from curriculum.corpus import git
from schemas.errors import CorpusError

CONTROL_FILES = ("HEAD", "config", "packed-refs", "shallow")
FOLDERS = ("objects", "refs")
BORROWED = ("objects/info/alternates", "objects/info/http-alternates")
LONGEST_PATH = 4096
CLONE = "Clone it, and give the clone"


def find_layout(path: Path, *, name: str) -> git.Layout | None:
    """Find the repository of a work tree or a bare repository; None where `path` is a plain folder.

    Links and folders that lead to `path` itself may be any.

    Raises:
        CorpusError: naming `name` and the part, for one that is a link, a pipe or a device, that borrows
            objects of another repository, or that names a repository which doesn't name it in turn.
    """
    inner = path / ".git"
    if not (inner.is_symlink() or inner.exists()):
        return _layout_of(path, name)
    layout = _layout_of(_git_folder(inner, name), name)
    if layout is None:
        _refuse_lost(inner, name)
    return layout


def _git_folder(inner: Path, name: str) -> Path:
    """The folder behind `.git`: in linked work trees and submodules that is a file `gitdir: …`."""
    if inner.is_symlink():
        _refuse(name, inner, "it is a link", "Give the path of the repository that it leads to")
    if inner.is_dir():
        return inner
    named = _path_in(inner, b"gitdir: ")
    if named is None or not (named / "HEAD").is_file():
        _refuse_lost(inner, name)
    if not _names_back(named, inner):
        _refuse(
            name,
            inner,
            "the repository that it names does not name this folder in turn",
            "Give the path of that repository; `git worktree repair` there mends a moved work tree",
        )
    return named


def _names_back(folder: Path, inner: Path) -> bool:
    """Return True if `folder` is the repository of the work tree of `inner`, by its own account.

    A linked work tree is named in `gitdir`, a submodule in `core.worktree`.
    """
    linked = _path_in(folder / "gitdir", b"")
    if linked is not None and _is_same(linked, inner):
        return True
    config = git.control_file(folder / "config")
    tree = git.setting(config, "core.worktree") if config else ""
    return bool(tree) and _is_same(folder / tree, inner.parent)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False  # Nothing lies there, or a loop of links.


def _layout_of(folder: Path, name: str) -> git.Layout | None:
    common = folder
    link = folder / "commondir"
    if link.is_symlink() or link.exists():
        common = _path_in(link, b"") or folder
        if not _is_same(common / "worktrees", folder.resolve().parent):
            cause = "it names a repository that this is no work tree of"
            _refuse(name, link, cause, CLONE)
    if not _is_repository(folder, common):
        return None
    _require_own_parts(folder, common, name)
    return git.Layout(head=folder / "HEAD", common=common)


def _is_repository(folder: Path, common: Path) -> bool:
    head = folder / "HEAD"
    return (head.is_symlink() or head.is_file()) and all(
        (common / each).is_dir() for each in FOLDERS
    )


def _require_own_parts(folder: Path, common: Path, name: str) -> None:
    """Refuse links, pipes and devices among what git opens, and objects that lie elsewhere."""
    for each in (folder / "HEAD", *(common / each for each in CONTROL_FILES)):
        if each.is_symlink():
            _refuse(name, each, "it is a link", CLONE)
        if each.exists() and not each.is_file():
            _refuse(name, each, "it is no file", CLONE)
    for top in FOLDERS:
        if (common / top).is_symlink():
            _refuse(name, common / top, "it is a link", CLONE)
        for place in _irregular_entries(common / top):
            _refuse(name, place, "it is neither a file nor a folder", CLONE)
    for borrowed in BORROWED:
        if (common / borrowed).exists():
            cause = (
                "the repository borrows objects of another one, which may be any on this machine"
            )
            cure = "`git repack -a -d` copies them, then delete that file; or clone it without --shared"
            _refuse(name, common / borrowed, cause, f"{cure} and --reference")


def _irregular_entries(folder: Path) -> Iterator[Path]:
    """Everything below `folder` that is neither a regular file nor a folder, such as a link."""
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def _path_in(file: Path, prefix: bytes) -> Path | None:
    """The path that a control file holds, relative to its folder; None without the file or the prefix."""
    raw = git.control_file(file)
    if raw is None or not raw.startswith(prefix) or b"\0" in raw or len(raw) > LONGEST_PATH:
        return None
    return file.parent / os.fsdecode(raw.removeprefix(prefix).rstrip(b"\r\n"))


def _refuse_lost(inner: Path, name: str) -> NoReturn:
    cure = "Clone the repository anew, or remove .git to read the folder as plain files"
    _refuse(name, inner, "it does not lead to a repository", cure)


def _refuse(name: str, part: Path, cause: str, cure: str) -> NoReturn:
    raise CorpusError(name, part, cause=cause, cure=cure)
