"""Resolution of a diet and its phases: all defaults are replaced by row lengths, repositories and tokens."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from types import MappingProxyType

from curriculum.mixing.imported import ImportedRows, complete_diet, family_of, objective_of
from schemas.corpus import CorpusSpec
from schemas.diet import ALTERNATIVE, AdvanceWhen, Diet, DietPhase, PhaseSpec, Serving
from schemas.errors import DietError, DietFieldError
from schemas.families import (
    CHAT_FAMILY,
    CONTEXT_FAMILY,
    ENRICHED_FAMILY,
    VERSIONS_FAMILY,
    families_of,
    held_out_objective,
    reads_commits,
)
from schemas.job import ANNEAL
from schemas.mistakes import Location, nearest
from schemas.objectives import OBJECTIVES, PHASE_SET, TARGET_OBJECTIVE, Score
from schemas.packed_row import Packer
from schemas.study import BudgetUnit, study_mark

FIM_VARIANTS = 4
"""Default number of variants for a serving of fim; each variant splits the documents at other places."""
NOTHING_IMPORTED: Mapping[str, ImportedRows] = MappingProxyType({})
MAX_FILE_ROW = 4096
"""Maximum row length, in tokens, at which structure is added to documents that show files.

In longer rows, structure is added to documents of context graphs.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedServing:
    """A serving with all defaults resolved; `tokens` is its number of valid tokens in its phase."""

    index: int
    family: str
    objective: str
    row_length: int
    share: float
    tokens: int
    domains: tuple[tuple[str, float], ...]
    """Factors by domain, where `*` means all other domains; empty if all factors are equal."""
    repositories: tuple[str, ...]
    """Names of the repositories that are read; empty for all repositories."""
    base: str | None = None
    """Family that v6_enriched adds structure to; None for other families."""
    variants: int = 1
    """Number of variants of each document, which repetitions read in turn; 1 except for fim."""
    imported: ImportedRows | None = None
    """Imported rows of the serving; None if its rows are built from the corpus."""
    packer: Packer = "best_fit"
    """Packer of the training rows; only studies change it."""
    score: Score = "new"
    """Training tokens that are targets: new ones or all; has no effect on chat and imported rows."""
    both: bool = False
    """True if the rows include commits that another family of the phase also shows."""

    @property
    def flat_family(self) -> str:
        """Family of the text that the serving shows; for v6_enriched, the base family."""
        return self.base or self.family

    @property
    def sets(self) -> tuple[str, ...]:
        """Validation sets that measure the serving."""
        if self.imported is not None:
            return (self.objective,)
        text = self.flat_family
        targets = (TARGET_OBJECTIVE,) if reads_commits(text) else ()
        return (held_out_objective(text, self.objective), *targets)

    @property
    def title(self) -> str:
        """Family, objective and row length in words; the title of imported rows begins with their name.

        For example 'v3_simple causal at 4096'.
        """
        if self.imported is not None:
            return f"{self.imported.name}: {self.family} {self.objective} at {self.row_length}"
        only = f" of {', '.join(self.repositories)}" if self.repositories else ""
        of = f" of {self.base}" if self.base else ""
        score = " score all" if self.score == "all" else ""
        both = " both" if self.both else ""
        return f"{self.family}{of} {self.objective}{score}{both} at {self.row_length}{only}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPhase:
    """One job of a diet: a phase, or the anneal, which is the last job and has the last phase's servings."""

    specialist: str
    branch: str | None
    name: str
    tokens: int
    """Number of valid tokens that the phase gets.

    It is a number of row positions in a study whose budget counts positions.
    """
    rope_base: float
    servings: tuple[ResolvedServing, ...]
    max_repetition: float
    max_token_repetition: float
    on_shortage: str
    advance_when: AdvanceWhen | None
    on_budget: str
    require: tuple[str, ...]
    why: str
    portion: float = 1.0
    """Fraction of the diet's token budget that the phase gets."""
    budget_unit: BudgetUnit = "tokens"
    without: tuple[str, ...] = ()
    """pack_ids of excluded rows."""
    location: Location = ()
    """Location of the phase in the diet's file."""

    @property
    def slot_length(self) -> int:
        """Number S of row positions in a slot, equal to the largest row length of the phase."""
        return max(serving.row_length for serving in self.servings)

    def max_steps(self, budget: int, tokens_per_step: int) -> int | None:
        """Return the number of steps in `budget` row positions; None if the budget counts valid tokens."""
        return budget // tokens_per_step if self.budget_unit == "positions" else None

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the validation sets that consist of the phase's own rows, if such rows are held out."""
        names = (name for serving in self.servings for name in serving.sets)
        return tuple(dict.fromkeys((PHASE_SET, *names)))

    @property
    def is_anneal(self) -> bool:
        """True for the anneal."""
        return self.name == ANNEAL


