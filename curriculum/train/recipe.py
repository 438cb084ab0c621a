"""Recipe of a run, and its attempts; nothing here needs torch itself."""

import importlib.util
import runpy
from functools import cache
from pathlib import Path

from curriculum.store import Artefact, Input, Recipe, Store, read_mark
from curriculum.store.gc import discarded
from schemas.job import Job
from schemas.manifest import MANIFEST_NAME

REVISION = 1
_ATTEMPT = "attempt="
WHICH_RUN = (
    "schema_version",
    "specialist",
    "branch",
    "phase",
    "run_key",
    "attempt",
    "begun",
    "overrides",
)
"""Fields of a job that say which run it is, and nothing of how it trains."""
_NO_PART_OF_THE_KEY = {
    *WHICH_RUN,
    *("tokenizer", "plan", "plan_key", "plan_content", "rows", "start_from", "evaluations"),
    *("threads", "processes", "workers", "recompute", "checkpoint_every", "writers", "gpu_price"),
}


def run_recipe(job: Job) -> Recipe:
    """Return the recipe of a run; neither names nor paths nor threads enter its key."""
    config = job.model_dump(mode="json", exclude=_NO_PART_OF_THE_KEY)
    config["evaluations"] = [
        evaluation.model_dump(mode="json", exclude={"strata": {"__all__": {"rows"}}})
        for evaluation in job.evaluations
    ]
    labels = [("specialist", job.specialist), ("phase", job.phase)]
    if job.branch is not None:
        labels.insert(1, ("branch", job.branch))
    return Recipe(
        stage="runs",
        labels=tuple(labels),
        revision=REVISION,
        config=config,
        inputs=_inputs(job),
        tools={"torch": torch_version()},
        alternate_folders=(
            f"runs/specialist=*/phase={job.phase}",
            f"runs/specialist=*/branch=*/phase={job.phase}",
        ),
    )


def finished(store: Store, job: Job) -> Artefact | None:
    """The last finished run of a job, if it has one."""
    folder = store.path_of(run_recipe(job))
    closed = [each for each in attempts(folder) if (each / MANIFEST_NAME).is_file()]
    return store.load(closed[-1]) if closed else None


def goes_on(store: Store, job: Job) -> bool:
    """Return True if training a job would go on with an attempt that isn't finished."""
    newest = attempts(store.path_of(run_recipe(job)))[-1:]
    return bool(newest) and not (newest[0] / MANIFEST_NAME).is_file()


def attempts(folder: Path) -> list[Path]:
    """The attempts of a run that were begun, in their order."""
    return sorted(folder.glob(f"{_ATTEMPT}*"), key=number_of)


def number_of(attempt: Path) -> int:
    """The number of an attempt, by its directory."""
    return int(attempt.name.removeprefix(_ATTEMPT))


def last_number(store: Store, folder: Path) -> int:
    """The highest number that an attempt of a run has had, as far as the workspace shows; 0 for none.

    Attempts that stand, open ones too, those in the trash of gc, and those that current/*.txt name.
    """
    place = folder.relative_to(store.root).as_posix()
    pinned = (
        Path(line)
        for file in (store.root / "current").glob("*.txt")
        for line in read_mark(file)
        if line.startswith(f"{place}/{_ATTEMPT}")
    )
    known = [*attempts(folder), *discarded(store.root, f"{place}/{_ATTEMPT}*"), *pinned]
    return max(map(number_of, known), default=0)


def _inputs(job: Job) -> tuple[Input, ...]:
    inputs = [
        Input(name="plan", key=job.plan_key, content=job.plan_content),
        Input(name="tokenizer", key=job.tokenizer.key, content=job.tokenizer.content),
        *(Input(name="rows", key=rows.key, content=rows.content) for rows in job.rows),
        *(
            Input(
                name=f"evaluation {evaluation.kind} {evaluation.phase} {number}",
                key=stratum.rows.key,
                content=stratum.rows.content,
            )
            for evaluation in job.evaluations
            for number, stratum in enumerate(evaluation.strata)
        ),
    ]
    if job.start_from is not None:
        start = job.start_from
        inputs.append(Input(name="previous", key=start.run_key, content=start.run_content))
    return tuple(inputs)


@cache
def torch_version() -> str:
    """The version of torch that would train, without the seconds that importing it takes."""
    found = importlib.util.find_spec("torch")
    assert found is not None, "torch isn't installed"
    assert found.origin is not None
    return str(runpy.run_path(str(Path(found.origin).with_name("version.py")))["__version__"])
