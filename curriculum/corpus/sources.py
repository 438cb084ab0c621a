"""Resolution of a pin: where the repository is, and which of its commits is read.

A foreign repository is a folder of files that its author wrote. Git follows links among them. Git also
follows files that name another repository, and reads the objects of that one as if they belonged to this one.
So `find_layout` checks that all parts are inside the repository.

A plain folder is a source too: it is read as one snapshot of its files.
"""

import contextlib
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from curriculum.corpus import git
from curriculum.corpus.clone_urls import file_url, local_folder
from curriculum.corpus.kept_answers import KeptAnswer, KeptAnswers, Question, refs_state
from curriculum.corpus.licence_names import is_licence_file
from curriculum.corpus.paths import language_of
from curriculum.corpus.source_errors import check_all
from curriculum.exposure import leaves_below
from curriculum.store import Store
from curriculum.store.inside import CLONES
from schemas import regular_files
from schemas.corpus import RepositorySpec
from schemas.errors import CorpusError
from schemas.regular_files import expanded

UNREADABLE = "0" * 40
_VERSION = re.compile(r"[\w.-]+")
CHUNK_BYTES = 1 << 20
MAX_HASHED_BYTES = 64 << 20
"""Size limit of files whose content is hashed in a plain folder.

Larger files are identified by their size alone, because a sparse file may be endless.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryFile:
    """A file of a plain folder, in a known language.

    `raw` is its path relative to the folder, as the bytes that the system gives.
    """

    raw: bytes
    is_link: bool


def directory_files(root: Path) -> Iterator[DirectoryFile]:
    """Yield the files of a folder in known languages, and its licence files, sorted by path.

    Links are yielded too but never followed. `.git` folders are skipped.
    """
    for raw in sorted(directory_paths(os.fsencode(root))):
        path = os.fsdecode(raw)
        is_licence = is_licence_file(path)
        if language_of(path, headers="c") is None and not is_licence:
            continue
        mode = (root / path).lstat().st_mode
        if stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not is_licence):
            yield DirectoryFile(raw=raw, is_link=stat.S_ISLNK(mode))


def directory_sizes(root: Path) -> Iterator[tuple[bytes, int]]:
    """Yield (path, size) of every regular file in a folder, sorted by path."""
    for raw in sorted(directory_paths(os.fsencode(root))):
        status = regular_files.status(root / os.fsdecode(raw))
        if status is not None:
            yield raw, status.st_size


def directory_content(root: Path, paths: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, content) of each of `paths` that is readable and has at most MAX_HASHED_BYTES."""
    for raw in paths:
        with contextlib.suppress(OSError):
            content = read_in_directory(root, raw, max_bytes=MAX_HASHED_BYTES)[1]
            if content is not None:
                yield raw, content


def read_in_directory(root: Path, raw: bytes, *, max_bytes: int) -> tuple[str, bytes | None]:
    """Return the git blob id of a file, and its content if it has at most `max_bytes` bytes.

    A file over MAX_HASHED_BYTES isn't read; its id depends on its size only.

    Raises:
        OSError: if the file is unreadable.
    """
    handle = regular_files.opened(root / os.fsdecode(raw))
    with open(handle, "rb") as file:  # noqa: PTH123
        size = os.fstat(handle).st_size
        digest = hashlib.sha1(f"blob {size}\0".encode())
        if size <= max_bytes:
            content = file.read(size)
            digest.update(content)
            return digest.hexdigest(), content
        while size <= MAX_HASHED_BYTES and (chunk := file.read(CHUNK_BYTES)):
            digest.update(chunk)
    return digest.hexdigest(), None


class DirectoryDigest:
    """Digest of a folder, built file by file: 40 hex digits, like a commit id."""

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1()

    def add(self, raw: bytes, blob_id: str) -> None:
        """Add a file to the digest."""
        self._sha1.update(blob_id.encode() + b" " + raw + b"\0")

    def __str__(self) -> str:
        return self._sha1.hexdigest()


def directory_digest(root: Path) -> str:
    """Return the digest of all files in known languages below `root`.

    An unreadable file contributes UNREADABLE in place of its blob id.
    """
    built = DirectoryDigest()
    for file in directory_files(root):
        if not file.is_link:
            built.add(file.raw, _id(root, file.raw))
    return str(built)


def _id(root: Path, raw: bytes) -> str:
    try:
        return read_in_directory(root, raw, max_bytes=0)[0]
    except OSError:
        return UNREADABLE


