"""Panels of mixtures: shares planned and realised, repetition, repositories, and the mix at other shares."""

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
from schemas.mixture import ServedShares, served_shares

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


def at_shares(strata: Sequence[Stratum], asked: Mapping[int, float]) -> list[Stratum]:
    """Return the strata with other shares of their servings, in which domains keep their proportion."""
    whole: dict[int, float] = {}
    for stratum in strata:
        whole[stratum.serving] = whole.get(stratum.serving, 0.0) + stratum.share
    return [
        replace(part, share=asked[part.serving] * part.share / (whole[part.serving] or 1.0))
        for part in strata
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIf:
    """The mix of strata at the shares that are asked of them, and at a budget in valid tokens."""

    strata: Sequence[Stratum]
    budget: int
    served: ServedShares

    @property
    def refusal(self) -> str:
        """Return why the mix would stop; empty where it wouldn't."""
        if not any(self.served.shares):
            return "Nothing is asked."
        first = self.strata[0]
        if self.served.short and first.on_shortage != "renormalise":
            return self._shortage()
        if self.served.short and self.served.available < 1:
            return (
                f"{self.budget:,} tokens are asked, and all servings together have "
                f"{int(self.served.available * self.budget):,} at a repetition of "
                f"{first.max_repetition:g}."
            )
        return ""

    def _shortage(self) -> str:
        shares, short = self.served.shares, self.served.short
        at = max(short, key=lambda at: shares[at] / self.strata[at].rows_tokens)
        worst, asked = self.strata[at], shares[at] * self.budget
        others = ", ".join(self.strata[other].domain for other in short if other != at)
        too = f" Too few as well: {others}." if others else ""
        return (
            f"Domain {worst.domain}: {asked:,.0f} tokens are asked and there are "
            f"{worst.rows_tokens:,}. Each row would be seen {asked / worst.rows_tokens:.2f} times; "
            f"max_repetition is {worst.max_repetition:g}.{too}"
        )


def what_if_of(strata: Sequence[Stratum], asked: Mapping[int, float], budget: int) -> WhatIf:
    """Return the mix at other shares of the servings, as the mix itself computes it."""
    wanted = at_shares(strata, asked)
    served = served_shares(
        [stratum.share for stratum in wanted],
        [stratum.rows_tokens for stratum in wanted],
        budget=budget,
        max_repetition=wanted[0].max_repetition,
        renormalises=wanted[0].on_shortage == "renormalise",
    )
    return WhatIf(strata=wanted, budget=budget, served=served)


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
    strata = [stratum for serving in found for stratum in serving.strata]
    first = strata[0]
    wanted = {each.number: share for each, share in zip(found, asked, strict=True)}
    then = what_if_of(strata, wanted, round(first.budget * budget_times))
    shown = [_what_if_line(serving, then, sliders[serving.number]) for serving in found]
    return html.part(
        TEMPLATE,
        "what_if",
        marks,
        family_class,
        shown,
        budget=then.budget,
        budget_control=budget_slider,
        planned_budget=first.budget,
        limit=first.max_repetition,
        most=max([first.max_repetition, *(line.repetition for line in shown)]),
        verdict=_verdict(then),
        is_refused=bool(then.refusal),
        yaml=as_yaml(of_diet, wanted, f"phase {which.phase} of {which.specialist}"),
        asked=[about("servings", which), about("lines", which)],
    )


def _what_if_line(serving: Serving, then: WhatIf, control: Markup) -> WhatIfLine:
    places = [at for at, part in enumerate(then.strata) if part.serving == serving.number]
    shares = then.served.shares
    return WhatIfLine(
        serving=serving,
        control=control,
        share=sum(shares[at] for at in places),
        repetition=max(
            shares[at] * then.budget / then.strata[at].rows_tokens
            for at in places
            if then.strata[at].rows_tokens
        ),
        is_short=any(at in then.served.short for at in places),
    )


def _verdict(then: WhatIf) -> str:
    if then.refusal:
        return f"The mix would stop. {then.refusal}"
    if then.served.short:
        return (
            f"The mix would cut {len(then.served.short)} strata to what there is, and raise the "
            "others."
        )
    return "The mix would serve these shares as they are."
