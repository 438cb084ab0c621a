"""Reasons why artefacts would be built, as text: the first differences in their inputs."""

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
"""Maximum number of characters to show of a value."""


def why(store: Store, recipe: Recipe) -> str:
    """Return a short text that names the original difference because of which an artefact would be built.

    why(store, recipe) ->
    'mixtures of syntax: servings.0.share: 0.6 → 0.5 (and 1 more)'
    """
    causes: list[str] = []
    for folder, difference in explain(store, recipe).roots:
        what = "not built yet" if difference is None else _line(difference)
        causes.append(f"{_folder_words(folder)}: {what}")
    distinct = list(dict.fromkeys(causes))
    if not distinct:
        return "its inputs changed"
    more = f" (and {len(distinct) - 1} more)" if len(distinct) > 1 else ""
    return f"{distinct[0]}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """The differences of some artefacts from their previous versions, all with the same reason."""

    title: str
    is_first: bool
    """True if there is no previous version."""
    differences: tuple[str, ...]


def reason_lines(store: Store) -> Iterator[Line]:
    """Yield one table row for each difference between a planned artefact and its previous version."""
    for reason in explain_steps(store, [step for step in store.steps if step.outcome == "planned"]):
        first = ["first version"] if reason.is_first else []
        for difference in [*first, *reason.differences]:
            yield {"artefact": reason.title, "why": difference}


def explain_steps(store: Store, planned: Sequence[RecipeOutcome]) -> Iterator[Reason]:
    """Yield the reasons why planned artefacts would be built; artefacts with equal differences share one."""
    distinct = {step.recipe.key: step.recipe for step in planned}
    grouped: dict[tuple[str, ...], list[Explanation]] = {}
    explained = explain_all(store, list(distinct.values()))
    for recipe, explanation in zip(distinct.values(), explained, strict=True):
        lines = tuple(map(_line, _known_differences(recipe, explanation)))
        grouped.setdefault((recipe.stage, str(explanation.first), *lines), []).append(explanation)
    for (stage, _, *shared), alike in grouped.items():
        title = alike[0].folder if len(alike) == 1 else f"{stage}: {len(alike)} artefacts"
        yield Reason(title=title, is_first=alike[0].first, differences=tuple(shared))


def _known_differences(recipe: Recipe, explanation: Explanation) -> Iterator[ChangedIngredient]:
    """Yield the differences that mean something. For some planned runs, only the inputs are known."""
    known = {f"input {record.name}" for record in recipe.inputs}
    for difference in explanation.differences:
        if recipe.stage != "runs" or recipe.revision != UNKNOWN or difference.name in known:
            yield difference


def _folder_words(folder: str) -> str:
    """Return the description of a folder of artefacts.

    >>> _folder_words("documents/family-v3_simple/repository-fmt")
    'documents of v3_simple, fmt'
    """
    stage, *labels = folder.split("/")
    values = ", ".join(label_of(label)[1] for label in labels)
    return f"{stage} of {values}" if values else stage


def _line(difference: ChangedIngredient) -> str:
    """Return a difference on one line, escaped because manifests may come from untrusted sources."""
    return one_line(_words(difference))


def _words(difference: ChangedIngredient) -> str:
    if difference.deleted:
        key = str(difference.before).partition(" ")[0]
        return f"{_folder_words(difference.deleted)}: {key} was deleted; a build recreates it"
    changed = f"{_short(difference.before)} → {_short(difference.now)}"
    if not difference.made_anew:
        return f"{difference.name}: {changed}"
    return f"{difference.name} was rebuilt with different content: {changed}"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
