"""A mixture as a tree for display: the shares that a diet plans, and the shares that a plan realises."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from curriculum.mixing.resolve import ResolvedPhase
from schemas.diet import Diet
from schemas.mixture import MixtureReport, StratumReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """Branch of the tree: a diet, a phase, a serving or a stratum.

    None in a field means that the figure is unknown or doesn't apply.
    """

    title: str
    tokens: int
    """Number of valid tokens: realised in the tree of a plan, planned in the tree of a diet."""
    planned: float
    """Share of the parent branch's tokens that the diet plans."""
    realised: float | None = None
    """Share of the parent branch's tokens in the plan."""
    repetition: float | None = None
    """Average number of times that each row is read."""
    key: str | None = None
    """Key of the artefact that the branch shows."""
    note: str = ""
    serving: int | None = None
    """Index of the serving in its phase. Some indices don't occur: a serving without rows has no branch."""
    branches: tuple["Branch", ...] = ()


def explain_diet(diet: Diet, phases: Sequence[ResolvedPhase]) -> Branch:
    """Return the tree of a diet: its phases, their servings, and the tokens of each."""
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
    """Return the tree of a plan: its servings and their domains, with planned and realised shares."""
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
            _serving(report, [stratum for stratum in report.strata if stratum.serving == serving])
            for serving in servings
        ),
    )


def lines(branch: Branch) -> Iterator[str]:
    """Yield the tree as text, one line per branch.

    syntax                      100.0K
    ├─ v3_simple causal at 512   60.0K   60.0 % → 60.1 %   seen 1.5 times
    └─ v2_simple causal at 512   40.0K   40.0 % → 39.9 %   seen 0.7 times
    """
    drawn = list(_draw_tree(branch, "", ""))
    width = max(len(title) for title, _ in drawn)
    for title, inner in drawn:
        figures = [f"{title:<{width}} {_short(inner.tokens):>7}"]
        if inner is not branch:
            share = f"{inner.planned:.1%}".replace("%", " %")
            if inner.realised is not None:
                share += f" → {inner.realised:.1%}".replace("%", " %")
            figures.append(share)
        if inner.repetition is not None:
            figures.append(f"seen {inner.repetition:.1f} times")
        if inner.key:
            figures.append(inner.key[:12])
        if inner.note:
            figures.append(inner.note)
        yield "   ".join(figures)


def _serving(report: MixtureReport, strata: Sequence[StratumReport]) -> Branch:
    first, tokens = strata[0], sum(stratum.tokens for stratum in strata)
    planned = sum(stratum.share for stratum in strata)
    name = f"{first.imported}: " if first.imported else ""
    return Branch(
        title=f"{name}{first.family} {first.objective} at {first.row_length}",
        tokens=tokens,
        planned=planned,
        realised=tokens / report.tokens if report.tokens else 0.0,
        repetition=sum(stratum.repetition * stratum.rows for stratum in strata)
        / sum(stratum.rows for stratum in strata),
        serving=first.serving,
        key=first.rows_key,
        note=f"{len(first.by_variant)} variants" if len(first.by_variant) > 1 else "",
        branches=tuple(
            Branch(
                title=stratum.domain,
                tokens=stratum.tokens,
                planned=stratum.share / planned if planned else 0.0,
                realised=stratum.tokens / tokens if tokens else 0.0,
                repetition=stratum.repetition,
            )
            for stratum in strata
        )
        if len(strata) > 1
        else (),
    )


def _draw_tree(branch: Branch, lead: str, below: str) -> Iterator[tuple[str, Branch]]:
    yield lead + branch.title, branch
    for inner in branch.branches:
        last = inner is branch.branches[-1]
        yield from _draw_tree(
            inner, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")
        )


def _short(tokens: int) -> str:
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return str(tokens)
