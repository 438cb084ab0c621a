"""`curriculum build`, `mix`, `train` and `run`: a plan carried out or forecast, and the tables at the end."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from curriculum.corpus.sources import plain_folders
from curriculum.inspection.conversation_tables import conversation_lines, conversation_warnings
from curriculum.inspection.formats import alike, number
from curriculum.inspection.held_out import HeldOut, held_out
from curriculum.inspection.losses import lack_warnings, require_some
from curriculum.inspection.run_notes import (
    anchor_words,
    finished_runs,
    rises,
    samples,
    silences,
)
from curriculum.inspection.runs import ending, report_of, unused_budget
from curriculum.inspection.stage_tables import (
    YIELD_NOTE,
    branch_lines,
    changed_lines,
    chop_lines,
    comment_lines,
    context_lines,
    context_warnings,
    document_lines,
    domain_lines,
    domain_warnings,
    fullness_lines,
    graph_lines,
    graph_warnings,
    held_out_warnings,
    index_lines,
    length_lines,
    run_lines,
    tokenizer_warnings,
    yield_lines,
)
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.phase_faults import unmeasured
from curriculum.mixing.tree import explain_diet, explain_plan
from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import Context, ignore
from curriculum.pipeline.execute import (
    NOTHING_TO_DO,
    Scope,
    execute,
    here,
    selected,
)
from curriculum.pipeline.forecast import (
    Forecast,
    Until,
    explain_steps,
    forecast,
    forecast_lines,
    forecast_words,
)
from curriculum.pipeline.gates import Verdict, verdict
from curriculum.pipeline.plan import RunPlan, looked_at, resolve_plan
from curriculum.pipeline.recorded_config import write_command_snapshot
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import record_status
from curriculum.pipeline.steps import wanted_of
from curriculum.stages import Built
from curriculum.stages.documents import Documents, repositories, require_sources
from curriculum.stages.selection import Kept, KeptDocuments
from curriculum.stages.stage import Coordinator, Workers
from curriculum.stages.tokens import TOKENIZER_NAME, Tokenizers, Tokenizing
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.launch.slurm import read_template
from dashboards.report.page import rewritten, shows
from flows import settings
from flows.cli.console import ACCENT, MUTED, out, table, warn, watching
from flows.cli.run_summary import print_summary
from flows.cli.workspace import shard_lines
from flows.server.supervisor import api_for
from flows.settings import prefect_variables
from flows.settings.contexts import context_of, resources
from schemas.errors import DietError
from schemas.families import CHAT_FAMILY
from schemas.reports import DocumentsReport


def build(config: RunConfig, phase: str | None, *, dry: bool) -> None:
    """Build the rows of the phases; `dry` only prints what would be made, and why."""
    plan = resolve_plan(config, dry=dry)
    built: dict[str, Built] = {}
    with _prepared(plan) as (plan, context):
        for event in execute(plan, here(context), Scope(until="build", phase=phase), context):
            if event.built is not None:
                built[event.phase] = event.built
    made = [artefact for each in built.values() for artefact in each.artefacts()]
    lacking = [] if dry else [each for each in made if each.planned]
    there = made if dry else [each for each in made if not each.planned]
    if not lacking and _is_done(plan, there):
        return
    _print_counts(plan.store, there)
    for line in shard_lines(config, lacking) if lacking else ():
        out.print(line, soft_wrap=True)
    _warn_unmeasured(plan, built)
    whole = {} if dry else {name: each for name, each in built.items() if not each.missing}
    for name, each in whole.items():
        _print_built(name, each)
    for words in alike((phase, held.warning()) for phase, held in _held_out(plan, whole)):
        warn(words)
    if not dry:
        _update_report(plan)


def _held_out(plan: RunPlan, built: Mapping[str, Built]) -> Iterator[tuple[str, HeldOut]]:
    for name, each in built.items():
        phase = plan.phase(name)
        sets = [each.rows_of(first) for first, *_ in wanted_of(phase)]
        if (held := held_out(phase.servings, sets, each, workspace=plan.store.root)) is not None:
            yield name, held


def _print_built(phase: str, built: Built) -> None:
    """Print how full the rows of a phase are, how long their context is, and their domains."""
    out.print()
    out.print(Text(phase, f"bold {ACCENT}"))
    for listed in (
        yield_lines,
        chop_lines,
        length_lines,
        context_lines,
        graph_lines,
        index_lines,
        conversation_lines,
        domain_lines,
        comment_lines,
    ):
        lines = [*listed(built)]
        if lines:
            out.print(table(lines))
        if listed is yield_lines:
            for note in (YIELD_NOTE, *fullness_lines(built)):
                out.print(Text(note, MUTED))
        if listed is graph_lines:
            for note in changed_lines(built):
                out.print(Text(note, MUTED))
    for warnings in (
        lack_warnings,
        graph_warnings,
        context_warnings,
        held_out_warnings,
        conversation_warnings,
        domain_warnings,
        tokenizer_warnings,
    ):
        for line in warnings(built):
            warn(f"{phase}: {line}")


def sample(config: RunConfig, phase: str | None, number: int) -> None:
    """Make some documents of each family that the phases serve, and say how to look at them."""
    if config.shard is not None:
        raise DietError(
            "--shard",
            config.shard,
            cause="a sample isn't cut into shards",
            cure="Leave out --sample or --shard",
        )
    plan = resolve_plan(config)
    made: dict[str, Artefact] = {}
    with _prepared(plan) as (plan, context):
        for event in execute(
            plan, here(context), Scope(until="sample", phase=phase, sample=number), context
        ):
            made |= {each.key: each for each in event.documents}
    require_some(plan.corpus.name, made.values())
    out.print(table(document_lines([*made.values()])))
    some = next((each for each in made.values() if each.reported(DocumentsReport).documents), None)
    if some is not None:
        place = "" if config.workspace == settings.home() else f" --home {config.workspace}"
        out.print(
            f"curriculum inspect{place} {some.key[:KEY_DIGITS]}", style=ACCENT, soft_wrap=True
        )


def mix(config: RunConfig, phase: str | None, *, dry: bool) -> None:
    """Build, then lay down which rows are trained on, in which order."""
    plan = resolve_plan(config, dry=dry)
    scope = Scope(until="mix", phase=phase)
    phases = selected(plan, scope)
    if not dry:
        _require_sources(plan)
        write_command_snapshot(plan)
    with _prepared(plan) as (plan, context):
        if not dry:
            require_steps(plan, scope, context)
        made = [
            each
            for event in execute(plan, here(context), scope, context)
            for each in event.step_artefacts
        ]
    if not dry and _is_done(plan, made):
        return
    if dry:
        out.print(table(branch_lines(explain_diet(plan.diet, plan.phases))))
    for mixture in made:
        if mixture.manifest.stage == "mixtures" and not mixture.planned:
            title = mixture.manifest.labels["phase"]
            report = mixture_report_of(mixture)
            shown = explain_plan(report, title=title, key=mixture.key)
            out.print(table(branch_lines(shown)))
            for line in report.warnings:
                warn(f"{title}: {line}")
    if not dry:
        _update_report(plan)
    _warn_unmeasured(plan, phases)
    _print_origin(plan, made)
    if not (dry and _is_done(plan, made)):
        _print_counts(plan.store, made)


def train(config: RunConfig, phase: str | None, *, dry: bool) -> bool:
    """Build, mix and train what isn't trained yet, without Prefect; return whether all gates are open."""
    require_machine()
    plan = resolve_plan(config, dry=dry)
    scope = Scope(phase=phase)
    phases = selected(plan, scope)
    if not dry:
        _require_sources(plan)
        write_command_snapshot(plan)
    made: list[Artefact] = []
    gate: Verdict | None = None
    with _prepared(plan) as (plan, context):
        if not dry:
            require_steps(plan, scope, context)
        for event in execute(plan, here(context), scope, context):
            made += event.step_artefacts
            if event.run is not None and event.gate is not None:
                gate = event.gate
                if not (dry or shows(plan, event.run)):
                    rewritten(plan, resources(), warn)
    if _is_done(plan, made):
        return _is_open(gate)
    _warn_unmeasured(plan, phases)
    _print_origin(plan, made)
    _print_counts(plan.store, made)
    runs = [each for each in made if each.manifest.stage == "runs" and not each.planned]
    _print_runs(plan, runs)
    if not dry:
        _update_report(plan)
        print_summary(plan, scope, runs, gate)
    return _is_open(gate)


