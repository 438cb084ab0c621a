"""Find artefacts, runs and checkpoints by path, name or key prefix.

If a reference is ambiguous, a path takes precedence over a name, a name over a key, and a key over a
document id. A folder in the current directory that has the name of a specialist counts only if it lies
among artefacts or is written as ./NAME.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from curriculum import parquet
from curriculum.inspection.lineage import inputs
from curriculum.mixing.diet_files import diet_names, load_diet
from curriculum.pipeline.attempts import (
    Attempt,
    RunHistory,
    attempts_in,
    current_artefacts,
    current_attempt,
    names_of,
    newest_checkpoint,
    specialist_of,
)
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import published_in
from curriculum.train.run_directory import CHECKPOINTS, JOB, attempt_number, read_report
from schemas.errors import JobError, StoreError
from schemas.manifest import MANIFEST_NAME
from schemas.mistakes import nearest_or
from schemas.run_folders import STEP, number_of
from schemas.specialist import SpecialistRef, format_reference
from schemas.stages import STAGES

DOCUMENTS, MIXTURES, ROWS, RUNS = "documents", "mixtures", "rows", "runs"
LISTED = 3
"""Maximum number of candidates that an error lists."""
_PACK_ID = re.compile(r"([0-9a-f]{12})-\d{10}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """Artefacts in path order, an open run or a checkpoint; optionally one row or document of them."""

    artefacts: tuple[Artefact, ...] = ()
    open_run: Attempt | None = None
    checkpoint: Path | None = None
    """Directory of a checkpoint, like runs/…/attempt=1/checkpoints/step=N."""
    pack_id: str | None = None
    document: str | None = None
    """Complete document id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecialistName:
    """A specialist and branch, with one phase or all phases."""

    ref: SpecialistRef
    phase: str | None

    def has(self, artefact: Artefact) -> bool:
        """Return True if a run or mixture belongs to the specialist, and to the phase if one is named."""
        phase = artefact.manifest.labels["phase"]
        return specialist_of(artefact) == self.ref and self.phase in (None, phase)


def with_keys(store: Store, keys: Collection[str]) -> list[Artefact]:
    """Return the artefacts whose keys start with one of `keys`, in path order.

    `keys` are prefixes of 12 digits. Directories are named after keys, so only manifests of matching
    directories are read.

    Raises:
        StoreError: if an artefact doesn't match its manifest.
    """
    paths = sorted(path for stage in STAGES for path in published_in(store.root / stage))
    # Attempts of a run are subfolders of its directory.
    return [store.load(path) for path in paths if {path.name, path.parent.name} & {*keys}]


def store_of(home: Path, what: str) -> Store:
    """Return the workspace that contains the path `what`; if it is a name or key, the workspace at `home`.

    Raises:
        StoreError: for a path outside of any workspace.
    """
    path = Path(what)
    # A run may have the same name as a folder in the current directory.
    if what and path.exists() and (_is_spelled(what) or _is_among_artefacts(path)):
        return Store(Store.containing(path.absolute() / MANIFEST_NAME).root, dry=True)
    return Store(home, dry=True)


def find(store: Store, what: str, *, document: str | None = None) -> Reference:
    """Find what a path, a name, a key prefix, or the id of a row or document refers to.

    `document` selects a document of the result by the first digits of its id.

    Raises:
        StoreError: if nothing matches, or several keys share the prefix.
        JobError: for a specialist without a current phase.
    """
    path = _path(store, what)
    found: Reference | None
    if path is not None:
        found = _at_path(store, path)
    elif pack := _PACK_ID.fullmatch(what):
        rows = [artefact for artefact in store.artefacts(ROWS) if artefact.key.startswith(pack[1])]
        found = Reference(artefacts=tuple(rows[:1]), pack_id=what) if rows else None
    else:
        found = _of_name(store, what) or _of_key(store, what)
        if found is None and (path := _existing(store, what)) is not None:
            found = _at_path(store, path)
    if found is None:
        return _of_document(store, store.artefacts(DOCUMENTS), what)
    if document is None or not found.artefacts:
        return found
    stage = found.artefacts[0].manifest.stage
    if stage != DOCUMENTS:
        raise StoreError(
            what,
            f"stage {stage}",
            cause="--document only works for artefacts of documents",
            cure="Remove --document, or name a folder below documents/",
        )
    return _of_document(store, found.artefacts, document)


