"""Mix: a phase of a diet and the rows of its servings become a plan, the rows in training order.

demand says what each stratum owes, schedule puts its slots and rows in order, plan writes them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import polars as pl
from pydantic import JsonValue

from curriculum import frames
from curriculum.mixing.repetition import ReadTokens, repetition_warning
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_plan import (
    Planner,
    Totals,
    check_step,
    less_than_a_step,
    within,
    write_plan,
)
from curriculum.mixing.row_supply import read_supply
from curriculum.mixing.schedule import counted, of_keys, passed_until
from curriculum.mixing.strata import Stratum, Taken, demand, without_rows
from curriculum.store import Artefact, Recipe, StagingDirectory, Store, in_lease
from curriculum.store.artefact import digest
from schemas.diet import Diet
from schemas.errors import MixtureError
from schemas.mixture import (
    Continued,
    MixtureReport,
    RowsTaken,
    StratumReport,
    TokenRepetition,
    VariantReport,
)

STAGE = "mixtures"
REVISION = 4
PLAN_NAME = "plan.parquet"


@in_lease
def mix(
    store: Store,
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Sequence[Artefact]],
    *,
    tokens_per_step: int,
    seen: Sequence[RowsTaken] = (),
    continued: Continued | None = None,
    begins: Callable[[], None] = lambda: None,
) -> Artefact:
    """The mixture of a phase: plan.parquet, and `report_of` it in the manifest.

    `rows` are the training rows of each serving, in the servings' order: one artefact of each variant.
    `seen` are the rows that the phases before read; a plan that is `continued` has the rest of its
    phase's budget, and what was seen says that value alone. The plan
    has the rows that a run to the budget's end trains on: those of all whole steps of `tokens_per_step`
    row positions within the budget. Rows that the phase goes without have no place in it;
    the others come in the order in which they would have come. `begins` is called where a plan is made.

    Raises:
        MixtureError: for rows that can't serve what is asked, and for a step that isn't whole slots or
            is larger than the budget.
    """
    check_step(phase, tokens_per_step)
    phase = _the_rest(phase, continued, tokens_per_step)
    seen = continued.seen if continued else seen
    made_of = recipe(
        diet,
        phase,
        rows,
        tokens_per_step=tokens_per_step,
        seen=seen,
        continued=continued,
    )

    def write(drafts: Sequence[StagingDirectory]) -> None:
        """Plan, and count what was planned."""
        begins()
        (draft,) = drafts
        draft.record(_write(draft, store, diet, phase, rows, tokens_per_step, seen, continued))

    (mixture,) = store.produce([made_of], write)
    return mixture


def recipe(
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Sequence[Artefact]],
    *,
    tokens_per_step: int,
    seen: Sequence[RowsTaken] = (),
    continued: Continued | None = None,
) -> Recipe:
    """Return the recipe of a mixture; of earlier plans only the rows that they took of the same artefacts."""
    branch = [("branch", phase.branch)] if phase.branch else []
    without = of_keys(phase.without, [variant.key for variants in rows for variant in variants])
    taken = sorted(rows_taken(seen, rows).items())
    drawn: list[JsonValue] = [[key, domain, count] for (key, domain), count in taken]
    return Recipe(
        stage=STAGE,
        labels=(("specialist", phase.specialist), *branch, ("phase", phase.name)),
        revision=REVISION,
        config={
            phase.budget_unit: phase.tokens,
            "tokens_per_step": tokens_per_step,
            "seed": diet.order_seed,
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
            "drawn": drawn,
            **({"continued": [continued.run, continued.step]} if continued else {}),
            **({"without": [len(without), digest([*without])]} if without else {}),
        },
        inputs=tuple(
            # They are large: what is read of them is verified page by page.
            artefact.as_input(
                f"rows {at}, variant {number}" if number else f"rows {at}", verified=True
            )
            for at, variants in enumerate(rows)
            for number, artefact in enumerate(variants)
        ),
        alternate_folders=(
            f"{STAGE}/specialist-*/phase-{phase.name}",
            f"{STAGE}/specialist-*/branch-*/phase-{phase.name}",
        ),
    )


def report_of(mixture: Artefact) -> MixtureReport:
    """Return the report of a mixture."""
    return mixture.reported(MixtureReport)


def seen_of(phases: Iterable[tuple[Artefact, int | None]]) -> tuple[RowsTaken, ...]:
    """Return the rows that the phases so far read, in their order.

    Of each phase its mixture, and the steps of the run that read it: a run that a gate ended read the
    plan's first steps only. Without a finished run (None) all rows of the plan count. A plan that
    continues a run has what was seen before; mixtures that stand before it say nothing.
    """
    seen: list[RowsTaken] = []
    for mixture, steps in phases:
        report = report_of(mixture)
        if report.continued is not None:
            seen = [*report.continued.seen]
        if steps is None or steps >= report.steps:
            seen += [rows for stratum in report.strata for rows in stratum.rows_taken]
        else:
            slots = steps * report.tokens_per_step // report.slot_length
            seen += seen_until(mixture, slots=slots)[0]
    return tuple(seen)


def seen_until(mixture: Artefact, *, slots: int) -> tuple[tuple[RowsTaken, ...], int]:
    """The rows of a mixture's first slots, and their valid tokens."""
    rows_taken = {
        (stratum.stratum, each.rows_key): each
        for stratum in report_of(mixture).strata
        for each in stratum.rows_taken
    }
    found = (
        frames.scan(mixture.path / PLAN_NAME, ["slot", "stratum", "rows_key", "valid_tokens"])
        .filter(pl.col("slot") < slots)
        .group_by("stratum", "rows_key")
        .agg(pl.len().alias("rows"), pl.col("valid_tokens").cast(pl.Int64).sum())
        .sort("stratum", "rows_key")
        .collect(engine="streaming")
    )
    passed = passed_until(mixture.path, slots)
    seen = tuple(
        rows_taken[place].model_copy(update={"rows": row["rows"], "passed": passed.get(place, 0)})
        for row in found.iter_rows(named=True)
        if (place := (row["stratum"], row["rows_key"]))
    )
    return seen, int(found["valid_tokens"].sum())


