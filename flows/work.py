"""`curriculum build`, `mix` and `train`: the doors without Prefect, and what they say when they are done."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from curriculum.build.documents import documents_of
from curriculum.build.selection import selection_of
from curriculum.build.tokens import TOKENIZER_NAME, Tokenizing, tokenizer_of
from curriculum.build.workers import Team
from curriculum.diets.resolve import missing
from curriculum.store import Artefact, Step, Store, explain
from flows import settings
from flows.course import Course, Order, build_phase, course, mix_phase, train_phase
from flows.lines import report_of, run_line
from flows.show import ACCENT, MUTED, err, out, table, watching
from schemas.errors import JobError
from schemas.progress import Watch


def chosen(plan: Course, phase: str | None, skip: Callable[[str], None]) -> Iterator[str]:
    """The phases to go through: the one that was named, or all that this version can build.

    Raises:
        DietError: for a phase that the diet hasn't, or a named one that can't be built.
    """
    if phase is not None:
        yield plan.phase(phase).name
        return
    for each in plan.phases:
        reasons = missing(each)
        if reasons:
            skip(f"{each.name} is skipped: {reasons[0].value} {reasons[0].cause}")
        else:
            yield each.name


def build(order: Order, phase: str | None, *, dry: bool) -> None:
    """Build the rows of the phases; `dry` only says what would be made, and why."""
    plan = course(order, dry=dry)
    with watching() as watch:
        for name in chosen(plan, phase, warn):
            build_phase(plan, name, watch)
    _account(plan.store, dry=dry)


def mix(order: Order, phase: str | None, *, dry: bool) -> None:
    """Build, then lay down which rows are trained on, in which order."""
    plan = course(order, dry=dry)
    with watching() as watch:
        for name in chosen(plan, phase, warn):
            mix_phase(plan, name, build_phase(plan, name, watch), watch)
    _account(plan.store, dry=dry)


def train(order: Order, phase: str | None, *, dry: bool) -> None:
    """Build, mix and train, phase by phase, without Prefect; a named phase is trained anew."""
    plan = course(order, dry=dry)
    with watching() as watch:
        runs = list(_train(plan, phase, watch))
    _account(plan.store, dry=dry)
    if not dry:
        out.print(table(run_line(report_of(run)) for run in runs))


def _train(plan: Course, phase: str | None, watch: Watch) -> Iterator[Artefact]:
    for name in chosen(plan, phase, warn):
        built = build_phase(plan, name, watch)
        mixture = mix_phase(plan, name, built, watch)
        run = train_phase(plan, name, built, mixture, new_attempt=False, watch=watch)
        yield run
        if not run.planned and not goes_on(plan, name, run, warn):
            return


def goes_on(plan: Course, phase: str, run: Artefact, say: Callable[[str], None]) -> bool:
    """Whether the next phase may begin; the trainer decided, this only reads why it stopped.

    Raises:
        JobError: for a run that failed.
    """
    report = report_of(run)
    if report.stopped == "failed":
        raise JobError(
            f"phase {phase}", report.reason, cause="training failed", cure=f"Its run is {run.path}"
        )
    if report.stopped == "cancelled":
        say(f"{phase} was cancelled. The same command goes on from its last checkpoint.")
        return False
    gated = plan.phase(phase).advance_when is not None
    if report.stopped == "budget" and gated and plan.phase(phase).on_budget == "hold":
        say(f"{phase} holds: its budget ended before its gate opened ({report.reason}).")
        return False
    return True


def warn(line: str) -> None:
    """A line that a person should not miss, on stderr."""
    err.print(Text(line, "yellow"))


def _account(store: Store, *, dry: bool) -> None:
    """What was there and what was made, stage by stage; of a dry walk also why."""
    fresh: Counter[str] = Counter()
    there: Counter[str] = Counter()
    steps = {step.recipe.key: step for step in store.steps}.values()
    for step in steps:
        (there if step.outcome == "there" else fresh)[step.recipe.stage] += 1
    for stage in dict.fromkeys(step.recipe.stage for step in steps):
        word = "to make" if dry else "made"
        out.print(
            Text(f"{stage:<12}", "bold"),
            Text(f"{fresh[stage]:>4} {word}", ACCENT if fresh[stage] else MUTED),
            Text(f"{there[stage]:>4} there", MUTED),
        )
    if not fresh:
        out.print("Nothing to do: everything is there.")
    if dry:
        _why(store, [step for step in steps if step.outcome == "planned"])


def _why(store: Store, planned: Sequence[Step]) -> None:
    """Of each artefact that would be made, what differs from the version before it."""
    for step in planned:
        explanation = explain(store, step.recipe)
        note = "  first version" if explanation.first else ""
        out.print(Text(explanation.shelf, "bold"), Text(note, MUTED))
        for each in explanation.differences:
            out.print(Text(f"  {each.name}: {each.before} → {each.now}", MUTED))


def outcome(plan: Course, phase: str, runs: Sequence[Artefact]) -> str:
    """What a walk through the phases came to, in a line."""
    if not any(run.made for run in runs):
        return "Nothing to do: everything is there."
    names = [each.name for each in plan.phases]
    if phase in names and (later := names[names.index(phase) + 1 :]):
        return (
            f"{phase} was trained anew. What lies downstream is stale: {', '.join(later)}. "
            f"`curriculum run {plan.order.specialist}` goes on from here."
        )
    return f"{len(runs)} phases are done."


def run(order: Order, phase: str | None) -> None:
    """Run the flow in this process and say what came of it."""
    out.print(table(run_line(report_of(run)) for run in flow(order, phase)))


def flow(order: Order, phase: str | None) -> tuple[Artefact, ...]:
    """The runs that the Prefect flow leaves, run in this process with its progress in the terminal.

    Raises:
        CurriculumError: for a mistake in the order, before anything is written.
    """
    course(order, dry=True)
    settings.prefect_folder(order.home).mkdir(parents=True, exist_ok=True)
    settings.apply(settings.in_process(order.home))
    # Prefect reads its settings when it is imported.
    from flows.in_process import run_flow

    with watching() as watch:
        runs = run_flow(order, phase, watch)
    if not any(each.made for each in runs):
        out.print("Nothing to do: everything is there.")
    return runs


def tokenizer(order: Order) -> None:
    """Train the tokenizer of a diet on its corpus; rows that are built later use it."""
    plan = course(order)
    with watching() as watch:
        team = Team(store=plan.store, workers=order.workers or 1, watch=watch)
        documents = documents_of(team, plan.corpus)
        selection = selection_of(team, plan.corpus, documents)
        wanted = Tokenizing(
            vocab_size=plan.diet.vocab_size, document_tokens=plan.diet.document_tokens
        )
        trained = tokenizer_of(team, wanted, documents, selection)
    plan.store.mark(f"tokenizer-{plan.corpus.name}", [trained])
    out.print(f"{trained.path / TOKENIZER_NAME}", soft_wrap=True)
