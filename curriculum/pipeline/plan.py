"""RunPlan: a RunConfig resolved against its diet, phases, corpus and workspace."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from curriculum.corpus.domains import load_domains
from curriculum.corpus.load import corpus_of_repositories, load_corpus
from curriculum.mixing.imported import ImportedRows, imported_rows
from curriculum.mixing.load import DietOverrides, Phases, load_diet, load_phases
from curriculum.mixing.resolve import ResolvedPhase, resolve, with_repositories
from curriculum.mixing.supply import check_domains, check_gates
from curriculum.model.presets import preset
from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.references import run_of
from curriculum.pipeline.resume import (
    ResumePoint,
    RowExclusions,
    back_to,
    last_begun,
    middle_of,
    parse_exclusions,
)
from curriculum.stages.conversations import require_conversations
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.metric_writers import parse_writers
from schemas.corpus import CHAT_DOMAIN, CorpusSpec
from schemas.diet import Diet
from schemas.errors import DietError
from schemas.families import CHAT_FAMILY
from schemas.packed_row import ROW_MULTIPLE


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """The phases of a specialist over a corpus in one workspace."""

    config: RunConfig
    store: Store
    diet: Diet
    corpus: CorpusSpec
    phases: tuple[ResolvedPhase, ...]
    specs: Phases
    overrides: tuple[tuple[str, str], ...]
    resume: ResumePoint | None = None
    """The checkpoint to go on from, if the plan doesn't begin at its first phase."""
    without: RowExclusions
    """Rows that its mixtures must not hold."""
    imported: Mapping[str, ImportedRows]
    """The imported rows that it serves, by their names in the diet."""
    planned: dict[str, Artefact] = field(default_factory=dict)
    """Artefacts that a dry plan would leave, by the names under which they would be current."""

    def phase(self, name: str) -> ResolvedPhase:
        """The phase of that name.

        Raises:
            DietError: for a phase that the diet doesn't list.
        """
        found = next((each for each in self.phases if each.name == name), None)
        if found is None:
            raise DietError(
                f"diet {self.diet.specialist}",
                f"phase {name!r}",
                cause="the diet doesn't list it",
                cure=f"Its phases: {', '.join(each.name for each in self.phases)}",
            )
        return found

    def goes_on_in(self, phase: ResolvedPhase) -> ResumePoint | None:
        """The checkpoint that a phase goes on from in its middle."""
        return self.resume if self.resume and self.resume.job.phase == phase.name else None

    def before(self, phase: ResolvedPhase) -> list[ResolvedPhase]:
        """Return the phases that come before one."""
        return [*self.phases[: self.phases.index(phase)]]

    def mark_of(self, stage: str, phase: str) -> str:
        """The name under which a stage's artefact is current: runs-templates-demo-syntax."""
        branch = [self.diet.branch] if self.diet.branch else []
        return "-".join([stage, self.diet.specialist, *branch, phase])

    def current(self, stage: str, phase: ResolvedPhase) -> Artefact | None:
        """The artefact that a stage of a phase left last."""
        name = self.mark_of(stage, phase.name)
        if name in self.planned:
            return self.planned[name]
        file = self.store.root / "current" / f"{name}.txt"
        if not file.is_file():
            return None
        return self.store.load(self.store.root / read_mark(file)[0])

    def keep(self, stage: str, phase: ResolvedPhase, artefact: Artefact) -> None:
        """Make an artefact the current one of a stage of a phase."""
        name = self.mark_of(stage, phase.name)
        if self.store.dry:
            self.planned[name] = artefact
        else:
            mark_current(self.store, name, [artefact])


