"""Arms with their plans. All plans are checked before the first arm is trained."""

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
"""Number of budgets, one step apart, that are tried to find one with equally many steps for all arms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedArm:
    """Arm with one seed, its plan, and its number among all arms."""

    arm: Arm
    plan: RunPlan
    number: int
    """Number of the arm among all arms, counted from 1."""
    total: int

    @property
    def title(self) -> str:
        """Arm, seed and number as text: arm flat, seed 2: 8 of 24."""
        return f"arm {self.arm.title}: {self.number} of {self.total}"


def plan_of_arm(arm: Arm) -> RunPlan:
    """Resolve the plan of an arm's diet."""
    return resolve_plan(arm.config)


def plan_arms(
    arms: Sequence[Arm], resolve: Callable[[Arm], RunPlan], context: Context
) -> list[PlannedArm]:
    """Resolve and check the plans of all arms.

    Raises:
        CurriculumError: for an impossible plan, or a plan whose number of steps isn't that of base.
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
        CurriculumError: if a phase fails, or if the next phase can't start after one ended.
    """
    arm, plan = planned.arm, planned.plan
    runs = runs_of(execute(plan, perform, Scope(), context))
    if len(runs) != len(plan.phases):
        raise JobError(
            f"arm {arm.title}",
            f"{len(runs)} of {len(plan.phases)} phases",
            cause="a phase ended, but the next one didn't start",
            cure="Train the diet by itself to see the reason: curriculum run",
        )
    return runs


def require_equal_steps(arms: Sequence[Arm], plans: Sequence[RunPlan]) -> None:
    """Raise unless all arms except control train as many steps as base.

    Raises:
        JobError: names the arm, and the next larger token budget with equally many steps for all arms.
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
        f"{steps[other]} steps, but {BASE} has {steps[BASE]}",
        cause="arms must train equally many steps, and every phase rounds its portion down to whole steps",
        cure=_equal_budget([*compared.values()]),
    )


def _equal_budget(plans: Sequence[RunPlan]) -> str:
    """Return the hint for unequal steps, with a budget that gives equal steps if one is found."""
    base = plans[0]
    of_a_step, budget = tokens_per_step(base), base.diet.token_budget
    if {(plan.diet.token_budget, tokens_per_step(plan)) for plan in plans} != {(budget, of_a_step)}:
        return "Set the same token_budget and tokens_per_step in all arms"
    first = -(-budget // of_a_step)
    for number in range(first, first + MAX_EQUAL_STEPS):
        if len({_steps(plan, number * of_a_step) for plan in plans}) == 1:
            return f"Set token_budget: {number * of_a_step} in the diet"
    return "Set portions of the phases in all arms that are whole steps of the token_budget"


def _steps(plan: RunPlan, budget: int) -> int:
    """Return the number of steps of all phases for a budget in row positions."""
    return sum(tokens // tokens_per_step(plan) for tokens in phase_tokens(plan.diet, budget))
