"""Which run is meant, and which of its checkpoints: by path, by name, by the first digits of a key."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from curriculum.diets.load import diet_names, load_diet
from curriculum.store import Store
from flows.lines import REPORT_NAME
from schemas.errors import JobError
from schemas.job import Job, Report
from schemas.manifest import MANIFEST_NAME

JOB, CHECKPOINTS, STEP = "job.json", "checkpoints", "step="
LISTED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """An attempt at a run, open or closed."""

    path: Path
    job: Job

    @staticmethod
    def at(path: Path) -> "Begun":
        """The one in a directory runs/…/attempt=1."""
        return Begun(path=path, job=Job.model_validate_json((path / JOB).read_text()))

    @property
    def names(self) -> set[str]:
        """templates, templates/syntax, and with its branch templates/demo and templates/demo/syntax."""
        way = [self.job.specialist]
        ways = ["/".join(way)]
        if self.job.branch:
            ways.append("/".join([*way, self.job.branch]))
        return {*ways, *(f"{each}/{self.job.phase}" for each in ways)}


def checkpoint_of(home: Path, what: str) -> Path:
    """The checkpoint at a path, or the last one of the run that is meant.

    Raises:
        JobError: for what is none and has none.
    """
    path = Path(what).absolute()
    if path.is_dir() and path.name.startswith(STEP):
        return path
    store = Store.containing(path) if path.exists() else Store(home, dry=True)
    run = run_of(store, what, name="the model")
    report = run.path / REPORT_NAME
    if (run.path / MANIFEST_NAME).is_file():
        return store.root / Report.model_validate_json(report.read_text()).checkpoint
    there = dict(checkpoints(run.path))
    if not there:
        raise JobError(what, cause="it has no checkpoint", cure="Let it go on until it has one")
    return there[max(there)]


def run_of(store: Store, what: str, *, name: str) -> Begun:
    """The newest attempt of the run that is meant; `name` is whose value it is in an error.

    Of several runs with one name it is the current one that began last.

    Raises:
        JobError: for none, and for several at a path or with a key.
    """
    begun = begun_in(store)
    path = Path(what).absolute()
    mine = [each for each in begun if path == each.path or path in each.path.parents]
    mine = mine or _named(store, begun, what)
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


def _named(store: Store, begun: list[Begun], what: str) -> list[Begun]:
    """Those of the newest run with a name; a diet's name stands for its specialist and branch."""
    first, *rest = what.split("/")
    if first in diet_names(store.root):
        diet = load_diet(first, home=store.root)
        first = "/".join([diet.specialist, *([diet.branch] if diet.branch else [])])
    found = [each for each in begun if "/".join([first, *rest]) in each.names]
    current = _current(store)
    found = [each for each in found if each.path in current] or found
    if not found:
        return []
    newest = max(found, key=lambda each: (each.path / JOB).stat().st_mtime_ns)
    return [each for each in begun if each.path.parent == newest.path.parent]


def _current(store: Store) -> set[Path]:
    files = (store.root / "current").glob("runs-*.txt")
    return {store.root / line for file in files for line in file.read_text().splitlines()}


def _names(begun: list[Begun]) -> list[str]:
    return sorted({max(each.names, key=len) for each in begun})