def directory_paths(root: bytes) -> Iterator[bytes]:
    """Yield the relative paths of everything in a folder except folders; `.git` folders are skipped."""
    for leaf in leaves_below(Path(os.fsdecode(root)), without=".git"):
        yield os.fsencode(leaf)[len(root) + 1 :]


def plain_folders(specs: Sequence[RepositorySpec]) -> Iterator[str]:
    """Yield a notice for each pin that is a plain folder and is therefore read without history.

    If the folder is inside of a clone, the notice names the clone.
    """
    for spec in specs:
        path = expanded(spec.path).absolute() if spec.path else None
        if path is None or not path.is_dir() or _is_of_git(path):
            continue
        clone = next((parent for parent in path.parents if _is_of_git(parent)), None)
        said = (
            f"{spec.name}: {path} is not a git repository, so it is read as a plain folder: one snapshot "
            "without history"
        )
        if clone is not None:
            said += (
                f". It is inside the clone {clone}; to read the history, give that path with include: "
                f"[{path.relative_to(clone).as_posix()}/]"
            )
        yield said


def _is_of_git(folder: Path) -> bool:
    inner = folder / ".git"
    is_tree = inner.is_symlink() or inner.exists()
    return is_tree or (folder / "commondir").exists() or _is_repository(folder, folder)


CONTROL_FILES = ("HEAD", "config", "packed-refs", "shallow")
FOLDERS = ("objects", "refs")
BORROWED = ("objects/info/alternates", "objects/info/http-alternates")
MAX_PATH_BYTES = 4096
CLONE = "Clone it and give the path of the clone"


def find_layout(path: Path, *, name: str) -> git.RepositoryLayout | None:
    """Find the repository at `path`, which is a work tree or a bare repository; None for a plain folder.

    Links may lead to `path` itself.

    Raises:
        CorpusError: with `name` and the faulty part: a link, a pipe or a device, objects borrowed from
            another repository, or a repository that doesn't refer back to this work tree.
    """
    inner = path / ".git"
    if not (inner.is_symlink() or inner.exists()):
        return _layout_of(path, name)
    layout = _layout_of(_git_folder(inner, name), name)
    if layout is None:
        _refuse_lost(inner, name)
    return layout


def _git_folder(inner: Path, name: str) -> Path:
    """Return the git folder that `.git` is or refers to.

    In linked work trees and submodules, `.git` is a file `gitdir: …`.
    """
    if inner.is_symlink():
        _refuse(name, inner, "it is a link", "Give the path of the repository that it links to")
    if inner.is_dir():
        return inner
    named = _path_in(inner, b"gitdir: ")
    if named is None or not (named / "HEAD").is_file():
        _refuse_lost(inner, name)
    with git.name_repository(name):
        is_own = _names_back(named, inner)
    if not is_own:
        _refuse(
            name,
            inner,
            "the repository that it names does not refer back to this folder",
            "Give the path of that repository, or run `git worktree repair` there if the work tree was moved",
        )
    return named


