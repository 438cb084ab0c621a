"""An ablation: all arms trained with all seeds, its claims judged, and both published as one artefact."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.ablations.arms import Arm, write_arms
from curriculum.ablations.documents import DocumentInterval, document_interval
from curriculum.ablations.evidence import Trained
from curriculum.ablations.verdicts import (
    Difference,
    difference_of,
    holm,
    is_confirmed,
    seeds_needed,
    verdict_of,
)
from curriculum.inspection.paired import Measured
from curriculum.mixing.resolve import phase_tokens
from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import Scope, execute, here, runs_of
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.steps import tokens_per_step
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.ablation import (
    ABLATION_SCHEMA,
    ARMS_SCHEMA,
    BASE,
    CONTROL,
    NULL,
    AblationSpec,
    Claim,
    Direction,
    Verdict,
)
from schemas.errors import JobError
from schemas.reports import AblationReport

REVISION = 1
"""Raised when the same runs give other verdicts."""
MAX_EQUAL_STEPS = 10_000
"""Steps up to which a budget is looked for of which all arms train equally many."""
CLAIMS_NAME, ARMS_NAME = "claims.parquet", "arms.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedClaim:
    """A claim, or one of the ablation's own controls, with its difference and verdict."""

    claim: Claim
    found: Difference
    corrected: float
    """Holm's p-value over the claims; of a control the plain one."""
    verdict: Verdict
    needed: int | None
    documents: DocumentInterval


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
        """True if chance alone isn't taken for an effect, and an effect that must be there is seen."""
        return _are_sound(self.null, self.control)

    @property
    def judged(self) -> tuple[JudgedClaim, ...]:
        """The claims, then null and control."""
        return (*self.claims, self.null, self.control)


def ablate(
    spec: AblationSpec,
    file: Path,
    workspace: Path,
    context: Context,
    *,
    repositories: Sequence[str] = (),
    begun: Callable[[Arm, int, int], None],
) -> tuple[Outcome, Artefact]:
    """Train all arms that aren't there yet, judge the claims, and publish the outcome.

    A run of the same phase, rows and seed is trained once, whatever arm or ablation asks for it. What was
    stopped is resumed.

    Args:
        spec: The ablation.
        file: Its file, to which paths are relative.
        workspace: Holds the runs.
        context: Resources, and receivers of progress and warnings.
        repositories: Paths that take the place of the corpus's repositories.
        begun: Receives each arm before it is trained, its number from 1, and how many there are.

    Raises:
        CurriculumError: for a mistake in an arm, before anything is trained, and where training fails.
    """
    arms = write_arms(spec, file, workspace, repositories)
    plans = [_plan(arm, context) for arm in arms]
    require_equal_steps(arms, plans)
    done = []
    for number, (arm, plan) in enumerate(zip(arms, plans, strict=True), 1):
        begun(arm, number, len(arms))
        runs = runs_of(execute(plan, here(context), Scope(), context))
        if len(runs) != len(plan.phases):
            raise JobError(
                f"arm {arm.name}, seed {arm.seed}",
                f"{len(runs)} of {len(plan.phases)} phases",
                cause="a phase ended without the next one",
                cure="Train the diet alone to see why: curriculum run",
            )
        done.append(Trained.of(arm, runs))
    outcome = judge(spec, done)
    return outcome, publish(Store(workspace), outcome)


def _plan(arm: Arm, context: Context) -> RunPlan:
    """Resolve the plan of an arm, and check it before any is trained."""
    plan = resolve_plan(arm.config)
    require_steps(plan, Scope(), context)
    return plan


def require_equal_steps(arms: Sequence[Arm], plans: Sequence[RunPlan]) -> None:
    """Refuse arms that train more or fewer steps than base; control has a quarter of them.

    Raises:
        JobError: naming the arm, and the next token budget of which all train equally many.
    """
    compared = {
        arm.name: plan for arm, plan in zip(arms, plans, strict=True) if arm.name != CONTROL
    }
    steps = {name: _steps(plan, plan.diet.token_budget) for name, plan in compared.items()}
    other = next((name for name in steps if steps[name] != steps[BASE]), None)
    if other is None:
        return
    raise JobError(
        f"arm {other}",
        f"{steps[other]} steps where {BASE} has {steps[BASE]}",
        cause="arms are compared at equal row positions, and each phase trains whole steps of its portion",
        cure=_equal_budget([*compared.values()]),
    )


