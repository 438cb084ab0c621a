"""Page of ablations: their settings, a forest plot of the claims, and a table of the arms."""

import math
from collections.abc import Sequence
from pathlib import Path

from curriculum.inspection.formats import MINUS, bits, count, integer, number
from curriculum.store import Artefact
from curriculum.whole_files import write_whole
from dashboards import html, palette
from dashboards.ablation_facts import AblationFacts, ArmMeans, ClaimLine, ablations, facts_of
from dashboards.charts import forest
from dashboards.charts.forest import Effect
from dashboards.charts.plots import Scale
from dashboards.report.facts import REPORTS
from schemas.ablation import CONTROL, NULL

TEMPLATE, STYLES = "ablations.html", ("scroll.css", "ablations.css")
FOLDER = "ablations"
"""Folder of ablation pages below the reports."""


def page(home: Path, *, overview: str = "") -> str:
    """Return the page with all ablations of a workspace; `overview` is the address of the overview page."""
    found, lost = ablations(home)
    return _page(found, lost, overview)


def write_ablation(home: Path, artefact: Artefact) -> Path:
    """Write the page of one ablation to the workspace's folder of reports and return its path."""
    facts = facts_of(artefact)
    file = home / REPORTS / FOLDER / f"{facts.name}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, page_of(facts))
    return file


def page_of(facts: AblationFacts) -> str:
    """Return the page of one ablation as HTML that needs no other files."""
    return _page([facts], [], "")


def _page(found: Sequence[AblationFacts], lost: Sequence[str], overview: str) -> str:
    return html.page(
        TEMPLATE,
        style=palette.properties() + "".join(map(html.asset, STYLES)),
        title="Ablations",
        ablations=found,
        lost=lost,
        overview=overview,
        forest=forest,
        setting_words=setting_words,
        effects=effects,
        scale_of=scale_of,
        figures=figures,
        difference_words=difference_words,
        equal_words=equal_words,
        own_words=OWN_WORDS,
    )


OWN_WORDS = {NULL: "Null: expected difference 0", CONTROL: "Control: expected to be worse"}
"""Titles of the comparisons that every ablation has."""


def setting_words(facts: AblationFacts) -> list[str]:
    """Describe the model, tokens, row lengths, corpus and seeds of an ablation."""
    report, first = facts.report, facts.arms[0]
    lengths = " and ".join(map(integer, report.row_lengths))
    seeds = ", ".join(map(str, facts.seeds))
    weights = f" of {count(report.weights)} weights" if report.weights else ""
    words = [
        f"model {report.model}" + weights,
        f"{integer(first.positions)} row positions and {integer(first.scored)} scored tokens per arm",
        f"rows of {lengths} tokens" if lengths else "",
        f"corpus {report.corpus}",
        f"{number(len(facts.seeds), 'seed')}: {seeds}",
    ]
    return [word for word in words if word]


def effects(facts: AblationFacts) -> list[tuple[ClaimLine, Effect]]:
    """Return each claim with the effect that the forest plot draws for it."""
    return [(line, _effect(line)) for line in facts.claims]


def scale_of(facts: AblationFacts) -> Scale:
    """Return the scale for the effects of all claims.

    The effect of the control comparison is much larger than the others. It isn't considered and may be cut
    off.
    """
    drawn = [_effect(line) for line in facts.claims if line.arm != CONTROL]
    return forest.scale_of(drawn or [_effect(line) for line in facts.claims])


def _effect(line: ClaimLine) -> Effect:
    return Effect(
        mean=line.difference,
        low=line.low,
        high=line.high,
        low_below=line.low_documents,
        high_below=line.high_documents,
        delta=line.delta,
        claimed=None if line.arm == NULL else line.direction,
        label=(
            f"{line.arm} minus {line.against} on {line.viewed_set}: {difference_words(line)}; over documents "
            f"{signed(line.low_documents)} to {signed(line.high_documents)}; {line.verdict}"
        ),
    )


def difference_words(line: ClaimLine) -> str:
    """Format the difference that a claim is about, with its interval over seeds."""
    return _words(line.difference, line.low, line.high)


def equal_words(line: ClaimLine) -> str:
    """Format the difference between the arms at equal numbers of distinct tokens; empty if not measured."""
    found = (line.equal_difference, line.equal_low, line.equal_high)
    mean, low, high = (figure if figure is not None else math.nan for figure in found)
    return "" if line.equal_tokens is None else _words(mean, low, high)


def _words(mean: float, low: float, high: float) -> str:
    return f"{signed(mean)} ({signed(low)} to {signed(high)})"


def signed(figure: float) -> str:
    """Format a difference of val_bpb with its sign and four decimals.

    >>> signed(-0.01234), signed(0.0)
    ('−0.0123', '+0.0000')
    """
    return f"{figure:+.4f}".replace("-", MINUS)


def figures(arm: ArmMeans, name: str) -> tuple[str, str]:
    """Return the mean and the range over seeds of an arm's val_bpb on the set `name`.

    Both texts are empty if the arm was not measured on the set.
    """
    mean = arm.mean(name)
    if mean is None:
        return "", ""
    return bits(mean), f"{bits(min(arm.val_bpb[name]))} to {bits(max(arm.val_bpb[name]))}"
