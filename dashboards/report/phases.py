"""Phases of a report: state, tokens, mixture and packed rows of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from curriculum.encode.encoded_documents import Outcome
from curriculum.inspection.formats import count, integer, moment, number
from curriculum.inspection.run_notes import measured_domains, unmeasured_domains
from curriculum.inspection.runs import ending as run_ending
from curriculum.inspection.runs import marked, unused_budget
from curriculum.mixing.resolve import ResolvedServing
from curriculum.mixing.tree import Branch, explain_plan
from dashboards.charts.marks import Band, BarPart, ServingShares, ShareLine, share_end
from dashboards.palette import phase_class
from dashboards.report.facts import Facts, Packed, PhaseFacts
from schemas.mixture import MixtureReport

PHASE_STEP, SERVING_STEP = 0.25, 0.1
"""Steps between the possible ends of axes: of shares of a phase, and of shares of a serving."""
OUTCOME_WORDS: dict[Outcome, str] = {
    "whole": "whole",
    "elided": "shortened context",
    "divided": "divided over several rows",
    "routed": "too long, in longer rows only",
    "straddles": "excluded: target contains held-out text",
    "refused": "rejected by the chat template",
    "too_long": "excluded: conversation longer than a row",
    "dropped": "dropped",
}
assert tuple(OUTCOME_WORDS) == get_args(Outcome)


def budget_bands(facts: Facts) -> Iterator[Band]:
    """Each phase as wide as its portion of the budget, filled as far as it is trained."""
    start = 0.0
    for phase in facts.phases:
        end = start + phase.phase.tokens / facts.token_budget
        yield Band(
            number=phase.number,
            name=phase.name,
            start=start,
            end=end,
            look=f"{phase_class(phase.number)} is-{phase.status.state}",
            filled=trained_share(phase),
            title=f"{phase.name}: {phase.status.state}, {tokens_text(phase)} tokens",
        )
        start = end


def trained_share(each: PhaseFacts) -> float:
    """The share of a phase's budget that was trained on."""
    report = each.status.report
    if report is not None:
        # Steps are whole: a phase ends below its budget by less than one.
        ended = report.stopped == "budget"
        return 1.0 if ended else min(1.0, report.tokens.valid / each.phase.tokens)
    steps, planned = each.status.steps, each.mixture.steps if each.mixture else 0
    return min(1.0, steps / planned) if steps and planned else 0.0


def tokens_text(each: PhaseFacts) -> str:
    """Tokens of a phase that were trained on, and its budget."""
    budget = count(each.phase.tokens)
    tokens = each.status.valid_tokens
    return budget if tokens is None else f"{count(tokens)} of {budget}"


def state_note(each: PhaseFacts) -> str:
    """The time at which a phase was done, or the reason of its state; the study of its run first."""
    status = each.status
    if status.state == "done" and each.ended and status.unfinished is None:
        return marked(status.study, moment(each.ended))
    return status.why


def ending(each: PhaseFacts) -> str:
    """The reason for which a phase's run ended; empty where none has."""
    if each.report is None:
        return ""
    unused = unused_budget(each.report, each.mixture) if each.mixture else ""
    return f"end of its budget: {unused}" if unused else run_ending(each.report)


def sheet_facts(each: PhaseFacts) -> list[str]:
    """Row lengths, tokens, steps, context, measured domains and run of a phase."""
    lengths = sorted({serving.row_length for serving in each.phase.servings})
    facts = [f"rows of {', '.join(map(integer, lengths))} tokens", f"{tokens_text(each)} tokens"]
    if each.mixture is not None:
        steps = each.status.steps or 0
        facts.append(f"{integer(steps)} of {number(each.mixture.steps, 'step')}")
    if each.report and each.report.mean_context is not None:
        facts.append(f"mean context {integer(each.report.mean_context)} tokens")
    if each.report and each.mixture and (measured := measured_domains(each.report)):
        silent = unmeasured_domains(each.report, each.mixture)
        without = f", not {', '.join(silent)}" if silent else ""
        facts.append(f"val_bpb covers {', '.join(measured)}{without}")
        facts += [each.filled] if each.filled else []
    return [*facts, each.run.path] if each.run else facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """Servings of a phase, as its diet plans them and as its plan holds them."""

    servings: tuple[ServingShares, ...]
    end: float
    """The end of the servings' axis."""
    note: str
    warnings: tuple[str, ...] = ()