def warn_of_rises(store: Store, runs: Sequence[Artefact]) -> None:
    """Warn of each run whose val_bpb rose, and of an anchor that an earlier run left lower."""
    finished = finished_runs(store, runs)
    for words in filter(None, (*rises(finished), anchor_words(finished))):
        warn(words)


def _print_runs(plan: RunPlan, runs: Sequence[Artefact]) -> None:
    """Print a line a run, then what whole steps left of the budgets of those that ended with them."""
    finished = finished_runs(plan.store, runs)
    out.print(table(run_lines([run.report for run in finished])))
    for run in finished:
        report = run.report
        if report.stopped != "budget":
            out.print(Text(f"{report.phase}: {ending(report)}", MUTED), soft_wrap=True)
        if run.mixture and (unused := unused_budget(report, run.mixture)):
            out.print(Text(f"{report.phase}: {unused}", MUTED), soft_wrap=True)
    for words in samples(plan.store, finished):
        out.print(Text(words, MUTED), soft_wrap=True)
    warn_of_rises(plan.store, runs)
    for words in silences(finished):
        warn(words)


def _is_done(plan: RunPlan, made: Sequence[Artefact]) -> bool:
    """Return True where nothing was made, after a line that says so; reports are written all the same."""
    if any(each.made for each in made):
        return False
    if not plan.store.dry:
        _update_report(plan)
    out.print(NOTHING_TO_DO)
    return True


