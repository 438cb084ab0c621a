"""Arms with their plans: all of them are checked before any is trained, and each is trained by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from curriculum.ablations.arms import Arm
from curriculum.mixing.resolve import phase_tokens
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import Perform, Scope, execute, runs_of
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.steps import tokens_per_step
from curriculum.store import Artefact
from schemas.ablation import BASE, CONTROL
from schemas.errors import JobError

MAX_EQUAL_STEPS = 10_000
"""Steps up to which a budget is looked for of which all arms train equally many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedArm:
    """An arm with a seed, its plan, and its place among all arms."""

    arm: Arm
    plan: RunPlan
    number: int
    """From 1."""
    total: int

    @property
    def title(self) -> str:
        """The arm, its seed and its place in words: arm flat, seed 2: 8 of 24."""
        return f"arm {self.arm.title}: {self.number} of {self.total}"


def plan_of_arm(arm: Arm) -> RunPlan:
    """Return the plan of an arm's diet as it is now."""
    return resolve_plan(arm.config)


def plan_arms(
    arms: Sequence[Arm], resolve: Callable[[Arm], RunPlan], context: Context
) -> list[PlannedArm]:
    """Resolve the plans of all arms, and check them.

    Raises:
        CurriculumError: for a plan that can't be carried out, or that trains more or fewer steps than base.
    """
    plans = []
    for arm in arms:
        plans.append(plan := resolve(arm))
        require_steps(plan, Scope(), context)
    require_equal_steps(arms, plans)
    return [
        PlannedArm(arm=arm, plan=plan, number=number, total=len(arms))
        for number, (arm, plan) in enumerate(zip(arms, plans, strict=True), 1)
    ]


def train_arm(planned: PlannedArm, perform: Perform, context: Context) -> tuple[Artefact, ...]:
    """Train an arm through all of its phases, and return its runs.

    Raises:
        CurriculumError: where a phase can't be made, and for one that ended without the next.
    """
    arm, plan = planned.arm, planned.plan
    runs = runs_of(execute(plan, perform, Scope(), context))
    if len(runs) != len(plan.phases):
        raise JobError(
            f"arm {arm.title}",
            f"{len(runs)} of {len(plan.phases)} phases",
            cause="a phase ended without the next one",
            cure="Train the diet alone to see why: curriculum run",
        )
    return runs


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
