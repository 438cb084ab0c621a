"""The mixture as a tree to look at: what a diet plans, and what a plan holds of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.mixing.resolve import ResolvedPhase
from schemas.diet import Diet
from schemas.mixture import MixtureReport, StratumReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A diet, a phase, a serving or a stratum; None where a figure isn't known or has no meaning."""

    title: str
    tokens: int
    """Valid tokens: realised where a plan is explained, else planned."""
    planned: float
    """Share of the branch above, as the diet says."""
    realised: float | None = None
    """Share of the branch above, as the plan holds it."""
    repetition: float | None = None
    """Times that a row is seen, on average."""
    key: str | None = None
    """Key of the artefact that the branch is from."""
    note: str = ""
    serving: int | None = None
    """The index of a plan's serving in its phase; one without rows has no branch."""
    branches: tuple["Branch", ...] = ()


def explain_diet(diet: Diet, phases: Sequence[ResolvedPhase]) -> Branch:
    """Return the tree of a diet's plan: phases, their servings, their tokens."""
    return Branch(
        title=diet.specialist,
        tokens=diet.token_budget,
        planned=1.0,
        note=diet.why,
        branches=tuple(
            Branch(
                title=phase.name,
                tokens=phase.tokens,
                planned=phase.tokens / diet.token_budget,
                branches=tuple(
                    Branch(title=serving.title, tokens=serving.tokens, planned=serving.share)
                    for serving in phase.servings
                ),
            )
            for phase in phases
        ),
    )


def explain_plan(report: MixtureReport, *, title: str, key: str) -> Branch:
    """Return the tree of a plan: servings and their domains, planned and realised."""
    servings = sorted({stratum.serving for stratum in report.strata})
    return Branch(
        title=title,
        tokens=report.tokens,
        planned=1.0,
        realised=1.0,
        key=key,
        note=f"{report.steps} step{'' if report.steps == 1 else 's'} of {report.tokens_per_step:,} "
        f"within {report.budget:,} tokens",
        branches=tuple(
            _serving(report, [each for each in report.strata if each.serving == serving])
            for serving in servings
        ),
    )


def lines(branch: Branch) -> Iterator[str]:
    """The tree as text, a line a branch.

    syntax                      100.0K
    ├─ v3_simple causal at 512   60.0K   60.0 % → 60.1 %   seen 1.5 times
    └─ v2_simple causal at 512   40.0K   40.0 % → 39.9 %   seen 0.7 times
    """
    drawn = list(_draw_tree(branch, "", ""))
    width = max(len(title) for title, _ in drawn)
    for title, each in drawn:
        figures = [f"{title:<{width}} {_short(each.tokens):>7}"]
        if each is not branch:
            share = f"{each.planned:.1%}".replace("%", " %")
            if each.realised is not None:
                share += f" → {each.realised:.1%}".replace("%", " %")
            figures.append(share)
        if each.repetition is not None:
            figures.append(f"seen {each.repetition:.1f} times")
        if each.key:
            figures.append(each.key[:12])
        if each.note:
            figures.append(each.note)
        yield "   ".join(figures)


def _serving(report: MixtureReport, strata: Sequence[StratumReport]) -> Branch:
    first, tokens = strata[0], sum(each.tokens for each in strata)
    planned = sum(each.share for each in strata)
    name = f"{first.imported}: " if first.imported else ""
    return Branch(
        title=f"{name}{first.family} {first.objective} at {first.row_length}",
        tokens=tokens,
        planned=planned,
        realised=tokens / report.tokens if report.tokens else 0.0,
        repetition=sum(each.repetition * each.rows for each in strata)
        / sum(each.rows for each in strata),
        serving=first.serving,
        key=first.rows_key,
        note=f"{len(first.by_variant)} variants" if len(first.by_variant) > 1 else "",
        branches=tuple(
            Branch(
                title=each.domain,
                tokens=each.tokens,
                planned=each.share / planned if planned else 0.0,
                realised=each.tokens / tokens if tokens else 0.0,
                repetition=each.repetition,
            )
            for each in strata
        )
        if len(strata) > 1
        else (),
    )


def _draw_tree(branch: Branch, lead: str, below: str) -> Iterator[tuple[str, Branch]]:
    yield lead + branch.title, branch
    for each in branch.branches:
        last = each is branch.branches[-1]
        yield from _draw_tree(
            each, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")
        )


def _short(tokens: int) -> str:
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return str(tokens)