def _equal_budget(plans: Sequence[RunPlan]) -> str:
    """Return the cure of unequal steps."""
    base = plans[0]
    of_a_step, budget = tokens_per_step(base), base.diet.token_budget
    if {(plan.diet.token_budget, tokens_per_step(plan)) for plan in plans} != {(budget, of_a_step)}:
        return "Give all arms the same token_budget and tokens_per_step"
    first = -(-budget // of_a_step)
    for number in range(first, first + MAX_EQUAL_STEPS):
        if len({_steps(plan, number * of_a_step) for plan in plans}) == 1:
            return f"Take a token_budget of {number * of_a_step} in the diet"
    return "Give the phases of all arms portions that are whole steps of the token_budget"


def _steps(plan: RunPlan, budget: int) -> int:
    """Return the steps of all phases at some budget of row positions."""
    return sum(tokens // tokens_per_step(plan) for tokens in phase_tokens(plan.diet, budget))


def judge(spec: AblationSpec, arms: Sequence[Trained]) -> Outcome:
    """Judge all claims by the arms' last runs."""
    first = spec.claims[0]
    null = Claim(claim="another order of rows lowers val_bpb", arm=NULL, set=first.set)
    worse = Claim(claim="a quarter of the tokens raises val_bpb", arm=CONTROL, set=first.set)
    worse = worse.model_copy(update={"direction": "higher"})
    chance, control = (_control(claim, arms) for claim in (null, worse))
    is_sound = _are_sound(chance, control)
    found = [(claim, _differences(claim, arms)) for claim in spec.claims]
    measured = [difference_of(differences, claim.delta) for claim, differences in found]
    corrected = holm([each.p for each in measured])
    claims = [
        JudgedClaim(
            claim=claim,
            found=each,
            corrected=p,
            verdict=_verdict(claim, each, p) if is_sound else "none",
            needed=seeds_needed(each, delta=claim.delta, claims=len(found)),
            documents=document_interval(_documents(claim, arms), claim.set),
        )
        for (claim, _), each, p in zip(found, measured, corrected, strict=True)
    ]
    return Outcome(spec=spec, arms=tuple(arms), claims=tuple(claims), null=chance, control=control)


def _are_sound(null: JudgedClaim, control: JudgedClaim) -> bool:
    return null.verdict != "confirmed" and control.verdict == "confirmed"


def _verdict(claim: Claim, found: Difference, p: float) -> Verdict:
    return verdict_of(found, p, direction=claim.direction, delta=claim.delta)


def _control(claim: Claim, arms: Sequence[Trained]) -> JudgedClaim:
    """Judge a control: for null an effect on either side counts as one."""
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
    )


def _pairs(claim: Claim, arms: Sequence[Trained]) -> Iterator[tuple[Trained, Trained]]:
    """Yield both arms of a claim, seed by seed."""
    known = {(each.arm, each.seed): each for each in arms}
    for seed in dict.fromkeys(each.seed for each in arms):
        yield known[claim.arm, seed], known[claim.against, seed]


def _differences(claim: Claim, arms: Sequence[Trained]) -> list[float]:
    return [
        arm.val_bpb(claim.set) - against.val_bpb(claim.set) for arm, against in _pairs(claim, arms)
    ]


def _documents(claim: Claim, arms: Sequence[Trained]) -> list[tuple[Measured, Measured]]:
    return [(arm.documents, against.documents) for arm, against in _pairs(claim, arms)]


def publish(store: Store, outcome: Outcome) -> Artefact:
    """Publish the tables of an outcome, which become the current ones of its name."""
    spec = outcome.spec
    recipe = Recipe(
        stage="ablations",
        labels=(("ablation", spec.name),),
        revision=REVISION,
        config={"claims": [claim.model_dump(mode="json") for claim in spec.claims]},
        inputs=tuple(each.runs[-1].as_input(f"{each.arm} {each.seed}") for each in outcome.arms),
    )

    def write(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        _write(_claim_lines(outcome), ABLATION_SCHEMA, draft.path / CLAIMS_NAME)
        _write(_arm_lines(outcome, store.root), ARMS_SCHEMA, draft.path / ARMS_NAME)
        verdicts = {judged.claim.claim: judged.verdict for judged in outcome.claims}
        draft.record(AblationReport(is_sound=outcome.is_sound, verdicts=verdicts))

    (made,) = store.produce([recipe], write)
    mark_current(store, f"ablation-{spec.name}", [made])
    return made


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
        }
        for judged in outcome.judged
    ]


def _arm_lines(outcome: Outcome, root: Path) -> list[dict[str, object]]:
    return [
        {
            "ablation": outcome.spec.name,
            "arm": each.arm,
            "seed": each.seed,
            "set": name,
            "val_bpb": each.val_bpb(name),
            "steps": each.steps,
            "positions": each.positions,
            "scored": each.scored,
            "run": each.path.relative_to(root).as_posix(),
        }
        for each in outcome.arms
        for name in each.sets
    ]
