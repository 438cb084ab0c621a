"""Panels of mixtures: planned and realised shares, repetition, repositories, preview of other shares."""

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
"""Maximum number of repositories in the table."""
SHARE_STEP = 0.1
"""Axes of shares end at a multiple of this share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixed:
    """A row of the result of mixed.sql: a phase of a specialist, for which there is a mixture."""

    specialist: str
    phase: str
    warnings: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class StratumLine:
    """A row of the result of servings.sql: a stratum, which is a serving in one domain."""

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
        """Objective and row length of the serving, in words."""
        return f"{self.objective} at {integer(self.row_length)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryLine:
    """A row of the result of repositories.sql: a repository in a mixture."""

    repository: str
    tokens: int
    documents: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingTotals:
    """A serving of a diet, summed over its domains."""

    strata: Sequence[StratumLine]

    @property
    def first(self) -> StratumLine:
        """First stratum, for serving number, family, objective and row length, which all strata share."""
        return self.strata[0]

    @property
    def share(self) -> float:
        """Share of the phase's tokens that the diet requests."""
        return sum(stratum.share for stratum in self.strata)

    @property
    def planned(self) -> float:
        """Share of the tokens in the mixture's plan."""
        return sum(stratum.planned for stratum in self.strata)

    @property
    def realised(self) -> float | None:
        """Share of the tokens that were trained on; None before training."""
        found = [stratum.realised for stratum in self.strata if stratum.realised is not None]
        return sum(found) if found else None

    @property
    def repetition(self) -> float:
        """Mean number of times that the plan contains each token of the rows."""
        seen = sum(stratum.repetition * stratum.rows_tokens for stratum in self.strata)
        return seen / self.rows_tokens if self.rows_tokens else 0.0

    @property
    def repetition_before(self) -> float:
        """Mean number of times that earlier phases read each row."""
        rows = sum(stratum.rows for stratum in self.strata)
        return sum(stratum.drawn_before for stratum in self.strata) / rows if rows else 0.0

    @property
    def rows_tokens(self) -> int:
        """Number of tokens in the rows, padding not counted."""
        return sum(stratum.rows_tokens for stratum in self.strata)


def mixed(snapshot: WorkspaceView) -> list[Mixed]:
    """Return the mixtures of a workspace."""
    return snapshot.ask(question("panels/mixed"), Mixed)


def none_yet(home: Path) -> Markup:
    """Return a panel for a workspace without mixtures; it shows the commands that make the first one."""
    why = "`mix` draws a mixture from packed rows as a diet describes it."
    return frame.first_steps("No mixtures yet", why, next_steps(home, "mix"))


def choose_mixture(of: Sequence[Mixed], who: str | None, phase: str | None) -> Mixed:
    """Return the mixture of the specialist `who` and the phase `phase`.

    Without such a mixture, return the first one of the specialist, or else the first one of all.
    """
    assert of, "there is no mixture"
    mine = [mixture for mixture in of if mixture.specialist == who] or list(of)
    return next((mixture for mixture in mine if mixture.phase == phase), mine[0])


def about(name: str, which: Mixed) -> Question:
    """Return the question of the panel `name`, limited to one mixture."""
    asked = question(f"panels/{name}")
    return narrowed(asked, specialist=which.specialist, phase=which.phase)


def servings(snapshot: WorkspaceView, which: Mixed) -> list[ServingTotals]:
    """Return the servings of a mixture, in the order of its diet."""
    in_order = operator.attrgetter("serving")
    found = sorted(snapshot.ask(about("servings", which), StratumLine), key=in_order)
    grouped = itertools.groupby(found, key=in_order)
    return [ServingTotals(strata=[*strata]) for _, strata in grouped]


