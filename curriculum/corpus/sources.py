"""Location of a repository and the commit that is read: the resolution of a pin."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from curriculum.corpus import directory, git
from curriculum.corpus.atomic_dir import once
from curriculum.corpus.layout import find_layout
from schemas.corpus import RepositorySpec
from schemas.errors import CorpusError

BUNDLE_MAGIC = (b"# v2 git bundle\n", b"# v3 git bundle\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A pin that was found: `commit` is an id, or for a plain directory the digest of its files.

    For git, `layout` says where to read, be it a work tree, a bare repository or a clone in the cache.
    """

    kind: Literal["git", "directory"]
    path: Path
    commit: str
    layout: git.Layout | None
    boundary: tuple[str, ...] = ()
    """The commits where a shallow clone ends, sorted."""


Clones = Literal["kept", "aside", "none"]
"""Clones that may be made: in the cache; of bundles alone and in a folder beside it; or none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Sources of pins; each pin is resolved once, and its source is kept here.

    A pin may move, so that each build has sources of its own; whatever only looks shares them.
    """

    cache: Path
    """The folder that bundles and urls are cloned into."""
    clones: Clones = "kept"
    aside: Path | None = None
    """Folder of clones that are made for these sources only, with "aside"."""
    found: dict[str, Source] = field(default_factory=dict)
    """Sources so far, by the JSON of what names them."""

    @staticmethod
    def of(workspace: Path, *, clones: Clones = "kept", aside: Path | None = None) -> "Sources":
        """Return sources whose clones lie in a workspace."""
        return Sources(cache=workspace / "repositories", clones=clones, aside=aside)

    def resolve(self, spec: RepositorySpec) -> Source:
        """Find what a pin names; bundles and urls are cloned on first use, others stay put.

        Raises:
            CorpusError: if nothing lies there, or it has no such commit, or git can't clone it; and if it
                isn't cloned yet where no clone may be made.
        """
        pin = spec.model_dump_json(include={"name", "path", "url", "commit"})
        if pin not in self.found:
            self.found[pin] = self._resolve(spec)
        return self.found[pin]

    def resolve_all(self, specs: Sequence[RepositorySpec]) -> tuple[Source, ...]:
        """Find what each pin names; what must be cloned is cloned last, and kept only if it has its commit.

        So a corpus with a mistake in a path or a commit leaves nothing behind.

        Raises:
            CorpusError: as `resolve`, for the first pin that doesn't resolve.
        """
        for spec in specs:
            _require_readable(spec)
        for spec in sorted(specs, key=_is_cloned):
            self.resolve(spec)
        return tuple(self.resolve(spec) for spec in specs)

    def _resolve(self, spec: RepositorySpec) -> Source:
        path = self._place(spec)
        layout = _layout(path, spec)
        if layout is None:
            digest = directory.digest(path)
            return Source(kind="directory", path=path, commit=digest, layout=None)
        commit = _commit(layout, spec)
        boundary = git.shallow_commits(layout)
        return Source(kind="git", path=path, commit=commit, layout=layout, boundary=boundary)

    def _place(self, spec: RepositorySpec) -> Path:
        _require_readable(spec)
        if spec.url is not None:
            named = hashlib.sha256(spec.url.encode()).hexdigest()
            return self._clone(spec.url, f"url-{named[:32]}.git", spec)
        assert spec.path is not None
        path = Path(spec.path).expanduser()
        if path.is_dir():
            return path
        with path.open("rb") as file:
            named = hashlib.file_digest(file, "sha256").hexdigest()
        return self._clone(str(path.resolve()), f"bundle-{named[:32]}.git", spec)

    def _clone(self, origin: str, name: str, spec: RepositorySpec) -> Path:
        """Make a bare clone of `origin`, which appears whole or not at all; one that is there stays.

        A clone that lacks the commit of the pin isn't kept.

        Raises:
            CorpusError: with git's own words, if it can't be cloned.
        """
        target = self.cache / name
        if self.clones != "kept" and not target.exists():
            if self.aside is None or spec.url is not None:
                raise CorpusError(
                    origin,
                    cause="it isn't cloned yet",
                    cure="`curriculum build` clones what it reads",
                )
            target = self.aside / name
        arguments = ("clone", "--quiet", "--bare", "--no-hardlinks", "--template=", "--", origin)

        def make(draft: Path) -> None:
            _require_own_objects(origin, spec)
            git.transfer(*arguments, str(draft))
            _require_commit(draft, spec)

        return once(target, make)


