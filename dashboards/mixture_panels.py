"""The panels of mixtures: shares planned and realised, repetition, repositories."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dashboards import charts, frame
from dashboards.charts import amount, share
from dashboards.frame import text
from dashboards.overview_panels import title
from dashboards.questions import Question, Snapshot, narrowed, question
from schemas.mixture import cut_to

MOST_REPOSITORIES = 20
"""Number of repositories with a line of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixed:
    """A line of mixed.sql: one phase of one specialist that has a mixture."""

    specialist: str
    branch: str | None
    phase: str
    tokens: int
    steps: int
    trained_steps: int
    warnings: list[str]

    @property
    def who(self) -> str:
        """The specialist, and its branch."""
        return title(self.specialist, self.branch)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """A line of servings.sql: a serving in one domain."""

    specialist: str
    branch: str | None
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
    branch: str | None
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
    def name(self) -> str:
        """Name on the page."""
        return f"{self.family} {self.objective} at {self.row_length:,}"

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
        return _passes(self.strata)


def mixed(snapshot: Snapshot) -> list[Mixed]:
    """Return the mixtures to choose from."""
    return snapshot.ask(question("panels/mixed"), Mixed)


def none_yet() -> str:
    """Say how to make a first mixture."""
    return frame.card(
        "first",
        "No mixture yet",
        '<ol class="first"><li><code>curriculum mix templates.demo</code><small>the rows that a diet '
        "selects, in training order; what isn’t built yet is built</small></li></ol>",
        why="A mixture is made of a diet and of packed rows.",
    )


def choose_mixture(of: Sequence[Mixed], who: str | None, phase: str | None) -> Mixed:
    """The mixture that was asked for, or the nearest to it."""
    assert of, "there is no mixture"
    mine = [each for each in of if each.who == who] or list(of)
    return next((each for each in mine if each.phase == phase), mine[0])


def about(name: str, which: Mixed) -> Question:
    """A question of one mixture alone."""
    return narrowed(
        question(f"panels/{name}"),
        specialist=which.specialist,
        branch=which.branch,
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


def shares(which: Mixed, found: Sequence[Serving]) -> str:
    """Planned rings and realised dots, serving by serving; domains unfold."""
    of = charts.scale(max(max(each.share, each.planned, each.realised or 0) for each in found))
    trained = any(each.realised is not None for each in found)
    dot = (
        "what the steps so far took" if trained else "what the plan holds, which isn’t trained yet"
    )
    heads = "".join(
        f"<span>{head}</span>" for head in ("planned", "realised" if trained else "plan", "tokens")
    )
    lines = "".join(_lanes(each, of) for each in found)
    warned = "".join(f'<p class="warning">{text(each)}</p>' for each in which.warnings)
    body = (
        f'<div class="lanes"><div class="lane-line heads"><span></span>{charts.axis(of)}{heads}</div>'
        f"{lines}</div>{warned}"
    )
    return frame.card(
        "shares",
        "Planned and realised",
        body,
        asked=[about("servings", which)],
        why=f"Ring: the diet’s share of the phase’s tokens. Dot: {dot}. A stratum comes in whole slots, so "
        "short plans stray further from their diet than long ones.",
    )


def _lanes(each: Serving, of: float) -> str:
    look = frame.family(each.family)
    realised = each.planned if each.realised is None else each.realised
    line = _serving_line(
        f"{text(each.family)} <small>{text(each.objective)} at {each.row_length:,}</small>",
        (each.share, realised, sum(one.planned for one in each.strata), each.strata[0].budget),
        of=of,
        look=look,
    )
    if len(each.strata) == 1:
        return line
    most = charts.scale(max(max(one.share, one.planned, one.realised or 0) for one in each.strata))
    inner = "".join(
        _serving_line(
            text(one.domain),
            (
                one.share,
                one.planned if each.realised is None else one.realised or 0.0,
                one.planned,
                one.budget,
            ),
            of=most,
            look=look,
        )
        for one in sorted(each.strata, key=lambda one: -one.share)
    )
    return (
        f"{line}<details><summary>{len(each.strata)} domains</summary>"
        f'<div class="lane-line heads"><span></span>{charts.axis(most)}</div>{inner}</details>'
    )


def _serving_line(
    name: str, figures: tuple[float, float, float, int], *, of: float, look: str
) -> str:
    planned, realised, held, budget = figures
    return (
        f'<div class="lane-line {look}"><b>{name}</b>'
        f"{charts.dumbbell(planned, realised, of=of, look=look)}<span>{share(planned)}</span>"
        f"<span>{share(realised)}</span><span>{amount(held * budget)}</span></div>"
    )


def epochs(which: Mixed, found: Sequence[Serving]) -> str:
    """Draw the repetition of each serving, against the diet's limit."""
    limit = found[0].strata[0].max_repetition
    of = max(1.1 * limit, *(max(one.repetition for one in each.strata) for each in found))
    lines = "".join(
        f'<tr><th><i class="{frame.family(each.family)}"></i>{text(each.family)} '
        f"<small>{text(each.objective)} at {each.row_length:,}</small></th>"
        f'<td class="drawn">{charts.bar(each.repetition, of=of, look=frame.family(each.family), limit=limit)}'
        f"</td><td class=n>{each.repetition:.2f}</td><td class=n>{_before(each):.2f}</td>"
        f"<td class=n>{amount(sum(one.rows_tokens for one in each.strata))}</td></tr>"
        for each in found
    )
    heads = (
        '<th>serving</th><th></th><th class="n">times seen</th><th class="n">before</th>'
        '<th class="n">there are</th>'
    )
    body = f"<table class=data><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    return frame.card(
        "epochs",
        "Epochs",
        body,
        asked=[about("servings", which)],
        why=f"How often the plan sees each token of a serving; the line is the most that the diet allows, "
        f"{limit:g}. before: by earlier phases, of the same rows.",
    )


