"""A plan before and after it is carried out: checks, warnings, artefacts that were made, the report."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.corpus.sources import plain_folders
from curriculum.inspection.formats import number
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.phase_faults import unmeasured
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import NOTHING_TO_DO, FinishedStep, Scope, execute, here
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
    """Raise a SettingError for a wrong setting of the machine: training reads them, hours later."""
    settings.gpu_slots()
    if (template := settings.sbatch_template()) is not None:
        read_template(template)


def require_readable(plan: RunPlan) -> None:
    """Check that everything that a plan reads is there, before anything of it is written.

    Raises:
        CorpusError: for the first repository or file of conversations that can't be read.
    """
    served = {serving.family for phase in plan.phases for serving in phase.servings}
    print_downloads(plan.corpus, plan.sources)
    require_sources(plan.corpus, plan.sources, chat=CHAT_FAMILY in served)


@contextlib.contextmanager
def prepared(plan: RunPlan) -> Iterator[tuple[RunPlan, Context]]:
    """Yield a plan to carry out, and its context; a dry one takes a second and shows no progress.

    Plain folders among its repositories are named first.
    """
    warn_of_folders(plan)
    if plan.store.dry:
        with looked_at(plan) as dry:
            yield dry, context_of(warn=warn)
    else:
        with watching() as watch:
            yield plan, context_of(watch, warn=warn)


def carry_out(plan: RunPlan, scope: Scope) -> tuple[RunPlan, list[FinishedStep]]:
    """Carry a plan out in this process; return it, as it was looked at if it is dry, and its events."""
    events = []
    with prepared(plan) as (plan, context):
        if scope.until in ("mix", "train") and not plan.store.dry:
            require_steps(plan, scope, context)
        for event in execute(plan, here(context), scope, context):
            events.append(event)
            if event.run is not None and event.gate is not None:
                _report_trained(plan, event.run)
    return plan, events


def warn_of_folders(plan: RunPlan) -> None:
    """Warn of each repository that is a plain folder."""
    for line in plain_folders(plan.corpus.repositories):
        warn(line)


def warn_unmeasured(plan: RunPlan, names: Iterable[str]) -> None:
    """Warn of settings of some phases of which no effect was measured."""
    for line in unmeasured([plan.phase(name) for name in names]):
        warn(line)


def is_done(plan: RunPlan, made: Sequence[Artefact]) -> bool:
    """Return True where nothing was made, after a line that says so; reports are written all the same."""
    if any(each.made for each in made):
        return False
    if not plan.store.dry:
        update_report(plan)
    out.print(NOTHING_TO_DO)
    return True


def is_open(gate: Verdict | None) -> bool:
    """Return True for an open gate or none; else print what to do."""
    if gate is None or gate.is_open:
        return True
    warn(gate.why)
    return False


def _report_trained(plan: RunPlan, run: Artefact) -> None:
    """Write the report of a plan that isn't dry anew, if it doesn't show a run yet."""
    if not (plan.store.dry or shows(plan, run)):
        rewritten(plan, resources(), warn)


def update_report(plan: RunPlan) -> None:
    """Write a specialist's report and the workspace's status anew."""
    rewritten(plan, resources(), warn)
    record_status(plan.store.root, resources(), warn)


def print_origin(plan: RunPlan, made: Sequence[Artefact]) -> None:
    """Print the checkpoint that a plan continues from, and the rows that its mixtures exclude."""
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
                f"{mixture.manifest.labels['phase']}: {number(gone.rows, 'row')} of "
                f"{gone.tokens:,} tokens left out: {', '.join(gone.first)}{more}"
            )


def print_counts(store: Store, made: Sequence[Artefact]) -> None:
    """Print how many artefacts were there and were made, stage by stage; of a dry plan also why."""
    distinct: dict[tuple[str, Path], Artefact] = {}
    for each in made:
        distinct.setdefault((each.manifest.stage, each.path), each)
    fresh = Counter(stage for (stage, _), each in distinct.items() if each.made)
    there = Counter(stage for (stage, _), each in distinct.items() if not each.made)
    for stage in dict.fromkeys(stage for stage, _ in distinct):
        out.print(
            Text(f"{stage:<12}", "bold"),
            Text(f"{fresh[stage]:>4} {'to make' if store.dry else 'made'}", ACCENT),
            Text(f"{there[stage]:>4} there", MUTED),
        )
    if store.dry:
        planned = [step for step in store.steps if step.outcome == "planned"]
        for reason in explain_steps(store, planned):
            note = "  first version" if reason.is_first else ""
            out.print(Text.assemble((reason.title, "bold"), (note, MUTED)), soft_wrap=True)
            for line in reason.differences:
                print_line(f"  {line}", MUTED)
