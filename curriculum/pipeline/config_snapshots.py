"""Orders as they were when a flow run first began, or a command mixed: orders/<flow run>.json.

A run that is retried, or goes on after an approval, starts from the top; and its training is a flow run of
its own. All of them go by what was read first: a diet that is edited meanwhile changes later runs only.
"""

import shutil
from pathlib import Path

from pydantic import Field

from curriculum.corpus.domains import is_path
from curriculum.mixing.imported import ImportedRows
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.plan import RunPlan, plan_of, resolve_plan
from curriculum.pipeline.resume import ResumePoint
from curriculum.pipeline.row_exclusions import RowExclusions
from curriculum.store import Store
from curriculum.train.run_directory import write_text
from schemas.corpus import CorpusSpec
from schemas.diet import Diet
from schemas.errors import StoreError
from schemas.json_text import Sealed, read_json
from schemas.moment import now
from schemas.phase import PhaseSpec
from schemas.plain_path import PlainPath

FOLDER, DOMAINS = "orders", ".domains.yaml"


class ConfigSnapshot(Sealed):
    """A RunConfig with all that its names were resolved to."""

    begun: str
    """The moment at which it was laid down, in UTC."""
    config: RunConfig
    diet: Diet
    phases: dict[str, PhaseSpec]
    """In the order of the curriculum."""
    corpus: CorpusSpec
    checkpoint: PlainPath | None
    """The checkpoint to go on from, relative to the workspace."""
    without: RowExclusions
    imported: dict[str, ImportedRows] = Field(default_factory=dict)
    """The imported rows that it serves."""


def first_plan(config: RunConfig, flow_run: str) -> RunPlan:
    """Return the plan of a config as its flow run first resolved it; the first call writes the snapshot.

    Raises:
        CurriculumError: for a name that can't be resolved, or a snapshot that was changed by hand.
    """
    store = Store(config.workspace)
    file = place_of(store, flow_run)
    if not file.is_file():
        write_snapshot(resolve_plan(config), flow_run)
    return read_plan(store, flow_run)


def place_of(store: Store, flow_run: str) -> Path:
    """Return the file of a flow run's snapshot."""
    return store.root / FOLDER / f"{flow_run}.json"


def write_snapshot(plan: RunPlan, flow_run: str) -> None:
    """Write the snapshot of a flow run's plan."""
    file = place_of(plan.store, flow_run)
    plan.store.open()
    file.parent.mkdir(exist_ok=True)
    if is_path(plan.corpus.domains):
        shutil.copyfile(plan.corpus.domains, file.with_suffix(DOMAINS))
    middle = plan.resume.checkpoint.relative_to(plan.store.root) if plan.resume else None
    said = ConfigSnapshot(
        begun=now(),
        config=plan.config,
        diet=plan.diet,
        phases=dict(plan.specs),
        corpus=plan.corpus,
        checkpoint=middle.as_posix() if middle else None,
        without=plan.without,
        imported=dict(plan.imported),
    )
    write_text(file, said.model_dump_json(indent=1))


def write_command_snapshot(plan: RunPlan) -> None:
    """Write the snapshot of a command that mixes, named after its specialist and branch."""
    write_snapshot(plan, "-".join(filter(None, (plan.diet.specialist, plan.diet.branch))))


def read_plan(store: Store, flow_run: str) -> RunPlan:
    """Return the plan of a flow run's snapshot; the workspace may have moved since.

    Raises:
        StoreError: for a file that isn't an order of this version.
    """
    file = place_of(store, flow_run)
    said = _read(file)
    resume = ResumePoint.at(store.root / said.checkpoint) if said.checkpoint else None
    domains = file.with_suffix(DOMAINS)
    own = {"domains": str(domains)} if domains.is_file() else {}
    return plan_of(
        said.config.model_copy(update={"workspace": store.root}),
        store,
        diet=said.diet,
        specs=said.phases,
        corpus=said.corpus.model_copy(update=own),
        resume=resume,
        without=said.without,
        imported=said.imported,
    )


def last_snapshot(store: Store, way: tuple[str, str | None]) -> str | None:
    """The name of the last order of a specialist and branch that was laid down; None where none was."""
    mine = [
        (said.begun, file.stem)
        for file in (store.root / FOLDER).glob("*.json")
        for said in [_read(file)]
        if (said.diet.specialist, said.diet.branch) == way
    ]
    return max(mine, default=("", None))[1]


def _read(file: Path) -> ConfigSnapshot:
    return read_json(
        ConfigSnapshot,
        file,
        error=StoreError,
        cause="it is no order of this version",
        cure="Start the run anew",
    )