def _print_origin(plan: RunPlan, made: Sequence[Artefact]) -> None:
    """Print the checkpoint that a plan continues from, and the rows that its mixtures exclude."""
    if plan.resume is not None:
        where = plan.resume.checkpoint.relative_to(plan.store.root)
        out.print(Text(f"continues from {where}", MUTED), soft_wrap=True)
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


def _is_open(gate: Verdict | None) -> bool:
    """Return True for an open gate or none; else print what to do."""
    if gate is None or gate.is_open:
        return True
    warn(gate.why)
    return False


def run(config: RunConfig, phase: str | None, *, later_phases: bool = False) -> bool:
    """Run the flow in this process, print its runs, and return whether all gates are open."""
    plan, scope = resolve_plan(config, dry=True), Scope(phase=phase, later_phases=later_phases)
    runs = flow(config, phase, later_phases=later_phases)
    gate = verdict(plan, report_of(runs[-1]).phase, runs[-1]) if runs else None
    if any(each.made for each in runs):
        _print_runs(plan, runs)
        _warn_unmeasured(plan, selected(plan, scope))
        print_summary(plan, scope, runs, gate)
    return _is_open(gate)


def flow(
    config: RunConfig, phase: str | None, *, later_phases: bool = False
) -> tuple[Artefact, ...]:
    """Run the Prefect flow in this process with its progress in the terminal, and return its runs.

    Prefect, which takes longer to start than all else, is left out where every run is there already.

    Raises:
        CurriculumError: for a mistake in the config, before anything is written.
    """
    require_machine()
    plan = resolve_plan(config, dry=True)
    _require_sources(plan)
    scope = Scope(phase=phase, later_phases=later_phases, retrain=True)
    if _is_all_there(plan, scope):
        out.print(NOTHING_TO_DO)
        runs = _reused(plan, scope)
        # A dry plan reads each manifest once.
        _update_report(plan)
        return runs
    _warn_of_folders(plan)
    require_steps(plan, Scope(phase=phase, later_phases=later_phases), context_of(warn=warn))
    with api_for(config.workspace, warn):
        # Prefect reads its settings when it is imported.
        with prefect_variables.unset(config.workspace):
            from flows.run import run_in_process

        with watching() as watch:
            return run_in_process(config, phase, watch, later_phases=later_phases)


def _is_all_there(plan: RunPlan, scope: Scope) -> bool:
    """Return True where a dry plan would make nothing, up to its first closed gate."""
    context = context_of(warn=ignore)
    events = execute(plan, here(context), scope, context)
    return not any(each.planned for event in events for each in event.step_artefacts)


def _reused(looked: RunPlan, scope: Scope) -> tuple[Artefact, ...]:
    """Make the artefacts of a dry plan, which are all there, the current ones, and return its runs."""
    plan = replace(resolve_plan(looked.config), sources=looked.sources)
    write_command_snapshot(plan)
    with _prepared(plan) as (plan, context):
        events = [*execute(plan, here(context), scope, context)]
    return tuple(event.run for event in events if event.run is not None)


