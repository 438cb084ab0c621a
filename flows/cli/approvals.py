"""`curriculum approve`: approval of a finished run."""

from pathlib import Path

from curriculum.inspection.runs import change, report_of
from curriculum.pipeline import gates
from curriculum.pipeline.gates import APPROVAL, record_gate, verdict
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.recorded_config import as_recorded
from curriculum.pipeline.run_config import RunConfig
from curriculum.store.artefact import KEY_DIGITS
from flows import settings
from flows.cli.console import out, warn
from flows.settings import prefect_variables
from flows.settings.api_listener import join_api
from schemas.errors import JobError


def approve(home: Path, specialist: str, phase: str, comment: str) -> None:
    """Approve the current run of a phase, and resume the flow run that waits for the approval.

    Raises:
        JobError: if the phase has no finished run.
    """
    plan = resolve_plan(as_recorded(RunConfig.of(specialist=specialist, workspace=home)), dry=True)
    run = plan.current("runs", plan.phase(phase))
    if run is None:
        raise JobError(
            f"phase {phase}",
            cause="the phase has no finished run to approve",
            cure=f"Train it first: curriculum run {specialist}",
        )
    if APPROVAL not in plan.phase(phase).require:
        warn(f"The diet doesn't require an approval of {phase}; this approval has no effect.")
    said = gates.write_approval(plan.store, run, who=gates.user_name(), comment=comment)
    report = report_of(run)
    if report.stopped != "failed":
        record_gate(plan, run, verdict(plan, phase, run))
    out.print(
        f"{said.who} approved {phase} of {specialist}: run {run.key[:KEY_DIGITS]}, attempt "
        f"{said.attempt}, val_bpb {change(report, 'phase')}",
        soft_wrap=True,
    )
    resumed = ""
    if (api := settings.known_api(home)) is not None:
        join_api(home, api)
        # Prefect reads its settings when it is imported.
        with prefect_variables.without_settings_files(home):
            from flows.approval import resume

        ticket = gates.approval_ticket(plan.store, run)
        resumed = resume(ticket, who=said.who, comment=comment, warn=warn)
    out.print(resumed or f"To continue: curriculum run {specialist}", soft_wrap=True)
