"""Find, make, publish, verify: the only writer of manifests.

An artefact appears whole or not at all: it is written beside its place, flushed to disk and renamed.
A kill at any point leaves a draft that the next writer of the same key removes.
What a process looks up inside `leased` is in its lease first, so that gc keeps it.
"""

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import filelock
from pydantic import BaseModel, JsonValue

from curriculum.published_files import compare_once, damaged, note_published, verify_file
from curriculum.store import inside, leases
from curriculum.store.artefact import (
    Artefact,
    Recipe,
    StagingDirectory,
    file_size,
    is_waiting,
    manifest_of,
    planned_manifest,
    published,
    published_in,
    write_manifest,
)
from curriculum.store.inside import WORKSPACE_NAME as WORKSPACE_NAME
from curriculum.store.marks import marks_text
from curriculum.store.os_errors import refusal
from curriculum.whole_files import sync, write_whole
from schemas.cures import is_lost
from schemas.errors import StoreError
from schemas.json_text import Sealed, read_json
from schemas.manifest import MANIFEST_NAME
from schemas.stages import STAGES

Model = TypeVar("Model", bound=BaseModel)
_WHEN_MADE: list[Callable[[Path], None]] = []
"""Functions that are called with each workspace that this process makes."""


@contextlib.contextmanager
def when_made(note: Callable[[Path], None]) -> Iterator[None]:
    """Call a function with each workspace that this process makes within the block, at once."""
    _WHEN_MADE.append(note)
    try:
        yield
    finally:
        _WHEN_MADE.remove(note)


class WorkspaceFile(Sealed):
    """workspace.json: lets several workspaces share one server."""

    uuid: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeOutcome:
    """Outcome of one recipe: it was there, was made, or would be made."""

    recipe: Recipe
    outcome: Literal["there", "made", "planned"]