def _names_back(folder: Path, inner: Path) -> bool:
    """Return True if the repository `folder` refers back to the work tree that contains `inner`.

    In a linked work tree the reference is in the file `gitdir`, in a submodule it is the setting
    `core.worktree`.
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
        return False  # The path is missing, or its links form a loop.


def _layout_of(folder: Path, name: str) -> git.RepositoryLayout | None:
    common = folder
    link = folder / "commondir"
    if link.is_symlink() or link.exists():
        common = _path_in(link, b"") or folder
        if not _is_same(common / "worktrees", folder.resolve().parent):
            cause = "the repository that it names does not list this work tree"
            _refuse(name, link, cause, CLONE)
    if not _is_repository(folder, common):
        return None
    _require_own_parts(folder, common, name)
    return git.RepositoryLayout(head=folder / "HEAD", common=common, name=name)


def _is_repository(folder: Path, common: Path) -> bool:
    head = folder / "HEAD"
    return (head.is_symlink() or head.is_file()) and all(
        (common / name).is_dir() for name in FOLDERS
    )


def _require_own_parts(folder: Path, common: Path, name: str) -> None:
    """Raise if a file that git opens is a link, a pipe or a device, or if objects are in another folder."""
    for file in (folder / "HEAD", *(common / control for control in CONTROL_FILES)):
        if file.is_symlink():
            _refuse(name, file, "it is a link", CLONE)
        if file.exists() and not file.is_file():
            _refuse(name, file, "it is not a regular file", CLONE)
    for top in FOLDERS:
        if (common / top).is_symlink():
            _refuse(name, common / top, "it is a link", CLONE)
        try:
            irregular = next(_irregular_entries(common / top), None)
        except OSError as failed:
            _refuse(name, common / top, f"it can't be listed: {failed.strerror}", CLONE)
        if irregular is not None:
            _refuse(name, irregular, "it is neither a file nor a folder", CLONE)
    for borrowed in BORROWED:
        if (common / borrowed).exists():
            cause = "the repository borrows objects from another folder, possibly anywhere on this machine"
            cure = "Run `git repack -a -d` to copy them and delete this file, or clone it without --shared"
            _refuse(name, common / borrowed, cause, f"{cure} and --reference")


def _irregular_entries(folder: Path) -> Iterator[Path]:
    """Yield everything below `folder` that is neither a regular file nor a folder, for example links."""
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def _path_in(file: Path, prefix: bytes) -> Path | None:
    """Return the path that a control file contains, resolved relative to the file's folder.

    Return None if the file is missing or malformed.
    """
    raw = git.control_file(file)
    if raw is None or not raw.startswith(prefix) or b"\0" in raw or len(raw) > MAX_PATH_BYTES:
        return None
    return file.parent / os.fsdecode(raw.removeprefix(prefix).rstrip(b"\r\n"))


def _refuse_lost(inner: Path, name: str) -> NoReturn:
    cure = "Clone the repository again, or remove .git to read the folder as plain files"
    _refuse(name, inner, "it does not lead to a repository", cure)


def _refuse(name: str, part: Path, cause: str, cure: str) -> NoReturn:
    raise CorpusError(name, part, cause=cause, cure=cure)


def make_folder_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder `target`, which `make` creates if it doesn't exist.

    `make` gets a temporary path, and the folder is renamed when it is complete. If two processes do this at
    the same time, the first to finish wins and the other's work is discarded. If `make` fails, no new folder
    remains.
    """
    if target.is_dir():
        return target
    absent = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=target.parent) as folder:
            draft = Path(folder) / target.name
            make(draft)
            _publish(draft, target)
    finally:
        for parent in absent:
            if not any(parent.iterdir()):
                parent.rmdir()
    return target


