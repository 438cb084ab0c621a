"""What a person asked for, by names, becomes calls of the doors: build, mix, train.

The command line and the Prefect flows both come through here; nothing in it knows of Prefect.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from curriculum.build import Built, Tokenizing, Wanted, build
from curriculum.corpus.load import corpus_of_repositories, load_corpus
from curriculum.diets.load import DietOverrides, Phases, load_diet, load_phases
from curriculum.diets.resolve import ResolvedPhase, missing, resolve
from curriculum.mix import mix
from curriculum.model.presets import preset
from curriculum.store import Artefact, Recipe, Store
from schemas.corpus import CorpusSpec
from schemas.diet import Diet
from schemas.errors import DietError, JobError
from schemas.job import Evaluation
from schemas.packed_row import ROW_MULTIPLE
from schemas.progress import Progress, Watch

TRAINED_TOKENIZER = "corpus"


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What a person asked for: names, as they come from a form or the command line."""

    specialist: str
    """A diet's name or the path of its YAML."""
    home: Path
    phases: str | None = None
    """A phases file by name or path; by default the one that the diet names."""
    corpus: str | None = None
    repositories: tuple[str, ...] = ()
    """Paths that stand in for the corpus."""
    model: str | None = None
    tokenizer: str | None = None
    token_budget: str | None = None
    max_repetition: float | None = None
    seed: int | None = None
    max_commits: int | None = None
    versions_per_path: int | None = None
    row_length: int | None = None
    """Of all servings, instead of what diet and phases say."""
    workers: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """A specialist's way through the curriculum, in one workspace."""

    order: Order
    store: Store
    diet: Diet
    corpus: CorpusSpec
    phases: tuple[ResolvedPhase, ...]
    specs: Phases
    overrides: tuple[tuple[str, str], ...]
    planned: dict[str, Artefact] = field(default_factory=dict)
    """What a dry walk would leave, by the name of its mark."""

    def phase(self, name: str) -> ResolvedPhase:
        """The phase of that name.

        Raises:
            DietError: for a phase that the diet doesn't list, or that this version can't build.
        """
        found = next((each for each in self.phases if each.name == name), None)
        if found is None:
            raise DietError(
                f"diet {self.diet.specialist}",
                f"phase {name!r}",
                cause="the diet doesn't list it",
                cure=f"Its phases: {', '.join(each.name for each in self.phases)}",
            )
        for error in missing(found):
            raise error
        return found

    def before(self, phase: ResolvedPhase) -> list[ResolvedPhase]:
        """The phases that come before one and that this version can build."""
        earlier = self.phases[: self.phases.index(phase)]
        return [each for each in earlier if not missing(each)]

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
        return self.store.load(self.store.root / file.read_text().splitlines()[0])

    def keep(self, stage: str, phase: ResolvedPhase, artefact: Artefact) -> None:
        """Make an artefact the current one of a stage of a phase."""
        name = self.mark_of(stage, phase.name)
        if self.store.dry:
            self.planned[name] = artefact
        else:
            self.store.mark(name, [artefact])


def course(order: Order, *, dry: bool = False) -> Course:
    """The course that an order describes; a dry one only tells what it would make.

    Raises:
        DietError, CorpusError: for a fault in diet, phases or corpus. Nothing is written then.
    """
    overrides = DietOverrides(
        phases_file=order.phases,
        corpus=order.corpus,
        model=order.model,
        tokenizer=order.tokenizer,
        token_budget=order.token_budget,
        max_repetition=order.max_repetition,
        seed=order.seed,
    )
    diet = load_diet(order.specialist, overrides)
    specs = load_phases(diet.phases_file)
    phases = _at_length(resolve(diet, specs), order.row_length)
    preset(diet.model)
    corpus = _corpus(order, diet)
    _know_repositories(phases, corpus)
    return Course(
        order=order,
        store=Store(order.home, dry=dry),
        diet=diet,
        corpus=corpus,
        phases=phases,
        specs=specs,
        overrides=tuple(sorted({**overrides.recorded, **_recorded(order)}.items())),
    )


