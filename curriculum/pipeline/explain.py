"""Differences of an artefact that would be made from the version before it, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.pipeline.steps import UNKNOWN
from curriculum.store import Difference, Explanation, Step, Store, explain, explain_all
from curriculum.store.recipe import Recipe

LONGEST = 60
"""Characters of a value that is shown."""
RUNS = "runs"


def why(store: Store, recipe: Recipe) -> str:
    """Explain in a few words the first difference that an artefact goes back to.

    why(store, recipe) ->
    'mixtures of syntax: servings.0.share: 0.6 → 0.5 (and 1 more)'
    """
    listed = list(dict.fromkeys(map(_root, explain(store, recipe).roots)))
    if not listed:
        return "it is made of other inputs"
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return f"{listed[0]}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """The differences of some artefacts from the versions before them, which are alike."""

    title: str
    is_first: bool
    """True if there is no version before."""
    differences: tuple[str, ...]


def explain_steps(store: Store, planned: Sequence[Step]) -> Iterator[Reason]:
    """Explain each artefact that would be made; those that differ in the same way together."""
    distinct = {step.recipe.key: step.recipe for step in planned}
    grouped: dict[tuple[str, ...], list[Explanation]] = {}
    explained = explain_all(store, list(distinct.values()))
    for recipe, each in zip(distinct.values(), explained, strict=True):
        lines = tuple(map(_line, _known_differences(recipe, each)))
        grouped.setdefault((recipe.stage, str(each.first), *lines), []).append(each)
    for (stage, _, *said), alike in grouped.items():
        title = alike[0].folder if len(alike) == 1 else f"{stage}: {len(alike)} artefacts"
        yield Reason(title=title, is_first=alike[0].first, differences=tuple(said))


def _known_differences(recipe: Recipe, explanation: Explanation) -> Iterator[Difference]:
    """The differences that mean something: of some planned runs only the inputs are known."""
    known = {f"input {each.name}" for each in recipe.inputs}
    for each in explanation.differences:
        if recipe.stage != RUNS or recipe.revision != UNKNOWN or each.name in known:
            yield each


def _root(root: tuple[str, Difference | None]) -> str:
    folder, difference = root
    where = _place(folder)
    return f"{where}: there is none yet" if difference is None else f"{where}: {_line(difference)}"


def _place(folder: str) -> str:
    """A folder in words.

    >>> _place("documents/family=v3_simple/repository=fmt")
    'documents of v3_simple, fmt'
    """
    stage, *labels = folder.split("/")
    values = ", ".join(label.partition("=")[2] for label in labels)
    return f"{stage} of {values}" if values else stage


def _line(difference: Difference) -> str:
    changed = f"{_short(difference.before)} → {_short(difference.now)}"
    if not difference.made_anew:
        return f"{difference.name}: {changed}"
    return f"{difference.name} was made anew, with another content: {changed}"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