@dataclass(frozen=True, kw_only=True, slots=True)
class DietFault:
    """A request of a diet that can't be met, and its place in the diet."""

    location: Location
    value: str
    cause: str
    cure: str


def resolve(
    diet: Diet,
    phases: Mapping[str, PhaseSpec],
    imported: Mapping[str, ImportedRows] = NOTHING_IMPORTED,
) -> tuple[ResolvedPhase, ...]:
    """Return the jobs of a diet in order, the anneal last; their tokens sum to the budget.

    `imported` are the imported rows that the diet serves, by the name that the diet uses.

    Raises:
        DietError: for a phase missing from `phases`, a serving without a row length in a phase with several,
            row lengths that don't divide the largest, two servings of the same rows, and fields that
            contradict the imported rows.
    """
    diet = complete_diet(diet, imported)
    for fault in faults(diet, phases):
        raise DietError(f"diet {diet.specialist}", fault.value, cause=fault.cause, cure=fault.cure)
    last = diet.phases[-1]
    jobs = [(phase.phase, phase) for phase in diet.phases]
    if diet.anneal:
        tail = {"portion": diet.anneal.portion, "advance_when": None, "require": ()}
        jobs.append((ANNEAL, last.model_copy(update=tail)))
    budgets = phase_tokens(diet, diet.token_budget)
    resolved = [
        _resolved(diet, name, phase, phases[phase.phase], tokens, imported)
        for (name, phase), tokens in zip(jobs, budgets, strict=True)
    ]
    return tuple(
        replace(phase, location=(ANNEAL,) if phase.is_anneal else ("phases", at))
        for at, phase in enumerate(resolved)
    )


def phase_tokens(diet: Diet, token_budget: int) -> list[int]:
    """Return the tokens of each job of a diet at `token_budget`, those of the anneal last."""
    portions = [phase.portion for phase in diet.phases]
    return _divide(token_budget, [*portions, *([diet.anneal.portion] if diet.anneal else [])])


def faults(diet: Diet, phases: Mapping[str, PhaseSpec]) -> Iterator[DietFault]:
    """Yield a fault for each request of a diet that its phases file can't meet; no imported rows are read."""
    yield from _study_faults(diet)
    for at, phase in enumerate(diet.phases):
        if phase.phase not in phases:
            yield DietFault(
                location=("phases", at, "phase"),
                value=f"phases.{at}.phase = {phase.phase!r}",
                cause=f"there is no such phase in {diet.phases_file}",
                cure=nearest(phase.phase, phases),
            )
            continue
        yield from _serving_faults(at, phase, phases[phase.phase])