def _passes(strata: Sequence[Stratum]) -> float:
    there = sum(each.rows_tokens for each in strata)
    return sum(each.repetition * each.rows_tokens for each in strata) / there if there else 0.0


def _before(each: Serving) -> float:
    rows = sum(one.rows for one in each.strata)
    return sum(one.drawn_before for one in each.strata) / rows if rows else 0.0


def repositories(snapshot: Snapshot, which: Mixed) -> str:
    """Draw the share of each repository in a plan, the largest first."""
    asked = about("repositories", which)
    found = sorted(snapshot.ask(asked, Repository), key=lambda each: -each.tokens)
    whole = sum(each.tokens for each in found) or 1
    so_far, lines = 0, ""
    for each in found[:MOST_REPOSITORIES]:
        so_far += each.tokens
        lines += (
            f"<tr><th>{text(each.repository)}</th>"
            f'<td class="drawn">{charts.bar(each.tokens, of=max(1, found[0].tokens))}</td>'
            f"<td class=n>{share(each.tokens / whole)}</td><td class=n>{share(so_far / whole)}</td>"
            f"<td class=n>{amount(each.tokens)}</td><td class=n>{each.documents:,}</td></tr>"
        )
    rest = found[MOST_REPOSITORIES:]
    said = f"<p>{len(rest):,} more have {share(sum(one.tokens for one in rest) / whole)}.</p>"
    heads = (
        '<th>repository</th><th></th><th class="n">share</th><th class="n">together</th>'
        '<th class="n">tokens</th><th class="n">documents</th>'
    )
    body = f"<table class=data><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    return frame.card(
        "repositories",
        "Repositories",
        body + (said if rest else ""),
        asked=[asked],
        why=_concentration(found, whole),
    )


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
    """Reason why the mix would stop; empty where it goes on."""


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
        said = _shortage(supplies, shares, short, limits)
        return Outcome(shares=tuple(shares), short=short, refusal=said)
    if math.fsum(most) < 1:
        there = int(math.fsum(most) * limits.budget)
        said = (
            f"{limits.budget:,} tokens are asked, and all servings together have {there:,} at a "
            f"repetition of {limits.max_repetition:g}."
        )
        return Outcome(shares=tuple(shares), short=short, refusal=said)
    return Outcome(shares=tuple(cut_to(shares, most)), short=short, refusal="")