def resolve_plan(config: RunConfig, *, dry: bool = False) -> RunPlan:
    """Resolve a RunConfig; nothing is made by the steps of a `dry` plan.

    Raises:
        DietError, CorpusError, JobError: for a fault in diet, phases, corpus or names. Nothing is
            written then.
    """
    diet = load_diet(config.specialist, _overrides(config), config.workspace)
    specs = load_phases(diet.phases_file, config.workspace)
    store = Store(config.workspace, dry=dry)
    imported = imported_rows(store, diet)
    phases = _at_length(resolve(diet, specs, imported), config.build.row_length)
    preset(diet.model)
    parse_writers(config.train.log)
    corpus = _corpus(config, diet)
    phases = _named(phases, corpus)
    check_domains(phases, (*load_domains(corpus.domains).domains, CHAT_DOMAIN))
    check_gates(phases)
    return plan_of(
        config,
        store,
        diet=diet,
        specs=specs,
        corpus=corpus,
        imported=imported,
        resume=_resume_point(config, store, diet, phases),
        without=parse_exclusions(
            config.resume.without_rows, [each.name for each in corpus.repositories]
        ),
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
    return RunPlan(
        config=config,
        store=store,
        resume=resume,
        without=without,
        imported=imported,
        diet=diet,
        corpus=corpus,
        phases=_named(_at_length(resolve(diet, specs, imported), config.build.row_length), corpus),
        specs=specs,
        overrides=tuple(
            sorted({**_overrides(config).as_recorded, **_recorded_changes(config)}.items())
        ),
    )


def _overrides(config: RunConfig) -> DietOverrides:
    return DietOverrides(
        phases_file=config.build.phases,
        corpus=config.corpus.corpus,
        model=config.mix.model,
        tokenizer=config.build.tokenizer,
        token_budget=config.mix.token_budget,
        max_repetition=config.mix.max_repetition,
        seed=config.mix.seed,
        branch=config.build.branch,
    )


def _resume_point(
    config: RunConfig, store: Store, diet: Diet, phases: Sequence[ResolvedPhase]
) -> ResumePoint | None:
    middle = _found(config, store, diet)
    if middle is None:
        return None
    names = [each.name for each in phases]
    if middle.job.phase not in names:
        raise DietError(
            "--continue",
            config.resume.continue_run or middle.job.run_key[:KEY_DIGITS],
            cause=f"it is a run of {middle.job.phase}, which the diet doesn't list",
            cure=f"Its phases: {', '.join(names)}",
        )
    return middle


def _found(config: RunConfig, store: Store, diet: Diet) -> ResumePoint | None:
    """The checkpoint that the options name, if they name one."""
    if config.resume.from_step is not None:
        if config.resume.at_step is not None:
            raise DietError(
                "--at-step",
                config.resume.at_step,
                cause="--from-step says where to go on too",
                cure="Give one of the two",
            )
        way = (diet.specialist, diet.branch)
        run = (
            last_begun(store, way, _going_back(config))
            if config.resume.continue_run is None
            else run_of(store, config.resume.continue_run, name="--continue")
        )
        return back_to(store, run, config.resume.from_step)
    if config.resume.continue_run is not None:
        return middle_of(store, config.resume.continue_run, config.resume.at_step)
    if config.resume.at_step is not None:
        raise DietError(
            "--at-step",
            config.resume.at_step,
            cause="it says where in a run to go on, and no run is named",
            cure="Give --continue RUN",
        )
    return None


def _going_back(config: RunConfig) -> dict[str, str]:
    """Options of a command that goes back, as a job records them."""
    said = {"from_step": config.resume.from_step, "without_rows": config.resume.without_rows}
    return {name: str(value) for name, value in said.items() if value is not None}


def _at_length(
    phases: tuple[ResolvedPhase, ...], row_length: int | None
) -> tuple[ResolvedPhase, ...]:
    if row_length is None:
        return phases
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
    if config.corpus.repositories:
        corpus = corpus_of_repositories([Path(path) for path in config.corpus.repositories])
    else:
        corpus = load_corpus(diet.corpus, config.workspace)
    if config.corpus.max_commits is not None:
        capped = tuple(
            each.model_copy(update={"max_commits": config.corpus.max_commits})
            for each in corpus.repositories
        )
        corpus = corpus.model_copy(update={"repositories": capped})
    if config.corpus.versions_per_path is not None:
        history = corpus.history.model_copy(
            update={"versions_per_path": config.corpus.versions_per_path}
        )
        corpus = corpus.model_copy(update={"history": history})
    return corpus


def _named(phases: Sequence[ResolvedPhase], corpus: CorpusSpec) -> tuple[ResolvedPhase, ...]:
    """The phases with repositories by name, over a corpus that has what their families are made of."""
    served = [each for phase in phases for each in phase.servings if each.imported is None]
    if any(each.family == CHAT_FAMILY for each in served):
        require_conversations(corpus)
    return with_repositories(phases, corpus)


def _recorded_changes(config: RunConfig) -> dict[str, str]:
    """Changes beside those of the diet, for the job's record; files by their whole path."""
    files = {
        "diet": _file(config.specialist) or config.specialist,
        "phases_file": _file(config.build.phases),
        "corpus": _file(config.corpus.corpus),
        "tokenizer": _file(config.build.tokenizer),
    }
    changed = {
        "repositories": shlex.join(_whole(each) for each in config.corpus.repositories) or None,
        "max_commits": config.corpus.max_commits,
        "versions_per_path": config.corpus.versions_per_path,
        "row_length": config.build.row_length,
        "configure": config.build.configure or None,
        "continue": config.resume.continue_run,
        "at_step": config.resume.at_step,
    }
    said = {name: str(value) for name, value in (files | changed).items() if value is not None}
    return said | _going_back(config)


def _file(given: str | None) -> str | None:
    """The whole path of a file; None for a name."""
    return _whole(given) if given and Path(given).is_file() else None


def _whole(path: str) -> str:
    return str(Path(path).absolute())