def build_phase(course: Course, phase: str, watch: Watch) -> Built:
    """The rows of a phase's servings, and all that they are made of."""
    wanted = _wanted(course.phase(phase))
    tokenizer = course.diet.tokenizer
    tokenizing = Tokenizing(
        file=None if tokenizer == TRAINED_TOKENIZER else Path(tokenizer),
        vocab_size=course.diet.vocab_size,
        document_tokens=course.diet.document_tokens,
    )
    built = build(
        course.store,
        course.corpus,
        wanted,
        anchor_length=_smallest(course.specs),
        tokenizing=tokenizing,
        workers=course.order.workers or len(os.sched_getaffinity(0)),
        watch=watch,
    )
    if not course.store.dry:
        length = f"-{course.order.row_length}" if course.order.row_length else ""
        name = f"{course.mark_of('build', phase)}{length}-of-{course.corpus.name}"
        course.store.mark(name, built.artefacts())
    return built


def mix_phase(course: Course, phase: str, built: Built, watch: Watch) -> Artefact:
    """The plan of a phase: which rows its specialist sees, in which order."""
    resolved = course.phase(phase)
    previous = [course.current("mixtures", each) for each in course.before(resolved)]
    mixture = mix(
        course.store,
        course.diet,
        resolved,
        [built.rows_of(each).train for each in _wanted(resolved)],
        tokens_per_step=course.diet.tokens_per_step or preset(course.diet.model).tokens_per_step,
        previous=[each for each in previous if each],
        documents=None if built.selection.planned else _lineages(built),
    )
    course.keep("mixtures", resolved, mixture)
    watch(Progress(stage="mix", item=phase, done=1, total=1, unit="tasks"))
    return mixture


def train_phase(
    course: Course,
    phase: str,
    built: Built,
    mixture: Artefact,
    *,
    new_attempt: bool,
    watch: Watch,
) -> Artefact:
    """The closed run of a phase, from the end of the phase before; its directory holds report.json.

    Raises:
        JobError: where the phase before has no run yet, training failed, or it was told to stop.
    """
    resolved = course.phase(phase)
    previous = _previous(course, resolved)
    if course.store.dry and (mixture.planned or (previous and previous.planned)):
        return _planned_run(course, resolved, mixture)
    run = _train(course, resolved, built, mixture, previous, again=new_attempt, watch=watch)
    course.keep("runs", resolved, run)
    return run


def _train(
    course: Course,
    resolved: ResolvedPhase,
    built: Built,
    mixture: Artefact,
    previous: Artefact | None,
    *,
    again: bool,
    watch: Watch,
) -> Artefact:
    # torch takes seconds to import, and most commands never train.
    from curriculum.train.job import Ingredients, make_job
    from curriculum.train.run import finished, train

    store = course.store
    job = make_job(
        course.diet,
        resolved.name,
        course.specs[_spec_name(course, resolved)],
        Ingredients(
            workspace=store.root,
            plan=mixture,
            rows=tuple(built.rows_of(each).train for each in _wanted(resolved)),
            tokenizer=built.tokenizer,
            previous=previous,
        ),
        evaluations=_evaluations(course, resolved, built),
        overrides=dict(course.overrides),
    )
    if store.dry:
        return finished(store, job) or _planned_run(course, resolved, mixture)
    watch(Progress(stage="train", item=resolved.name, done=0, total=job.steps, unit="steps"))
    run = train(store, job, again=again)
    if run.artefact is None:
        raise JobError(
            f"phase {resolved.name}",
            run.report.stopped,
            cause=run.report.reason,
            cure="The same command goes on from its last checkpoint",
        )
    watch(
        Progress(
            stage="train", item=resolved.name, done=run.report.steps, total=job.steps, unit="steps"
        )
    )
    return run.artefact


