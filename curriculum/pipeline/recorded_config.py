"""Configs of earlier runs: snapshots of flow runs and commands, and overrides recorded in jobs.

A run that is retried or approved starts from the top, and its training is a separate flow run. All of these
use the same snapshot, so that edits of a diet only affect later runs.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from curriculum.corpus import domains
from curriculum.mixing.diet_files import diet_names, is_path, load_diet
from curriculum.mixing.imported import ImportedRows
from curriculum.pipeline.attempts import Attempt, attempts_in, names_of, specialist_of
from curriculum.pipeline.plan import RunPlan, plan_of, resolve_plan
from curriculum.pipeline.resume import ResumePoint, RowExclusions, parse_exclusions
from curriculum.pipeline.run_config import ResumeConfig, RunConfig, command, option
from curriculum.store import Store
from curriculum.whole_files import write_whole
from schemas.corpus import CorpusSpec
from schemas.diet import TRAINED_TOKENIZER, Diet, PhaseSpec
from schemas.errors import DietError, StoreError
from schemas.json_text import Sealed, now, read_json
from schemas.regular_files import PlainPath
from schemas.specialist import SpecialistRef, format_reference

FOLDER, DOMAINS = "configs", ".domains.yaml"


class ConfigSnapshot(Sealed):
    """A RunConfig together with everything that its names refer to."""

    begun: str
    """UTC time at which the snapshot was taken."""
    config: RunConfig
    diet: Diet
    phases: dict[str, PhaseSpec]
    """Phases in curriculum order."""
    corpus: CorpusSpec
    checkpoint: PlainPath | None
    """Checkpoint to continue from, relative to the workspace."""
    without: RowExclusions
    imported: dict[str, ImportedRows] = Field(default_factory=dict)
    """Imported rows that the diet uses, by name."""


def first_plan(config: RunConfig, flow_run: str) -> RunPlan:
    """Return the plan of a flow run. The first call resolves the config, and writes the snapshot.

    Raises:
        CurriculumError: for a name that can't be resolved, or a snapshot that was edited.
    """
    store = Store(config.workspace)
    file = snapshot_file(store, flow_run)
    if not file.is_file():
        write_snapshot(resolve_plan(config), flow_run)
    return read_plan(store, flow_run)


def snapshot_file(store: Store, flow_run: str) -> Path:
    """Return the file of a flow run's snapshot."""
    return store.root / FOLDER / f"{flow_run}.json"


def write_snapshot(plan: RunPlan, flow_run: str) -> None:
    """Write the snapshot of a flow run's plan."""
    file = snapshot_file(plan.store, flow_run)
    plan.store.open()
    file.parent.mkdir(exist_ok=True)
    if domains.is_path(plan.corpus.domains):
        shutil.copyfile(plan.corpus.domains, file.with_suffix(DOMAINS))
    checkpoint = plan.resume.checkpoint.relative_to(plan.store.root) if plan.resume else None
    snapshot = ConfigSnapshot(
        begun=now(),
        config=plan.config,
        diet=plan.diet,
        phases=dict(plan.specs),
        corpus=plan.corpus,
        checkpoint=checkpoint.as_posix() if checkpoint else None,
        without=plan.without,
        imported=dict(plan.imported),
    )
    write_whole(file, snapshot.model_dump_json(indent=1))


def write_command_snapshot(plan: RunPlan) -> None:
    """Write the snapshot of a mixing command, named after its specialist and branch."""
    write_snapshot(plan, "-".join(filter(None, (plan.diet.specialist, plan.diet.branch))))


