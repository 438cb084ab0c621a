"""The panels of mixtures: shares planned and realised, repetition, repositories."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards import charts, frame
from dashboards.charts import amount, share
from dashboards.frame import text
from dashboards.overview_panels import title
from dashboards.questions import Question, Snapshot, narrowed, question

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
