"""Panels of mixtures: shares planned and realised, repetition, repositories, and the mix at other shares."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection.formats import count, integer, percent
from curriculum.pipeline.next_steps import next_steps
from dashboards import frame, html
from dashboards.charts import marks
from dashboards.charts.marks import ServingShares, ShareLine, share_end
from dashboards.palette import family_class
from dashboards.questions import Question, Snapshot, narrowed, question
from dashboards.serving_lines import ServingLine, as_yaml
from schemas.mixture import cut_to

TEMPLATE = "mixtures.html"
MAX_REPOSITORIES = 20
"""Number of repositories with a line of their own."""
SHARE_STEP = 0.1
"""Step between the possible ends of axes of shares."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixed:
    """A line of mixed.sql: one phase of one specialist that has a mixture."""

    specialist: str
    phase: str
    tokens: int
    steps: int
    trained_steps: int
    warnings: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """A line of servings.sql: a serving in one domain."""

    specialist: str
    phase: str
    serving: int
    family: str
    objective: str
    row_length: int
    domain: str
    share: float
    served: float
    planned: float
    realised: float | None
    rows: int
    rows_tokens: int
    drawn: int
    drawn_before: int
    repetition: float
    budget: int
    max_repetition: float
    on_shortage: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A line of repositories.sql."""

    specialist: str
    phase: str
    repository: str
    tokens: int
    documents: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """One line of a diet in all its domains."""

    number: int
    family: str
    objective: str
    row_length: int
    strata: Sequence[Stratum]

    @property
    def how(self) -> str:
        """Objective and row length."""
        return f"{self.objective} at {integer(self.row_length)}"

    @property
    def title(self) -> str:
        """Family, objective and row length."""
        return f"{self.family} {self.how}"

    @property
    def share(self) -> float:
        """Share of the phase's tokens in the diet."""
        return sum(each.share for each in self.strata)

    @property
    def planned(self) -> float:
        """Share of the plan's tokens."""
        return sum(each.planned for each in self.strata)

    @property
    def realised(self) -> float | None:
        """Share of the tokens that were trained on; None where nothing was."""
        found = [each.realised for each in self.strata if each.realised is not None]
        return sum(found) if found else None

    @property
    def repetition(self) -> float:
        """Times that the plan sees a token of it, on average."""
        seen = sum(each.repetition * each.rows_tokens for each in self.strata)
        return seen / self.rows_tokens if self.rows_tokens else 0.0

    @property
    def repetition_before(self) -> float:
        """Times that earlier phases saw one of its rows, on average."""
        rows = sum(each.rows for each in self.strata)
        return sum(each.drawn_before for each in self.strata) / rows if rows else 0.0

    @property
    def rows_tokens(self) -> int:
        """Valid tokens of one pass over its rows."""
        return sum(each.rows_tokens for each in self.strata)


def mixed(snapshot: Snapshot) -> list[Mixed]:
    """Return the mixtures to choose from."""
    return snapshot.ask(question("panels/mixed"), Mixed)


def none_yet(home: Path) -> Markup:
    """The commands that make a first mixture."""
    return frame.first_steps(
        "No mixture yet",
        "A mixture is made of a diet and of packed rows.",
        next_steps(home, "mix"),
    )


def choose_mixture(of: Sequence[Mixed], who: str | None, phase: str | None) -> Mixed:
    """The mixture that was asked for, or the nearest to it."""
    assert of, "there is no mixture"
    mine = [each for each in of if each.specialist == who] or list(of)
    return next((each for each in mine if each.phase == phase), mine[0])


def about(name: str, which: Mixed) -> Question:
    """A question of one mixture alone."""
    return narrowed(
        question(f"panels/{name}"),
        specialist=which.specialist,
        phase=which.phase,
    )


def servings(snapshot: Snapshot, which: Mixed) -> list[Serving]:
    """The servings of a mixture, in the order of its diet."""
    grouped: dict[int, list[Stratum]] = {}
    for each in snapshot.ask(about("servings", which), Stratum):
        grouped.setdefault(each.serving, []).append(each)
    return [
        Serving(
            number=number,
            family=strata[0].family,
            objective=strata[0].objective,
            row_length=strata[0].row_length,
            strata=strata,
        )
        for number, strata in sorted(grouped.items())
    ]


def shares(which: Mixed, found: Sequence[Serving]) -> Markup:
    """Planned rings and realised dots, serving by serving; domains unfold."""
    is_trained = any(each.realised is not None for each in found)
    return html.part(
        TEMPLATE,
        "shares",
        marks,
        [_serving_shares(each) for each in found],
        _end(found),
        is_trained,
        which.warnings,
        about("servings", which),
    )


