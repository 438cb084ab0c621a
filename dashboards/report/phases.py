"""Parts of the report about each phase: its state, tokens, mixture and packed rows."""

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
from dashboards.report.facts import Facts, PhaseFacts
from dashboards.report.packed_data_sets import PackedDataSet
from schemas.mixture import MixtureReport

PHASE_STEP, SERVING_STEP = 0.25, 0.1
"""Axes of shares end at a multiple of these: the axis of a phase, and the axis of a serving."""
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
    """Yield one band per phase: as wide as its share of the budget, and filled as far as it is trained."""
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


def trained_share(phase: PhaseFacts) -> float:
    """Return the share of a phase's token budget on which it was trained so far."""
    report = phase.status.report
    if report is not None:
        # A phase ends with its last whole step, so its tokens may be just below the budget.
        ended = report.stopped == "budget"
        return 1.0 if ended else min(1.0, report.tokens.valid / phase.phase.tokens)
    steps, planned = phase.status.steps, phase.mixture.steps if phase.mixture else 0
    return min(1.0, steps / planned) if steps and planned else 0.0


def tokens_text(phase: PhaseFacts) -> str:
    """Format the number of tokens on which a phase was trained, and its token budget."""
    budget = count(phase.phase.tokens)
    tokens = phase.status.valid_tokens
    return budget if tokens is None else f"{count(tokens)} of {budget}"


def state_note(phase: PhaseFacts) -> str:
    """Return the time when a finished phase ended, or else the reason for the state of the phase.

    If the run of a finished phase belongs to a study, the study is named first.
    """
    status = phase.status
    if status.state == "done" and phase.ended and status.unfinished is None:
        return marked(status.study, moment(phase.ended))
    return status.why


def ending(phase: PhaseFacts) -> str:
    """Return the reason why the run of a phase ended; empty if it hasn't ended."""
    if phase.report is None:
        return ""
    unused = unused_budget(phase.report, phase.mixture) if phase.mixture else ""
    return f"end of its budget: {unused}" if unused else run_ending(phase.report)


def sheet_facts(phase: PhaseFacts) -> list[str]:
    """Return facts about a phase: row lengths, tokens, steps, context, measured domains and run."""
    lengths = sorted({serving.row_length for serving in phase.phase.servings})
    facts = [f"rows of {', '.join(map(integer, lengths))} tokens", f"{tokens_text(phase)} tokens"]
    if phase.mixture is not None:
        steps = phase.status.steps or 0
        facts.append(f"{integer(steps)} of {number(phase.mixture.steps, 'step')}")
    if phase.report and phase.report.mean_context is not None:
        facts.append(f"mean context {integer(phase.report.mean_context)} tokens")
    if phase.report and phase.mixture and (measured := measured_domains(phase.report)):
        silent = unmeasured_domains(phase.report, phase.mixture)
        without = f", not {', '.join(silent)}" if silent else ""
        facts.append(f"val_bpb covers {', '.join(measured)}{without}")
        facts += [phase.filled] if phase.filled else []
    return [*facts, phase.run.path] if phase.run else facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """Planned and realised shares of the servings of a phase."""

    servings: tuple[ServingShares, ...]
    end: float
    """End of the axis of the servings."""
    note: str
    warnings: tuple[str, ...] = ()


def mixture(phase: PhaseFacts) -> Mixture:
    """Return the mixture of a phase; before it is mixed, return the shares that the diet requests."""
    servings, report = phase.phase.servings, phase.mixture
    plan = None if report is None else explain_plan(report, title=phase.name, key="")
    held = {branch.serving: branch for branch in (plan.branches if plan else ())}
    # A serving that the plan lacks has the realised share 0; the other servings took its share.
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
    if report is not None and phase.report is not None and phase.report.stopped != "budget":
        note += (
            f" The run trained on the first {phase.report.tokens.valid / report.budget:.0%} of the plan; "
            "every part of a plan has the same mixture."
        )
    return Mixture(
        servings=tuple(map(_serving_shares, servings, branches)),
        end=share_end(_shares(branches), PHASE_STEP),
        note=note,
        warnings=tuple(mixture_warnings(report)) if report else (),
    )


def _serving_name(serving: ResolvedServing) -> tuple[str, str]:
    """Return the name of a serving, and its objective, row length and repositories in words."""
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
            _branch_line(domain, domain.title, "", family=serving.family)
            for domain in branch.branches
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
    """Yield the warnings of a mixture, and a line about the rows that it excludes."""
    yield from report.warnings
    if report.left_out is not None:
        excluded = report.left_out
        yield f"{number(excluded.rows, 'row')} with {count(excluded.tokens)} tokens excluded"


def outcomes(row: PackedDataSet) -> list[tuple[BarPart, str]]:
    """Return what became of the documents that were packed into rows.

    Each outcome has a part of a bar, for its share, and its number of documents in words.
    """
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


def outcomes_met(packed: Sequence[PackedDataSet]) -> list[tuple[str, str]]:
    """Return the names of the outcomes that occur in some rows artefacts, each with its meaning in words."""
    return [
        (name, words)
        for name, words in OUTCOME_WORDS.items()
        if any(name in row.report.encode.documents for row in packed)
    ]
