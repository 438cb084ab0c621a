"""Steps that commands take before and after they run a plan: checks, warnings, counts, and the report."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.corpus.sources import plain_folders
from curriculum.inspection.formats import number
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.phase_faults import unmeasured_imports
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import NOTHING_TO_DO, FinishedStep, Scope, execute, run_in_process
from curriculum.pipeline.explanations import explain_steps
from curriculum.pipeline.gates import Verdict
from curriculum.pipeline.plan import RunPlan, looked_at
from curriculum.pipeline.status_table import record_status
from curriculum.stages.documents import require_sources
from curriculum.store import Artefact, Store
from curriculum.train.launch.slurm import read_template
from dashboards.report.report_file import rewritten, shows
from flows import settings
from flows.cli.console import ACCENT, MUTED, out, print_line, warn
from flows.cli.downloads import print_downloads
from flows.cli.progress_bars import watching
from flows.settings.contexts import context_of, resources
from schemas.families import CHAT_FAMILY


def require_machine() -> None:
    """Raise a SettingError for an invalid machine setting, instead of hours later when training starts."""
    settings.gpu_slots()
    if (template := settings.sbatch_template()) is not None:
        read_template(template)


def require_readable(plan: RunPlan) -> None:
    """Raise unless all inputs of a plan can be read, before anything is written.

    Raises:
        CorpusError: for the first repository or file of conversations that can't be read.
    """
    served = {serving.family for phase in plan.phases for serving in phase.servings}
    print_downloads(plan.corpus, plan.sources)
    require_sources(plan.corpus, plan.sources, chat=CHAT_FAMILY in served)


@contextlib.contextmanager
def prepared(plan: RunPlan) -> Iterator[tuple[RunPlan, Context]]:
    """Yield a plan and the context in which its steps run; warn of repositories that are plain folders.

    A dry plan builds nothing. It shows no progress, since it takes only a second.
    """
    warn_of_folders(plan)
    if plan.store.dry:
        with looked_at(plan) as dry:
            yield dry, context_of(warn=warn)
    else:
        with watching() as watch:
            yield plan, context_of(watch, warn=warn)


def carry_out(plan: RunPlan, scope: Scope) -> tuple[RunPlan, list[FinishedStep]]:
    """Run a plan in this process, and return the plan with the events of its steps.

    A dry plan is returned with the facts that were looked up for it.
    """
    events = []
    with prepared(plan) as (plan, context):
        if scope.until in ("mix", "train") and not plan.store.dry:
            require_steps(plan, scope, context)
        for event in execute(plan, run_in_process(context), scope, context):
            events.append(event)
            if event.run is not None and event.gate is not None:
                _report_trained(plan, event.run)
    return plan, events


def warn_of_folders(plan: RunPlan) -> None:
    """Warn of each repository of a plan that is a plain folder without git."""
    for line in plain_folders(plan.corpus.repositories):
        warn(line)


def warn_unmeasured(plan: RunPlan, names: Iterable[str]) -> None:
    """Warn of settings of the phases `names` whose effect on training has never been measured."""
    for line in unmeasured_imports([plan.phase(name) for name in names]):
        warn(line)


def is_done(plan: RunPlan, made: Sequence[Artefact]) -> bool:
    """Return True and print a line if none of the artefacts was built by this command.

    The report is updated even then, unless the plan is dry.
    """
    if any(artefact.made for artefact in made):
        return False
    if not plan.store.dry:
        update_report(plan)
    out.print(NOTHING_TO_DO)
    return True


def is_open(gate: Verdict | None) -> bool:
    """Return True if the gate is open or None; warn with the reason if the gate is closed."""
    if gate is None or gate.is_open:
        return True
    warn(gate.why)
    return False


def _report_trained(plan: RunPlan, run: Artefact) -> None:
    """Update the report after a run, unless the plan is dry or the report shows the run already."""
    if not (plan.store.dry or shows(plan, run)):
        rewritten(plan, resources(), warn)


def update_report(plan: RunPlan) -> None:
    """Update a specialist's report and the workspace's status."""
    rewritten(plan, resources(), warn)
    record_status(plan.store.root, resources(), warn)


def print_origin(plan: RunPlan, made: Sequence[Artefact]) -> None:
    """Print the checkpoint from which a plan resumes, and warn of the rows that its mixtures exclude."""
    if plan.resume is not None:
        where = plan.resume.checkpoint.relative_to(plan.store.root)
        print_line(f"continues from {where}", MUTED)
    for mixture in made:
        if mixture.manifest.stage != "mixtures" or mixture.planned:
            continue
        gone = mixture_report_of(mixture).left_out
        if gone is not None:
            more = (
                f" and {gone.rows - len(gone.first):,} more" if gone.rows > len(gone.first) else ""
            )
            warn(
                f"{mixture.manifest.labels['phase']}: {number(gone.rows, 'row')} with "
                f"{gone.tokens:,} tokens excluded: {', '.join(gone.first)}{more}"
            )


def print_counts(store: Store, made: Sequence[Artefact]) -> None:
    """Print the numbers of reused and new artefacts by stage; for a dry plan also why new ones are needed."""
    distinct: dict[tuple[str, Path], Artefact] = {}
    for artefact in made:
        distinct.setdefault((artefact.manifest.stage, artefact.path), artefact)
    fresh = Counter(stage for (stage, _), artefact in distinct.items() if artefact.made)
    there = Counter(stage for (stage, _), artefact in distinct.items() if not artefact.made)
    for stage in dict.fromkeys(stage for stage, _ in distinct):
        out.print(
            Text(f"{stage:<12}", "bold"),
            Text(f"{fresh[stage]:>4} {'to make' if store.dry else 'made'}", ACCENT),
            Text(f"{there[stage]:>4} up to date", MUTED),
        )
    if store.dry:
        planned = [step for step in store.steps if step.outcome == "planned"]
        for reason in explain_steps(store, planned):
            note = "  first version" if reason.is_first else ""
            out.print(Text.assemble((reason.title, "bold"), (note, MUTED)), soft_wrap=True)
            for line in reason.differences:
                print_line(f"  {line}", MUTED)
