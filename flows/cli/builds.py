"""`curriculum build` and `tokenizer`: build packed rows, sample documents, or the tokenizer of a diet."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rich.text import Text

from curriculum.inspection.build_tables import build_tables, build_warnings, document_lines
from curriculum.inspection.formats import alike
from curriculum.inspection.held_out import HeldOutDocuments, held_out
from curriculum.inspection.losses import require_some
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.trained_tokenizer import train_tokenizer
from curriculum.pipeline.wanted_rows import wanted_of
from curriculum.stages import Built
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from flows import settings
from flows.cli.carried_out import carry_out, is_done, print_counts, update_report, warn_unmeasured
from flows.cli.console import ACCENT, MUTED, out, table, warn
from flows.cli.progress_bars import watching
from schemas.errors import DietError
from schemas.reports import DocumentsReport
from schemas.visible import one_line


def build(config: RunConfig, phase: str | None, *, dry: bool) -> None:
    """Build the rows of the phases; with `dry`, only print which artefacts would be built and why."""
    plan = resolve_plan(config, dry=dry)
    plan, events = carry_out(plan, Scope(until="build", phase=phase))
    built = {event.phase: event.built for event in events if event.built is not None}
    made = [artefact for phase_rows in built.values() for artefact in phase_rows.artefacts()]
    lacking = [] if dry else [artefact for artefact in made if artefact.planned]
    there = made if dry else [artefact for artefact in made if not artefact.planned]
    if not lacking and is_done(plan, there):
        return
    print_counts(plan.store, there)
    for line in _shard_lines(config, lacking) if lacking else ():
        out.print(line, soft_wrap=True)
    warn_unmeasured(plan, built)
    whole = (
        {}
        if dry
        else {name: phase_rows for name, phase_rows in built.items() if not phase_rows.missing}
    )
    for name, phase_rows in whole.items():
        _print_built(name, phase_rows)
    for words in alike((phase, held.warning()) for phase, held in _held_out(plan, whole)):
        warn(words)
    if not dry:
        update_report(plan)


def _held_out(plan: RunPlan, built: Mapping[str, Built]) -> Iterator[tuple[str, HeldOutDocuments]]:
    for name, phase_rows in built.items():
        phase = plan.phase(name)
        sets = [phase_rows.rows_of(first) for first, *_ in wanted_of(phase)]
        if (
            held := held_out(phase.servings, sets, phase_rows, workspace=plan.store.root)
        ) is not None:
            yield name, held


def _print_built(phase: str, built: Built) -> None:
    """Print how full the rows of a phase are, the lengths of their contexts, and their domains."""
    out.print()
    out.print(Text(phase, f"bold {ACCENT}"))
    for shown in build_tables(built):
        if shown.lines:
            out.print(table(shown.lines))
        for note in shown.notes:
            out.print(Text(one_line(note), MUTED))
    for line in build_warnings(built):
        warn(f"{phase}: {line}")


def sample(config: RunConfig, phase: str | None, number: int) -> None:
    """Build some documents of each family that the phases use, and print the command that shows them."""
    if config.shard is not None:
        raise DietError(
            "--shard",
            config.shard,
            cause="a sample can't be split into shards",
            cure="Omit --sample or --shard",
        )
    plan = resolve_plan(config)
    _, events = carry_out(plan, Scope(until="sample", phase=phase, sample=number))
    made = {document.key: document for event in events for document in event.documents}
    require_some(plan.corpus.name, made.values())
    out.print(table(document_lines([*made.values()])))
    some = next(
        (documents for documents in made.values() if documents.reported(DocumentsReport).documents),
        None,
    )
    if some is not None:
        place = (
            "" if config.workspace == settings.workspace_path() else f" --home {config.workspace}"
        )
        out.print(
            f"curriculum inspect{place} {some.key[:KEY_DIGITS]}", style=ACCENT, soft_wrap=True
        )


def tokenizer(config: RunConfig) -> None:
    """Train the tokenizer of a diet on its corpus; rows that are built afterwards use it."""
    with watching() as watch:
        file = train_tokenizer(resolve_plan(config), watch)
    out.print(f"{file}", soft_wrap=True)


def _shard_lines(config: RunConfig, missing: Iterable[Artefact]) -> Iterator[Text]:
    """Yield lines that count the artefacts left to other shards by stage, then the next command.

    `missing` are the artefacts that this shard of the build didn't build.
    """
    distinct = {artefact.path: artefact for artefact in missing}.values()
    others = Counter(artefact.manifest.stage for artefact in distinct if not artefact.waits)
    later = Counter(artefact.manifest.stage for artefact in distinct if artefact.waits)
    for stage in dict.fromkeys([*others, *later]):
        counts = [(others[stage], "for other shards"), (later[stage], "depends on other shards")]
        words = ", ".join(f"{number} {what}" for number, what in counts if number)
        yield Text.assemble((f"{stage:<12}", "bold"), (f" {words}", MUTED))
    yield Text(
        f"Shard {config.shard} is finished. After all other shards have finished, run all shards "
        "again, or run the same command without --shard.",
        ACCENT,
    )
