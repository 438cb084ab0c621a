"""Configs of earlier runs, from the overrides that their jobs recorded."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from curriculum.mixing.load import diet_names, load_diet
from curriculum.pipeline.attempts import Begun, Way, begun_in, names_of, spelled, way_of
from curriculum.pipeline.config import ResumeConfig, RunConfig
from curriculum.pipeline.config_snapshots import last_snapshot, read_plan
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.resume import ResumePoint
from curriculum.pipeline.row_exclusions import leaving_out
from curriculum.store import Store
from schemas.errors import DietError

_MIDDLE = ("continue", "at_step", "from_step", "without_rows")


def course_of(store: Store, way: Way, begun: Iterable[Begun]) -> RunPlan:
    """Resolve the config of a specialist's newest run with the diet as it is today.

    Where that diet is gone, it is the one that its last flow run laid down.

    Raises:
        CurriculumError: for a diet, phases or a corpus that are gone or wrong by now.
    """
    mine = sorted(begun, key=lambda each: (each.job.begun, each.job.attempt))
    config = config_of(store, way, mine)
    if not _is_diet(store.root, config.specialist):
        frozen = last_snapshot(store, way)
        if frozen is not None:
            return read_plan(store, frozen)
    whole = _from_the_start(config) if mine else config
    plan = replace(resolve_plan(whole, dry=True), store=store, config=config)
    recorded = mine[-1].job.overrides if mine else {}
    said = {name: recorded[name] for name in _MIDDLE if name in recorded}
    if not said:
        return plan
    same = [each for each in mine if said.items() <= each.job.overrides.items()]
    return replace(
        plan,
        resume=next(_middles(store, same), None),
        without=leaving_out(said.get("without_rows"), _repositories(plan)),
    )


def config_of(store: Store, way: Way, begun: Sequence[Begun]) -> RunConfig:
    """Return the config that a specialist and branch were made by, as the last of these runs recorded it.

    Where none has begun, the one that was laid down last; else that of a diet of this specialist and branch.

    Raises:
        DietError: where there is no such diet any more.
    """
    frozen = None if begun else last_snapshot(store, way)
    if frozen is not None:
        return read_plan(store, frozen).config
    recorded = begun[-1].job.overrides if begun else {}
    if "diet" in recorded:
        return _config(store.root, recorded["diet"], recorded)
    likely = ".".join(filter(None, way))
    names = sorted(diet_names(store.root), key=lambda name: name != likely)
    found = next((name for name in names if _way_of(store.root, name) == way), None)
    if found is None and likely in names:
        found = likely
    if found is not None:
        return _config(store.root, found, recorded)
    raise DietError(
        spelled(way),
        cause="no diet of that name is in the workspace or the package",
        cure="Put its file into the workspace's folder diets",
    )


def _from_the_start(config: RunConfig) -> RunConfig:
    """Return a config that begins with its first phase."""
    return config.model_copy(update={"resume": ResumeConfig()})


def resolved(
    config: RunConfig, *, is_trusted: bool, refuse: Callable[[RunConfig, str], DietError]
) -> RunConfig:
    """Return the config whose specialist is the name of a diet or its file; templates/demo is templates.demo.

    A branch of the workspace that has no diet of its own, named templates.ux or templates/ux, gets the
    config that it was made by, with the changes of this one. In a workspace that isn't trusted it neither
    runs cmake nor another trainer's command, for which `refuse` makes the error.
    """
    home = config.workspace
    if _is_diet(home, config.specialist):
        return config
    if diet := _diet_of(home, config.specialist):
        return config.model_copy(update={"specialist": diet})
    if not home.is_dir():
        return config
    store = Store(config.workspace, dry=True)
    begun = sorted(begun_in(store), key=lambda each: (each.job.begun, each.job.attempt))
    ways = {each.way for each in begun} | {way_of(each) for each in store.artefacts("mixtures")}
    way = next((each for each in ways if config.specialist in names_of(each)), None)
    if way is None:
        return config
    made = config_of(store, way, [each for each in begun if each.way == way])
    changed = dict(config.changes())
    if not is_trusted:
        trainer = load_diet(made.specialist, home=made.workspace).trainer
        if trainer is not None:
            # The user named no file of that command.
            raise refuse(made, trainer.command)
        # The repositories' own code runs where this user says so, not where a record does.
        changed = {"configure": False, **changed}
    own = made.model_copy(update={"workspace": config.workspace, "shard": config.shard})
    return own.changed(**changed)


def _diet_of(home: Path, name: str) -> str | None:
    """Return templates.demo for templates/demo, where that diet is of that specialist and branch."""
    diet = name.replace("/", ".")
    way = _way_of(home, diet) if diet in diet_names(home) else None
    return diet if way is not None and name in names_of(way) else None


def _is_diet(home: Path, name: str) -> bool:
    return name in diet_names(home) or Path(name).is_file()


def _way_of(home: Path, name: str) -> Way | None:
    """Whose diet it is; nobody's where it can't be read."""
    try:
        diet = load_diet(name, home=home)
    except DietError:
        return None
    return diet.specialist, diet.branch


def _config(home: Path, diet: str, recorded: Mapping[str, str]) -> RunConfig:
    def whole(name: str) -> int | None:
        return int(recorded[name]) if name in recorded else None

    repetition = recorded.get("max_repetition")
    return RunConfig.of(
        specialist=diet,
        workspace=home,
        branch=recorded.get("branch"),
        phases=recorded.get("phases_file"),
        corpus=recorded.get("corpus"),
        repositories=tuple(shlex.split(recorded.get("repositories", ""))),
        model=recorded.get("model"),
        tokenizer=recorded.get("tokenizer"),
        token_budget=recorded.get("token_budget"),
        max_repetition=None if repetition is None else float(repetition),
        seed=whole("seed"),
        max_commits=whole("max_commits"),
        versions_per_path=whole("versions_per_path"),
        row_length=whole("row_length"),
        configure="configure" in recorded,
        continue_run=recorded.get("continue"),
        at_step=whole("at_step"),
        from_step=whole("from_step"),
        without_rows=recorded.get("without_rows"),
    )


def _middles(store: Store, begun: Iterable[Begun]) -> Iterator[ResumePoint]:
    """Yield the checkpoints from which runs resumed their own phase, the first first."""
    for each in begun:
        if each.job.start_from is not None:
            middle = ResumePoint.at(store.root / each.job.start_from.path)
            if middle.job.phase == each.job.phase:
                yield middle


def _repositories(plan: RunPlan) -> list[str]:
    return [each.name for each in plan.corpus.repositories]
