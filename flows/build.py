"""The build flow: when and how often rows are built; how is curriculum/pipeline and curriculum/stages."""

from prefect import flow

from curriculum.pipeline.execute import Scope
from flows.flow_runs import HOOKS, carry_out, link_report, start
from flows.parameters import ALL_PHASES, BuildChanges, ChangesOfBuild, Phase, Specialist


@flow(name="build", **HOOKS)
def build(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    changes: ChangesOfBuild = BuildChanges(),  # noqa: B008 - frozen
) -> None:
    """Read the corpus and build the packed rows that a diet asks for."""
    plan = start(specialist, changes)
    for _ in carry_out(plan, Scope(until="build"), phase):
        pass
    link_report(plan)