def _study_faults(diet: Diet) -> Iterator[DietFault]:
    """Yield a fault for each request that the diet's study makes impossible."""
    if diet.study is None:
        return
    if diet.study.packer == "chop":
        yield from _packer_faults(diet)
    words = study_mark(diet.study) if diet.study.acts_in_training else ""
    if words and diet.trainer is not None:
        yield DietFault(
            location=("study",),
            value=words,
            cause="masks and positions are switched in our training loop, and a trainer of its own "
            "trains this diet",
            cure="Leave out trainer, or study",
        )
    for at, phase in enumerate(diet.phases if words else ()):
        for check in (name for name in phase.require if name in RULED_OUT):
            yield DietFault(
                location=("phases", at, "require"),
                value=f"phases.{at}.require = [{', '.join(phase.require)}]",
                cause=f"{RULED_OUT[check]}, and the diet has {words}",
                cure=f"Leave {check} out, or leave study out",
            )


def _packer_faults(diet: Diet) -> Iterator[DietFault]:
    """Yield a fault for each serving whose documents must stay whole although the packer cuts documents."""
    for at, phase in enumerate(diet.phases):
        for index, serving in enumerate(phase.servings):
            fault = _why_whole(serving)
            if fault is not None:
                field, cause = fault
                yield DietFault(
                    location=("phases", at, "servings", index, field),
                    value=f"phases.{at}.servings.{index}.{field} = {getattr(serving, field)!r}",
                    cause=f"{cause}, and the diet has {study_mark(diet.study)}",
                    cure="Leave this serving out, or packer out of study",
                )


def _why_whole(serving: Serving) -> tuple[str, str] | None:
    """Return the field and the reason why a serving's documents must stay whole; None if they may be cut."""
    if serving.imported is not None:
        return "imported", "imported rows are packed already"
    if serving.family == ENRICHED_FAMILY:
        return "family", "the edges of structure join chunks of a document, which a cut would part"
    if not OBJECTIVES[objective_of(serving)].may_be_cut:
        return (
            "objective",
            "what it scores needs all of its document before, which a cut would part",
        )
    return None


RULED_OUT: Mapping[str, str] = MappingProxyType(
    {
        "leakcheck": "leakcheck proves that the documents of a row don't influence one another",
        "masking_cost": "masking_cost measures training with document masks",
    }
)
"""Checks that a study can't pass, each with the reason."""


def _serving_faults(at: int, phase: DietPhase, spec: PhaseSpec) -> Iterator[DietFault]:
    lengths = [_row_length(serving, spec) for serving in phase.servings]
    seen: dict[tuple[object, ...], int] = {}
    for index, (serving, length) in enumerate(zip(phase.servings, lengths, strict=True)):
        where = f"phases.{at}.servings.{index}"
        location: Location = ("phases", at, "servings", index)
        if length is None and serving.imported is not None:
            continue
        if length is None:
            yield DietFault(
                location=location,
                value=f"{where} ({serving.family})",
                cause=f"{phase.phase} has rows of {', '.join(map(str, spec.row_lengths))}, "
                "and the serving doesn't choose one",
                cure=f"Give it row_length: {spec.row_lengths[0]}",
            )
            continue
        largest = max(known_length for known_length in lengths if known_length)
        if largest % length:
            yield DietFault(
                location=location,
                value=f"{where}.row_length = {length}",
                cause=f"a slot of {largest} tokens can't be filled with whole rows of {length}",
                cure=f"Choose a row length that divides {largest}"
                if serving.imported is None
                else f"Serve {serving.imported} in another phase, or import rows that divide {largest}",
            )
        base = _base(serving, length)
        text = base or serving.family
        is_of_targets = serving.objective == TARGET_OBJECTIVE and serving.imported is None
        if is_of_targets and text is not None and not reads_commits(text):
            yield DietFault(
                location=(*location, "objective"),
                value=f"{where}.objective = {TARGET_OBJECTIVE!r}",
                cause=f"documents of {text} have no target",
                cure=f"Take {' or '.join(families_of('commits'))}, or another objective",
            )
        same: tuple[object, ...] = (serving.imported,)
        if serving.imported is None:
            same = (
                serving.family,
                base,
                serving.objective,
                length,
                serving.repositories,
                serving.score or "new",
                serving.both or False,
            )
        if same in seen:
            yield DietFault(
                location=location,
                value=f"{where} ({serving.imported or serving.family})",
                cause=f"it reads the same rows as phases.{at}.servings.{seen[same]}",
                cure="Merge the two servings and add their shares",
            )
        seen.setdefault(same, index)