def mixture(each: PhaseFacts) -> Mixture:
    """The mixture of a phase; before it is mixed, the shares of its diet."""
    servings, report = each.phase.servings, each.mixture
    plan = None if report is None else explain_plan(report, title=each.name, key="")
    held = {branch.serving: branch for branch in (plan.branches if plan else ())}
    # The share of a serving of which the plan holds nothing was given to the others.
    realised = None if plan is None else 0.0
    branches = [
        held.get(serving.index)
        or Branch(title=serving.title, tokens=0, planned=serving.share, realised=realised)
        for serving in servings
    ]
    note = "Ring: share in the diet. " + (
        "Dot: share in the plan." if plan else "The phase has not been mixed yet."
    )
    if report is not None:
        note += (
            f" New tokens: {count(report.repetition.new)}. Each distinct token of the plans so far is scored "
            f"{report.repetition.repetition:.1f} times."
        )
    if report is not None and each.report is not None and each.report.stopped != "budget":
        note += (
            f" The run trained on the first {each.report.tokens.valid / report.budget:.0%} of the plan; "
            "every part of a plan has the same mixture."
        )
    return Mixture(
        servings=tuple(map(_serving_shares, servings, branches)),
        end=share_end(_shares(branches), PHASE_STEP),
        note=note,
        warnings=tuple(mixture_warnings(report)) if report else (),
    )


def _serving_name(serving: ResolvedServing) -> tuple[str, str]:
    """A serving's name, and how it is served."""
    of = f" of {serving.base}" if serving.base else ""
    only = f", {', '.join(serving.repositories)}" if serving.repositories else ""
    how = f"{serving.objective} at {integer(serving.row_length)}"
    if serving.imported is not None:
        return serving.imported.name, f"{serving.family}, {how}, imported"
    return f"{serving.family}{of}", f"{how}{only}"


def _serving_shares(serving: ResolvedServing, branch: Branch) -> ServingShares:
    return ServingShares(
        own=_branch_line(branch, *_serving_name(serving), family=serving.family),
        domains=tuple(
            _branch_line(each, each.title, "", family=serving.family) for each in branch.branches
        ),
        end=share_end(_shares(branch.branches), SERVING_STEP),
    )


def _branch_line(branch: Branch, name: str, how: str, *, family: str) -> ShareLine:
    seen = "" if branch.repetition is None else f"{branch.repetition:.2f}×"
    tokens = "" if branch.realised is None else count(branch.tokens)
    return ShareLine(
        name=name,
        how=how,
        family=family,
        planned=branch.planned,
        realised=branch.realised,
        more=(seen, tokens),
    )


def _shares(branches: Sequence[Branch]) -> list[float]:
    return [share for branch in branches for share in (branch.planned, branch.realised or 0.0)]


def mixture_warnings(report: MixtureReport) -> Iterator[str]:
    """Yield the warnings of a mixture, and the rows that it excludes."""
    yield from report.warnings
    if report.left_out is not None:
        excluded = report.left_out
        yield f"{number(excluded.rows, 'row')} with {count(excluded.tokens)} tokens excluded"


def outcomes(row: Packed) -> list[tuple[BarPart, str]]:
    """Outcomes of the documents of packed rows: their shares, and their numbers in words."""
    documents = sum(row.report.encode.documents.values())
    return [
        (
            BarPart(
                share=amount / documents, look=f"o-{name}", title=f"{words}: {integer(amount)}"
            ),
            f"{integer(amount)} {words}",
        )
        for name, words in OUTCOME_WORDS.items()
        if (amount := row.report.encode.documents.get(name))
    ]


def outcomes_met(packed: Sequence[Packed]) -> list[tuple[str, str]]:
    """The outcomes that occur in packed rows, with their words."""
    return [
        (name, words)
        for name, words in OUTCOME_WORDS.items()
        if any(name in row.report.encode.documents for row in packed)
    ]
