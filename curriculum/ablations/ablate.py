"""Ablation: trains all arms with all seeds, decides on its claims, and publishes the outcome."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.ablations.ablation_views import build_views
from curriculum.ablations.arms import Arm, write_arms
from curriculum.ablations.document_intervals import DocumentInterval, document_interval
from curriculum.ablations.equal_tokens import EqualTokensDifference, equal_tokens_difference
from curriculum.ablations.evidence import Trained
from curriculum.ablations.measurements import measure_views
from curriculum.ablations.planned_arms import PlannedArm, plan_arms, plan_of_arm
from curriculum.ablations.verdicts import (
    Difference,
    difference_of,
    holm,
    is_confirmed,
    seeds_needed,
    verdict_of,
)
from curriculum.inspection.paired import Measured
from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact, Input, Recipe, StagingDirectory, Store
from schemas.ablation import (
    ABLATION_SCHEMA,
    ARMS_NAME,
    ARMS_SCHEMA,
    CLAIMS_NAME,
    CONTROL,
    NULL,
    AblationSpec,
    Claim,
    Direction,
    Verdict,
)
from schemas.reports import AblationReport

REVISION = 4
"""Version of the outcome. Increase it when the same runs lead to other verdicts or other tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedClaim:
    """Claim or control of an ablation, with its difference and verdict."""

    claim: Claim
    found: Difference
    corrected: float
    """p-value after Holm's correction over all claims. For a control it is the uncorrected p-value."""
    verdict: Verdict
    needed: int | None
    documents: DocumentInterval
    equal_tokens: EqualTokensDifference | None
    """Difference at equal distinct tokens. None if both arms end with equally many distinct tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Outcome of an ablation."""

    spec: AblationSpec
    arms: tuple[Trained, ...]
    claims: tuple[JudgedClaim, ...]
    null: JudgedClaim
    control: JudgedClaim

    @property
    def is_sound(self) -> bool:
        """True if the null arm shows no effect, and the control arm shows the expected effect."""
        return _are_sound(self.null, self.control)

    @property
    def judged(self) -> tuple[JudgedClaim, ...]:
        """The judged claims, followed by the null and the control."""
        return (*self.claims, self.null, self.control)


def ablate(
    spec: AblationSpec,
    file: Path,
    workspace: Path,
    context: Context,
    *,
    repositories: Sequence[str] = (),
    train: Callable[[PlannedArm], tuple[Artefact, ...]],
    resolve: Callable[[Arm], RunPlan] = plan_of_arm,
) -> tuple[Outcome, Artefact]:
    """Train all missing arms, measure them in all views, decide on the claims, and publish the outcome.

    A run with the same phase, rows and seed is trained only once, even if several arms or ablations need it.
    Stopped runs are resumed.

    Args:
        spec: The ablation.
        file: The ablation's file, to which paths are relative.
        workspace: Folder of the runs.
        context: Resources, and receivers of progress and warnings.
        repositories: Paths that replace the repositories of the corpus.
        train: Trains an arm and returns its runs, like `train_arm`; called for each seed and arm.
        resolve: Returns the plan of an arm.

    Raises:
        CurriculumError: for a mistake in an arm, before anything is trained, and if training fails.
    """
    arms = write_arms(spec, file, workspace, repositories)
    planned = plan_arms(arms, resolve, context)
    sets = build_views(spec, planned, context)
    runs = [train(arm) for arm in planned]
    store = Store(workspace)
    measured = measure_views(store, [run[-1] for run in runs], sets, context)
    found = [
        Trained.from_runs(arm.arm.name, arm.arm.seed, its, held, made)
        for arm, its, held, made in zip(planned, runs, sets, measured, strict=True)
    ]
    outcome = judge(spec, found)
    return outcome, publish(store, outcome, outcome_report(planned, outcome))


def outcome_report(planned: Sequence[PlannedArm], outcome: Outcome) -> AblationReport:
    """Return a report of the verdicts.

    It also describes the corpus, the row lengths and the base arm's model.
    """
    base = outcome.arms[0]
    lengths = {
        serving.row_length
        for arm in planned
        for phase in arm.plan.phases
        for serving in phase.servings
    }
    return AblationReport(
        is_sound=outcome.is_sound,
        verdicts={judged.claim.claim: judged.verdict for judged in outcome.claims},
        why=outcome.spec.why,
        corpus=planned[0].plan.corpus.name,
        model=base.model,
        weights=base.weights,
        row_lengths=tuple(sorted(lengths)),
    )


def judge(spec: AblationSpec, arms: Sequence[Trained]) -> Outcome:
    """Decide on all claims, using the last run of each arm."""
    first = spec.claims[0]
    null = Claim(claim="another order of rows lowers val_bpb", arm=NULL, set=first.set)
    worse = Claim(claim="a quarter of the tokens raises val_bpb", arm=CONTROL, set=first.set)
    worse = worse.model_copy(update={"direction": "higher"})
    chance, control = (_control(claim, arms) for claim in (null, worse))
    is_sound = _are_sound(chance, control)
    found = [(claim, _differences(claim, arms)) for claim in spec.claims]
    measured = [difference_of(differences, claim.delta) for claim, differences in found]
    corrected = holm([difference.p for difference in measured])
    claims = [
        JudgedClaim(
            claim=claim,
            found=difference,
            corrected=p,
            verdict=_verdict(claim, difference, p) if is_sound else "none",
            needed=seeds_needed(difference, delta=claim.delta, claims=len(found)),
            documents=document_interval(_documents(claim, arms), claim.set),
            equal_tokens=equal_tokens_difference(claim, [*_pairs(claim, arms)]),
        )
        for (claim, _), difference, p in zip(found, measured, corrected, strict=True)
    ]
    return Outcome(spec=spec, arms=tuple(arms), claims=tuple(claims), null=chance, control=control)