def explain_run(config: RunConfig, phase: str | None, *, later_phases: bool) -> None:
    """Print what `run` would make, and why: a phase that is named is trained anew."""
    plan = resolve_plan(config, dry=True)
    scope = Scope(phase=phase, later_phases=later_phases, retrain=True)
    with _prepared(plan) as (plan, context):
        made = [
            each
            for event in execute(plan, here(context), scope, context)
            for each in event.step_artefacts
        ]
    if not _is_done(plan, made):
        _print_origin(plan, made)
        _print_counts(plan.store, made)


def print_forecast(
    config: RunConfig,
    phase: str | None,
    *,
    until: Until,
    retrain: bool = False,
    later_phases: bool = False,
) -> None:
    """Print what a command would make, on how many tokens and how long: `--dry-run`.

    Raises:
        CurriculumError: for a mistake in the config, as the command itself would.
    """
    plan = resolve_plan(config, dry=True)
    scope = Scope(until=until, phase=phase, later_phases=later_phases, retrain=retrain, gates=False)
    with _prepared(plan) as (plan, context):
        found = forecast(plan, scope, context)
    show_forecast(found, until=until)
    for line in found.warnings:
        warn(line)
    if found.refusal is not None:
        raise found.refusal


def show_forecast(found: Forecast, *, until: Until) -> None:
    """Print a forecast: a line a phase, then what they come to."""
    out.print(table(forecast_lines(found, until=until)))
    for words in forecast_words(found, until=until):
        out.print(words, soft_wrap=True)


def tokenizer(config: RunConfig) -> None:
    """Train the tokenizer of a diet on its corpus; rows that are built later use it."""
    plan = resolve_plan(config)
    listed = repositories(plan.corpus, plan.sources)
    with plan.store.leased(), watching() as watch:
        workers = Workers(processes=config.corpus.workers or 1)
        coordinator = Coordinator(store=plan.store, workers=workers, watch=watch)
        documents = coordinator.make(Documents(), listed)
        (kept,) = coordinator.make(Kept(corpus=plan.corpus), documents)
        wanted = Tokenizing(
            vocab_size=plan.diet.vocab_size, document_tokens=plan.diet.document_tokens
        )
        inputs = KeptDocuments(documents=documents, kept=kept)
        (trained,) = coordinator.make(Tokenizers(tokenizing=wanted), inputs)
        mark_current(plan.store, f"tokenizer-{plan.corpus.name}", [trained])
    out.print(f"{trained.path / TOKENIZER_NAME}", soft_wrap=True)


@contextlib.contextmanager
def _prepared(plan: RunPlan) -> Iterator[tuple[RunPlan, Context]]:
    """Yield a plan to carry out, and its context; a dry one takes a second and shows no progress.

    Plain folders among its repositories are named first.
    """
    _warn_of_folders(plan)
    if plan.store.dry:
        with looked_at(plan) as dry:
            yield dry, context_of(warn=warn)
    else:
        with watching() as watch:
            yield plan, context_of(watch, warn=warn)


def _warn_of_folders(plan: RunPlan) -> None:
    for line in plain_folders(plan.corpus.repositories):
        warn(line)


def require_machine() -> None:
    """Raise a SettingError for a wrong setting of the machine: training reads them, hours later."""
    settings.gpu_slots()
    if (template := settings.sbatch_template()) is not None:
        read_template(template)


def _require_sources(plan: RunPlan) -> None:
    """Check that everything that a plan reads is there, before anything of it is written.

    Raises:
        CorpusError: for the first repository or file of conversations that can't be read.
    """
    served = {serving.family for phase in plan.phases for serving in phase.servings}
    require_sources(plan.corpus, plan.sources, chat=CHAT_FAMILY in served)


def _update_report(plan: RunPlan) -> None:
    """Write a specialist's report and the workspace's status anew."""
    rewritten(plan, resources(), warn)
    record_status(plan.store.root, resources(), warn)


def _warn_unmeasured(plan: RunPlan, names: Iterable[str]) -> None:
    for line in unmeasured([plan.phase(name) for name in names]):
        warn(line)


def _print_counts(store: Store, made: Sequence[Artefact]) -> None:
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
        planned = [each for each in store.steps if each.outcome == "planned"]
        for reason in explain_steps(store, planned):
            note = "  first version" if reason.is_first else ""
            out.print(Text.assemble((reason.title, "bold"), (note, MUTED)), soft_wrap=True)
            for line in reason.differences:
                out.print(Text(f"  {line}", MUTED), soft_wrap=True)