def _end(parts: Sequence[Serving] | Sequence[Stratum]) -> float:
    """The end of an axis on which all shares of some parts have room."""
    drawn = ((each.share, each.planned, each.realised or 0.0) for each in parts)
    return share_end([share for three in drawn for share in three], SHARE_STEP)


def _serving_shares(serving: Serving) -> ServingShares:
    """The line of a serving and those of its domains, the largest first; before it is trained, as planned."""
    is_trained = serving.realised is not None
    return ServingShares(
        own=_share_line(serving, serving, serving.family, serving.how, is_trained=is_trained),
        domains=tuple(
            _share_line(serving, each, each.domain, "", is_trained=is_trained)
            for each in sorted(serving.strata, key=lambda each: -each.share)
        ),
        end=_end(serving.strata),
    )


def _share_line(
    serving: Serving, part: Serving | Stratum, name: str, how: str, *, is_trained: bool
) -> ShareLine:
    realised = (part.realised or 0.0) if is_trained else part.planned
    tokens = count(part.planned * serving.strata[0].budget)
    return ShareLine(
        name=name,
        how=how,
        look=family_class(serving.family),
        planned=part.share,
        realised=realised,
        figures=(percent(part.share), percent(realised), tokens),
    )


def epochs(which: Mixed, found: Sequence[Serving]) -> Markup:
    """The repetition of each serving, against the diet's limit."""
    limit = found[0].strata[0].max_repetition
    most = max(1.1 * limit, *(one.repetition for each in found for one in each.strata))
    asked = about("servings", which)
    return html.part(TEMPLATE, "epochs", marks, family_class, found, limit, most, asked)


def repositories(snapshot: Snapshot, which: Mixed) -> Markup:
    """The share of each repository in a plan, the largest first."""
    asked = about("repositories", which)
    found = sorted(snapshot.ask(asked, Repository), key=lambda each: -each.tokens)
    whole = sum(each.tokens for each in found) or 1
    so_far, lines = 0, []
    for each in found[:MAX_REPOSITORIES]:
        so_far += each.tokens
        lines.append((each, each.tokens / whole, so_far / whole))
    rest = found[MAX_REPOSITORIES:]
    more = (len(rest), sum(each.tokens for each in rest) / whole) if rest else None
    concentration = _concentration(found, whole)
    return html.part(TEMPLATE, "repositories", marks, lines, more, concentration, asked)


