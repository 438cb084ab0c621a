"""What a person asked for, by names, becomes a course: a diet's phases over a corpus in a workspace.

The command line and the Prefect flows both come through here; nothing in it knows of Prefect.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from curriculum.build.conversations import require_conversations
from curriculum.corpus.domains import load_domains
from curriculum.corpus.load import corpus_of_repositories, load_corpus
from curriculum.diets.demand import check_domains, check_gates
from curriculum.diets.imported import ImportedRows, imported_rows
from curriculum.diets.load import DietOverrides, Phases, load_diet, load_phases
from curriculum.diets.repositories import with_repositories
from curriculum.diets.resolve import ResolvedPhase, missing, resolve
from curriculum.model.presets import preset
from curriculum.pipeline.current import mark
from curriculum.pipeline.references import run_of
from curriculum.pipeline.resume import Middle, back_to, last_begun, middle_of
from curriculum.pipeline.row_exclusions import LeavingOut, leaving_out
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.recipe import KEY_DIGITS
from curriculum.train.writers import chosen
from schemas.corpus import CorpusSpec
from schemas.diet import Diet
from schemas.document import CHAT_FAMILY
from schemas.domains import CHAT_DOMAIN
from schemas.errors import DietError
from schemas.packed_row import ROW_MULTIPLE


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
    branch: str | None = None
    """Under which mixtures and runs stand, instead of the diet's."""
    max_commits: int | None = None
    versions_per_path: int | None = None
    row_length: int | None = None
    """Of all servings, instead of what diet and phases say."""
    configure: bool = False
    """Whether cmake may make compilation databases that lack."""
    workers: int | None = None
    processes: int | None = None
    """That train together."""
    recompute: bool = False
    """Whether training keeps less in memory and computes it again."""
    log: str | None = None
    """Writers of metrics beside the run's own, with commas."""
    continue_run: str | None = None
    """A run to go on from in its middle, by path or key."""
    at_step: int | None = None
    from_step: int | None = None
    """A step at or before which to go back, in the run that began last."""
    without_rows: str | None = None
    """Rows to leave out, in words or a file of them."""
    shard: str | None = None
    """i/n: the part of a build that is made here."""


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
    middle: Middle | None = None
    """Where in a run the course goes on, if it doesn't begin at its first phase."""
    without: LeavingOut
    """What its plans must not hold."""
    imported: Mapping[str, ImportedRows]
    """The imported rows that it serves, by what the diet calls them."""
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

    def goes_on_in(self, phase: ResolvedPhase) -> Middle | None:
        """The checkpoint that a phase goes on from in its middle."""
        return self.middle if self.middle and self.middle.job.phase == phase.name else None

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
        return self.store.load(self.store.root / read_mark(file)[0])

    def keep(self, stage: str, phase: ResolvedPhase, artefact: Artefact) -> None:
        """Make an artefact the current one of a stage of a phase."""
        name = self.mark_of(stage, phase.name)
        if self.store.dry:
            self.planned[name] = artefact
        else:
            mark(self.store, name, [artefact])


def course(order: Order, *, dry: bool = False) -> Course:
    """The course that an order describes; a dry one only tells what it would make.

    Raises:
        DietError, CorpusError, JobError: for a fault in diet, phases, corpus or names. Nothing is
            written then.
    """
    diet = load_diet(order.specialist, _overrides(order), order.home)
    specs = load_phases(diet.phases_file, order.home)
    store = Store(order.home, dry=dry)
    imported = imported_rows(store, diet)
    phases = _at_length(resolve(diet, specs, imported), order.row_length)
    preset(diet.model)
    chosen(order.log)
    if order.processes is not None and order.processes < 1:
        raise DietError(
            "--processes",
            order.processes,
            cause="at least one process trains",
            cure="Give one for each GPU",
        )
    corpus = _corpus(order, diet)
    phases = _named(phases, corpus)
    check_domains(phases, (*load_domains(corpus.domains).domains, CHAT_DOMAIN))
    check_gates(phases)
    return assembled(
        order,
        store,
        diet=diet,
        specs=specs,
        corpus=corpus,
        imported=imported,
        middle=_middle(order, store, diet, phases),
        without=leaving_out(order.without_rows, [each.name for each in corpus.repositories]),
    )