def artefacts_of(store: Store, what: str, stages: Collection[str]) -> list[Artefact]:
    """Find the published artefacts of `stages` that a reference names; empty if they are of other stages.

    A name refers to the current mixtures of its phases, a run to the mixture that it was trained on.

    Raises:
        StoreError: if several keys share the prefix.
    """
    path = _path(store, what)
    if path is not None:
        found = [*_below(store, path)]
    else:
        found = _mixtures_named(store, what) or _with_key(store, what, {*stages, RUNS})
    resolved: list[Artefact] = []
    for artefact in found:
        if artefact.manifest.stage == RUNS:
            own = {record.key for record in artefact.manifest.inputs}
            resolved += [
                mixture for mixture in inputs(store, artefact, MIXTURES) if mixture.key in own
            ]
        else:
            resolved.append(artefact)
    return [artefact for artefact in resolved if artefact.manifest.stage in stages]


def folders_of(store: Store, what: str) -> tuple[Path, ...]:
    """Find the folders that a path, a key, or the name of current mixtures and runs refers to.

    Raises:
        StoreError: if nothing matches, or several keys share the prefix.
    """
    here = Path(what) if what and Path(what).exists() else None
    path = _path(store, what)
    if here is not None and (_is_spelled(what) or _is_among_artefacts(here)):
        return (here,)
    if path is not None:
        return (path,)
    published = [*_mixtures_named(store, what)]
    attempts = attempts_in(store)
    meant = named(store.root, what, {attempt.ref for attempt in attempts})
    if meant is not None:
        published += filter(meant.has, current_artefacts(store, RUNS))
    folders = [artefact.path for artefact in published]
    if meant is not None and not folders:
        folders = [run_of(store, what, name="the run").path]
    if not folders and here is not None:
        return (here,)
    if not folders:
        found = find(store, what)
        folders = [artefact.path for artefact in found.artefacts]
        folders += [found.open_run.path] if found.open_run else []
    return tuple(folders)


def is_run_path_or_key(store: Store, what: str) -> bool:
    """Return True for a path or key prefix of a run. A name isn't enough, because it may mean a mixture."""
    refs = {attempt.ref for attempt in attempts_in(store)}
    return bool(refs) and named(store.root, what, refs) is None and is_run(store, what)


def named(home: Path, what: str, refs: Collection[SpecialistRef]) -> SpecialistName | None:
    """Find the specialist, the branch and optionally the phase that a name refers to.

    The specialist is one of `refs`; a diet's name refers to its specialist and branch. A branch is written
    templates/ux or templates.ux, optionally with a phase: templates.ux/syntax. The name of a specialist
    alone means the specialist without a branch, or else its only branch.

    Raises:
        StoreError: if there are several branches and none is named.
    """
    first, *rest = what.split("/")
    dotted = next((ref for ref in refs if ref[1] and first in names_of(ref)), None)
    if rest and (first, rest[0]) in refs:
        ref = SpecialistRef(first, rest.pop(0))
    elif first in diet_names(home) and (own := _ref_of_diet(home, first)) in refs:
        ref = own
    elif dotted is not None:
        ref = dotted
    else:
        branches = [ref for ref in refs if ref[0] == first]
        if not branches:
            return None
        if len(branches) > 1 and (first, None) not in branches:
            listed = ", ".join(sorted(map(format_reference, branches)))
            raise StoreError(what, listed, cause="several branches match", cure="Name one of them")
        alone = SpecialistRef(first)
        ref = alone if alone in branches else branches[0]
    if len(rest) > 1:
        return None
    return SpecialistName(ref=ref, phase=rest[0] if rest else None)


def checkpoint_of(home: Path, what: str) -> Path:
    """Find a checkpoint by its path, or the last checkpoint of a run.

    For a finished run, this is the checkpoint from which the next phase starts.

    Raises:
        JobError: if nothing matches, or the run has no checkpoint.
        StoreError: if a finished run doesn't match its manifest.
    """
    path = Path(what).absolute()
    if path.is_dir() and number_of(path.name, STEP) is not None:
        store = Store.containing(path)
        if (path.parents[1] / MANIFEST_NAME).is_file():
            store.load(path.parents[1])
        return path
    store = store_of(home, what)
    run = run_of(store, what, name="the model")
    if (run.path / MANIFEST_NAME).is_file():
        store.load(run.path)
        return store.root / read_report(run.path).checkpoint
    newest = newest_checkpoint(run.path)
    if newest is None:
        raise JobError(what, cause="the run has no checkpoint", cure="Train it until it saves one")
    return newest


def title_of(checkpoint: Path) -> str:
    """Return the title of a checkpoint: that of its run, and the step."""
    return f"{Attempt.at(checkpoint.parents[1]).title}, {checkpoint.name}"


