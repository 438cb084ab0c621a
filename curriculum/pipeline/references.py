"""References: the run, mixture or checkpoint that a path, a name or the first digits of a key stand for.

Records in jobs and marks decide, never the time of a file: a workspace can be copied or restored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from curriculum.diets.load import diet_names, load_diet
from curriculum.pipeline.current import marked
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.recipe import KEY_DIGITS
from curriculum.train.run_directory import read_job, read_report
from schemas.errors import JobError, StoreError
from schemas.job import CheckpointRef, Job
from schemas.manifest import MANIFEST_NAME

JOB, CHECKPOINTS, STEP = "job.json", "checkpoints", "step="
LISTED = 3


Way = tuple[str, str | None]
"""A specialist and its branch, if it has one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A specialist and branch; all of its phases, or one."""

    way: Way
    phase: str | None

    def has(self, artefact: Artefact) -> bool:
        """Return True for a run or a mixture of these phases."""
        phase = artefact.manifest.labels["phase"]
        return way_of(artefact) == self.way and self.phase in (None, phase)


def spelled(way: Way, *more: str) -> str:
    """The one spelling that is shown of a specialist, its branch and a phase or more of it.

    >>> spelled(("templates", "demo"), "syntax"), spelled(("testing", None))
    ('templates/demo/syntax', 'testing')
    """
    return "/".join([*filter(None, way), *more])


def names_of(way: Way) -> set[str]:
    """The whole name of a specialist and branch in each spelling that is accepted.

    >>> sorted(names_of(("templates", "ux")))
    ['templates.ux', 'templates/ux']
    """
    parts = [each for each in way if each]
    return {"/".join(parts), ".".join(parts)}


def way_of(artefact: Artefact) -> Way:
    """The specialist and branch of a run or a mixture."""
    labels = artefact.manifest.labels
    return labels["specialist"], labels.get("branch")


def named(home: Path, what: str, ways: Collection[Way]) -> Named | None:
    """Whose a name is, of some that there are; a diet's name stands for its specialist and branch.

    A branch is named templates/ux or templates.ux, each with or without a phase: templates.ux/syntax. A
    specialist's name alone means the one without a branch, or the only branch that there is.

    Raises:
        StoreError: where there are several branches and no word of which.
    """
    first, *rest = what.split("/")
    dotted = next((way for way in ways if way[1] and first in names_of(way)), None)
    if first in diet_names(home) and (own := _way_of_diet(home, first)) in ways:
        way = own
    elif dotted is not None:
        way = dotted
    elif rest and (first, rest[0]) in ways:
        way = (first, rest.pop(0))
    else:
        branches = [way for way in ways if way[0] == first]
        if not branches:
            return None
        if len(branches) > 1 and (first, None) not in branches:
            listed = ", ".join(sorted(map(spelled, branches)))
            raise StoreError(what, listed, cause="several branches are meant", cure="Name one")
        way = (first, None) if (first, None) in branches else branches[0]
    if len(rest) > 1:
        return None
    return Named(way=way, phase=rest[0] if rest else None)


def current(store: Store, stage: str) -> list[Artefact]:
    """The runs or mixtures that stand for their phases, each phase's newest, in the order of phases."""
    marked = {
        store.root / line
        for file in (store.root / "current").glob(f"{stage}-*.txt")
        for line in read_mark(file)
    }
    by_phase: dict[tuple[Way, str], Artefact] = {}
    there = sorted(
        store.artefacts(stage), key=lambda each: (each.path in marked, each.manifest.created)
    )
    for each in there:
        by_phase[way_of(each), each.manifest.labels["phase"]] = each
    return sorted(by_phase.values(), key=lambda each: each.manifest.created)


def _way_of_diet(home: Path, name: str) -> Way:
    diet = load_diet(name, home=home)
    return diet.specialist, diet.branch


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """An attempt at a run, open or closed."""

    path: Path
    job: Job

    @staticmethod
    def at(path: Path) -> "Begun":
        """The one in a directory runs/…/attempt=1."""
        return Begun(path=path, job=read_job(path / JOB))

    @property
    def names(self) -> set[str]:
        """templates, templates/syntax, and with its branch templates/demo and templates.demo/syntax."""
        ways = {self.job.specialist, *names_of(self.way)}
        return {*ways, *(f"{each}/{self.job.phase}" for each in ways)}

    @property
    def way(self) -> Way:
        """Specialist and branch."""
        return self.job.specialist, self.job.branch

    @property
    def name(self) -> str:
        """The name that is shown: templates/demo/syntax."""
        return spelled(self.way, self.job.phase)

    @property
    def title(self) -> str:
        """The title of a run for a reader: templates/demo/syntax, attempt 1, 0123456789ab."""
        return f"{self.name}, attempt {self.job.attempt}, {self.job.run_key[:KEY_DIGITS]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Succession:
    """The finished runs and the mixtures that are marked as current, and what goes on from what."""

    store: Store
    runs: Mapping[Path, Artefact]
    """Finished runs by path."""
    plans: frozenset[str]
    """The contents of the mixtures."""

    @staticmethod
    def of(store: Store) -> "Succession":
        """Read the marks of a workspace."""
        runs = {run.path: run for run in marked(store, "runs")}
        plans = frozenset(each.content for each in marked(store, "mixtures"))
        return Succession(store=store, runs=runs, plans=plans)

    def last(self, begun: Iterable[Begun]) -> Begun | None:
        """The last phase of those that are marked and whose inputs are current; None where there is none."""
        found = [each for each in begun if self.is_current(each)]
        return max(found, key=self.place, default=None)

    def is_current(self, run: Begun) -> bool:
        """Return True where a run and its mixture are marked, and the run that it goes on from is current."""
        if run.path not in self.runs or run.job.plan_content not in self.plans:
            return False
        start = self._entered(run)
        return start is None or any(
            (each.key, each.content) == (start.run_key, start.run_content)
            and self.is_current(Begun.at(path))
            for path, each in self.runs.items()
        )

    def place(self, run: Begun) -> tuple[int, str]:
        """The number of phases before a run, then when it began: the order of a curriculum."""
        number, start = 0, self._entered(run)
        while start is not None:
            number += 1
            before = self._begun(start)
            start = None if before is None else self._entered(before)
        return number, run.job.begun

    def _entered(self, run: Begun) -> CheckpointRef | None:
        """The checkpoint at which a phase was entered, by the run or by the one that it goes on from."""
        start = run.job.start_from
        before = None if start is None else self._begun(start)
        if before is None or before.job.phase != run.job.phase:
            return start
        return self._entered(before)

    def _begun(self, start: CheckpointRef) -> Begun | None:
        """The run of a checkpoint, where it is still there."""
        folder = (self.store.root / start.path).parents[1]
        self.store.require_inside(folder)
        return Begun.at(folder) if (folder / JOB).is_file() else None