def rows_taken(seen: Sequence[RowsTaken], rows: Sequence[Sequence[Artefact]]) -> Taken:
    """Return how many rows' turn it was in these artefacts, by (rows key, domain)."""
    keys = {artefact.key for variants in rows for artefact in variants}
    return turns([each for each in seen if each.rows_key in keys])


def turns(seen: Iterable[RowsTaken]) -> Taken:
    """Return how many rows' turn it was, by (rows key, domain)."""
    summed: dict[tuple[str, str], int] = {}
    for each in seen:
        place = (each.rows_key, each.domain)
        summed[place] = summed.get(place, 0) + each.rows + each.passed
    return summed


def _write(
    draft: StagingDirectory,
    store: Store,
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Sequence[Artefact]],
    tokens_per_step: int,
    seen: Sequence[RowsTaken],
    continued: Continued | None,
) -> MixtureReport:
    supplies = [
        [
            read_supply(variant.shards(), key=variant.key, without=phase.without)
            for variant in variants
        ]
        for variants in rows
    ]
    strata = demand(phase, supplies, rows_taken(seen, rows))
    planner = Planner(strata, supplies, slot_length=phase.slot_length, seed=diet.order_seed)
    slots_per_step = tokens_per_step // phase.slot_length
    pieces = within(
        planner.pieces(),
        budget=phase.tokens,
        slots_per_step=slots_per_step,
        max_steps=phase.max_steps(phase.tokens, tokens_per_step),
    )
    totals = write_plan(draft.path / PLAN_NAME, pieces, strata, supplies)
    if not totals.whole.steps:
        raise less_than_a_step(phase, totals.whole.first, tokens_per_step=tokens_per_step)
    reports = tuple(_stratum_report(at, stratum, totals) for at, stratum in enumerate(strata))
    planned = [taken for report in reports for taken in report.rows_taken]
    repetition = _repetition(store, diet, phase, rows, seen, planned)
    often = repetition_warning(repetition)
    return MixtureReport(
        slot_length=phase.slot_length,
        slots=totals.slots,
        rows=totals.rows,
        tokens=totals.tokens,
        budget=phase.tokens,
        tokens_per_step=tokens_per_step,
        steps=totals.whole.steps,
        strata=reports,
        repetition=repetition,
        continued=continued,
        left_out=counted(supplies),
        warnings=(*_warnings(phase, strata), *([often] if often else [])),
    )