def shares(which: Mixed, found: Sequence[ServingTotals]) -> Markup:
    """Return the panel of planned and realised shares by serving; its domains can be unfolded."""
    lines = [_serving_shares(serving) for serving in found]
    is_trained = any(serving.realised is not None for serving in found)
    asked = about("servings", which)
    return html.part(
        TEMPLATE, "shares", marks, lines, _end(found), is_trained, which.warnings, asked
    )


def _end(parts: Sequence[ServingTotals | StratumLine]) -> float:
    """Return the end of an axis on which all shares fit."""
    drawn = ((part.share, part.planned, part.realised or 0.0) for part in parts)
    return share_end([share for three in drawn for share in three], SHARE_STEP)


def _serving_shares(serving: ServingTotals) -> ServingShares:
    """Return the share line of a serving and those of its domains, of which the largest comes first."""
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
    """Return the panel that compares the repetition of each serving with the limit in the diet."""
    limit = found[0].first.max_repetition
    most = max(1.1 * limit, *(one.repetition for serving in found for one in serving.strata))
    asked = about("servings", which)
    return html.part(TEMPLATE, "epochs", marks, family_class, found, limit, most, asked)


def repositories(snapshot: WorkspaceView, which: Mixed) -> Markup:
    """Return the panel with the share of each repository in the plan, largest first."""
    asked = about("repositories", which)
    found = sorted(snapshot.ask(asked, RepositoryLine), key=lambda line: -line.tokens)
    so_far = [*itertools.accumulate(line.tokens for line in found)]
    whole = max(1, *so_far[-1:])
    lines = [
        (line, line.tokens / whole, together / whole)
        for line, together in zip(found, so_far, strict=True)
    ][:MAX_REPOSITORIES]
    rest = found[MAX_REPOSITORIES:]
    more = (len(rest), sum(line.tokens for line in rest) / whole) if rest else None
    concentration = _concentration([line.tokens for line in found])
    return html.part(TEMPLATE, "repositories", marks, lines, more, concentration, asked)


def _concentration(tokens: Sequence[int]) -> str:
    """Describe how the tokens are spread over repositories.

    The text says how many repositories have half of the tokens, and the effective number of repositories.
    """
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
    """Preview of a mixture with other shares and another budget in tokens, padding not counted."""

    strata: Sequence[StratumLine]
    budget: int
    served: ServedShares

    @property
    def seen(self) -> list[float]:
        """Repetition of each stratum in the preview."""
        return [
            share * self.budget / part.rows_tokens if part.rows_tokens else 0.0
            for share, part in zip(self.served.shares, self.strata, strict=True)
        ]

    @property
    def refusal(self) -> str:
        """Reason why `mix` would stop with an error; empty if it would succeed."""
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
        """Sentence that says what `mix` would do with these shares."""
        if self.refusal:
            return f"`mix` would stop with an error. {self.refusal}"
        if self.served.short:
            cut = f"`mix` would reduce {len(self.served.short)} strata to their available tokens"
            return f"{cut} and increase the others."
        return "`mix` would use these shares unchanged."


def what_if_of(servings: Sequence[ServingTotals], asked: Sequence[float], budget: int) -> WhatIf:
    """Compute the mixture for other shares of the servings, with the same function as `mix`.

    `asked` has the new share of each serving. The domains of a serving keep their proportions.
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
    """A serving in the panel of the preview."""

    serving: ServingTotals
    control: Markup
    """Slider of the share."""
    share: float
    repetition: float
    """Repetition in the most repeated domain."""
    is_short: bool


def lines(snapshot: WorkspaceView, which: Mixed) -> list[ServingLine]:
    """Return the servings of a mixture, as `serving_lines` needs them to write them as lines of a diet."""
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
    """Return the panel with sliders for shares and budget, and the resulting mixture."""
    first = found[0].first
    then = what_if_of(found, asked, round(first.budget * budget_times))
    shown = [
        _what_if_line(serving, then, slider) for serving, slider in zip(found, sliders, strict=True)
    ]
    wanted = {serving.first.serving: share for serving, share in zip(found, asked, strict=True)}
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