def _concentration(found: Sequence[Repository], whole: int) -> str:
    """Describe how many repositories make up half, and how many equal ones would be as concentrated."""
    if not found:
        return "Nothing is planned."
    so_far, half = 0, 0
    for each in found:
        half += 1
        so_far += each.tokens
        if 2 * so_far >= whole:
            break
    alike = 1 / sum((each.tokens / whole) ** 2 for each in found) if whole else 0
    of = "repository" if len(found) == 1 else "repositories"
    return (
        f"{half} of {len(found)} {of} make up half of the tokens; the mixture is as concentrated as one of "
        f"{alike:.1f} that weigh alike."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Supply of one serving in one domain, and a plan's use of it."""

    serving: int
    domain: str
    tokens: int
    """Valid tokens of one pass over its rows."""
    share: float
    """Share of the phase's tokens in the diet; then at the other shares."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a phase."""

    budget: int
    """Valid tokens."""
    max_repetition: float
    renormalises: bool
    """True if shares are cut to what there is; else the mix stops."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Result of a mix at other shares."""

    shares: tuple[float, ...]
    """Served, of each supply in their order; they sum to 1."""
    short: tuple[int, ...]
    """Supplies of which more is asked than there is."""
    refusal: str
    """Reason why the mix would stop; empty where it wouldn't."""


def at_shares(supplies: Sequence[Supply], asked: Mapping[int, float]) -> list[Supply]:
    """The supplies with other shares of their servings; inside one, domains keep their proportion.

    >>> parts = (("a", 0.1), ("b", 0.3))
    >>> both = [Supply(serving=0, domain=name, tokens=1, share=part) for name, part in parts]
    >>> [round(each.share, 3) for each in at_shares(both, {0: 0.8})]
    [0.2, 0.6]
    """
    whole: dict[int, float] = {}
    for each in supplies:
        whole[each.serving] = whole.get(each.serving, 0.0) + each.share
    return [
        replace(each, share=asked[each.serving] * each.share / (whole[each.serving] or 1.0))
        for each in supplies
    ]


def outcome(supplies: Sequence[Supply], limits: Limits) -> Outcome:
    """Return the amounts that the mix would serve of each supply, or why it would stop."""
    whole = math.fsum(each.share for each in supplies)
    if whole <= 0:
        nothing = tuple(0.0 for _ in supplies)
        return Outcome(shares=nothing, short=(), refusal="Nothing is asked.")
    shares = [each.share / whole for each in supplies]
    # A serving that nothing is asked of is as good as left out.
    most = [
        limits.max_repetition * each.tokens / limits.budget if each.share else 0.0
        for each in supplies
    ]
    short = tuple(at for at, share in enumerate(shares) if share > most[at])
    if not short:
        return Outcome(shares=tuple(shares), short=(), refusal="")
    if not limits.renormalises:
        refusal = _shortage(supplies, shares, short, limits)
        return Outcome(shares=tuple(shares), short=short, refusal=refusal)
    if math.fsum(most) < 1:
        there = int(math.fsum(most) * limits.budget)
        refusal = (
            f"{limits.budget:,} tokens are asked, and all servings together have {there:,} at a "
            f"repetition of {limits.max_repetition:g}."
        )
        return Outcome(shares=tuple(shares), short=short, refusal=refusal)
    return Outcome(shares=tuple(cut_to(shares, most)), short=short, refusal="")


def _shortage(
    supplies: Sequence[Supply], shares: Sequence[float], short: Sequence[int], limits: Limits
) -> str:
    worst = max(short, key=lambda at: shares[at] / supplies[at].tokens)
    asked = shares[worst] * limits.budget
    others = ", ".join(supplies[at].domain for at in short if at != worst)
    too = f" Too few as well: {others}." if others else ""
    return (
        f"Domain {supplies[worst].domain}: {asked:,.0f} tokens are asked and there are "
        f"{supplies[worst].tokens:,}. Each row would be seen "
        f"{asked / supplies[worst].tokens:.2f} times; max_repetition is {limits.max_repetition:g}.{too}"
    )


def supplies(found: Sequence[Serving]) -> list[Supply]:
    """Return the supplies, as the mix computes them."""
    return [
        Supply(serving=each.number, domain=one.domain, tokens=one.rows_tokens, share=one.share)
        for each in found
        for one in each.strata
    ]


def limits(found: Sequence[Serving], *, budget: int | None = None) -> Limits:
    """Return the limits of the phase."""
    first = found[0].strata[0]
    return Limits(
        budget=first.budget if budget is None else budget,
        max_repetition=first.max_repetition,
        renormalises=first.on_shortage == "renormalise",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfLine:
    """A serving at another share."""

    serving: Serving
    control: Markup
    """Its slider."""
    share: float
    repetition: float
    """The repetition of its tokens in the domain that is seen most often."""
    is_short: bool


def lines(snapshot: Snapshot, which: Mixed) -> list[ServingLine]:
    """The servings of a mixture as its diet says them."""
    return snapshot.ask(about("lines", which), ServingLine)


def what_if(
    which: Mixed,
    found: Sequence[Serving],
    of_diet: Sequence[ServingLine],
    sliders: Sequence[Markup],
    asked: Sequence[float],
    budget_slider: Markup,
    budget_times: float,
) -> Markup:
    """Sliders for the shares of each serving and for the budget, and what the mix would make of them."""
    now = limits(found)
    then = limits(found, budget=round(now.budget * budget_times))
    wanted = {each.number: share for each, share in zip(found, asked, strict=True)}
    parts = at_shares(supplies(found), wanted)
    result = outcome(parts, then)
    shown = []
    for serving in found:
        places = [at for at, part in enumerate(parts) if part.serving == serving.number]
        line = WhatIfLine(
            serving=serving,
            control=sliders[serving.number],
            share=sum(result.shares[at] for at in places),
            repetition=max(
                result.shares[at] * then.budget / parts[at].tokens
                for at in places
                if parts[at].tokens
            ),
            is_short=any(at in result.short for at in places),
        )
        shown.append(line)
    return html.part(
        TEMPLATE,
        "what_if",
        marks,
        family_class,
        shown,
        budget=then.budget,
        budget_control=budget_slider,
        planned_budget=now.budget,
        limit=then.max_repetition,
        most=max([then.max_repetition, *(line.repetition for line in shown)]),
        verdict=_verdict(result),
        is_refused=bool(result.refusal),
        yaml=as_yaml(of_diet, wanted, f"phase {which.phase} of {which.specialist}"),
        asked=[about("servings", which), about("lines", which)],
    )


def _verdict(result: Outcome) -> str:
    if result.refusal:
        return f"The mix would stop. {result.refusal}"
    if result.short:
        return (
            f"The mix would cut {len(result.short)} strata to what there is, and raise the others."
        )
    return "The mix would serve these shares as they are."
