"""Panels of mixtures: shares planned and realised, repetition, repositories, and the mix at other shares."""

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection.formats import count, integer
from curriculum.pipeline.next_steps import next_steps
from dashboards import frame, html
from dashboards.charts import marks
from dashboards.charts.marks import ServingShares, ShareLine, share_end
from dashboards.palette import family_class
from dashboards.questions import Question, WorkspaceView, narrowed, question
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
    warnings: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class StratumLine:
    """A line of servings.sql: a serving in one domain."""

    serving: int
    family: str
    objective: str
    row_length: int
    domain: str
    share: float
    planned: float
    realised: float | None
    rows: int
    rows_tokens: int
    drawn_before: int
    repetition: float
    budget: int
    max_repetition: float
    on_shortage: str

    @property
    def how(self) -> str:
        """Objective and row length."""
        return f"{self.objective} at {integer(self.row_length)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryLine:
    """A line of repositories.sql."""

    repository: str
    tokens: int
    documents: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingTotals:
    """One line of a diet in all its domains."""

    strata: Sequence[StratumLine]

    @property
    def first(self) -> StratumLine:
        """Its first domain; number, family, objective and row length are those of all."""
        return self.strata[0]

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


def mixed(snapshot: WorkspaceView) -> list[Mixed]:
    """Return the mixtures to choose from."""
    return snapshot.ask(question("panels/mixed"), Mixed)


def none_yet(home: Path) -> Markup:
    """The commands that make a first mixture."""
    why = "`mix` draws a mixture from packed rows as a diet describes it."
    return frame.first_steps("No mixtures yet", why, next_steps(home, "mix"))


def choose_mixture(of: Sequence[Mixed], who: str | None, phase: str | None) -> Mixed:
    """The mixture that was asked for, or the nearest to it."""
    assert of, "there is no mixture"
    mine = [each for each in of if each.specialist == who] or list(of)
    return next((each for each in mine if each.phase == phase), mine[0])


def about(name: str, which: Mixed) -> Question:
    """A question of one mixture alone."""
    asked = question(f"panels/{name}")
    return narrowed(asked, specialist=which.specialist, phase=which.phase)


def servings(snapshot: WorkspaceView, which: Mixed) -> list[ServingTotals]:
    """The servings of a mixture, in the order of its diet."""
    in_order = operator.attrgetter("serving")
    found = sorted(snapshot.ask(about("servings", which), StratumLine), key=in_order)
    grouped = itertools.groupby(found, key=in_order)
    return [ServingTotals(strata=[*strata]) for _, strata in grouped]


def shares(which: Mixed, found: Sequence[ServingTotals]) -> Markup:
    """Planned rings and realised dots, serving by serving; domains unfold."""
    lines = [_serving_shares(serving) for serving in found]
    is_trained = any(serving.realised is not None for serving in found)
    asked = about("servings", which)
    return html.part(
        TEMPLATE, "shares", marks, lines, _end(found), is_trained, which.warnings, asked
    )


def _end(parts: Sequence[ServingTotals | StratumLine]) -> float:
    """The end of an axis on which all shares of some parts have room."""
    drawn = ((part.share, part.planned, part.realised or 0.0) for part in parts)
    return share_end([share for three in drawn for share in three], SHARE_STEP)


def _serving_shares(serving: ServingTotals) -> ServingShares:
    """The line of a serving and those of its domains, the largest first; before it is trained, as planned."""
    strata = sorted(serving.strata, key=lambda stratum: -stratum.share)
    return ServingShares(
        own=_share_line(serving, serving, serving.first.family, serving.first.how),
        domains=tuple(_share_line(serving, stratum, stratum.domain) for stratum in strata),
        end=_end(strata),
    )


def _share_line(
    serving: ServingTotals, part: ServingTotals | StratumLine, name: str, how: str = ""
) -> ShareLine:
    return ShareLine(
        name=name,
        how=how,
        family=serving.first.family,
        planned=part.share,
        realised=part.planned if serving.realised is None else part.realised or 0.0,
        more=(count(part.planned * serving.first.budget),),
    )


def epochs(which: Mixed, found: Sequence[ServingTotals]) -> Markup:
    """The repetition of each serving, against the diet's limit."""
    limit = found[0].first.max_repetition
    most = max(1.1 * limit, *(one.repetition for each in found for one in each.strata))
    asked = about("servings", which)
    return html.part(TEMPLATE, "epochs", marks, family_class, found, limit, most, asked)


def repositories(snapshot: WorkspaceView, which: Mixed) -> Markup:
    """The share of each repository in a plan, the largest first."""
    asked = about("repositories", which)
    found = sorted(snapshot.ask(asked, RepositoryLine), key=lambda each: -each.tokens)
    so_far = [*itertools.accumulate(each.tokens for each in found)]
    whole = max(1, *so_far[-1:])
    lines = [
        (each, each.tokens / whole, together / whole)
        for each, together in zip(found, so_far, strict=True)
    ][:MAX_REPOSITORIES]
    rest = found[MAX_REPOSITORIES:]
    more = (len(rest), sum(each.tokens for each in rest) / whole) if rest else None
    concentration = _concentration([each.tokens for each in found])
    return html.part(TEMPLATE, "repositories", marks, lines, more, concentration, asked)


