"""Mixing: the rows of a phase's servings become a plan, which lists rows in training order.

`demand` computes the share of each stratum, schedule.py orders slots and rows, row_plan.py writes them.
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
    take_whole_steps,
    write_plan,
)
from curriculum.mixing.row_supply import read_supply
from curriculum.mixing.schedule import count_left_out, count_skipped_until, select_pack_ids
from curriculum.mixing.strata import Stratum, Taken, demand, missing_domains
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
    """Return the mixture of a phase: plan.parquet, and its report in the manifest.

    The plan contains the rows that a run to the end of the budget trains on. These are the rows of all whole
    steps within the budget; a step has `tokens_per_step` row positions. Excluded rows are not in the plan,
    and excluding them doesn't change the order of the other rows.

    Args:
        store: Store of the workspace.
        diet: The diet.
        phase: A resolved phase of the diet.
        rows: Training rows of each serving, in serving order, one artefact per variant.
        tokens_per_step: Row positions of a step.
        seen: Rows read by earlier phases; ignored if `continued` is given, which has its own.
        continued: Run and step that the plan continues; the plan gets the rest of the phase's budget.
        begins: Called before a plan is computed; not called if the mixture is cached.

    Raises:
        MixtureError: if the rows can't meet the demand, or a step isn't a whole number of slots or exceeds
            the budget.
    """
    check_step(phase, tokens_per_step)
    phase = _remaining_phase(phase, continued, tokens_per_step)
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
        """Write the plan and record its report."""
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
    """Return the recipe of a mixture.

    The mixture depends on plans of earlier phases only through the rows that they took from the same
    artefacts.
    """
    branch = [("branch", phase.branch)] if phase.branch else []
    without = select_pack_ids(
        phase.without, [variant.key for variants in rows for variant in variants]
    )
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
            # Rows are large: their pages are verified when they are read.
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


def rows_seen_before(phases: Iterable[tuple[Artefact, int | None]]) -> tuple[RowsTaken, ...]:
    """Return the rows read by earlier phases, in order.

    `phases` are pairs of a mixture and the number of steps of the run that read it. A run ended by a gate has
    read only the first steps of its plan. Without a finished run (None), all rows of the plan count. A
    mixture that continues a run already lists the rows seen before it, so the mixtures ahead of it are
    ignored.
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
    """Return the rows in the first `slots` slots of a mixture, and the number of their valid tokens."""
    rows_taken = {
        (stratum.stratum, taken.rows_key): taken
        for stratum in report_of(mixture).strata
        for taken in stratum.rows_taken
    }
    found = (
        frames.scan(mixture.path / PLAN_NAME, ["slot", "stratum", "rows_key", "valid_tokens"])
        .filter(pl.col("slot") < slots)
        .group_by("stratum", "rows_key")
        .agg(pl.len().alias("rows"), pl.col("valid_tokens").cast(pl.Int64).sum())
        .sort("stratum", "rows_key")
        .collect(engine="streaming")
    )
    passed = count_skipped_until(mixture.path, slots)
    seen = tuple(
        rows_taken[place].model_copy(update={"rows": row["rows"], "passed": passed.get(place, 0)})
        for row in found.iter_rows(named=True)
        if (place := (row["stratum"], row["rows_key"]))
    )
    return seen, int(found["valid_tokens"].sum())


def rows_taken(seen: Sequence[RowsTaken], rows: Sequence[Sequence[Artefact]]) -> Taken:
    """Return how many rows of the artefacts `rows` were taken or skipped, by (rows key, domain)."""
    keys = {artefact.key for variants in rows for artefact in variants}
    return turns([rows_seen for rows_seen in seen if rows_seen.rows_key in keys])


def turns(seen: Iterable[RowsTaken]) -> Taken:
    """Return how many rows were taken or skipped in total, by (rows key, domain)."""
    summed: dict[tuple[str, str], int] = {}
    for taken in seen:
        place = (taken.rows_key, taken.domain)
        summed[place] = summed.get(place, 0) + taken.rows + taken.passed
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
    pieces = take_whole_steps(
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
        left_out=count_left_out(supplies),
        warnings=(*_warnings(phase, strata), *([often] if often else [])),
    )


def _warnings(phase: ResolvedPhase, strata: Sequence[Stratum]) -> Iterator[str]:
    """Yield a warning for each difference between what the diet asks for and what the strata get."""
    for stratum in strata:
        if abs(stratum.served - stratum.share) > 1e-9:
            yield f"{stratum.title}: share {stratum.share:.4f} was renormalised to {stratum.served:.4f}"
    served = {stratum.serving.index for stratum in strata}
    for serving in phase.servings:
        if serving.index not in served:
            yield f"{serving.title}: there is no row of it"
    yield from missing_domains(phase, strata)


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
        drawn_before=sum(variant.drawn_before for variant in stratum.variants),
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
    """Count the scored and the distinct tokens of the rows seen before and the planned rows together."""
    there = {artefact.key: artefact for variants in rows for artefact in variants}
    drawn = {taken.rows_key for taken in (*seen, *planned)}
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


def _remaining_phase(
    phase: ResolvedPhase, continued: Continued | None, tokens_per_step: int
) -> ResolvedPhase:
    """Return the phase with the budget that remains after the steps that the run `continued` has taken."""
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