def run_of(store: Store, what: str, *, name: str) -> Attempt:
    """Find a run; errors name the option or argument `name`.

    If a path, a key or specialist/phase matches several attempts, `current_attempt` selects one. The name
    of a specialist alone means its last phase with current inputs, if any phase is finished.

    Raises:
        JobError: if nothing matches, several runs match, or no phase has current inputs.
        StoreError: for a specialist with several branches.
    """
    attempts = attempts_in(store)
    path = Path(what).absolute()
    if not path.exists() and (store.root / what).exists():
        path = store.root / what
    found = [
        attempt for attempt in attempts if path == attempt.path or path in attempt.path.parents
    ]
    if path == store.root and not _is_spelled(what) and _run_named(store, attempts, what):
        found = []  # A run may have the same name as its workspace.
    if not found and (run := _run_named(store, attempts, what)) is not None:
        return run
    found = found or [
        attempt for attempt in attempts if attempt.job.run_key.startswith(what.lower())
    ]
    runs = {attempt.path.parent for attempt in found}
    if len(runs) != 1:
        listed = sorted(folder.relative_to(store.root).as_posix() for folder in runs)
        listed = listed or _names(attempts)
        usual = f"Available: {', '.join(listed[:LISTED]) or 'none'}"
        raise JobError(
            name,
            what,
            cause="several runs match" if runs else "no run of that name, path or key",
            cure=usual if runs else nearest_or(what, listed, usual),
        )
    run = current_attempt(found)
    assert run is not None, "there is a folder of attempts"
    return run


def is_run(store: Store, what: str) -> bool:
    """Return True if `run_of` finds a run, or if a name or key prefix matches several runs."""
    try:
        run_of(store, what, name="the run")
    except (JobError, StoreError):
        attempts = attempts_in(store)
        return any(
            what in attempt.names or attempt.job.run_key.startswith(what) for attempt in attempts
        )
    return True


def ids_beginning(artefact: Artefact, prefix: str) -> list[str]:
    """Return the document ids in an artefact that begin with `prefix`, without repetition, in order."""
    found: dict[str, None] = {}
    for file in artefact.shards():
        ids = parquet.read_table(file, columns=["document_id"])["document_id"]
        beginning = ids.filter(pc.starts_with(ids, prefix)).to_pylist()
        found |= dict.fromkeys(str(document_id) for document_id in beginning)
    return list(found)


def _path(store: Store, what: str) -> Path | None:
    """Return the path that a reference means, or None.

    A path counts if it lies among artefacts, relative to here or to the workspace, or is written as a path.
    """
    path = _existing(store, what)
    if path is None or not (_is_spelled(what) or _is_among_artefacts(path)):
        return None
    return path


def _existing(store: Store, what: str) -> Path | None:
    """Return an existing path, relative to the current directory or the workspace."""
    path = Path(what).absolute()
    if not (path.exists() and path.is_relative_to(store.root)):
        path = store.root / what
    return path if what and path.exists() else None


def _is_among_artefacts(path: Path) -> bool:
    root = Store.root_of(path)
    return root is not None and path.absolute().relative_to(root).parts[0] in STAGES


def _is_spelled(what: str) -> bool:
    """Return True for a text that is written as a path, for example ./NAME; names never are."""
    return Path(what).is_absolute() or what.startswith(".")


def _at_path(store: Store, path: Path) -> Reference:
    """Return the artefacts at or below a path, or the checkpoint or open run that contains the path."""
    folder = path if path.is_dir() else path.parent
    if number_of(folder.name, STEP) is not None and folder.parent.name == CHECKPOINTS:
        return Reference(checkpoint=folder)
    if (folder / JOB).is_file() and not (folder / MANIFEST_NAME).is_file():
        return Reference(open_run=Attempt.at(folder))
    below = tuple(_below(store, path))
    if not below:
        raise StoreError(
            str(path),
            cause="the workspace has no artefacts yet",
            cure="Start with: curriculum demo",
        )
    return Reference(artefacts=below)


def _below(store: Store, path: Path) -> Iterable[Artefact]:
    """Return the artefacts at or below a path; for a file in an artefact, that artefact."""
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.rglob(MANIFEST_NAME))
    below = [file.parent for file in files if CHECKPOINTS not in file.parts]
    if not below and folder != store.root:
        above = (parent for parent in folder.parents if (parent / MANIFEST_NAME).is_file())
        below = [next(above, folder)]
    return map(store.load, below)


def _of_key(store: Store, prefix: str) -> Reference | None:
    """Return the artefact whose key has a prefix, or else the open run."""
    found = _with_key(store, prefix)
    if found:
        return Reference(artefacts=tuple(found))
    attempts = attempts_in(store)
    run = current_attempt(
        attempt for attempt in attempts if attempt.job.run_key.startswith(prefix.lower())
    )
    return _of_run(store, run) if run is not None else None


