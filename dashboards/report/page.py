"""The report as one page that needs nothing else: no request, no network, readable without its script."""

from curriculum.inspection.formats import (
    bits,
    count,
    difference,
    duration,
    gpu_hours,
    moment,
    number,
    percent,
)
from curriculum.pipeline.attempts import spelled
from dashboards import palette
from dashboards.html import escaped, fill, policy, template
from dashboards.report.costs import spent, total
from dashboards.report.curves import chart, data, matrix, plot_of
from dashboards.report.facts import Facts, mean_of
from dashboards.report.marks import properties
from dashboards.report.phase_sheets import build, sheet
from dashboards.report.phases import bands, table
from dashboards.report.timeline import when
from schemas.job import Figure

TEMPLATE = "report.html"


def page(facts: Facts) -> str:
    """The report as HTML."""
    filled = fill(
        template(TEMPLATE),
        {"palette": palette.properties(), "colours": properties(len(facts.phases))},
    )
    plot = plot_of(facts)
    slots = {
        "policy": policy(filled),
        "title": escaped(title(facts)),
        "specialist": escaped(facts.specialist),
        "branch": escaped(facts.branch or ""),
        "written": f"{escaped(facts.workspace)} · {moment(facts.written)} UTC",
        "why": escaped(facts.why),
        "made_of": made_of(facts),
        "numbers": "".join(_numbers(facts)),
        "bands": bands(facts),
        "table": table(facts),
        "curves": _curves(facts),
        "sheets": "\n".join(map(sheet, facts.phases)),
        "build": build(facts),
        "when": when(facts),
        "spent": spent(facts),
        "data": data(plot),
    }
    return fill(filled, slots)


def title(facts: Facts) -> str:
    """The specialist's name, with its branch."""
    return spelled((facts.specialist, facts.branch))


def made_of(facts: Facts) -> str:
    """Describe model, corpus and tokenizer in a line."""
    said = (
        f"corpus {facts.corpus}",
        f"tokenizer {facts.tokenizer}"
        if facts.tokenizer != "corpus"
        else "tokenizer of the corpus",
        f"model {facts.model}",
        f"{count(facts.token_budget)} tokens",
    )
    return " ".join(f"<span>{escaped(each)}</span>" for each in said)


def _numbers(facts: Facts) -> list[str]:
    """The figures that come first."""
    done = [each for each in facts.phases if each.standing.state == "done"]
    reports = [each.report for each in facts.phases if each.report is not None]
    consumed = sum(report.tokens.valid for report in reports)
    seconds, gpu, cost = total(facts)
    latest = max((each.ended for each in facts.phases if each.ended), default="")
    until = f"until {moment(latest)}" if latest else "nothing is trained yet"
    cost_words = f", cost {cost:,.2f}" if cost else ""
    first = next((mean_of(report.before, "anchor") for report in reports), None)
    last = next((mean_of(report.after, "anchor") for report in reversed(reports)), None)
    return [
        _number("phases done", f"{len(done)} of {len(facts.phases)}", until),
        _number("val_bpb of the anchor", bits(last.val_bpb) if last else "–", _fell(first, last)),
        _number(
            "tokens trained on",
            count(consumed),
            f"{percent(consumed / facts.token_budget)} of {count(facts.token_budget)}",
        ),
        _number(
            "training",
            gpu_hours(gpu) if gpu else duration(seconds) if seconds else "–",
            f"took {duration(seconds)}{cost_words}" if gpu else "without a GPU",
        ),
    ]


def _fell(first: Figure | None, last: Figure | None) -> str:
    if first is None or last is None:
        return "bits per byte on held-out code"
    return f"from {bits(first.val_bpb)}, {difference(last.val_bpb - first.val_bpb)}"


def _number(name: str, said: str, note: str) -> str:
    return f"<div><dt>{name}</dt><dd>{escaped(said)}<small>{escaped(note)}</small></dd></div>"


def _curves(facts: Facts) -> str:
    plot = plot_of(facts)
    if plot is None:
        return ""
    cut = f" The first fall, from {bits(plot.cut)}, lies above the plot." if plot.cut else ""
    evaluations = number(len(plot.curves), "evaluation")
    return (
        '<section class="card" id="val_bpb"><h2>Bits per byte</h2><p>Lower is better. The anchor is the '
        f"same held-out code throughout; each phase has its own mixture’s. A line that rises forgets.{cut} "
        '<output id="at"></output></p>'
        f'{chart(plot)}</section><section class="card" id="kept"><h2>Learnt and kept</h2>'
        f"<p>{evaluations} after each phase. Of a phase: the figure at its end, and how far later phases "
        "moved it. Of the anchor: how far each phase moved it.</p>"
        f'<div class="wide">{matrix(facts)}</div></section>'
    )