def _publish(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise


BUNDLE_MAGIC = (b"# v2 git bundle\n", b"# v3 git bundle\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A resolved pin.

    `commit` is a commit id, or the digest of the files of a plain folder. `layout` is the repository to read,
    which is a work tree, a bare repository or a cached clone; it is None for a plain folder.
    """

    kind: Literal["git", "directory"]
    path: Path
    commit: str
    layout: git.RepositoryLayout | None
    boundary: tuple[str, ...] = ()
    """Commits at which the history of a shallow clone begins, sorted."""


Clones = Literal["kept", "aside", "none"]
"""Clones that may be made: all, in the cache; only those of bundles, in a temporary folder; or none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Cache of resolved pins; each pin is resolved only once.

    A branch may move, so every command creates its own Sources, which all phases of the command share.
    """

    cache: Path
    """Folder that contains the clones of bundles and urls."""
    workspace: Path | None = None
    """Workspace that contains `cache`; it is created before the first clone is made."""
    clones: Clones = "kept"
    aside: Path | None = None
    """Folder for clones that are used only by this object, if `clones` is "aside"."""
    found: dict[str, Source] = field(default_factory=dict)
    """Resolved pins; the keys are the pins as JSON."""
    asked: dict[Question, KeptAnswer] = field(default_factory=dict)
    """Answers that git has given so far, by question."""

    @staticmethod
    def from_workspace(
        workspace: Path, *, clones: Clones = "kept", aside: Path | None = None
    ) -> "Sources":
        """Return a cache whose clones are in a workspace."""
        cache = workspace / CLONES
        return Sources(cache=cache, workspace=workspace, clones=clones, aside=aside)

    def resolve(self, spec: RepositorySpec) -> Source:
        """Resolve a pin. A bundle or url is cloned on first use; other repositories are read where they are.

        Raises:
            CorpusError: if the path doesn't exist, is unreadable or lacks the commit; if git can't clone it;
                if it isn't cloned yet and clones aren't allowed.
        """
        pin = spec.model_dump_json(include={"name", "path", "url", "commit"})
        if pin not in self.found:
            try:
                self.found[pin] = self._resolve(spec)
            except PermissionError as refused:
                raise CorpusError(
                    spec.title("path"),
                    refused.filename,
                    cause="this process may not read it",
                    cure="Change its permissions, or trust the workspace to read repositories outside of it",
                ) from None
        return self.found[pin]

    def resolve_all(self, specs: Sequence[RepositorySpec]) -> tuple[Source, ...]:
        """Resolve all pins; clones are made last, and a clone is kept only if it has the pinned commit.

        So a corpus with a wrong path or commit leaves no clone behind.

        Raises:
            CorpusError: as `resolve`, for all pins that can't be resolved; nothing is cloned unless all other
                pins resolve.
        """
        check_all(specs, _require_readable)
        for cloned in (False, True):
            check_all((spec for spec in specs if _is_cloned(spec) is cloned), self.resolve)
        return tuple(self.resolve(spec) for spec in specs)

    def uncloned(self, specs: Sequence[RepositorySpec]) -> tuple[RepositorySpec, ...]:
        """Return those pins whose url isn't cloned yet."""
        return tuple(
            spec
            for spec in specs
            if spec.url is not None and not (self.cache / _clone_name(spec.url)).is_dir()
        )

    def git_version(self) -> str:
        """Return the version of git that reads the sources."""
        return self._answer(("version",), git.program_state(), git.version, _VERSION)

    def keep_answers(self) -> None:
        """Write git's answers to the cache, so that later commands ask only about changed repositories."""
        self._make_workspace()
        for question, answer in self.asked.items():
            KeptAnswers.from_clones(self.cache).keep(question, answer)

    def _make_workspace(self) -> None:
        """Create the workspace before the first file is written into it.

        A folder that already has other content would later not be accepted as a workspace.
        """
        if self.workspace is not None:
            Store(self.workspace).open()

    def _answer(
        self, question: Question, state: str, ask: Callable[[], str], form: re.Pattern[str]
    ) -> str:
        """Return git's answer to a question, asking git with `ask`.

        If clones aren't kept, a cached answer for the same state is used instead.
        """
        answers = KeptAnswers.from_clones(self.cache)
        kept = None if self.clones == "kept" else answers.find(question, state)
        is_sound = kept is not None and len(kept) == 1 and form.fullmatch(kept[0])
        (answer,) = kept if kept is not None and is_sound else (ask(),)
        self.asked[question] = KeptAnswer(state=state, answer=(answer,))
        return answer

    def _resolve(self, spec: RepositorySpec) -> Source:
        path = self._place(spec)
        layout = _layout(path, spec)
        if layout is None:
            return Source(kind="directory", path=path, commit=directory_digest(path), layout=None)
        question = ("commit", str(layout.head), spec.commit)
        state = refs_state(layout)
        commit = self._answer(question, state, lambda: _commit(layout, spec), git.COMMIT_ID)
        boundary = git.shallow_commits(layout)
        return Source(kind="git", path=path, commit=commit, layout=layout, boundary=boundary)

    def _place(self, spec: RepositorySpec) -> Path:
        _require_readable(spec)
        if spec.url is not None:
            return self._clone(_clone_name(spec.url), spec)
        assert spec.path is not None
        path = expanded(spec.path)
        if path.is_dir():
            return path
        if (size := path.stat().st_size) > git.MAX_CLONE_FILE_BYTES:
            raise CorpusError(
                spec.title("path"),
                f"{path}, {size:,} bytes",
                cause=f"a bundle may have at most {git.MAX_CLONE_FILE_BYTES:,} bytes",
                cure="Clone it yourself and give the path of the clone",
            )
        with path.open("rb") as file:
            named = hashlib.file_digest(file, "sha256").hexdigest()
        return self._clone(f"bundle-{named[:32]}.git", spec)

    def _clone(self, name: str, spec: RepositorySpec) -> Path:
        """Return the bare clone of a url or a bundle. If the clone doesn't exist, make it atomically.

        A clone without the pinned commit isn't kept.

        Raises:
            CorpusError: with git's error message if cloning fails.
        """
        target = self.cache / name
        if self.clones != "kept" and not target.exists():
            if self.aside is None or spec.url is not None:
                raise CorpusError(
                    spec.title("url"),
                    spec.url or spec.path,
                    cause="it isn't cloned yet",
                    cure="Run `curriculum build`, which clones it",
                )
            target = self.aside / name
        if target.is_dir():
            return target
        place = None if spec.url is None else local_folder(spec)
        local = None if place is None else _own_repository(place, spec)
        if self.clones == "kept":
            self._make_workspace()
        arguments = ("clone", "--quiet", "--bare", "--no-hardlinks", "--template=", "--")

        def make(draft: Path) -> None:
            with git.name_repository(spec.title("url")), _origin(spec, local, draft) as origin:
                git.transfer(*arguments, origin, str(draft))
            _require_commit(draft, spec)

        return make_folder_once(target, make)


def resolve(spec: RepositorySpec, *, cache: Path) -> Source:
    """Resolve one pin; see `Sources.resolve`."""
    return Sources(cache=cache).resolve(spec)


def _clone_name(url: str) -> str:
    """Return the name of the folder for a clone of `url`."""
    return f"url-{hashlib.sha256(url.encode()).hexdigest()[:32]}.git"


def _is_cloned(spec: RepositorySpec) -> bool:
    """Return True if a pin has a url or a bundle, because these are read from a clone."""
    return spec.path is None or not expanded(spec.path).is_dir()


def _require_readable(spec: RepositorySpec) -> None:
    """Raise unless a pin's url is well formed, or its path is a folder or a bundle.

    The check never blocks, even if the path is a named pipe.
    """
    if spec.path is None:
        local_folder(spec)
        return
    path = expanded(spec.path)
    if path.is_dir():
        return
    if not path.is_file():
        raise CorpusError(
            spec.title("path"),
            str(path),
            cause=f"found {regular_files.kind_at(path)} instead of a folder or a bundle",
            cure="Correct the path",
        )
    with path.open("rb") as file:
        if file.read(len(BUNDLE_MAGIC[0])) not in BUNDLE_MAGIC:
            raise CorpusError(
                spec.title("path"),
                str(path),
                cause="the file is not a git bundle",
                cure="Give a folder, a bare repository or a bundle",
            )


def _require_commit(path: Path, spec: RepositorySpec) -> None:
    layout = _layout(path, spec)
    if layout is not None:
        _commit(layout, spec)


@contextlib.contextmanager
def _origin(spec: RepositorySpec, local: git.RepositoryLayout | None, draft: Path) -> Iterator[str]:
    """Yield what git clones: a url, a link to a bundle, or for a local url a view of the repository.

    The process that serves a clone reads the config of the repository that it serves, and the files that the
    config includes. A view has a config of ours.
    """
    if spec.url is None:
        yield _linked_bundle(spec, draft)
    elif local is None:
        yield spec.url
    else:
        with git.view(local, refs=True) as repository:
            yield file_url(repository)


def _linked_bundle(spec: RepositorySpec, draft: Path) -> str:
    """Return the path of a link to a bundle, in a folder of its own.

    Next to the bundle itself there may be a `<path>.git`, which git would prefer.
    """
    assert spec.path is not None
    bundle = draft.parent / "bundle"
    bundle.symlink_to(expanded(spec.path).resolve())
    return str(bundle)


def _own_repository(place: Path, spec: RepositorySpec) -> git.RepositoryLayout:
    """Return the layout of a local repository, found as git would find it.

    Raises:
        CorpusError: if there is no repository, or it borrows objects, which a clone would copy as its own.
    """
    for folder in (place, Path(f"{place}.git")):
        layout = find_layout(folder, name=spec.title("url")) if folder.is_dir() else None
        if layout is None:
            continue
        for index in (layout.common / "objects/pack").glob("multi-pack-index*"):
            raise CorpusError(
                spec.title("path"),
                index,
                cause="it may name packs in another folder, and a clone would read them",
                cure="Give the repository by its path instead of a url",
            )
        return layout
    raise CorpusError(
        spec.title("url"),
        spec.url,
        cause="there is no repository in that folder",
        cure="Correct the url; give a bundle, or a folder without history, as `path:`",
    )


def _layout(path: Path, spec: RepositorySpec) -> git.RepositoryLayout | None:
    return find_layout(path, name=spec.title("path"))


def _commit(layout: git.RepositoryLayout, spec: RepositorySpec) -> str:
    with git.view(layout, refs=True) as repository:
        try:
            asked = f"{spec.commit}^{{commit}}"
            return git.run(repository, "rev-parse", "--verify", asked).decode().strip()
        except CorpusError as unknown:
            known = git.run(repository, "for-each-ref", "--count=6", "--format=%(refname:short)")
            raise _no_commit(spec, unknown, known.decode(errors="replace").split()) from None


def _no_commit(spec: RepositorySpec, unknown: CorpusError, known: list[str]) -> CorpusError:
    if not known and spec.commit == "HEAD":
        return CorpusError(
            spec.title("path"),
            spec.path or spec.url,
            cause="the repository has no commits",
            cure="Make a commit, or remove the repository from the corpus",
        )
    return CorpusError(
        spec.title("commit"),
        f"commit = {spec.commit!r}",
        cause=f"the repository has no such commit ({unknown.cause})",
        cure=f"Give an existing one, such as {', '.join(known)}" if known else "Fetch it first",
    )
