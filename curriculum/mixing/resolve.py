"""Resolution of a diet and its phases: servings with definite row lengths, repositories and tokens."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from types import MappingProxyType

from curriculum.mixing.imported import ImportedRows, completed, family_of, objective_of
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

"""The name of the tail job."""
FIM_VARIANTS = 4
"""Splits of each document, where a serving of fim doesn't say how many."""
NOTHING_IMPORTED: Mapping[str, ImportedRows] = MappingProxyType({})
MAX_FILE_ROW = 4096
"""Tokens; structure is added to files in rows so long, to context graphs in longer ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedServing:
    """A serving with nothing left open; `tokens` are valid tokens of its phase."""

    index: int
    family: str
    objective: str
    row_length: int
    share: float
    tokens: int
    domains: tuple[tuple[str, float], ...]
    """Factors by domain, `*` for the rest; empty where all count the same."""
    repositories: tuple[str, ...]
    """Empty where all count."""
    base: str | None = None
    """The family that v6_enriched adds structure to; None for every other."""
    variants: int = 1
    """Renderings of each document that its repetitions can come to; 1 but for fim."""
    imported: ImportedRows | None = None
    """The rows that were imported for it; None where they are built of the corpus."""
    packer: Packer = "best_fit"
    """Packer of its training rows; another one in studies alone."""
    score: Score = "new"
    """Targets of its training rows; of conversations and imported rows it says nothing."""
    both: bool = False
    """True if it has the commits that another family of its phase shows too."""

    @property
    def flat_family(self) -> str:
        """The family whose text it reads: of structure its base."""
        return self.base or self.family

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets by objective of validation rows that measure it."""
        if self.imported is not None:
            return (self.objective,)
        text = self.flat_family
        targets = (TARGET_OBJECTIVE,) if reads_commits(text) else ()
        return (held_out_objective(text, self.objective), *targets)

    @property
    def title(self) -> str:
        """Family, objective and row length in words; of imported rows their name before.

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
    """One job of a diet; the anneal is the last one, over the servings of the phase before it."""

    specialist: str
    branch: str | None
    name: str
    tokens: int
    """Valid tokens, or row positions in a study of them: the portion of the diet's budget."""
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
    """Share of the diet's budget."""
    budget_unit: BudgetUnit = "tokens"
    without: tuple[str, ...] = ()
    """pack_ids of rows that it must not see."""
    location: Location = ()
    """Its place in the diet."""

    @property
    def slot_length(self) -> int:
        """S: row positions of a slot, the largest row length."""
        return max(serving.row_length for serving in self.servings)

    def max_steps(self, budget: int, tokens_per_step: int) -> int | None:
        """Return the steps of a budget of row positions; None where it counts valid tokens."""
        return budget // tokens_per_step if self.budget_unit == "positions" else None

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets of its own validation rows that measure it, where such rows are held out."""
        names = (name for serving in self.servings for name in serving.sets)
        return tuple(dict.fromkeys((PHASE_SET, *names)))

    @property
    def is_anneal(self) -> bool:
        """Return True if it is the decay at the end."""
        return self.name == ANNEAL


@dataclass(frozen=True, kw_only=True, slots=True)
class DietFault:
    """A diet's request that its phases file can't meet, and its place in the diet."""

    location: Location
    value: str
    cause: str
    cure: str


def resolve(
    diet: Diet,
    phases: Mapping[str, PhaseSpec],
    imported: Mapping[str, ImportedRows] = NOTHING_IMPORTED,
) -> tuple[ResolvedPhase, ...]:
    """The jobs of a diet in order, the anneal last; their tokens sum to the budget.

    `imported` are the imported rows that it serves, by what it calls them.

    Raises:
        DietError: for a phase that isn't in `phases`, a serving without a row length in a phase of
            several, row lengths that don't divide the largest, two servings of the same rows, and for
            what a serving says otherwise than its imported rows.
    """
    diet = completed(diet, imported)
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
    """The tokens of each phase, the anneal last, if the diet had some budget."""
    portions = [phase.portion for phase in diet.phases]
    return _divide(token_budget, [*portions, *([diet.anneal.portion] if diet.anneal else [])])


def faults(diet: Diet, phases: Mapping[str, PhaseSpec]) -> Iterator[DietFault]:
    """All that a diet asks and a phases file can't give; of imported rows only what is said of them."""
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
    """Requests of a diet that its study rules out."""
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
        for check in (each for each in phase.require if each in RULED_OUT):
            yield DietFault(
                location=("phases", at, "require"),
                value=f"phases.{at}.require = [{', '.join(phase.require)}]",
                cause=f"{RULED_OUT[check]}, and the diet has {words}",
                cure=f"Leave {check} out, or leave study out",
            )


