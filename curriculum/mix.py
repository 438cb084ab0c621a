"""Mix: a phase of a diet and the rows of its servings become a plan, the rows in training order.

demand says what each stratum owes, schedule puts its slots and rows in order, plan writes them.
"""

from collections.abc import Sequence

import polars as pl
from pydantic import JsonValue

from curriculum.diets.demand import Drawn, Stratum, demand
from curriculum.diets.plan import Planner, Totals, within, write_plan
from curriculum.diets.resolve import ResolvedPhase
from curriculum.diets.sources import Draw, source_repetition, warning
from curriculum.diets.supply import Supply, read_supply
from curriculum.store import Artefact, Draft, Recipe, Store
from schemas.diet import Diet
from schemas.errors import MixtureError
from schemas.mixture import MixtureReport, SourceRepetition, StratumReport

STAGE = "mixtures"
REVISION = 1
PLAN_NAME = "plan.parquet"


def mix(
    store: Store,
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Artefact],
    *,
    tokens_per_step: int,
    previous: Sequence[Artefact] = (),
    documents: pl.LazyFrame | None = None,
) -> Artefact:
    """The mixture of a phase: plan.parquet, and `report_of` it in the manifest.

    `rows` are the training rows of each serving, in the servings' order; `previous` the mixtures of the
    phases before, whose rows count as seen. The plan covers at least the phase's valid tokens, to the
    end of a step of `tokens_per_step` row positions; the report says how many whole steps lie within
    the budget. `documents` (document_id, lineage) adds the source repetition to the report.

    Raises:
        MixtureError: for rows that can't serve what is asked, and for a step that isn't whole slots or
            is larger than the budget.
    """
    _check_step(phase, tokens_per_step)
    before = [mixture for mixture in previous if not mixture.planned]
    made_of = recipe(diet, phase, rows, tokens_per_step=tokens_per_step, previous=before)

    def write(drafts: Sequence[Draft]) -> None:
        """Plan, and count what was planned."""
        (draft,) = drafts
        report = _write(draft, diet, phase, rows, tokens_per_step, before)
        if documents is not None:
            report = _with_sources(report, store, diet, rows, before, documents)
        draft.report.update(report.model_dump(mode="json"))

    (mixture,) = store.produce([made_of], write)
    return mixture


def recipe(
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Artefact],
    *,
    tokens_per_step: int,
    previous: Sequence[Artefact] = (),
) -> Recipe:
    """What a mixture is made from; of earlier phases only what they took of the same rows."""
    branch = [("branch", phase.branch)] if phase.branch else []
    return Recipe(
        stage=STAGE,
        labels=(("specialist", phase.specialist), *branch, ("phase", phase.name)),
        revision=REVISION,
        config={
            "tokens": phase.tokens,
            "tokens_per_step": tokens_per_step,
            "seed": diet.seed,
            "max_repetition": phase.max_repetition,
            "on_shortage": phase.on_shortage,
            "servings": [
                {
                    "family": serving.family,
                    "objective": serving.objective,
                    "row_length": serving.row_length,
                    "share": serving.share,
                    "domains": dict(serving.domains),
                }
                for serving in phase.servings
            ],
            "drawn": _drawn_config(drawn(previous, rows)),
        },
        inputs=tuple(artefact.as_input(f"rows {at}") for at, artefact in enumerate(rows)),
    )


def report_of(mixture: Artefact) -> MixtureReport:
    """What a mixture counted."""
    return MixtureReport.model_validate(mixture.manifest.report)


def drawn(previous: Sequence[Artefact], rows: Sequence[Artefact]) -> Drawn:
    """How many rows earlier mixtures took of these rows, by (rows key, domain)."""
    keys = {artefact.key for artefact in rows}
    taken: dict[tuple[str, str], int] = {}
    for mixture in previous:
        for stratum in report_of(mixture).strata:
            place = (stratum.rows_key, stratum.domain)
            if stratum.rows_key in keys:
                taken[place] = taken.get(place, 0) + stratum.drawn
    return taken