def _resolved(
    diet: Diet,
    name: str,
    phase: DietPhase,
    spec: PhaseSpec,
    tokens: int,
    imported: Mapping[str, ImportedRows],
) -> ResolvedPhase:
    amounts = _divide(tokens, [serving.share for serving in phase.servings])
    return ResolvedPhase(
        specialist=diet.specialist,
        branch=diet.branch,
        name=name,
        tokens=tokens,
        rope_base=spec.rope_base,
        servings=tuple(
            _resolved_serving(
                index,
                serving,
                spec,
                tokens=amount,
                max_repetition=phase.max_repetition,
                imported=imported.get(serving.imported or ""),
                packer=diet.packer,
            )
            for index, (serving, amount) in enumerate(zip(phase.servings, amounts, strict=True))
        ),
        max_repetition=phase.max_repetition,
        max_token_repetition=phase.max_token_repetition or diet.max_token_repetition,
        on_shortage=phase.on_shortage,
        advance_when=phase.advance_when,
        on_budget=phase.on_budget,
        require=phase.require,
        why=phase.why,
        portion=tokens / diet.token_budget,
        budget_unit=diet.budget_unit,
    )


def _resolved_serving(
    index: int,
    serving: Serving,
    spec: PhaseSpec,
    *,
    tokens: int,
    max_repetition: float,
    imported: ImportedRows | None,
    packer: Packer,
) -> ResolvedServing:
    row_length, objective = _row_length(serving, spec), objective_of(serving)
    assert row_length is not None
    variants = 1
    if serving.imported is None and OBJECTIVES[objective].variants:
        # Each repetition reads the next variant.
        variants = min(serving.variants or FIM_VARIANTS, math.ceil(max_repetition))
    return ResolvedServing(
        index=index,
        family=family_of(serving),
        base=_base(serving, row_length),
        objective=objective,
        row_length=row_length,
        share=serving.share,
        tokens=tokens,
        domains=tuple(sorted((serving.domains or {}).items())),
        repositories=tuple(sorted(serving.repositories or ())),
        variants=variants,
        imported=imported,
        packer=packer,
        score=serving.score or "new",
        both=serving.both or False,
    )


def _row_length(serving: Serving, spec: PhaseSpec) -> int | None:
    if serving.row_length is not None:
        return serving.row_length
    if serving.imported is not None:
        return None
    return spec.row_lengths[0] if len(spec.row_lengths) == 1 else None


def _base(serving: Serving, row_length: int) -> str | None:
    """Return the base family of a serving of v6_enriched, whose documents get structure; else None."""
    if serving.family != ENRICHED_FAMILY or serving.imported is not None:
        return None
    return serving.base or default_base(row_length)


def default_base(row_length: int) -> str:
    """Return the family whose documents get structure at `row_length` if the diet names none."""
    return VERSIONS_FAMILY if row_length <= MAX_FILE_ROW else CONTEXT_FAMILY


def _divide(total: int, shares: Sequence[float]) -> list[int]:
    """Split `total` into whole amounts in proportion to `shares`.

    >>> _divide(10, [0.45, 0.45, 0.1]), _divide(7, [0.2, 0.2, 0.2, 0.2, 0.2])
    ([4, 5, 1], [1, 2, 1, 2, 1])
    """
    exact = [Fraction(share) for share in shares]
    whole = sum(exact)
    borders = [round(total * sum(exact[:upto]) / whole) for upto in range(len(shares) + 1)]
    return [end - start for start, end in itertools.pairwise(borders)]