def _packer_faults(diet: Diet) -> Iterator[DietFault]:
    """Servings whose documents can't be cut anywhere."""
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
    """The field of a serving for which its documents stay whole, and the reason; None where they needn't."""
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
"""Checks that nothing passes in a study, with what they are of."""


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
                cause=f"{phase.phase} has rows of {', '.join(map(str, spec.row_lengths))}, and it names none",
                cure=f"Give it row_length: {spec.row_lengths[0]}",
            )
            continue
        largest = max(each for each in lengths if each)
        if largest % length:
            yield DietFault(
                location=location,
                value=f"{where}.row_length = {length}",
                cause=f"a slot of {largest} tokens can't be filled with whole rows of {length}",
                cure=f"Take a row length that divides {largest}"
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
                cure="Make one serving of them, with the sum of their shares",
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
    """Return the base family of a serving of structure."""
    if serving.family != ENRICHED_FAMILY or serving.imported is not None:
        return None
    return serving.base or default_base(row_length)


def default_base(row_length: int) -> str:
    """The family that structure is added to in rows of some length, where a serving doesn't say."""
    return VERSIONS_FAMILY if row_length <= MAX_FILE_ROW else CONTEXT_FAMILY


def _divide(total: int, shares: Sequence[float]) -> list[int]:
    """Whole amounts in proportion to shares, which sum to the total.

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
    """The phases with the repositories of each serving by name, sorted; of `chat`, the conversations.

    A serving that names none keeps all of them. What is made of the result depends on names alone, never
    on how a diet writes them.

    Raises:
        DietError: for a pattern that matches nothing in the corpus, and for two servings of a phase that
            read the same rows then.
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
                cure="Make one serving of them, with the sum of their shares",
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
    found = [name for name in known if any(fnmatchcase(name, each) for each in patterns)]
    if not found:
        raise DietFieldError(
            f"phase {phase.name}, serving {serving.index}",
            f"repositories {pattern!r}",
            cause=f"it matches no {'conversations' if is_chat else 'repository'} of the corpus "
            f"{corpus.name} that is trained on",
            cure=nearest(pattern, known),
            location=("phases", at, "servings", serving.index, "repositories"),
        )
    return found


def structure_faults(phases: Sequence[ResolvedPhase]) -> Iterator[DietFault]:
    """Yield servings of structure that come before any phase of graphs has a gate.

    Structure is meant for a model that reads graphs already; without a gate the budget alone decides when it
    does. The first such serving is named.
    """
    graphs: list[str] = []
    for at, phase in enumerate(each for each in phases if not each.is_anneal):
        served = next((each for each in phase.servings if each.family == ENRICHED_FAMILY), None)
        if served is not None:
            yield _ungated(served, graphs, at=at, phase=phase.name)
            return
        if any(reads_commits(serving.family) for serving in phase.servings):
            graphs.append(phase.name)
            if phase.advance_when is not None:
                return


def _ungated(served: ResolvedServing, graphs: Sequence[str], *, at: int, phase: str) -> DietFault:
    """The fault of structure that comes behind phases of graphs without a gate, or behind none."""
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