def _are_sound(null: JudgedClaim, control: JudgedClaim) -> bool:
    return null.verdict != "confirmed" and control.verdict == "confirmed"


def _verdict(claim: Claim, found: Difference, p: float) -> Verdict:
    return verdict_of(found, p, direction=claim.direction, delta=claim.delta)


def _control(claim: Claim, arms: Sequence[Trained]) -> JudgedClaim:
    """Decide on a control: the null arm or the control arm.

    For the null, an effect in either direction counts.
    """
    found = difference_of(_differences(claim, arms), claim.delta)
    sides: list[Direction] = ["lower", "higher"] if claim.arm == NULL else [claim.direction]
    seen = any(is_confirmed(found, direction=side, delta=claim.delta) for side in sides)
    return JudgedClaim(
        claim=claim,
        found=found,
        corrected=found.p,
        verdict="confirmed" if seen else "not seen",
        needed=None,
        documents=document_interval(_documents(claim, arms), claim.set),
        equal_tokens=equal_tokens_difference(claim, [*_pairs(claim, arms)]),
    )


def _pairs(claim: Claim, arms: Sequence[Trained]) -> Iterator[tuple[Trained, Trained]]:
    """Yield the two arms that a claim compares, seed by seed."""
    known = {(arm.arm, arm.seed): arm for arm in arms}
    for seed in dict.fromkeys(arm.seed for arm in arms):
        yield known[claim.arm, seed], known[claim.against, seed]


def _differences(claim: Claim, arms: Sequence[Trained]) -> list[float]:
    return [
        arm.val_bpb(claim.set, claim.view) - against.val_bpb(claim.set, claim.view)
        for arm, against in _pairs(claim, arms)
    ]


def _documents(claim: Claim, arms: Sequence[Trained]) -> list[tuple[Measured, Measured]]:
    return [
        (arm.views[claim.view].documents, against.views[claim.view].documents)
        for arm, against in _pairs(claim, arms)
    ]


def publish(store: Store, outcome: Outcome, report: AblationReport) -> Artefact:
    """Publish the tables of an outcome, and mark them as the ablation's current tables."""
    spec = outcome.spec
    recipe = Recipe(
        stage="ablations",
        labels=(("ablation", spec.name),),
        revision=REVISION,
        config={
            "why": spec.why,
            "claims": [claim.model_dump(mode="json") for claim in spec.claims],
        },
        inputs=tuple(_inputs(outcome.arms)),
    )

    def write(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        _write(_claim_lines(outcome), ABLATION_SCHEMA, draft.path / CLAIMS_NAME)
        _write(_arm_lines(outcome), ARMS_SCHEMA, draft.path / ARMS_NAME)
        draft.record(report)

    (made,) = store.produce([recipe], write)
    mark_current(store, f"ablation-{spec.name}", [made])
    return made


def _inputs(arms: Sequence[Trained]) -> Iterator[Input]:
    """Yield the last run of each arm and the measurements of this run as inputs."""
    for arm in arms:
        yield arm.runs[-1].as_input(f"{arm.arm} {arm.seed}")
        for view, evidence in arm.views.items():
            if evidence.artefact is not None:
                yield evidence.artefact.as_input(f"{arm.arm} {arm.seed} {view}")


def _write(lines: list[dict[str, object]], schema: pa.Schema, file: Path) -> None:
    pq.write_table(pa.Table.from_pylist(lines, schema=schema), file, compression="zstd")


def _claim_lines(outcome: Outcome) -> list[dict[str, object]]:
    return [
        {
            "ablation": outcome.spec.name,
            **judged.claim.model_dump(mode="json"),
            "verdict": judged.verdict,
            "seeds": judged.found.seeds,
            "difference": judged.found.mean,
            "low": judged.found.low,
            "high": judged.found.high,
            "p": judged.found.p,
            "holm_p": judged.corrected,
            "p_within": judged.found.p_within,
            "seeds_needed": judged.needed,
            "low_documents": judged.documents.low,
            "high_documents": judged.documents.high,
            "documents": judged.documents.documents,
            "lineages": judged.documents.lineages,
            **_equal_tokens(judged.equal_tokens),
        }
        for judged in outcome.judged
    ]


def _equal_tokens(found: EqualTokensDifference | None) -> dict[str, object]:
    """Return the table columns for a difference at equal distinct tokens; all are null if `found` is None."""
    if found is None:
        names = ("equal_tokens", "equal_difference", "equal_low", "equal_high")
        return dict.fromkeys(names)
    return {
        "equal_tokens": round(found.distinct),
        "equal_difference": found.found.mean,
        "equal_low": found.found.low,
        "equal_high": found.found.high,
    }


def _arm_lines(outcome: Outcome) -> list[dict[str, object]]:
    return [
        {
            "ablation": outcome.spec.name,
            "arm": arm.arm,
            "seed": arm.seed,
            "set": name,
            "view": view,
            "val_bpb": arm.val_bpb(name, view),
            "steps": arm.steps,
            "positions": arm.positions,
            "scored": arm.scored,
            "distinct": arm.distinct[-1],
            "run": arm.run,
        }
        for arm in outcome.arms
        for name, view in arm.sets
    ]