def assembled(
    order: Order,
    store: Store,
    *,
    diet: Diet,
    specs: Phases,
    corpus: CorpusSpec,
    middle: Middle | None,
    without: LeavingOut,
    imported: Mapping[str, ImportedRows],
) -> Course:
    """The course over what an order's names were found to stand for; no file is read for it."""
    return Course(
        order=order,
        store=store,
        middle=middle,
        without=without,
        imported=imported,
        diet=diet,
        corpus=corpus,
        phases=_named(_at_length(resolve(diet, specs, imported), order.row_length), corpus),
        specs=specs,
        overrides=tuple(sorted({**_overrides(order).recorded, **_recorded(order)}.items())),
    )


def _overrides(order: Order) -> DietOverrides:
    return DietOverrides(
        phases_file=order.phases,
        corpus=order.corpus,
        model=order.model,
        tokenizer=order.tokenizer,
        token_budget=order.token_budget,
        max_repetition=order.max_repetition,
        seed=order.seed,
        branch=order.branch,
    )


def _middle(
    order: Order, store: Store, diet: Diet, phases: Sequence[ResolvedPhase]
) -> Middle | None:
    middle = _found(order, store, diet)
    if middle is None:
        return None
    names = [each.name for each in phases]
    if middle.job.phase not in names:
        raise DietError(
            "--continue",
            order.continue_run or middle.job.run_key[:KEY_DIGITS],
            cause=f"it is a run of {middle.job.phase}, which the diet doesn't list",
            cure=f"Its phases: {', '.join(names)}",
        )
    return middle


def _found(order: Order, store: Store, diet: Diet) -> Middle | None:
    """The checkpoint that the options name, if they name one."""
    if order.from_step is not None:
        if order.at_step is not None:
            raise DietError(
                "--at-step",
                order.at_step,
                cause="--from-step says where to go on too",
                cure="Give one of the two",
            )
        way = (diet.specialist, diet.branch)
        run = (
            last_begun(store, way, _going_back(order))
            if order.continue_run is None
            else run_of(store, order.continue_run, name="--continue")
        )
        return back_to(store, run, order.from_step)
    if order.continue_run is not None:
        return middle_of(store, order.continue_run, order.at_step)
    if order.at_step is not None:
        raise DietError(
            "--at-step",
            order.at_step,
            cause="it says where in a run to go on, and no run is named",
            cure="Give --continue RUN",
        )
    return None


def _going_back(order: Order) -> dict[str, str]:
    """What tells a command that goes back from others, as a job records it."""
    said = {"from_step": order.from_step, "without_rows": order.without_rows}
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


def _corpus(order: Order, diet: Diet) -> CorpusSpec:
    if order.repositories:
        corpus = corpus_of_repositories([Path(path) for path in order.repositories])
    else:
        corpus = load_corpus(diet.corpus, order.home)
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


def _named(phases: Sequence[ResolvedPhase], corpus: CorpusSpec) -> tuple[ResolvedPhase, ...]:
    """The phases with repositories by name, over a corpus that has what their families are made of."""
    served = [each for phase in phases for each in phase.servings if each.imported is None]
    if any(each.family == CHAT_FAMILY for each in served):
        require_conversations(corpus)
    return with_repositories(phases, corpus)


def _recorded(order: Order) -> dict[str, str]:
    """What beside the diet the order changes, for the job's record; files by their whole path."""
    files = {
        "diet": _file(order.specialist) or order.specialist,
        "phases_file": _file(order.phases),
        "corpus": _file(order.corpus),
        "tokenizer": _file(order.tokenizer),
    }
    changed = {
        "repositories": shlex.join(_whole(each) for each in order.repositories) or None,
        "max_commits": order.max_commits,
        "versions_per_path": order.versions_per_path,
        "row_length": order.row_length,
        "configure": order.configure or None,
        "continue": order.continue_run,
        "at_step": order.at_step,
    }
    said = {name: str(value) for name, value in (files | changed).items() if value is not None}
    return said | _going_back(order)


def _file(given: str | None) -> str | None:
    """The whole path of a file; None for a name."""
    return _whole(given) if given and Path(given).is_file() else None


def _whole(path: str) -> str:
    return str(Path(path).absolute())
