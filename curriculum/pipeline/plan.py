"""RunPlan: a RunConfig resolved against its diet, phases, corpus and workspace.

resolve_plan   of a config as somebody gives it
plan_of        of a config whose names were resolved before, as a snapshot keeps it
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
    located,
    placed,
)
from curriculum.mixing.imported import ImportedRows, imported_rows
from curriculum.mixing.mix import seen_of
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
    """The phases of a specialist over a corpus in one workspace."""

    config: RunConfig
    store: Store
    diet: Diet
    corpus: CorpusSpec
    phases: tuple[ResolvedPhase, ...]
    """The diet's phases in order, the anneal last."""
    specs: Phases
    """The phases file that the diet is written for."""
    overrides: tuple[tuple[str, str], ...]
    """Changes of diet and corpus by name, as jobs record them."""
    resume: ResumePoint | None = None
    """The checkpoint to continue from, if the plan doesn't begin at its first phase."""
    without: RowExclusions
    """Rows that its mixtures must not hold."""
    imported: Mapping[str, ImportedRows]
    """The imported rows that it serves, by their names in the diet."""
    sources: Sources
    """The sources of its corpus: a pin is resolved once, for all phases."""
    planned: dict[str, Artefact] = field(default_factory=dict)
    """Artefacts that a dry plan would leave, by the names under which they would be current."""

    def phase(self, name: str) -> ResolvedPhase:
        """The phase with a name.

        Raises:
            DietError: for a phase that the diet doesn't list.
        """
        found = next((each for each in self.phases if each.name == name), None)
        if found is None:
            raise DietError(
                f"diet {self.diet.specialist}",
                f"phase {name!r}",
                cause="the diet doesn't list it",
                cure=_phase_cure(name, [each.name for each in self.phases]),
            )
        return found

    def resume_point_of(self, phase: ResolvedPhase) -> ResumePoint | None:
        """The checkpoint that a phase resumes from in its middle, if it does."""
        return self.resume if self.resume and self.resume.job.phase == phase.name else None

    def before(self, phase: ResolvedPhase) -> list[ResolvedPhase]:
        """Return the phases that come before one."""
        return [*self.phases[: self.phases.index(phase)]]

    def seen_before(self, phase: ResolvedPhase) -> tuple[RowsTaken, ...]:
        """Return the rows that the phases before one read: the steps of finished runs, else whole plans."""
        mixed: list[tuple[Artefact, int | None]] = []
        for before in self.before(phase):
            mixture = self.current("mixtures", before)
            if mixture is None or mixture.planned:
                continue
            mixed.append((mixture, _steps_of(self.current("runs", before), mixture)))
        return seen_of(mixed)

    def mark_of(self, stage: str, phase: str) -> str:
        """Return the name under which a stage's artefact is current: runs+templates@demo+syntax.

        Names of specialists and phases don't hold +, so that no two marks share a file.
        """
        return "+".join([stage, file_stem((self.diet.specialist, self.diet.branch)), phase])

    def current(self, stage: str, phase: ResolvedPhase) -> Artefact | None:
        """The artefact that a stage of a phase left last; None for a run that was moved away since."""
        name = self.mark_of(stage, phase.name)
        if name in self.planned:
            return self.planned[name]
        file = self.store.root / "current" / f"{name}.txt"
        if not file.is_file():
            return None
        path = self.store.root / read_mark(file)[0]
        return None if stage == "runs" and not is_finished(path) else self.store.load(path)

    def keep(self, stage: str, phase: ResolvedPhase, artefact: Artefact) -> None:
        """Make an artefact the current one of a stage of a phase."""
        name = self.mark_of(stage, phase.name)
        if self.store.dry:
            self.planned[name] = artefact
        else:
            mark_current(self.store, name, [artefact])


@contextlib.contextmanager
def looked_at(plan: RunPlan) -> Iterator[RunPlan]:
    """Yield a dry plan; what its workspace has no clone of is cloned elsewhere meanwhile."""
    assert plan.store.dry
    with tempfile.TemporaryDirectory(prefix="curriculum-look-") as aside:
        sources = Sources.from_workspace(plan.store.root, clones="aside", aside=Path(aside))
        yield replace(plan, sources=sources)


def resolve_plan(config: RunConfig, *, dry: bool = False) -> RunPlan:
    """Resolve a RunConfig; nothing is made by the steps of a `dry` plan.

    Raises:
        DietError, CorpusError, JobError: for a fault in diet, phases, corpus or names. Nothing is
            written then.
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
    with placed(config.specialist, config.workspace):
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
    """Return the plan of a config whose names are resolved; no file is read for it."""
    phases = resolve(diet, specs, imported)
    if config.build.row_length is not None:
        phases = _at_length(phases, config.build.row_length)
    servings = [each for phase in phases for each in phase.servings]
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
    """Return the steps of a finished run of a mixture; None where there is none."""
    if run is None or run.planned:
        return None
    is_of_it = any(("plan", mixture.key) == (made.name, made.key) for made in run.manifest.inputs)
    return read_report(run.path).steps if is_of_it else None


def _phase_cure(name: str, phases: Sequence[str]) -> str:
    """The phase that is likely meant, and all that there are.

    >>> _phase_cure("synatx", ["syntax", "structure"]), _phase_cure("x", ["syntax", "structure"])
    ("Did you mean 'syntax'? Its phases: syntax, structure", 'Its phases: syntax, structure')
    """
    likely, listed = nearest(name, phases), f"Its phases: {', '.join(phases)}"
    return f"{likely} {listed}" if likely.endswith("?") else listed


def _at_length(phases: Sequence[ResolvedPhase], row_length: int) -> tuple[ResolvedPhase, ...]:
    """The phases with this row length in every serving."""
    if row_length < ROW_MULTIPLE or row_length % ROW_MULTIPLE:
        raise DietError(
            "--row-length",
            row_length,
            cause=f"a row has a multiple of {ROW_MULTIPLE} tokens",
            cure=f"Take {max(1, round(row_length / ROW_MULTIPLE)) * ROW_MULTIPLE}",
        )
    for phase in phases:
        for serving in phase.servings:
            if serving.imported is not None and serving.row_length != row_length:
                raise DietError(
                    "--row-length",
                    row_length,
                    cause=f"phase {phase.name} serves {serving.imported.name}, imported in rows of "
                    f"{serving.row_length}",
                    cure="Leave the option out",
                )
    return tuple(
        replace(
            phase,
            servings=tuple(replace(each, row_length=row_length) for each in phase.servings),
        )
        for phase in phases
    )


def _corpus(config: RunConfig, diet: Diet) -> CorpusSpec:
    """The corpus of a diet with the changes of a config, or one of the config's repositories."""
    if config.corpus.repositories:
        corpus = corpus_of_repositories([Path(path) for path in config.corpus.repositories])
    else:
        in_file = located(config.specialist, "corpus", diet.corpus, config.workspace)
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
