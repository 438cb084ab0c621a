"""Results of stages as lines of words and numbers, the same in the terminal and on a run's page."""

from collections.abc import Iterator
from typing import get_args

from curriculum.encode.documents import Outcome
from curriculum.inspection.formats import Line, count, number, percent
from curriculum.inspection.runs import change, interval
from curriculum.mixing import mix
from curriculum.mixing.tree import Branch
from curriculum.stages import Built
from curriculum.store import Artefact
from curriculum.store.recipe import KEY_DIGITS
from schemas.job import Figure, MaskingCost, Report
from schemas.reports import RowsReport

REPORT_NAME = "report.json"

YIELD_NOTE = (
    "yield: share of positions that hold a token; if mixed: had domains shared rows, which they never "
    "do; vs padding: positions of rows with one document each ÷ positions used"
)


def yield_lines(built: Built) -> Iterator[Line]:
    """A line a data set of training rows: how full the rows are, and what became of the documents."""
    for each in built.rows:
        report = each.train.reported(RowsReport)
        rows = sum(domain.rows for domain in report.domains.values())
        tokens = sum(domain.tokens for domain in report.domains.values())
        documents = sum(domain.documents for domain in report.domains.values())
        yield {
            "rows": each.wanted.title,
            "number": rows,
            "tokens": count(tokens),
            "yield": _full(tokens, rows * each.wanted.row_length),
            "if mixed": _full(tokens, report.rows_if_mixed * each.wanted.row_length),
            "vs padding": f"{documents / rows:.2f}×" if documents else "",
            **{
                outcome: report.encode.documents.get(outcome, 0)
                if each.wanted.imported is None
                else ""
                for outcome in get_args(Outcome)
            },
        }


def _full(tokens: int, positions: int) -> str:
    return percent(tokens / positions) if positions else ""


def yield_words(built: Built) -> str:
    """Sum up the yield of each data set, in a sentence.

    yield_words(built) ->
    'v3_simple causal 512: 98.2%, v3_doxygen causal 512: 98.4% of all positions'
    """
    listed = ", ".join(f"{line['rows']}: {line['yield']}" for line in yield_lines(built))
    return f"{listed} of all positions"


def mixture_words(mixture: Artefact) -> str:
    """Sum up a plan in a sentence, with the warnings of the mix."""
    report = mix.report_of(mixture)
    largest = max(abs(each.tokens / report.tokens - each.share) for each in report.strata)
    held = (
        f"{count(report.budget)} tokens in {number(report.steps, 'step')}; "
        f"no share is off by more than {percent(largest)}"
    )
    return ". ".join((held, *report.warnings))


def mixture_lines(mixture: Artefact) -> Iterator[Line]:
    """A line a stratum: its share as the diet plans it and as the plan realises it, and its repetition."""
    report = mix.report_of(mixture)
    for stratum in report.strata:
        whose = f"{stratum.imported}: " if stratum.imported else ""
        yield {
            "serving": f"{whose}{stratum.family} {stratum.objective} {stratum.row_length}",
            "domain": stratum.domain,
            "planned": percent(stratum.share),
            "realised": percent(stratum.tokens / report.tokens),
            "tokens": count(stratum.tokens),
            "rows": stratum.drawn,
            "repetition": f"{stratum.repetition:.2f}",
            "key": stratum.rows_key[:12],
        }


def branch_lines(branch: Branch, depth: int = 0) -> Iterator[Line]:
    """A line a branch of a mixture, indented two spaces a level."""
    yield {
        "mixture": "  " * depth + branch.title,
        "tokens": count(branch.tokens),
        "planned": percent(branch.planned),
        "realised": percent(branch.realised) if branch.realised is not None else "",
        "repetition": f"{branch.repetition:.2f}" if branch.repetition is not None else "",
        "key": (branch.key or "")[:KEY_DIGITS],
        "note": branch.note,
    }
    for each in branch.branches:
        yield from branch_lines(each, depth + 1)


def run_line(report: Report) -> Line:
    """A run in a line: val_bpb before and after, what it consumed, why it stopped."""
    return {
        "phase": report.phase,
        "attempt": report.attempt,
        "val_bpb": change(report, "phase"),
        "anchor": change(report, "anchor"),
        "tokens": count(report.tokens.valid),
        "steps": report.steps,
        "context": "" if report.mean_context is None else f"{report.mean_context:,.0f}",
        "tokens/s": f"{report.tokens_per_second:,.0f}",
        "seconds": f"{report.seconds:.0f}",
        "stopped": f"{report.stopped}: {report.reason}" if report.reason else report.stopped,
    }


def machine_line(report: Report) -> Line:
    """Return time, throughput and cost of a run on its machine; empty where they aren't known."""
    density, context, mfu = report.attention_density, report.mean_context, report.masked_mfu
    return {
        "device": f"{report.device}, {report.backend}",
        "GPU hours": f"{report.gpu_seconds / 3600:,.2f}" if report.gpu_seconds else "",
        "cost": "" if report.cost is None else f"{report.cost:,.2f}",
        "mean context": "" if context is None else f"{context:,.0f} tokens",
        "attention density": "" if density is None else percent(density),
        "masked MFU": "" if mfu is None else percent(mfu),
        "masked ÷ unmasked": _masking(report.masking_cost),
    }


def _masking(cost: MaskingCost | None) -> str:
    """A masking cost with what it was measured on.

    _masking(cost) ->
    '1.31 over 328k positions, rows of 16,384'
    """
    if cost is None:
        return ""
    return f"{cost.ratio:.2f} over {count(cost.positions)} positions, rows of {cost.row_length:,}"


def figure_lines(report: Report) -> Iterator[Line]:
    """A line an evaluation of the run: its figure before and after, with the interval."""
    for after in report.after:
        before = next((each for each in report.before if _place(each) == _place(after)), None)
        yield {
            "evaluation": after.kind,
            "phase": after.phase,
            "family": after.family,
            "domain": after.domain,
            "before": f"{before.val_bpb:.3f}" if before else "",
            "after": f"{after.val_bpb:.3f}",
            "interval": interval(after),
        }


def _place(figure: Figure) -> tuple[str, str, str, str]:
    return figure.kind, figure.phase, figure.family, figure.domain