@contextlib.contextmanager
def looked_up(workspace: Path) -> Iterator[Sources]:
    """Yield sources for a look at a workspace; what it has no clone of is cloned elsewhere meanwhile."""
    with tempfile.TemporaryDirectory(prefix="curriculum-look-") as aside:
        yield Sources.of(workspace, clones="aside", aside=Path(aside))


def resolve(spec: RepositorySpec, *, cache: Path) -> Source:
    """Find what one pin names; see `Sources.resolve`."""
    return Sources(cache=cache).resolve(spec)


def _is_cloned(spec: RepositorySpec) -> bool:
    """Return True for a url and a bundle, which are read from a clone in the cache."""
    return spec.path is None or not Path(spec.path).expanduser().is_dir()


def _require_readable(spec: RepositorySpec) -> None:
    """Check that a folder or a bundle lies at the path of a pin, without waiting for a pipe."""
    if spec.path is None:
        return
    path = Path(spec.path).expanduser()
    if path.is_dir():
        return
    if not path.is_file():
        raise CorpusError(
            f"repository {spec.name}",
            str(path),
            cause="neither a folder nor a file lies there"
            if path.exists()
            else "nothing lies there",
            cure="Correct its path in the corpus file",
        )
    with path.open("rb") as file:
        if file.read(len(BUNDLE_MAGIC[0])) not in BUNDLE_MAGIC:
            raise CorpusError(
                f"repository {spec.name}",
                str(path),
                cause="the file is no git bundle",
                cure="Give a folder, a bare repository or a bundle",
            )


def _require_commit(path: Path, spec: RepositorySpec) -> None:
    layout = _layout(path, spec)
    if layout is not None:
        _commit(layout, spec)


def _require_own_objects(origin: str, spec: RepositorySpec) -> None:
    """Refuse a repository of this machine that borrows objects: a clone would copy them as its own."""
    path = unquote(origin.removeprefix("file://")) if origin.startswith("file://") else origin
    for each in (Path(path), Path(f"{path}.git")):
        layout = _layout(each, spec) if each.is_dir() else None
        for index in (layout.common / "objects/pack").glob("multi-pack-index*") if layout else ():
            raise CorpusError(
                f"repository {spec.name}",
                index,
                cause="it may name packs in another folder, and a clone would follow it",
                cure="Give the repository by its path instead of a url",
            )


def _layout(path: Path, spec: RepositorySpec) -> git.Layout | None:
    return find_layout(path, name=f"repository {spec.name}")


def _commit(layout: git.Layout, spec: RepositorySpec) -> str:
    with git.view(layout, refs=True) as repository:
        try:
            asked = f"{spec.commit}^{{commit}}"
            return git.run(repository, "rev-parse", "--verify", asked).decode().strip()
        except CorpusError as unknown:
            known = git.run(repository, "for-each-ref", "--count=6", "--format=%(refname:short)")
            raise _no_commit(spec, unknown, known.decode(errors="replace").split()) from None


def _no_commit(spec: RepositorySpec, unknown: CorpusError, known: list[str]) -> CorpusError:
    name = f"repository {spec.name}"
    if not known and spec.commit == "HEAD":
        return CorpusError(
            name,
            spec.path or spec.url,
            cause="the repository has no commits",
            cure="Commit something, or take it out of the corpus",
        )
    return CorpusError(
        name,
        f"commit = {spec.commit!r}",
        cause=f"the repository has no such commit ({unknown.cause})",
        cure=f"Give one that it has, such as {', '.join(known)}" if known else "Fetch it first",
    )
