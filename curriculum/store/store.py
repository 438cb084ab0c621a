"""The store: finds, builds, publishes and verifies artefacts. Only this module writes manifests.

An artefact is published completely or not at all: it is written to a draft, flushed to disk and renamed.
After a kill, the next writer of the same key removes the draft. Inside `leased`, keys are added to the
process's lease before they are looked up, so that gc keeps their artefacts.
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
"""Functions to call with the path of each workspace that this process creates."""


@contextlib.contextmanager
def when_made(note: Callable[[Path], None]) -> Iterator[None]:
    """Call `note` with the path of each workspace that this process creates within the block."""
    _WHEN_MADE.append(note)
    try:
        yield
    finally:
        _WHEN_MADE.remove(note)


class WorkspaceFile(Sealed):
    """workspace.json: identifies a workspace, so that several workspaces can share one server."""

    uuid: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeOutcome:
    """Outcome for one recipe: the artefact existed, was built, or would be built."""

    recipe: Recipe
    outcome: Literal["there", "made", "planned"]


class Store:
    """A workspace on disk.

    A `dry` store builds nothing: `produce` returns planned artefacts for the missing ones. So the same code
    either builds, or shows what it would build. A dry store reads each artefact only once. Inputs are
    verified before use, each file once per process.
    """

    def __init__(self, root: Path, *, dry: bool = False) -> None:
        self.root = root.absolute()
        self.dry = dry
        self._verified: set[Path] = set()
        self.steps: list[RecipeOutcome] = []
        self._seen: dict[Path, Artefact] = {}

    @staticmethod
    def containing(path: Path) -> "Store":
        """Return the store that contains a path.

        Raises:
            StoreError: if no parent folder has a workspace.json.
        """
        if (root := Store.root_of(path)) is None:
            raise StoreError(
                str(path),
                cause="the path is not inside a workspace",
                cure="Give a path inside a workspace",
            )
        return Store(root)

    @staticmethod
    def root_of(path: Path) -> Path | None:
        """Return the workspace that contains a path, judged by its workspace.json, or None."""
        names = ((folder, folder / WORKSPACE_NAME) for folder in path.absolute().parents)
        return next((folder for folder, file in names if file.exists() or file.is_symlink()), None)

    def workspace(self) -> WorkspaceFile:
        """Return the identity of this workspace, created by its first writer.

        Raises:
            StoreError: if the file is missing or was changed.
        """
        file = self.root / WORKSPACE_NAME
        if not file.exists():
            again = "Restore it, or build again, which writes one with another uuid"
            raise StoreError(str(file), cause="the file doesn't exist", cure=again)
        return read_json(
            WorkspaceFile,
            file,
            error=StoreError,
            cause="the file was changed since it was written, or was written by another version",
            cure="Restore it, or delete it and build again, which writes one with another uuid",
        )

    def path_of(self, recipe: Recipe) -> Path:
        """Return the directory of the artefact that a recipe describes.

        That is an existing directory, preferably in the recipe's own folder, or else the future one.
        """
        own = self.root / recipe.directory
        if own.is_dir():
            return own
        others = (
            self.root.glob(f"{folder}/{recipe.directory.name}")
            for folder in recipe.alternate_folders
        )
        return next(itertools.chain(*(sorted(other) for other in others)), own)

    def find(self, recipe: Recipe) -> Artefact | None:
        """Return the published artefact of a recipe, or None if there is none.

        The artefact's key is added to the lease of this process, so that gc keeps it.
        """
        with self._lease_keys([recipe.key]):
            path = self.path_of(recipe)
            if path not in self._seen and not (path / MANIFEST_NAME).is_file():
                return None
            try:
                artefact = self._look(path)
            except (FileNotFoundError, StoreError):
                # A dry store doesn't hold the guard, so gc may have removed it in the meantime.
                if not self.dry or path.exists():
                    raise
                return None
        if artefact.key != recipe.key:
            raise StoreError(
                str(path),
                f"key {artefact.key}",
                cause=f"the directory belongs to another key with the same first digits as {recipe.key}",
                cure="Move the directory away",
            )
        return artefact

    def load(self, path: Path) -> Artefact:
        """Return the artefact at a path after checking its manifest and its file sizes.

        Raises:
            StoreError: for a missing or changed manifest, and for missing files or files of another size.
            SchemaError: if the manifest can't be read.
        """
        artefact = self._look(path)
        with self._lease_keys([artefact.key]):
            # gc may have removed it in between; then the manifest is missing.
            return artefact if (path / MANIFEST_NAME).is_file() else self._look(path)

    def leased(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which gc keeps everything that this process finds or builds; may be nested."""
        return contextlib.nullcontext() if self.dry else leases.leased(self.root)

    def keep(self, artefacts: Iterable[Artefact]) -> bool:
        """Add artefacts to this process's lease, and return True if all published ones still exist.

        If the result is False, gc removed some of them before: look them up again, and rebuild them.
        """
        listed = list(artefacts)
        with self._lease_keys(artefact.key for artefact in listed):
            return all(
                (artefact.path / MANIFEST_NAME).is_file() or artefact.planned for artefact in listed
            )

    def use(self, recipes: Iterable[Recipe]) -> None:
        """Add recipes and their inputs to this process's lease before they are built."""
        keys = (
            key for recipe in recipes for key in (recipe.key, *(made.key for made in recipe.inputs))
        )
        with self._lease_keys(keys):
            pass

    def _lease_keys(self, keys: Iterable[str]) -> contextlib.AbstractContextManager[None]:
        """Return a context that leases keys and holds the guard of gc; a dry store does neither."""
        return contextlib.nullcontext() if self.dry else leases.lease_keys(self.root, keys)

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
                    path / record.name, f"{words} bytes instead of the published {record.num_bytes}"
                )
        return artefact

    def verify(self, artefact: Artefact) -> None:
        """Read every file again and compare its digest with the manifest.

        Raises:
            StoreError: naming the first file that differs.
        """
        for record in artefact.manifest.files:
            verify_file(artefact.path / record.name, record)

    def verify_inputs(self, recipes: Iterable[Recipe], *, threads: int = 1) -> None:
        """Verify the inputs of recipes, except those that this process has already verified.

        Raises:
            StoreError: naming a file that differs.
        """
        inputs = {item.unverified for recipe in recipes for item in recipe.inputs}
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
        """Yield all published artefacts of one stage, or of every stage, in the order of their paths.

        Artefacts that gc removes in the meantime are skipped. The artefacts aren't leased, so call `load` for
        those that are used.

        Raises:
            StoreError: if an artefact doesn't match its manifest.
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
        """Return the artefacts of recipes, building all missing ones with a single call of `make`.

        `make` receives a draft for each missing recipe, so that one pass over an input can fill several
        artefacts. If another process is building an artefact, this process waits for it. Artefacts with
        planned inputs are planned too.

        Raises:
            StoreError: if the same key exists with other content, or the system refuses to read or write a
            file.
            OSError: for errors that don't concern files, for example a lost connection.
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
        """Publish the directory of a run by writing its manifest; the files stay where they are.

        `content` is the only folder, relative to the directory, that determines the run's content: its last
        checkpoint. So artefacts that depend on a run don't change if it is repeated with the same weights.
        """
        draft = StagingDirectory(recipe=recipe, path=directory, report=report)
        manifest = manifest_of(draft, content=content)
        write_manifest(directory, manifest)
        return Artefact(path=directory, manifest=manifest, made=True)

    def mark(self, name: str, artefacts: Sequence[Artefact]) -> Path:
        """List artefacts as live in current/<name>.txt, one path per line; gc keeps them and their inputs."""
        self.open()
        file = self._mark_of(name)
        file.parent.mkdir(exist_ok=True)
        write_whole(file, self._marks_text(artefacts))
        return file

    def is_marked(self, name: str, artefacts: Sequence[Artefact]) -> bool:
        """Return True if current/<name>.txt lists exactly these artefacts."""
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
        """Lock a name against other processes; the system releases it if the holder dies."""
        self.open()
        with self._locked(name):
            yield

    def open(self) -> None:
        """Create the workspace before the first write, unless it exists."""
        self.root.mkdir(parents=True, exist_ok=True)
        file = self.root / WORKSPACE_NAME
        if file.is_file():
            return
        with self._locked(WORKSPACE_NAME):
            # If several processes start at once, the first one writes the identity.
            if not file.is_file():
                who = WorkspaceFile(uuid=str(uuid.uuid4()), name=self.root.name)
                write_whole(file, who.model_dump_json(indent=1))
                for note in tuple(_WHEN_MADE):
                    note(self.root)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with filelock.FileLock(inside.lock(self.root, f"{name}.lock")):
            yield

    def _make(
        self, missing: list[Recipe], make: Callable[[Sequence[StagingDirectory]], None]
    ) -> set[str]:
        with contextlib.ExitStack() as held:
            for recipe in sorted(missing, key=lambda recipe: recipe.key):
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
        """Return an empty draft folder for a locked key, after removing leftovers of a killed writer."""
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
                cause="the same key produced different bytes, so its producer isn't deterministic",
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