def checkpoint_of(home: Path, what: str) -> Path:
    """The checkpoint at a path, or the last one of the run that is meant.

    Raises:
        JobError: for what is none and has none.
        StoreError: for a finished run that isn't what its manifest says.
    """
    path = Path(what).absolute()
    if path.is_dir() and path.name.startswith(STEP):
        store = Store.containing(path)
        store.require_inside(path)
        if (path.parents[1] / MANIFEST_NAME).is_file():
            store.load(path.parents[1])
        return path
    store = Store.containing(path) if path.exists() else Store(home, dry=True)
    run = run_of(store, what, name="the model")
    if (run.path / MANIFEST_NAME).is_file():
        store.load(run.path)
        return store.root / read_report(run.path).checkpoint
    there = dict(checkpoints(run.path))
    if not there:
        raise JobError(what, cause="it has no checkpoint", cure="Let it go on until it has one")
    return there[max(there)]


def title_of(checkpoint: Path) -> str:
    """The title of a checkpoint for a reader: its run, and the step."""
    return f"{Begun.at(checkpoint.parents[1]).title}, {checkpoint.name}"


def run_of(store: Store, what: str, *, name: str) -> Begun:
    """The run that is meant; `name` is whose value it is in an error.

    Of a path or key it is the newest attempt; of specialist/phase the finished run that is marked as
    current, else the attempt that began last; of a specialist that of its last phase whose inputs are
    current, where any phase is finished.

    Raises:
        JobError: for none, for several at a path or with a key, and where no phase's inputs are current.
        StoreError: for a specialist of several branches.
    """
    begun = begun_in(store)
    path = Path(what).absolute()
    mine = [each for each in begun if path == each.path or path in each.path.parents]
    if not mine and (found := _named(store, begun, what)) is not None:
        return found
    mine = mine or [each for each in begun if each.job.run_key.startswith(what.lower())]
    runs = {each.path.parent for each in mine}
    if len(runs) != 1:
        listed = sorted(each.relative_to(store.root).as_posix() for each in runs) or _names(begun)
        raise JobError(
            name,
            what,
            cause="several runs are meant" if runs else "there is no such run",
            cure=f"Name one: {', '.join(listed[:LISTED]) or 'none has begun'}",
        )
    return max(mine, key=lambda each: int(each.path.name.partition("=")[2]))


def checkpoints(run: Path) -> Iterator[tuple[int, Path]]:
    """The steps that a run keeps a checkpoint of, and where."""
    for manifest in (run / CHECKPOINTS).glob(f"{STEP}*/{MANIFEST_NAME}"):
        yield int(manifest.parent.name.removeprefix(STEP)), manifest.parent


def begun_in(store: Store) -> list[Begun]:
    """All attempts at runs of a workspace, open and closed, by path."""
    return [Begun.at(file.parent) for file in sorted((store.root / "runs").rglob(JOB))]


def _named(store: Store, begun: list[Begun], what: str) -> Begun | None:
    """The run with a name; a diet's name stands for its specialist and branch."""
    whose = named(store.root, what, {each.way for each in begun})
    if whose is None:
        return None
    mine = [each for each in begun if each.way == whose.way]
    if whose.phase is not None:
        mine = [each for each in mine if each.job.phase == whose.phase]
    succession = Succession.of(store)
    finished = [each for each in mine if each.path in succession.runs]
    if whose.phase is not None or not finished:
        return max(finished or mine, key=_began, default=None)
    last = succession.last(finished)
    if last is None:
        listed = ", ".join(_names(finished))
        raise JobError(
            what,
            cause="no finished phase has the mixture and the phase before it that are current now",
            cure=f"Name a phase: {listed}; or run the specialist again",
        )
    return last


def _began(run: Begun) -> tuple[str, int]:
    return run.job.begun, run.job.attempt


def _names(begun: list[Begun]) -> list[str]:
    return sorted({each.name for each in begun})