class Store:
    """A workspace on disk.

    A `dry` store makes nothing: `produce` answers with planned artefacts, so that the same walk that
    builds also tells what it would build. It reads each artefact once, and keeps what it saw.

    Inputs are verified before something is made of them, each file once a process.
    """

    def __init__(self, root: Path, *, dry: bool = False) -> None:
        self.root = root.absolute()
        self.dry = dry
        self._verified: set[Path] = set()
        self.steps: list[RecipeOutcome] = []
        self._seen: dict[Path, Artefact] = {}

    @staticmethod
    def containing(path: Path) -> "Store":
        """The store that a path lies in.

        Raises:
            StoreError: where no folder above holds a workspace.json.
        """
        if (root := Store.root_of(path)) is None:
            raise StoreError(
                str(path), cause="no folder above it is a workspace", cure="Name a path inside one"
            )
        return Store(root)

    @staticmethod
    def root_of(path: Path) -> Path | None:
        """The workspace that a path lies in, by a workspace.json of any kind; None where there is none."""
        names = ((folder, folder / WORKSPACE_NAME) for folder in path.absolute().parents)
        return next((folder for folder, file in names if file.exists() or file.is_symlink()), None)

    def workspace(self) -> WorkspaceFile:
        """Identity of this workspace, made by its first writer.

        Raises:
            StoreError: for a file that is missing, or isn't what was written.
        """
        file = self.root / WORKSPACE_NAME
        if not file.exists():
            again = "Restore it, or build again: that writes one with another uuid"
            raise StoreError(str(file), cause="there is no such file", cure=again)
        return read_json(
            WorkspaceFile,
            file,
            error=StoreError,
            cause="it was changed since it was written, or another version wrote it",
            cure="Restore it, or delete it and build again: that writes one with another uuid",
        )

    def path_of(self, recipe: Recipe) -> Path:
        """The directory of a recipe: where it stands, in its own folder before another, or will stand."""
        own = self.root / recipe.directory
        if own.is_dir():
            return own
        others = (
            self.root.glob(f"{folder}/{recipe.directory.name}")
            for folder in recipe.alternate_folders
        )
        return next(itertools.chain(*(sorted(other) for other in others)), own)

    def find(self, recipe: Recipe) -> Artefact | None:
        """The published artefact of a recipe, if it stands; from then on this process's lease keeps it."""
        with self._noting([recipe.key]):
            path = self.path_of(recipe)
            if path not in self._seen and not (path / MANIFEST_NAME).is_file():
                return None
            try:
                artefact = self._look(path)
            except (FileNotFoundError, StoreError):
                # A dry store holds nothing off: gc may have removed it meanwhile.
                if not self.dry or path.exists():
                    raise
                return None
        if artefact.key != recipe.key:
            raise StoreError(
                str(path),
                f"key {artefact.key}",
                cause=f"the directory is named like {recipe.key}, which shares its first digits",
                cure="Move the directory away",
            )
        return artefact

    def load(self, path: Path) -> Artefact:
        """The artefact at a path; its manifest is held against itself and against the files' sizes.

        Raises:
            StoreError: for a missing or changed manifest, a missing file or one of another size.
            SchemaError: for a manifest that can't be read.
        """
        artefact = self._look(path)
        with self._noting([artefact.key]):
            # gc may have come in between: then there is no manifest any more.
            return artefact if (path / MANIFEST_NAME).is_file() else self._look(path)

    def leased(self) -> contextlib.AbstractContextManager[None]:
        """Keep from gc all that this process finds or makes here, until this is left; may be nested."""
        return contextlib.nullcontext() if self.dry else leases.leased(self.root)

    def keep(self, artefacts: Iterable[Artefact]) -> bool:
        """Name artefacts in this process's lease, planned ones too; whether the published ones still stand.

        Where one doesn't, gc came before: look again, and make it anew.
        """
        listed = list(artefacts)
        with self._noting(each.key for each in listed):
            return all((each.path / MANIFEST_NAME).is_file() or each.planned for each in listed)

    def use(self, recipes: Iterable[Recipe]) -> None:
        """Name in this process's lease what is about to be made, and what it is made from."""
        keys = (
            key for recipe in recipes for key in (recipe.key, *(made.key for made in recipe.inputs))
        )
        with self._noting(keys):
            pass

    def _noting(self, keys: Iterable[str]) -> contextlib.AbstractContextManager[None]:
        """Name keys in the lease, and hold gc off; what a dry store sees isn't used."""
        return contextlib.nullcontext() if self.dry else leases.noting(self.root, keys)

    def _look(self, path: Path) -> Artefact:
        if path not in self._seen:
            artefact = self._load(path)
            if not self.dry:
                return artefact
            self._seen[path] = artefact
        return self._seen[path]

    def _load(self, path: Path) -> Artefact:
        artefact = published(path)
        for record in artefact.manifest.files:
            found = file_size(path / record.name)
            if found != record.num_bytes and (record.in_content or not is_lost(path / record.name)):
                words = "no" if found is None else found
                raise damaged(
                    path / record.name, f"{words} bytes where {record.num_bytes} were published"
                )
        return artefact

    def verify(self, artefact: Artefact) -> None:
        """Read every file again and compare its digest with the manifest's.

        Raises:
            StoreError: naming the first file that differs.
        """
        for record in artefact.manifest.files:
            verify_file(artefact.path / record.name, record)

    def verify_inputs(self, recipes: Iterable[Recipe], *, threads: int = 1) -> None:
        """Verify what recipes are made from, as far as this process hasn't yet.

        Raises:
            StoreError: naming a file that differs.
        """
        inputs = {each.unverified for recipe in recipes for each in recipe.inputs}
        fresh = sorted(path for path in inputs if path is not None and path not in self._verified)
        files = [
            (path / record.name, record)
            for path in fresh
            for record in self.load(path).manifest.files
        ]
        with ThreadPoolExecutor(threads) as pool:
            over = pool.map if threads > 1 else map
            for _ in over(compare_once, *zip(*files, strict=True)) if files else ():
                pass
        self._verified.update(fresh)

    def artefacts(self, stage: str | None = None) -> Iterator[Artefact]:
        """All published artefacts, of one stage or of every, in path order.

        What gc removes meanwhile is left out. They are only seen: `load` those that are used.

        Raises:
            StoreError: for one that isn't what its manifest says.
        """
        for name in [stage] if stage else sorted(STAGES):
            for path in sorted(published_in(self.root / name)):
                try:
                    artefact = self._look(path)
                except (FileNotFoundError, StoreError):
                    if path.exists():
                        raise
                    continue
                yield artefact

    def produce(
        self, recipes: Sequence[Recipe], make: Callable[[Sequence[StagingDirectory]], None]
    ) -> list[Artefact]:
        """The artefacts of the recipes; those that are missing are made by one call of `make`.

        `make` gets a draft for each missing recipe, so that one pass over an input can feed several
        artefacts. Another process that makes one of them is waited for. What is made of something that
        is only planned is planned too.

        Raises:
            StoreError: where the same key stands with other content, and where the system refuses to read or
                write a file.
            OSError: for one that isn't of a file, such as a lost connection.
        """
        with self.leased():
            ready = [recipe for recipe in recipes if not is_waiting(recipe)]
            missing = [recipe for recipe in ready if self.find(recipe) is None]
            made: set[str] = set()
            if missing and not self.dry:
                made = self._make(missing, make)
            return [self._outcome(recipe, made) for recipe in recipes]

    def publish_run(
        self, directory: Path, recipe: Recipe, report: dict[str, JsonValue], *, content: str = ""
    ) -> Artefact:
        """Close a run's directory: it stays where it is, and its manifest ends it.

        `content` is the folder, relative to the directory, that alone makes up the run's content: its
        last checkpoint. So a run that was resumed, or done again with the same weights, leaves what
        lies downstream as it is.
        """
        draft = StagingDirectory(recipe=recipe, path=directory, report=report)
        manifest = manifest_of(draft, content=content)
        write_manifest(directory, manifest)
        return Artefact(path=directory, manifest=manifest, made=True)

    def mark(self, name: str, artefacts: Sequence[Artefact]) -> Path:
        """List artefacts as live, a path a line, in current/<name>.txt; gc keeps them and their inputs."""
        self.open()
        file = self._mark_of(name)
        file.parent.mkdir(exist_ok=True)
        write_whole(file, self._marks_text(artefacts))
        return file

    def is_marked(self, name: str, artefacts: Sequence[Artefact]) -> bool:
        """Return True if current/<name>.txt lists just these artefacts."""
        file, text = self._mark_of(name), self._marks_text(artefacts).encode()
        is_as_long = file.is_file() and file.stat().st_size == len(text)
        return is_as_long and file.read_bytes() == text

    def _mark_of(self, name: str) -> Path:
        return self.root / "current" / f"{name}.txt"

    def _marks_text(self, artefacts: Sequence[Artefact]) -> str:
        paths = {artefact.path.relative_to(self.root).as_posix() for artefact in artefacts}
        return marks_text(sorted(paths))

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a name against other processes; the system lets go of it when the holder dies."""
        self.open()
        with self._locked(name):
            yield

    def open(self) -> None:
        """Make the workspace, if it isn't one yet: before the first write, so that a mistake leaves none."""
        self.root.mkdir(parents=True, exist_ok=True)
        file = self.root / WORKSPACE_NAME
        if file.is_file():
            return
        with self._locked(WORKSPACE_NAME):
            # Of several that begin at once the first says who it is.
            if not file.is_file():
                who = WorkspaceFile(uuid=str(uuid.uuid4()), name=self.root.name)
                write_whole(file, who.model_dump_json(indent=1))
                for each in tuple(_WHEN_MADE):
                    each(self.root)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with filelock.FileLock(inside.lock(self.root, f"{name}.lock")):
            yield

    def _make(
        self, missing: list[Recipe], make: Callable[[Sequence[StagingDirectory]], None]
    ) -> set[str]:
        with contextlib.ExitStack() as held:
            for recipe in sorted(missing, key=lambda each: each.key):
                held.enter_context(self.lock(recipe.key))
            self.use(missing)
            drafts = [self._draft(recipe) for recipe in missing if self.find(recipe) is None]
            try:
                if drafts:
                    self.verify_inputs(draft.recipe for draft in drafts)
                    make(drafts)
                for draft in drafts:
                    self._publish(draft)
            except OSError as failed:
                if (named := refusal(failed, self.root)) is None:
                    raise
                raise named from failed
            finally:
                for draft in drafts:
                    with contextlib.suppress(OSError):
                        inside.remove(draft.path)
            return {draft.recipe.key for draft in drafts}

    def _draft(self, recipe: Recipe) -> StagingDirectory:
        """A fresh folder for a key whose lock we hold; what a killed writer of it left is removed."""
        folder = self.root / inside.DRAFTS
        folder.mkdir(exist_ok=True)
        path = folder / recipe.key
        inside.remove(path)
        path.mkdir()
        return StagingDirectory(recipe=recipe, path=path)

    def _publish(self, draft: StagingDirectory) -> None:
        manifest = manifest_of(draft)
        write_manifest(draft.path, manifest)
        target = self.root / draft.recipe.directory
        target.parent.mkdir(parents=True, exist_ok=True)
        there = self.find(draft.recipe)
        if there is None:
            draft.path.rename(target)
            note_published(target, manifest.files)
            sync(target.parent)
        elif there.content != manifest.content:
            raise StoreError(
                str(target),
                f"content {there.content[:12]}, made again {manifest.content[:12]}",
                cause="the same key gave other bytes, so its producer isn't deterministic",
                cure="Report it with both directories",
            )

    def _outcome(self, recipe: Recipe, made: set[str]) -> Artefact:
        artefact = None if is_waiting(recipe) else self.find(recipe)
        if artefact is None:
            assert self.dry or is_waiting(recipe), f"{recipe.directory} was made but isn't there"
            self.steps.append(RecipeOutcome(recipe=recipe, outcome="planned"))
            return Artefact(
                path=self.root / recipe.directory, manifest=planned_manifest(recipe), made=True
            )
        fresh = recipe.key in made
        self.steps.append(RecipeOutcome(recipe=recipe, outcome="made" if fresh else "there"))
        return Artefact(path=artefact.path, manifest=artefact.manifest, made=fresh)