def _concentration(tokens: Sequence[int]) -> str:
    """Describe how many repositories make up half, and how many equal ones would be as concentrated."""
    if not tokens:
        return "The plan has no tokens."
    half = 1 + sum(2 * together < sum(tokens) for together in itertools.accumulate(tokens))
    alike = sum(tokens) ** 2 / sum(own**2 for own in tokens)
    of = "repository" if len(tokens) == 1 else "repositories"
    has = "has" if half == 1 else "have"
    return (
        f"{half} of {len(tokens)} {of} {has} half of the tokens. "
        f"Effective number of repositories: {alike:.1f}."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIf:
    """The mix of strata at the shares that are asked of them, and at a budget in valid tokens."""

    strata: Sequence[StratumLine]
    budget: int
    served: ServedShares

    @property
    def seen(self) -> list[float]:
        """Times that each stratum is seen."""
        return [
            share * self.budget / part.rows_tokens if part.rows_tokens else 0.0
            for share, part in zip(self.served.shares, self.strata, strict=True)
        ]

    @property
    def refusal(self) -> str:
        """Return why the mix would stop; empty where it wouldn't."""
        shares, short, first = self.served.shares, self.served.short, self.strata[0]
        if not any(shares):
            return "All requested shares are 0."
        if not short or (first.on_shortage == "renormalise" and self.served.available >= 1):
            return ""
        if first.on_shortage == "renormalise":
            return (
                f"The budget is {self.budget:,} tokens, but all servings together have only "
                f"{int(self.served.available * self.budget):,} at max_repetition {first.max_repetition:g}."
            )
        at = max(short, key=lambda at: shares[at] / self.strata[at].rows_tokens)
        others = ", ".join(self.strata[other].domain for other in short if other != at)
        too = f" Also too small: {others}." if others else ""
        return (
            f"Domain {self.strata[at].domain} has {self.strata[at].rows_tokens:,} tokens, but "
            f"{shares[at] * self.budget:,.0f} are requested. Each row would be repeated {self.seen[at]:.2f} "
            f"times; max_repetition is {first.max_repetition:g}.{too}"
        )

    @property
    def verdict(self) -> str:
        """Return what the mix would do, in a sentence."""
        if self.refusal:
            return f"`mix` would stop with an error. {self.refusal}"
        if self.served.short:
            cut = f"`mix` would reduce {len(self.served.short)} strata to their available tokens"
            return f"{cut} and increase the others."
        return "`mix` would use these shares unchanged."


def what_if_of(servings: Sequence[ServingTotals], asked: Sequence[float], budget: int) -> WhatIf:
    """Return the mix at other shares of the servings, as the mix itself computes it.

    The domains of a serving keep their proportion.
    """
    strata = [stratum for serving in servings for stratum in serving.strata]
    served = served_shares(
        [
            share * stratum.share / (serving.share or 1.0)
            for serving, share in zip(servings, asked, strict=True)
            for stratum in serving.strata
        ],
        [stratum.rows_tokens for stratum in strata],
        budget=budget,
        max_repetition=strata[0].max_repetition,
        renormalises=strata[0].on_shortage == "renormalise",
    )
    return WhatIf(strata=strata, budget=budget, served=served)


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfLine:
    """A serving at another share."""

    serving: ServingTotals
    control: Markup
    """Its slider."""
    share: float
    repetition: float
    """The repetition of its tokens in the domain that is seen most often."""
    is_short: bool


def lines(snapshot: WorkspaceView, which: Mixed) -> list[ServingLine]:
    """The servings of a mixture as its diet says them."""
    return snapshot.ask(about("lines", which), ServingLine)


def what_if(
    which: Mixed,
    found: Sequence[ServingTotals],
    of_diet: Sequence[ServingLine],
    sliders: Sequence[Markup],
    asked: Sequence[float],
    budget_slider: Markup,
    budget_times: float,
) -> Markup:
    """Sliders for the shares of each serving and for the budget, and what the mix would make of them."""
    first = found[0].first
    then = what_if_of(found, asked, round(first.budget * budget_times))
    shown = [
        _what_if_line(serving, then, slider) for serving, slider in zip(found, sliders, strict=True)
    ]
    wanted = {each.first.serving: share for each, share in zip(found, asked, strict=True)}
    most = max([first.max_repetition, *(line.repetition for line in shown)])
    yaml = as_yaml(of_diet, wanted, f"phase {which.phase} of {which.specialist}")
    questions = [about("servings", which), about("lines", which)]
    return html.part(
        TEMPLATE, "what_if", marks, family_class, shown, then, budget_slider, most, yaml, questions
    )


def _what_if_line(serving: ServingTotals, then: WhatIf, control: Markup) -> WhatIfLine:
    places = [at for at, part in enumerate(then.strata) if part.serving == serving.first.serving]
    return WhatIfLine(
        serving=serving,
        control=control,
        share=sum(then.served.shares[at] for at in places),
        repetition=max(then.seen[at] for at in places),
        is_short=any(at in then.served.short for at in places),
    )
