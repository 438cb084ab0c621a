"""Reasons why artefacts would be made: the first differences that they go back to, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.inspection.formats import Line
from curriculum.pipeline.phase_training import UNKNOWN
from curriculum.store import (
    ChangedIngredient,
    Explanation,
    RecipeOutcome,
    Store,
    explain,
    explain_all,
)
from curriculum.store.artefact import Recipe
from schemas.label_folders import label_of
from schemas.visible import one_line

_LONGEST = 60
"""Characters of a value that is shown."""


def why(store: Store, recipe: Recipe) -> str:
    """Explain in a few words the first difference that an artefact goes back to.

    why(store, recipe) ->
    'mixtures of syntax: servings.0.share: 0.6 → 0.5 (and 1 more)'
    """
    causes: list[str] = []
    for folder, difference in explain(store, recipe).roots:
        what = "there is none yet" if difference is None else _line(difference)
        causes.append(f"{_folder_words(folder)}: {what}")
    distinct = list(dict.fromkeys(causes))
    if not distinct:
        return "it is made of other inputs"
    more = f" (and {len(distinct) - 1} more)" if len(distinct) > 1 else ""
    return f"{distinct[0]}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """The differences of some artefacts from the versions before them, which are alike."""

    title: str
    is_first: bool
    """True if there is no version before."""
    differences: tuple[str, ...]


def reason_lines(store: Store) -> Iterator[Line]:
    """A line a difference of what a dry plan would make from the version before it."""
    for reason in explain_steps(store, [step for step in store.steps if step.outcome == "planned"]):
        first = ["first version"] if reason.is_first else []
        for difference in [*first, *reason.differences]:
            yield {"artefact": reason.title, "why": difference}


def explain_steps(store: Store, planned: Sequence[RecipeOutcome]) -> Iterator[Reason]:
    """Explain each artefact that would be made; those that differ in the same way together."""
    distinct = {step.recipe.key: step.recipe for step in planned}
    grouped: dict[tuple[str, ...], list[Explanation]] = {}
    explained = explain_all(store, list(distinct.values()))
    for recipe, each in zip(distinct.values(), explained, strict=True):
        lines = tuple(map(_line, _known_differences(recipe, each)))
        grouped.setdefault((recipe.stage, str(each.first), *lines), []).append(each)
    for (stage, _, *shared), alike in grouped.items():
        title = alike[0].folder if len(alike) == 1 else f"{stage}: {len(alike)} artefacts"
        yield Reason(title=title, is_first=alike[0].first, differences=tuple(shared))


def _known_differences(recipe: Recipe, explanation: Explanation) -> Iterator[ChangedIngredient]:
    """The differences that mean something: of some planned runs only the inputs are known."""
    known = {f"input {each.name}" for each in recipe.inputs}
    for difference in explanation.differences:
        if recipe.stage != "runs" or recipe.revision != UNKNOWN or difference.name in known:
            yield difference


def _folder_words(folder: str) -> str:
    """A folder in words.

    >>> _folder_words("documents/family-v3_simple/repository-fmt")
    'documents of v3_simple, fmt'
    """
    stage, *labels = folder.split("/")
    values = ", ".join(label_of(label)[1] for label in labels)
    return f"{stage} of {values}" if values else stage


def _line(difference: ChangedIngredient) -> str:
    """A difference in words, on one line whatever the manifests say: they may be somebody else's."""
    return one_line(_words(difference))


def _words(difference: ChangedIngredient) -> str:
    if difference.deleted:
        key = str(difference.before).partition(" ")[0]
        return f"{_folder_words(difference.deleted)}: {key} was deleted; a build makes it again"
    changed = f"{_short(difference.before)} → {_short(difference.now)}"
    if not difference.made_anew:
        return f"{difference.name}: {changed}"
    return f"{difference.name} was made anew, with another content: {changed}"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
