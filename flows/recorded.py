"""The course that runs were ordered with, from what their jobs recorded: to hold them against today."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from curriculum.diets.load import diet_names, load_diet
from curriculum.store import Artefact, Store
from flows.continuing import Middle
from flows.course import Course, Order, course
from flows.leaving_out import leaving_out
from flows.runs import Begun
from schemas.errors import DietError

Way = tuple[str, str | None]
"""A specialist and its branch, if it has one."""
_MIDDLE = ("continue", "at_step", "from_step", "without_rows")


def diet_of(home: Path, way: Way, recorded: Mapping[str, str]) -> str:
    """The diet that a run was made with: the file that was named, else by specialist and branch.

    Raises:
        DietError: where there is none any more.
    """
    if "diet" in recorded:
        return recorded["diet"]
    likely = ".".join(filter(None, way))
    names = diet_names(home)
    for name in sorted(names, key=lambda name: name != likely):
        if _way_of(home, name) == way:
            return name
    if likely in names:
        return likely
    raise DietError(
        "/".join(filter(None, way)),
        cause="no diet of that name is in the workspace or the package",
        cure="Put its file into the workspace's folder diets",
    )


def course_of(store: Store, way: Way, begun: Iterable[Begun]) -> Course:
    """The course of a specialist as its newest run was ordered, with the diet as it is today.

    Raises:
        CurriculumError: for a diet, phases or a corpus that are gone or wrong by now.
    """
    mine = sorted(begun, key=lambda each: (each.job.begun, each.job.attempt))
    recorded = mine[-1].job.overrides if mine else {}
    order = _order(store.root, diet_of(store.root, way, recorded), recorded)
    plan = replace(course(order, dry=True), store=store)
    said = {name: recorded[name] for name in _MIDDLE if name in recorded}
    if not said:
        return plan
    same = [each for each in mine if said.items() <= each.job.overrides.items()]
    return replace(
        plan,
        middle=next(_middles(store, same), None),
        without=leaving_out(said.get("without_rows"), _repositories(plan)),
    )


def way_of(run: Artefact) -> Way:
    """The specialist and branch of a run or a mixture."""
    return run.manifest.labels["specialist"], run.manifest.labels.get("branch")


def _way_of(home: Path, name: str) -> Way | None:
    """Whose diet it is; nobody's where it can't be read."""
    try:
        diet = load_diet(name, home=home)
    except DietError:
        return None
    return diet.specialist, diet.branch


def _order(home: Path, diet: str, recorded: Mapping[str, str]) -> Order:
    def whole(name: str) -> int | None:
        return int(recorded[name]) if name in recorded else None

    repetition = recorded.get("max_repetition")
    return Order(
        specialist=diet,
        home=home,
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
    )


def _middles(store: Store, begun: Iterable[Begun]) -> Iterator[Middle]:
    """Where runs began that go on in the middle of their own phase, the first first."""
    for each in begun:
        if each.job.start_from is not None:
            middle = Middle.at(store.root / each.job.start_from.path)
            if middle.job.phase == each.job.phase:
                yield middle


def _repositories(plan: Course) -> list[str]:
    return [each.name for each in plan.corpus.repositories]
