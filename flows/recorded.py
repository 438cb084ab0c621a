"""The course that runs were ordered with, from what their jobs recorded: to hold them against today."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from curriculum.diets.load import diet_names, load_diet
from curriculum.pipeline.plan import Course, Order, course
from curriculum.pipeline.references import Begun, begun_in
from curriculum.pipeline.resume import Middle
from curriculum.pipeline.row_exclusions import leaving_out
from curriculum.store import Artefact, Store
from flows import trust
from flows.orders import last_frozen, thaw
from schemas.errors import DietError

Way = tuple[str, str | None]
"""A specialist and its branch, if it has one."""
_MIDDLE = ("continue", "at_step", "from_step", "without_rows")


def course_of(store: Store, way: Way, begun: Iterable[Begun]) -> Course:
    """The course of a specialist as its newest run was ordered, with the diet as it is today.

    Where that diet is gone, it is the one that its last flow run laid down.

    Raises:
        CurriculumError: for a diet, phases or a corpus that are gone or wrong by now.
    """
    mine = sorted(begun, key=lambda each: (each.job.begun, each.job.attempt))
    order = order_of(store, way, mine)
    if not _is_diet(store.root, order.specialist):
        frozen = last_frozen(store, way)
        if frozen is not None:
            return thaw(store, frozen)
    whole = _from_the_start(order) if mine else order
    plan = replace(course(whole, dry=True), store=store, order=order)
    recorded = mine[-1].job.overrides if mine else {}
    said = {name: recorded[name] for name in _MIDDLE if name in recorded}
    if not said:
        return plan
    same = [each for each in mine if said.items() <= each.job.overrides.items()]
    return replace(
        plan,
        middle=next(_middles(store, same), None),
        without=leaving_out(said.get("without_rows"), _repositories(plan)),
    )


def order_of(store: Store, way: Way, begun: Sequence[Begun]) -> Order:
    """The order that a specialist and branch were made by, as the last of these runs recorded it.

    Where none has begun, the one that was laid down last; else that of a diet of this specialist and branch.

    Raises:
        DietError: where there is no such diet any more.
    """
    frozen = None if begun else last_frozen(store, way)
    if frozen is not None:
        return thaw(store, frozen).order
    recorded = begun[-1].job.overrides if begun else {}
    if "diet" in recorded:
        return _order(store.root, recorded["diet"], recorded)
    likely = ".".join(filter(None, way))
    names = sorted(diet_names(store.root), key=lambda name: name != likely)
    found = next((name for name in names if _way_of(store.root, name) == way), None)
    if found is None and likely in names:
        found = likely
    if found is not None:
        return _order(store.root, found, recorded)
    raise DietError(
        "/".join(filter(None, way)),
        cause="no diet of that name is in the workspace or the package",
        cure="Put its file into the workspace's folder diets",
    )


def _from_the_start(order: Order) -> Order:
    """An order that begins with its first phase."""
    return replace(order, continue_run=None, at_step=None, from_step=None, without_rows=None)


def resolved(order: Order) -> Order:
    """The order whose specialist is the name of a diet or its file.

    A branch of the workspace that has no diet of its own, named templates.ux or templates/ux, is given the
    order that it was made by, with the changes of this one.
    """
    if _is_diet(order.home, order.specialist) or not order.home.is_dir():
        return order
    store = Store(order.home, dry=True)
    begun = sorted(begun_in(store), key=lambda each: (each.job.begun, each.job.attempt))
    ways = {each.way for each in begun} | {way_of(each) for each in store.artefacts("mixtures")}
    way = next((each for each in ways if order.specialist in names_of(each)), None)
    if way is None:
        return order
    made = order_of(store, way, [each for each in begun if each.way == way])
    usual = Order(specialist=order.specialist, home=order.home)
    changed = {
        each.name: getattr(order, each.name)
        for each in fields(order)
        if getattr(order, each.name) != getattr(usual, each.name)
    }
    if not trust.is_trusted(order.home):
        _require_no_command(made)
        # The repositories' own code runs where this user says so, not where a record does.
        changed = {"configure": False, **changed}
    return replace(made, home=order.home, **changed)


def _require_no_command(made: Order) -> None:
    """Let a diet pass that a received run names, whose trainer is ours.

    Raises:
        DietError: for another trainer's command: the user named no file of it.
    """
    trainer = load_diet(made.specialist, home=made.home).trainer
    if trainer is not None:
        raise trust.refused(made.home, made.specialist, trainer.command)


def names_of(way: Way) -> tuple[str, str]:
    """The whole name of a specialist and branch, in its two spellings: templates/ux, templates.ux."""
    parts = [each for each in way if each]
    return "/".join(parts), ".".join(parts)


def _is_diet(home: Path, name: str) -> bool:
    return name in diet_names(home) or Path(name).is_file()


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


def _middles(store: Store, begun: Iterable[Begun]) -> Iterator[Middle]:
    """Where runs began that go on in the middle of their own phase, the first first."""
    for each in begun:
        if each.job.start_from is not None:
            middle = Middle.at(store.root / each.job.start_from.path)
            if middle.job.phase == each.job.phase:
                yield middle


def _repositories(plan: Course) -> list[str]:
    return [each.name for each in plan.corpus.repositories]
