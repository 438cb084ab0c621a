"""Differences between two diets, in tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from schemas.diet import Diet
from schemas.objectives import Score
from schemas.study import study_words

FIELDS = (
    "corpus",
    "phases_file",
    "tokenizer",
    "vocab_size",
    "document_tokens",
    "model",
    "token_budget",
    "tokens_per_step",
    "structure_inputs",
    "seed",
)
OF_A_PHASE = (
    "rope_base",
    "max_repetition",
    "max_token_repetition",
    "on_shortage",
    "advance_when",
    "on_budget",
    "require",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A field that differs between two diets, or between the same phase of both."""

    name: str
    """Name of a diet's field, such as `model`, or of a phase's field, such as `syntax.max_repetition`."""
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A serving of a phase and its valid tokens in both diets; 0 if a diet doesn't have it."""

    phase: str
    family: str
    """Family of the serving as text.

    `v6_enriched of v2_simple` for a family with a base; `my-rows: v3_simple` for imported rows.
    """
    objective: str
    row_length: int
    domains: str
    """Factors by domain as text, such as `testing 4, * 1`; empty if all factors are equal."""
    repositories: tuple[str, ...]
    score: Score
    """Tokens of the training rows that are targets: new ones or all."""
    tokens_before: int
    tokens_after: int
    tokens_change: int


_Place = tuple[str, str, str, int, str, tuple[str, ...], Score]


def changes(before: Sequence[ResolvedPhase], after: Sequence[ResolvedPhase]) -> Iterator[Change]:
    """Yield every serving of both diets, in phase order; servings that don't differ are included."""
    old, new = _amounts(before), _amounts(after)
    names = dict.fromkeys([*(phase.name for phase in before), *(phase.name for phase in after)])
    for name in names:
        for place in dict.fromkeys([*old, *new]):
            if place[0] == name:
                phase, family, objective, row_length, domains, repositories, score = place
                amounts = old.get(place, 0), new.get(place, 0)
                yield Change(
                    phase=phase,
                    family=family,
                    objective=objective,
                    row_length=row_length,
                    domains=domains,
                    repositories=repositories,
                    score=score,
                    tokens_before=amounts[0],
                    tokens_after=amounts[1],
                    tokens_change=amounts[1] - amounts[0],
                )


def fields(
    diets: tuple[Diet, Diet],
    before: Sequence[ResolvedPhase],
    after: Sequence[ResolvedPhase],
) -> Iterator[Field]:
    """Yield the fields that differ between two diets, or between the phases that both diets have.

    Servings are compared by `changes`.
    """
    for name in FIELDS:
        old, new = (getattr(diet, name) for diet in diets)
        if old != new:
            yield Field(name=name, before=str(old), after=str(new))
    said, says = (study_words(diet.study) or "none" for diet in diets)
    if said != says:
        yield Field(name="study", before=said, after=says)
    known = {phase.name: phase for phase in before}
    for phase in after:
        if phase.name in known:
            for name in OF_A_PHASE:
                old, new = getattr(known[phase.name], name), getattr(phase, name)
                if old != new:
                    yield Field(name=f"{phase.name}.{name}", before=str(old), after=str(new))


def _amounts(phases: Sequence[ResolvedPhase]) -> dict[_Place, int]:
    return {
        _place(phase, serving): serving.tokens for phase in phases for serving in phase.servings
    }


def _place(phase: ResolvedPhase, serving: ResolvedServing) -> _Place:
    family = f"{serving.family} of {serving.base}" if serving.base else serving.family
    family = f"{serving.imported.name}: {family}" if serving.imported else family
    listed = sorted(serving.domains, key=lambda pair: (pair[0] == "*", pair[0]))
    factors = ", ".join(f"{name} {factor:g}" for name, factor in listed)
    return (
        phase.name,
        family,
        serving.objective,
        serving.row_length,
        factors,
        serving.repositories,
        serving.score,
    )