def _warnings(phase: ResolvedPhase, strata: Sequence[Stratum]) -> Iterator[str]:
    """Yield what the strata are served otherwise than the diet asks."""
    for each in strata:
        if abs(each.served - each.share) > 1e-9:
            yield f"{each.title}: share {each.share:.4f} was renormalised to {each.served:.4f}"
    served = {each.serving.index for each in strata}
    for serving in phase.servings:
        if serving.index not in served:
            yield f"{serving.title}: there is no row of it"
    yield from without_rows(phase, strata)


def _stratum_report(at: int, stratum: Stratum, totals: Totals) -> StratumReport:
    return StratumReport(
        stratum=at,
        serving=stratum.serving.index,
        family=stratum.serving.family,
        objective=stratum.serving.objective,
        imported=stratum.serving.imported.name if stratum.serving.imported else "",
        domain=stratum.domain,
        row_length=stratum.serving.row_length,
        rows_key=stratum.variants[0].key,
        rows=stratum.rows,
        rows_tokens=stratum.tokens,
        share=stratum.share,
        served=stratum.served,
        slots=int(totals.slots_of[at]),
        drawn=int(totals.rows_of[at].sum()),
        drawn_before=sum(each.drawn_before for each in stratum.variants),
        tokens=int(totals.tokens_of[at]),
        variants=tuple(
            VariantReport(
                rows_key=variant.key,
                rows=variant.available,
                rows_tokens=variant.tokens,
                drawn=int(drawn),
                drawn_before=variant.drawn_before,
                passed=int(passed),
            )
            for variant, drawn, passed in zip(
                stratum.variants, totals.rows_of[at], totals.passed_of[at], strict=True
            )
        ),
    )


def _repetition(
    store: Store,
    diet: Diet,
    phase: ResolvedPhase,
    rows: Sequence[Sequence[Artefact]],
    seen: Sequence[RowsTaken],
    planned: Sequence[RowsTaken],
) -> TokenRepetition:
    """Count the tokens of the rows that were seen and of those that are planned after them."""
    there = {artefact.key: artefact for variants in rows for artefact in variants}
    drawn = {each.rows_key for each in (*seen, *planned)}
    if not drawn <= there.keys():
        there |= {artefact.key: artefact for artefact in store.artefacts("rows")}
    read = ReadTokens(
        (there[key] for key in sorted(drawn & there.keys())),
        seed=diet.order_seed,
        without=phase.without,
    )
    before, after = read.count(turns(seen)), read.count(turns([*seen, *planned]))
    return TokenRepetition(
        scored=after.scored,
        distinct=after.distinct,
        new=after.distinct - before.distinct,
        limit=phase.max_token_repetition,
    )


def _the_rest(
    phase: ResolvedPhase, continued: Continued | None, tokens_per_step: int
) -> ResolvedPhase:
    """The phase with what its budget has left after the steps that were taken."""
    if continued is None:
        return phase
    is_of_tokens = phase.budget_unit == "tokens"
    left = phase.tokens - (continued.tokens if is_of_tokens else continued.step * tokens_per_step)
    if left <= 0:
        raise MixtureError(
            f"phase {phase.name}",
            f"{phase.tokens:,} tokens",
            cause=f"the run has seen {continued.tokens:,} at step {continued.step}, so none are left",
            cure="Raise the phase's portion or token_budget, or continue from an earlier step",
            location=phase.location,
        )
    return replace(phase, tokens=left)
