"""RunPlan: a RunConfig together with the diet, phases, corpus and workspace that it names.

resolve_plan   resolves the names of a config
plan_of        uses names that were resolved before, for example from a snapshot
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from curriculum.corpus.load import corpus_of_repositories, load_corpus
from curriculum.corpus.sources import Sources
from curriculum.mixing.diet_files import (
    DietOverrides,
    Phases,
    load_diet,
    load_phases,
    name_diet_line,
    name_field_line,
)
from curriculum.mixing.imported import ImportedRows, imported_rows
from curriculum.mixing.mix import rows_seen_before
from curriculum.mixing.resolve import ResolvedPhase, resolve, with_repositories
from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.diet_faults import require_names, require_sound
from curriculum.pipeline.resume import (
    ResumePoint,
    RowExclusions,
    asked_resume_point,
    parse_exclusions,
)
from curriculum.pipeline.run_config import RunConfig
from curriculum.stages.conversation_documents import require_conversations
from curriculum.store import Artefact, Store, read_mark
from curriculum.train.run_directory import is_finished, read_report
from schemas.corpus import CorpusSpec
from schemas.diet import Diet
from schemas.errors import DietError
from schemas.families import CHAT_FAMILY
from schemas.mistakes import nearest
from schemas.mixture import RowsTaken
from schemas.packed_row import ROW_MULTIPLE
from schemas.specialist import file_stem


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """The phases of a specialist, with a corpus and a workspace."""

    config: RunConfig
    store: Store
    diet: Diet
    corpus: CorpusSpec
    phases: tuple[ResolvedPhase, ...]
    """Phases of the diet in order; the anneal comes last."""
    specs: Phases
    """Contents of the phases file that the diet refers to."""
    overrides: tuple[tuple[str, str], ...]
    """Overrides of the diet and the corpus, as pairs of name and value, as jobs record them."""
    resume: ResumePoint | None = None
    """Checkpoint from which to continue; None if the plan starts with its first phase."""
    without: RowExclusions
    """Rows to exclude from its mixtures."""
    imported: Mapping[str, ImportedRows]
    """Imported rows that the diet uses, by name."""
    sources: Sources
    """Sources of the corpus. They are shared by all phases, so that each pin is resolved only once."""
    planned: dict[str, Artefact] = field(default_factory=dict)
    """Artefacts that a dry plan has planned, by the name of their mark."""

    def phase(self, name: str) -> ResolvedPhase:
        """Return the phase named `name`.

        Raises:
            DietError: if the diet doesn't list it.
        """
        found = next((phase for phase in self.phases if phase.name == name), None)
        if found is None:
            raise DietError(
                f"diet {self.diet.specialist}",
                f"phase {name!r}",
                cause="the diet doesn't list it",
                cure=_phase_cure(name, [phase.name for phase in self.phases]),
            )
        return found

    def resume_point_of(self, phase: ResolvedPhase) -> ResumePoint | None:
        """Return the checkpoint from which a phase resumes; None if it starts from its beginning."""
        return self.resume if self.resume and self.resume.job.phase == phase.name else None

    def before(self, phase: ResolvedPhase) -> list[ResolvedPhase]:
        """Return the phases before `phase`."""
        return [*self.phases[: self.phases.index(phase)]]

    def seen_before(self, phase: ResolvedPhase) -> tuple[RowsTaken, ...]:
        """Return the rows that earlier phases have read, or will read.

        A phase with a finished run has read the rows of its steps; any other reads its whole mixture.
        """
        mixed: list[tuple[Artefact, int | None]] = []
        for before in self.before(phase):
            mixture = self.current("mixtures", before)
            if mixture is None or mixture.planned:
                continue
            mixed.append((mixture, _steps_of(self.current("runs", before), mixture)))
        return rows_seen_before(mixed)

    def mark_of(self, stage: str, phase: str) -> str:
        """Return the name of the mark of a stage and phase, for example runs+templates@demo+syntax.

        Names of specialists and phases can't contain +, so marks are unique.
        """
        return "+".join([stage, file_stem((self.diet.specialist, self.diet.branch)), phase])

    def current(self, stage: str, phase: ResolvedPhase) -> Artefact | None:
        """Return the artefact marked for a stage and phase; None if there is none or it was moved away."""
        name = self.mark_of(stage, phase.name)
        if name in self.planned:
            return self.planned[name]
        file = self.store.root / "current" / f"{name}.txt"
        if not file.is_file():
            return None
        path = self.store.root / read_mark(file)[0]
        return None if stage == "runs" and not is_finished(path) else self.store.load(path)

    def keep(self, stage: str, phase: ResolvedPhase, artefact: Artefact) -> None:
        """Mark an artefact as current for a stage and phase."""
        name = self.mark_of(stage, phase.name)
        if self.store.dry:
            self.planned[name] = artefact
        else:
            mark_current(self.store, name, [artefact])


@contextlib.contextmanager
def looked_at(plan: RunPlan) -> Iterator[RunPlan]:
    """Yield a dry plan; clones that are missing are made in a temporary folder until the block ends."""
    assert plan.store.dry
    with tempfile.TemporaryDirectory(prefix="curriculum-look-") as aside:
        sources = Sources.from_workspace(plan.store.root, clones="aside", aside=Path(aside))
        yield replace(plan, sources=sources)


def resolve_plan(config: RunConfig, *, dry: bool = False) -> RunPlan:
    """Resolve the names in a RunConfig. The steps of a `dry` plan build nothing.

    Raises:
        DietError: for a mistake in the diet, its phases or names; nothing is written then.
        CorpusError: for a mistake in the corpus.
        JobError: for an unknown run or checkpoint.
    """
    overrides = DietOverrides(
        phases_file=config.build.phases_file,
        corpus=config.corpus.corpus,
        model=config.mix.model,
        tokenizer=config.build.tokenizer,
        token_budget=config.mix.token_budget,
        max_repetition=config.mix.max_repetition,
        seed=config.mix.seed,
        branch=config.build.branch,
    )
    diet = load_diet(config.specialist, overrides, config.workspace)
    store = Store(config.workspace, dry=dry)
    require_names(config, diet)
    with name_diet_line(config.specialist, config.workspace):
        plan = plan_of(
            config,
            store,
            diet=diet,
            specs=load_phases(diet.phases_file, config.workspace),
            corpus=_corpus(config, diet),
            resume=None,
            without=RowExclusions(),
            imported=imported_rows(store, diet),
        )
    require_sound(config, diet, plan.phases, plan.corpus)
    repositories = [repository.name for repository in plan.corpus.repositories]
    phases = [phase.name for phase in plan.phases]
    return replace(
        plan,
        resume=asked_resume_point(store, diet, config.resume, phases),
        without=parse_exclusions(config.resume.without_rows, repositories),
    )


def plan_of(
    config: RunConfig,
    store: Store,
    *,
    diet: Diet,
    specs: Phases,
    corpus: CorpusSpec,
    resume: ResumePoint | None,
    without: RowExclusions,
    imported: Mapping[str, ImportedRows],
) -> RunPlan:
    """Return the plan of a config whose names have been resolved before. No files are read."""
    phases = resolve(diet, specs, imported)
    if config.build.row_length is not None:
        phases = _at_length(phases, config.build.row_length)
    servings = [serving for phase in phases for serving in phase.servings]
    if any(serving.imported is None and serving.family == CHAT_FAMILY for serving in servings):
        require_conversations(corpus)
    return RunPlan(
        config=config,
        store=store,
        diet=diet,
        corpus=corpus,
        phases=with_repositories(phases, corpus),
        specs=specs,
        overrides=tuple(sorted(config.overrides().items())),
        resume=resume,
        without=without,
        imported=imported,
        sources=Sources.from_workspace(store.root),
    )


def _steps_of(run: Artefact | None, mixture: Artefact) -> int | None:
    """Return the number of steps of a finished run that was trained on `mixture`, otherwise None."""
    if run is None or run.planned:
        return None
    is_of_it = any(
        ("plan", mixture.key) == (record.name, record.key) for record in run.manifest.inputs
    )
    return read_report(run.path).steps if is_of_it else None


def _phase_cure(name: str, phases: Sequence[str]) -> str:
    """Return a hint that names the phase that was probably meant, and all phases.

    >>> _phase_cure("synatx", ["syntax", "structure"]), _phase_cure("x", ["syntax", "structure"])
    ("Did you mean 'syntax'? Its phases: syntax, structure", 'Its phases: syntax, structure')
    """
    likely, listed = nearest(name, phases), f"Its phases: {', '.join(phases)}"
    return f"{likely} {listed}" if likely.endswith("?") else listed


def _at_length(phases: Sequence[ResolvedPhase], row_length: int) -> tuple[ResolvedPhase, ...]:
    """Return the phases with the same row length for every serving."""
    if row_length < ROW_MULTIPLE or row_length % ROW_MULTIPLE:
        raise DietError(
            "--row-length",
            row_length,
            cause=f"a row length is a multiple of {ROW_MULTIPLE} tokens",
            cure=f"Use {max(1, round(row_length / ROW_MULTIPLE)) * ROW_MULTIPLE}",
        )
    for phase in phases:
        for serving in phase.servings:
            if serving.imported is not None and serving.row_length != row_length:
                raise DietError(
                    "--row-length",
                    row_length,
                    cause=f"phase {phase.name} serves {serving.imported.name}, whose imported rows have "
                    "length "
                    f"{serving.row_length}",
                    cure="Remove the option",
                )
    return tuple(
        replace(
            phase,
            servings=tuple(replace(serving, row_length=row_length) for serving in phase.servings),
        )
        for phase in phases
    )


def _corpus(config: RunConfig, diet: Diet) -> CorpusSpec:
    """Return the corpus of a diet with the changes of a config, or a corpus of the config's repositories."""
    if config.corpus.repositories:
        corpus = corpus_of_repositories([Path(path) for path in config.corpus.repositories])
    else:
        in_file = name_field_line(config.specialist, "corpus", diet.corpus, config.workspace)
        with contextlib.nullcontext() if config.corpus.corpus else in_file:
            corpus = load_corpus(diet.corpus, config.workspace)
    if config.corpus.max_commits is not None:
        capped = tuple(
            repository.model_copy(update={"max_commits": config.corpus.max_commits})
            for repository in corpus.repositories
        )
        corpus = corpus.model_copy(update={"repositories": capped})
    if config.corpus.versions_per_path is not None:
        history = corpus.history.model_copy(
            update={"versions_per_path": config.corpus.versions_per_path}
        )
        corpus = corpus.model_copy(update={"history": history})
    return corpus