def read_plan(store: Store, flow_run: str) -> RunPlan:
    """Return the plan in the snapshot of a flow run, even if the workspace has been moved since.

    Raises:
        StoreError: if the file isn't a snapshot of this version.
    """
    file = snapshot_file(store, flow_run)
    snapshot = _read(file)
    checkpoint, rules = snapshot.checkpoint, file.with_suffix(DOMAINS)
    own = {"domains": str(rules)} if rules.is_file() else {}
    return plan_of(
        snapshot.config.model_copy(update={"workspace": store.root}),
        store,
        diet=snapshot.diet,
        specs=snapshot.phases,
        corpus=snapshot.corpus.model_copy(update=own),
        resume=ResumePoint.at(store.root / checkpoint) if checkpoint else None,
        without=snapshot.without,
        imported=snapshot.imported,
    )


def last_snapshot(store: Store, ref: SpecialistRef) -> str | None:
    """Return the name of the last snapshot of a specialist and its branch, or None."""
    snapshots = {file: _read(file) for file in (store.root / FOLDER).glob("*.json")}
    mine = [
        (snapshot.begun, file.stem)
        for file, snapshot in snapshots.items()
        if (snapshot.diet.specialist, snapshot.diet.branch) == ref
    ]
    return max(mine, default=("", None))[1]


def _read(file: Path) -> ConfigSnapshot:
    return read_json(
        ConfigSnapshot,
        file,
        error=StoreError,
        cause="the file isn't a config snapshot of this version",
        cure="Delete it, and start its run again",
    )


_RESUME_OPTIONS = ("continue", "from_step", "without_rows")
"""Overrides in a job that say where the run continues, and which rows are excluded."""


def newest_plan(store: Store, ref: SpecialistRef, attempts: Iterable[Attempt]) -> RunPlan:
    """Return the plan for the config of a specialist's newest finished run, but with the current diet.

    If no run is finished, the config of the newest attempt is used. `attempts` are in start order, and may
    include other specialists. If the diet was deleted, the diet of the last snapshot is used.

    Raises:
        CurriculumError: if diet, phases or corpus are missing or invalid.
    """
    mine = _counted(attempt for attempt in attempts if attempt.ref == ref)
    config = newest_config(store, ref, mine)
    if not _is_diet(store.root, config.specialist):
        snapshot = last_snapshot(store, ref)
        if snapshot is not None:
            return read_plan(store, snapshot)
    if not mine:
        return replace(resolve_plan(config, dry=True), store=store)
    whole = config.model_copy(update={"resume": ResumeConfig()})
    plan = replace(resolve_plan(whole, dry=True), store=store, config=config)
    recorded = mine[-1].job.overrides
    options = {name: recorded[name] for name in _RESUME_OPTIONS if name in recorded}
    if not options:
        return plan
    repositories = [repository.name for repository in plan.corpus.repositories]
    same = [attempt for attempt in mine if options.items() <= attempt.job.overrides.items()]
    return replace(
        plan,
        resume=next(_resume_points(store, same), None),
        without=parse_exclusions(options.get("without_rows"), repositories),
    )