def _write(
    draft: Draft,
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Artefact],
    tokens_per_step: int,
    previous: Sequence[Artefact],
) -> MixtureReport:
    supplies = [read_supply(artefact.files(), key=artefact.key) for artefact in rows]
    strata = demand(phase, supplies, drawn(previous, rows))
    planner = Planner(strata, supplies, slot_length=phase.slot_length, seed=diet.seed)
    slots_per_step = tokens_per_step // phase.slot_length
    pieces = within(planner.pieces(), budget=phase.tokens, slots_per_step=slots_per_step)
    totals = write_plan(draft.path / PLAN_NAME, pieces, strata, supplies)
    if not totals.steps:
        raise MixtureError(
            f"phase {phase.name}",
            f"{phase.tokens:,} tokens",
            cause=f"that is less than one step of {tokens_per_step:,} row positions",
            cure="Raise token_budget or lower tokens_per_step",
        )
    return _report(phase, tokens_per_step, strata, supplies, totals)


def _report(
    phase: ResolvedPhase,
    tokens_per_step: int,
    strata: Sequence[Stratum],
    supplies: Sequence[Supply],
    totals: Totals,
) -> MixtureReport:
    cut = [stratum for stratum in strata if abs(stratum.served - stratum.share) > 1e-9]
    unserved = {serving.index for serving in phase.servings} - {
        each.serving.index for each in strata
    }
    warnings = [
        f"{stratum.title}: share {stratum.share:.4f} was renormalised to {stratum.served:.4f}"
        for stratum in cut
    ] + [f"{phase.servings[at].title}: there is no row of it" for at in sorted(unserved)]
    return MixtureReport(
        slot_length=phase.slot_length,
        slots=totals.slots,
        rows=totals.rows,
        tokens=totals.tokens,
        budget=phase.tokens,
        tokens_per_step=tokens_per_step,
        steps=totals.steps,
        strata=tuple(_stratum_report(at, stratum, totals) for at, stratum in enumerate(strata)),
        warnings=tuple(warnings),
    )


def _stratum_report(at: int, stratum: Stratum, totals: Totals) -> StratumReport:
    return StratumReport(
        stratum=at,
        serving=stratum.serving.index,
        family=stratum.serving.family,
        objective=stratum.serving.objective,
        domain=stratum.domain,
        row_length=stratum.serving.row_length,
        rows_key=stratum.key,
        rows=len(stratum.rows),
        rows_tokens=stratum.tokens,
        share=stratum.share,
        served=stratum.served,
        slots=int(totals.slots_of[at]),
        drawn=int(totals.rows_of[at]),
        drawn_before=stratum.drawn_before,
        tokens=int(totals.tokens_of[at]),
    )


def _with_sources(
    report: MixtureReport,
    store: Store,
    diet: Diet,
    rows: Sequence[Artefact],
    previous: Sequence[Artefact],
    documents: pl.LazyFrame,
) -> MixtureReport:
    reports = [*(report_of(mixture) for mixture in previous), report]
    wanted = {stratum.rows_key for each in reports for stratum in each.strata}
    there = {artefact.key: artefact for artefact in rows}
    if not wanted <= there.keys():
        there |= {artefact.key: artefact for artefact in store.artefacts("rows")}
    draws = [
        Draw(
            key=stratum.rows_key,
            files=tuple(there[stratum.rows_key].files()),
            domain=stratum.domain,
            repetition=stratum.repetition,
        )
        for each in reports
        for stratum in each.strata
        if stratum.rows_key in there
    ]
    found: SourceRepetition = source_repetition(draws, documents, limit=diet.max_source_repetition)
    said = warning(found)
    warnings = (*report.warnings, said) if said else report.warnings
    return report.model_copy(update={"sources": found, "warnings": warnings})


def _check_step(phase: ResolvedPhase, tokens_per_step: int) -> None:
    if tokens_per_step % phase.slot_length:
        raise MixtureError(
            f"phase {phase.name}",
            f"tokens_per_step = {tokens_per_step}",
            cause=f"a step must be whole slots of {phase.slot_length} row positions",
            cure=f"Take a multiple of {phase.slot_length}, the same in every phase",
        )


def _drawn_config(taken: Drawn) -> list[JsonValue]:
    return [[key, domain, count] for (key, domain), count in sorted(taken.items())]