def with_repositories(
    phases: Sequence[ResolvedPhase], corpus: CorpusSpec
) -> tuple[ResolvedPhase, ...]:
    """Return the phases with each serving's repository patterns resolved to sorted names.

    For `chat`, the names are those of sources of conversations. A serving without patterns reads all of them.
    Later artefacts depend on the names alone, not on the patterns.

    Raises:
        DietError: for a pattern that matches nothing in the corpus, and for two servings of a phase that then
            read the same rows.
    """
    return tuple(
        replace(phase, servings=tuple(_named(at, phase, corpus))) for at, phase in enumerate(phases)
    )


def _named(at: int, phase: ResolvedPhase, corpus: CorpusSpec) -> Iterator[ResolvedServing]:
    seen: dict[ResolvedServing, int] = {}
    for serving in phase.servings:
        if not serving.repositories:
            yield serving
            continue
        matched = {
            name
            for pattern in serving.repositories
            for name in _matches(at, phase, serving, pattern, corpus)
        }
        named = replace(serving, repositories=tuple(sorted(matched)))
        same = replace(named, index=0, share=0.0, tokens=0, domains=(), variants=1)
        if same in seen:
            raise DietFieldError(
                f"phase {phase.name}, serving {serving.index}",
                f"repositories {', '.join(serving.repositories)}",
                location=("phases", at, "servings", serving.index, "repositories"),
                cause=f"it reads the same rows of {', '.join(named.repositories)} as serving "
                f"{seen[same]}",
                cure="Merge the two servings and add their shares",
            )
        seen[same] = serving.index
        yield named


def _matches(
    at: int, phase: ResolvedPhase, serving: ResolvedServing, pattern: str, corpus: CorpusSpec
) -> list[str]:
    is_chat = serving.family == CHAT_FAMILY
    sources = corpus.conversations if is_chat else corpus.trained().repositories
    known = [source.name for source in sources]
    patterns = pattern.split(ALTERNATIVE)
    found = [
        name for name in known if any(fnmatchcase(name, alternative) for alternative in patterns)
    ]
    if not found:
        raise DietFieldError(
            f"phase {phase.name}, serving {serving.index}",
            f"repositories {pattern!r}",
            cause=f"it matches no {'conversations' if is_chat else 'repository'} in the training part of "
            f"the corpus {corpus.name}",
            cure=nearest(pattern, known),
            location=("phases", at, "servings", serving.index, "repositories"),
        )
    return found


def structure_faults(phases: Sequence[ResolvedPhase]) -> Iterator[DietFault]:
    """Yield a fault if structure is served without an earlier phase of graph families that ends at a gate.

    Structure is meant for a model that has learnt graphs. Without a gate, only the budget decides when the
    phase of graphs ends. The fault names the first serving of structure.
    """
    graphs: list[str] = []
    for at, phase in enumerate(trained for trained in phases if not trained.is_anneal):
        served = next(
            (serving for serving in phase.servings if serving.family == ENRICHED_FAMILY), None
        )
        if served is not None:
            yield _ungated(served, graphs, at=at, phase=phase.name)
            return
        if any(reads_commits(serving.family) for serving in phase.servings):
            graphs.append(phase.name)
            if phase.advance_when is not None:
                return


def _ungated(served: ResolvedServing, graphs: Sequence[str], *, at: int, phase: str) -> DietFault:
    """Return the fault for a serving of structure; `graphs` are the phases of graphs before it, if any.

    None of these phases has a gate.
    """
    gate = "advance_when: {val_bpb: {stops_improving_by: 0.002}}"
    return DietFault(
        location=("phases", at, "servings", served.index),
        value=f"{phase}: {served.title}",
        cause=f"no gate says when the graphs of {', '.join(graphs)} are learnt"
        if graphs
        else "no phase of graphs, with a gate behind it, comes before",
        cure=f"Give {graphs[-1]} one: {gate}"
        if graphs
        else f"Serve v4_context_graph in a phase before, with {gate}",
    )
