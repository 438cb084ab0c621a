"""The mix flow: when a diet's rows are put in training order; how is curriculum/mixing/mix.py."""

from prefect import flow

from curriculum.pipeline.execute import Scope
from flows.flow_runs import HOOKS, carry_out, link_report, start
from flows.parameters import ALL_PHASES, ChangesOfMix, MixChanges, Phase, Specialist


@flow(name="mix", **HOOKS)
def mix(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    changes: ChangesOfMix = MixChanges(),  # noqa: B008 - frozen
) -> None:
    """Build, then lay down which rows a specialist is trained on, in which order."""
    plan = start(specialist, changes)
    for _ in carry_out(plan, Scope(until="mix"), phase):
        pass
    link_report(plan)