def _counted(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the finished attempts; all attempts if none is finished."""
    begun = list(attempts)
    return [attempt for attempt in begun if attempt.is_finished] or begun


def newest_config(store: Store, ref: SpecialistRef, attempts: Sequence[Attempt]) -> RunConfig:
    """Return the config that the last of a specialist's attempts recorded.

    Without attempts, return the config of the last snapshot. If there is none either, return the config of
    a diet for this specialist and branch.

    Raises:
        DietError: if no such diet exists any more.
    """
    snapshot = None if attempts else last_snapshot(store, ref)
    if snapshot is not None:
        return read_plan(store, snapshot).config
    recorded = attempts[-1].job.overrides if attempts else {}
    if "diet" in recorded:
        return RunConfig.of_overrides(recorded, specialist=recorded["diet"], workspace=store.root)
    likely = ".".join(filter(None, ref))
    names = sorted(diet_names(store.root), key=lambda name: name != likely)
    found = next((name for name in names if _ref_of_diet(store.root, name) == ref), None)
    if found is None and likely in names:
        found = likely
    if found is not None:
        return RunConfig.of_overrides(recorded, specialist=found, workspace=store.root)
    raise DietError(
        format_reference(ref),
        cause="neither the workspace nor the package has a diet of that name",
        cure="Put its file into the folder diets of the workspace",
    )


def resolved(config: RunConfig, verb: str) -> RunConfig:
    """Return the config that a command uses, like `as_recorded`, after checking the recorded options.

    Records may come from the author of a workspace that the user received. So they may only name diets,
    corpora and phases of the workspace and the package. Files, repositories, and options that run code or
    relax a sandbox must be given on the command line.

    Raises:
        DietError: for any other record, with the command that repeats its options.
    """
    made = as_recorded(config)
    chosen = [*_chosen_by_record(config, made)]
    if not chosen:
        return made
    raise DietError(
        config.specialist,
        ", ".join(chosen),
        cause="these options come from a record of the workspace, but only a command line may set them: "
        "they name files, or allow code to run",
        cure=f"To allow them, run: {command(verb, made)}",
    )


def _chosen_by_record(given: RunConfig, made: RunConfig) -> Iterator[str]:
    """Yield those options that a record chose, although they must be given on the command line."""
    if made.specialist != given.specialist and is_path(made.specialist):
        yield made.specialist
    said = dict(given.changes())
    for field, value in made.changes("mix"):
        if said.get(field) != value and _is_for_command_line(field, value):
            yield option(field)


def _is_for_command_line(field: str, value: object) -> bool:
    """Return True if a value names a file or repository, runs code or relaxes a sandbox."""
    match field:
        case "continue_run":
            return False  # It is looked up among the runs of the workspace.
        case "tokenizer":
            return value != TRAINED_TOKENIZER
        case "without_rows":
            return is_path(str(value)) or Path(str(value)).is_file()
    return is_path(value) if isinstance(value, str) else isinstance(value, bool | tuple)


def as_recorded(config: RunConfig) -> RunConfig:
    """Return a config that names a diet, or its file: templates/demo becomes templates.demo.

    A branch that has artefacts in the workspace, but no diet of its own, is named templates.ux or
    templates/ux. It gets the config that it recorded, with the changes in `config`. Only read-only commands
    may use this config without the check of `resolved`.
    """
    home = config.workspace
    if _is_diet(home, config.specialist):
        return config
    diet = config.specialist.replace("/", ".")
    ref = _ref_of_diet(home, diet) if diet in diet_names(home) else None
    if ref is not None and config.specialist in names_of(ref):
        return config.model_copy(update={"specialist": diet})
    if not home.is_dir():
        return config
    store = Store(config.workspace, dry=True)
    attempts = attempts_in(store)
    refs = {attempt.ref for attempt in attempts}
    refs |= {specialist_of(artefact) for artefact in store.artefacts("mixtures")}
    ref = next((known for known in refs if config.specialist in names_of(known)), None)
    if ref is None:
        return config
    made = newest_config(
        store, ref, _counted(attempt for attempt in attempts if attempt.ref == ref)
    )
    own = made.model_copy(update={"workspace": config.workspace, "shard": config.shard})
    return own.changed(**dict(config.changes()))


def _is_diet(home: Path, name: str) -> bool:
    return name in diet_names(home) or Path(name).is_file()


def _ref_of_diet(home: Path, name: str) -> SpecialistRef | None:
    """Return the specialist and branch of a diet; None if the diet can't be read."""
    try:
        diet = load_diet(name, home=home)
    except DietError:
        return None
    return SpecialistRef(diet.specialist, diet.branch)


def _resume_points(store: Store, attempts: Iterable[Attempt]) -> Iterator[ResumePoint]:
    """Yield the checkpoints from which runs resumed inside their phase, earliest first."""
    for attempt in attempts:
        if attempt.job.start_from is not None:
            point = ResumePoint.at(store.root / attempt.job.start_from.path)
            if point.job.phase == attempt.job.phase:
                yield point