def _with_key(store: Store, prefix: str, stages: Collection[str] | None = None) -> list[Artefact]:
    """Return the artefact whose key has a prefix, or an empty list; `stages` limits the search.

    For a run, this is the highest finished attempt.
    """
    found = {
        artefact.path.parent if artefact.manifest.stage == RUNS else artefact.path: artefact
        for artefact in sorted(store.artefacts(), key=_attempt_number)
        if artefact.key.startswith(prefix.lower())
        and (not stages or artefact.manifest.stage in stages)
    }
    if len(found) > 1:
        raise StoreError(
            prefix,
            _places(store, sorted(found.values(), key=lambda artefact: artefact.path)),
            cause="several keys start with these digits",
            cure="Give more digits",
        )
    return [*found.values()]


def _attempt_number(artefact: Artefact) -> int:
    return attempt_number(artefact.path) if artefact.manifest.stage == RUNS else 0


def _of_name(store: Store, what: str) -> Reference | None:
    """Return the newest run with a name, or else the mixtures with this name."""
    if named(store.root, what, {attempt.ref for attempt in attempts_in(store)}) is not None:
        return _of_run(store, run_of(store, what, name="inspect"))
    mixtures = _mixtures_named(store, what)
    return Reference(artefacts=tuple(mixtures)) if mixtures else None


def _mixtures_named(store: Store, what: str) -> list[Artefact]:
    """Return one mixture per phase for a name, in phase order: the current one, or else the newest."""
    marked = {
        store.root / line
        for file in (store.root / "current").glob(f"{MIXTURES}+*.txt")
        for line in read_mark(file)
    }
    by_phase = {
        (specialist_of(mixture), mixture.manifest.labels["phase"]): mixture
        for mixture in sorted(
            store.artefacts(MIXTURES),
            key=lambda mixture: (mixture.path in marked, mixture.manifest.created),
        )
    }
    meant = named(store.root, what, {ref for ref, _ in by_phase})
    mixtures = [
        mixture for mixture in by_phase.values() if meant is not None and meant.has(mixture)
    ]
    return sorted(mixtures, key=lambda mixture: mixture.manifest.created)


def _of_run(store: Store, attempt: Attempt) -> Reference:
    """Return a reference to a run: to its artefact if it is finished, else to the open run."""
    if (attempt.path / MANIFEST_NAME).is_file():
        return Reference(artefacts=(store.load(attempt.path),))
    return Reference(open_run=attempt)


def _of_document(store: Store, artefacts: Iterable[Artefact], prefix: str) -> Reference:
    """Return the only document whose id has a prefix, in the only artefact that contains it."""
    held = [(artefact, ids_beginning(artefact, prefix.lower())) for artefact in artefacts]
    holders = [(artefact, ids) for artefact, ids in held if ids]
    known = sorted({name for _, ids in holders for name in ids})
    if not known:
        raise StoreError(
            prefix,
            cause="not a path, a run's name, or a prefix of a key or a document's id",
            cure=nearest_or(
                prefix,
                [*STAGES, *_names(attempts_in(store))],
                "`curriculum status` lists what exists",
            ),
        )
    if len(known) > 1:
        raise StoreError(
            prefix,
            ", ".join(known[:LISTED]),
            cause=f"{len(known):,} document ids start with these digits",
            cure="Give more digits",
        )
    if len(holders) > 1:
        raise StoreError(
            prefix,
            _places(store, [artefact for artefact, _ in holders]),
            cause=f"{len(holders)} artefacts contain this document",
            cure=f"Name one of them: curriculum inspect PATH --document {known[0][:12]}",
        )
    return Reference(artefacts=(holders[0][0],), document=known[0])


def _ref_of_diet(home: Path, name: str) -> SpecialistRef:
    diet = load_diet(name, home=home)
    return SpecialistRef(diet.specialist, diet.branch)


def _run_named(store: Store, attempts: list[Attempt], what: str) -> Attempt | None:
    """Return the run with a name; a diet's name refers to its specialist and branch."""
    meant = named(store.root, what, {attempt.ref for attempt in attempts})
    if meant is None:
        return None
    matching = [
        attempt
        for attempt in attempts
        if attempt.ref == meant.ref and meant.phase in (None, attempt.job.phase)
    ]
    history = RunHistory.read(store)
    finished = [attempt for attempt in matching if attempt.path in history.runs]
    if meant.phase is not None or not finished:
        return current_attempt(matching, history.runs.keys())
    last = history.last(finished)
    if last is None:
        listed = ", ".join(_names(finished))
        raise JobError(
            what,
            cause="no finished phase has a current mixture and a current previous phase",
            cure=f"Name a phase: {listed}; or run the specialist again",
        )
    return last


def _names(attempts: list[Attempt]) -> list[str]:
    return sorted({attempt.name for attempt in attempts})


def _places(store: Store, artefacts: list[Artefact]) -> str:
    listed = [artefact.path.relative_to(store.root).as_posix() for artefact in artefacts[:LISTED]]
    return ", ".join(listed)