def _shortage(
    supplies: Sequence[Supply], shares: Sequence[float], short: Sequence[int], limits: Limits
) -> str:
    worst = max(short, key=lambda at: shares[at] / supplies[at].tokens)
    asked = shares[worst] * limits.budget
    others = f", and {len(short) - 1} more are short" if len(short) > 1 else ""
    return (
        f"Domain {supplies[worst].domain}: {asked:,.0f} tokens are asked and there are "
        f"{supplies[worst].tokens:,}{others}. Each row would be seen "
        f"{asked / supplies[worst].tokens:.2f} times; max_repetition is {limits.max_repetition:g}."
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


def card(
    which: Mixed,
    found: Sequence[Serving],
    controls: Sequence[str],
    asked: Sequence[float],
    times: tuple[str, float],
) -> str:
    """Sliders for the shares of each serving, and what the mix would make of them."""
    budget, budget_times = times
    now = limits(found)
    then = limits(found, budget=round(now.budget * budget_times))
    wanted = {each.number: part for each, part in zip(found, asked, strict=True)}
    those = at_shares(supplies(found), wanted)
    result = outcome(those, then)
    most = max([then.max_repetition, *(_times(result, those, then, each.number) for each in found)])
    lines = "".join(_line(each, controls[each.number], those, result, then, most) for each in found)
    heads = (
        '<th>serving</th><th>share asked</th><th class="n">share</th><th class="n">tokens</th><th></th>'
        '<th class="n">times seen</th>'
    )
    body = (
        f'<div class="budget"><label>Budget ×</label>{budget}<span>{amount(then.budget)} tokens, of '
        f"{amount(now.budget)} as planned</span></div>"
        f"<table class='data if'><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
        f'<p class="verdict {"no" if result.refusal else "yes"}">{text(_verdict(result))}</p>'
    )
    return frame.card(
        "what_if",
        "What if",
        body,
        asked=[about("servings", which)],
        why="Move the shares: they are made to sum to 1, and reckoned as the mix would. Small figures are "
        "those of the diet; times seen is of the domain that is seen most. Nothing is changed by this.",
    )


def _line(
    each: Serving,
    control: str,
    those: Sequence[Supply],
    result: Outcome,
    then: Limits,
    most: float,
) -> str:
    served = sum(
        part for one, part in zip(those, result.shares, strict=True) if one.serving == each.number
    )
    seen = _times(result, those, then, each.number)
    short = any(those[at].serving == each.number for at in result.short)
    look = frame.family(each.family)
    return (
        f'<tr data-serving="{each.number}"{" class=short" if short else ""}><th><i class="{look}"></i>'
        f"{text(each.family)} <small>{text(each.objective)} at {each.row_length:,}</small></th>"
        f"<td class=control>{control}</td>"
        f"<td class=n><b>{share(served)}</b><small>{share(each.share)}</small></td>"
        f"<td class=n><b>{amount(served * then.budget)}</b>"
        f"<small>{amount(each.share * each.strata[0].budget)}</small></td>"
        f'<td class="drawn">{charts.bar(seen, of=most, look=look, limit=then.max_repetition)}</td>'
        f"<td class=n><b>{seen:.2f}</b><small>{each.repetition:.2f}</small></td></tr>"
    )


def _times(result: Outcome, those: Sequence[Supply], then: Limits, number: int) -> float:
    """Return the repetition of a serving's tokens, in the domain that is seen most often."""
    return max(
        part * then.budget / one.tokens
        for one, part in zip(those, result.shares, strict=True)
        if one.serving == number and one.tokens
    )


def _verdict(result: Outcome) -> str:
    if result.refusal:
        return f"The mix would stop. {result.refusal}"
    if result.short:
        return (
            f"The mix would cut {len(result.short)} strata to what there is, and raise the others."
        )
    return "The mix would serve these shares as they are."