def _evaluations(course: Course, resolved: ResolvedPhase, built: Built) -> list[Evaluation]:
    """What is measured in a phase: the validation rows of its servings, and the anchor."""
    from curriculum.train.job import Validation, evaluation

    store, wanted = course.store, _wanted(resolved)
    return [
        evaluation(
            _spec_name(course, resolved),
            [
                Validation(
                    family=each.family,
                    share=serving.share,
                    rows=built.rows_of(each).val,
                    factors=dict(serving.domains) or None,
                )
                for serving, each in zip(resolved.servings, wanted, strict=True)
            ],
            workspace=store.root,
        ),
        evaluation(
            "anchor",
            [Validation(family="v2_simple", share=1.0, rows=built.anchor)],
            workspace=store.root,
        ),
    ]


def _previous(course: Course, phase: ResolvedPhase) -> Artefact | None:
    """The run that a phase goes on from; None for the first."""
    before = course.before(phase)
    if not before:
        return None
    run = course.current("runs", before[-1])
    if run is None:
        raise JobError(
            f"phase {phase.name}",
            cause=f"it goes on from {before[-1].name}, which has no finished run",
            cure=f"Run it first: curriculum run {course.order.specialist} --phase {before[-1].name}",
        )
    return run


def _planned_run(course: Course, phase: ResolvedPhase, mixture: Artefact) -> Artefact:
    branch = [("branch", course.diet.branch)] if course.diet.branch else []
    recipe = Recipe(
        stage="runs",
        labels=(("specialist", course.diet.specialist), *branch, ("phase", phase.name)),
        revision=0,
        inputs=(mixture.as_input("plan"),),
    )
    run = course.store.produce([recipe], lambda _: None)[0]
    course.keep("runs", phase, run)
    return run


def _wanted(phase: ResolvedPhase) -> list[Wanted]:
    return [
        Wanted(
            family=serving.family,
            objective=serving.objective,
            row_length=serving.row_length,
            repositories=serving.repositories,
        )
        for serving in phase.servings
    ]


def _lineages(built: Built) -> pl.LazyFrame:
    selection = pl.scan_parquet(built.selection.path / "selection.parquet")
    return selection.filter("keep").select("document_id", "lineage")


def _smallest(specs: Phases) -> int:
    return min(length for spec in specs.values() for length in spec.row_lengths)


def _spec_name(course: Course, phase: ResolvedPhase) -> str:
    """The anneal goes on under the last phase's spec."""
    return course.diet.phases[-1].phase if phase.is_anneal else phase.name


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
    return tuple(
        replace(
            phase,
            servings=tuple(replace(each, row_length=row_length) for each in phase.servings),
        )
        for phase in phases
    )


def _corpus(order: Order, diet: Diet) -> CorpusSpec:
    if order.repositories:
        corpus = corpus_of_repositories([Path(path) for path in order.repositories])
    else:
        corpus = load_corpus(diet.corpus)
    if order.max_commits is not None:
        capped = tuple(
            each.model_copy(update={"max_commits": order.max_commits})
            for each in corpus.repositories
        )
        corpus = corpus.model_copy(update={"repositories": capped})
    if order.versions_per_path is not None:
        history = corpus.history.model_copy(update={"versions_per_path": order.versions_per_path})
        corpus = corpus.model_copy(update={"history": history})
    return corpus


def _know_repositories(phases: Sequence[ResolvedPhase], corpus: CorpusSpec) -> None:
    known = [each.name for each in corpus.repositories]
    for phase in phases:
        for serving in phase.servings:
            for name in serving.repositories:
                if name not in known:
                    raise DietError(
                        f"phase {phase.name}, serving {serving.index}",
                        f"repository {name!r}",
                        cause=f"the corpus {corpus.name} has no such repository",
                        cure=f"It has {', '.join(known)}",
                    )


def _recorded(order: Order) -> dict[str, str]:
    """What beside the diet the order changes, for the job's record."""
    changed = {
        "repositories": " ".join(order.repositories) or None,
        "max_commits": order.max_commits,
        "versions_per_path": order.versions_per_path,
        "row_length": order.row_length,
    }
    return {name: str(value) for name, value in changed.items() if value is not None}
