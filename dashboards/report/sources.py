"""Sources of the documents, and input that was lost on the way."""

from collections.abc import Sequence

from curriculum.inspection.formats import count
from dashboards.html import escaped
from dashboards.report.colours import family as family_colour
from dashboards.report.facts import Facts, Losses, Source
from dashboards.report.marks import Part, bar

MOST_REASONS = 8


def build(facts: Facts) -> str:
    """Documents by family beside the losses by reason."""
    if not facts.sources:
        return ""
    most = max(each.num_bytes for each in facts.sources) or 1
    lines = "".join(_source(each, most) for each in facts.sources)
    losses = facts.losses
    kept = (
        f"{losses.kept:,} of {losses.documents:,} documents kept, {losses.val:,} of them held out"
    )
    return (
        f'<section class="card" id="documents"><h2>Documents</h2><p>{escaped(facts.corpus)}: '
        f'{losses.changes:,} changes read; {kept}.</p><div class="two"><section><h3>Made</h3>'
        f'<table class="made"><thead><tr><th scope="col">family</th><th class="n" scope="col">documents'
        f'</th><th class="n" scope="col">bytes</th><th></th></tr></thead><tbody>{lines}</tbody></table>'
        f"</section><section><h3>Left out</h3>{_losses(losses)}</section></div></section>"
    )


def _source(source: Source, most: int) -> str:
    share = source.num_bytes / most
    return (
        f'<tr class="{family_colour(source.family.partition(" ")[0])}"><th scope="row"><i></i>'
        f'{escaped(source.family)}</th><td class="n">{source.documents:,}</td>'
        f'<td class="n">{count(source.num_bytes)}B</td>'
        f"<td>{bar([Part(share=share, look='own')], label=f'{count(source.num_bytes)}B')}</td></tr>"
    )


def _losses(losses: Losses) -> str:
    groups = (
        ("lost", "Changes that can’t be read", losses.lost),
        ("", "Changes that the corpus leaves out", losses.chosen),
        ("", "Changes that a family makes nothing of", losses.left_out),
        ("", "Documents that aren’t kept", losses.rejected),
    )
    most = max((number for _, _, counted in groups for _, number in counted), default=0)
    if not most:
        return "<p>Nothing.</p>"
    nothing_lost = "" if losses.lost else "<p>Everything could be read.</p>"
    return nothing_lost + "".join(
        _group(look, title, counted, most) for look, title, counted in groups if counted
    )


def _group(look: str, title: str, counted: Sequence[tuple[str, int]], most: int) -> str:
    shown = [*counted[:MOST_REASONS]]
    rest = counted[MOST_REASONS:]
    if rest:
        shown.append((f"{len(rest)} more reasons", sum(number for _, number in rest)))
    lines = "".join(
        f'<tr><th scope="row">{escaped(reason.replace("_", " "))}</th><td class="n">{number:,}</td>'
        f"<td>{bar([Part(share=number / most, look='own')], label=f'{number:,}')}</td></tr>"
        for reason, number in shown
    )
    return f'<h4>{title}</h4><table class="losses {look}"><tbody>{lines}</tbody></table>'
