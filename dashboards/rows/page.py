"""Rows as one page that needs nothing else: no request, no network, readable without its script.

Everything from a repository is escaped. The policy in the page allows its own style and its own script by
their digests, and nothing beside.
"""

import json
from collections.abc import Iterator, Sequence

from curriculum.inspection.formats import percent
from curriculum.inspection.rows import RowView
from curriculum.tokens.codec import Tokenizer
from dashboards import palette
from dashboards.html import escaped, fill, policy, quoted, template
from dashboards.palette import NAMES, SHADES, document_style
from dashboards.rows import draw
from dashboards.rows.table import (
    DIGITS,
    codes,
    generated,
    rest,
    runs,
    scored,
    table,
    texts,
    texts_of,
)
from schemas.packed_row import HISTOGRAM_EDGES
from schemas.structure import StructureEdge

TEMPLATE = "rows.html"
LARGEST = 1_000_000
"""Bytes of a page whose rows nobody asked for one by one."""

WORTH_SAYING = 0.05
"""The share of scored tokens whose context is named, the longest that has it."""


def page(
    title: str, subtitle: str, rows: Sequence[RowView], tokenizer: Tokenizer, *, largest: int = 0
) -> str:
    """The page as HTML; with `largest` it leaves out the last rows that would make it larger, but one."""
    filled = fill(template(TEMPLATE), {"palette": palette.properties(), "shades": _shades()})
    articles, data = list[str](), list[str]()
    size = len(filled)
    for at, shown in enumerate(rows):
        article, said = _row(shown, at, tokenizer)
        size += len(article.encode()) + len(said)
        if largest and articles and size > largest:
            break
        articles.append(article)
        data.append(said)
    codes_met = sorted(set().union(*(each.row.structure_ids for each in rows[: len(articles)])))
    slots = {
        "policy": policy(filled),
        "title": escaped(title),
        "subtitle": escaped(subtitle),
        "legend": "".join(f'<li class="k{code}">{NAMES[code]}</li>' for code in codes_met if code),
        "rows": "\n".join(articles),
        "data": f'{{"digits":"{DIGITS}","names":{json.dumps(NAMES)},"rows":[{",".join(data)}]}}',
    }
    return fill(filled, slots)


def _shades() -> str:
    """The classes of structure and of documents with their colours, on light and on dark pages."""
    light = "".join(f"--k{code}:{shade.light};" for code, shade in enumerate(SHADES.values()))
    dark = "".join(f"--k{code}:{shade.dark};" for code, shade in enumerate(SHADES.values()))
    looks = (
        f'.k{code}{{--c:var(--k{code})}}[data-only="k{code}"] pre .k{code}{{color:var(--c)}}'
        for code in range(len(SHADES))
    )
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{''.join(looks)}{document_style()}"
    )


def _row(shown: RowView, at: int, tokenizer: Tokenizer) -> tuple[str, str]:
    """A row as an article, and what the script reads of it."""
    row, place = shown.row, f"r{at}"
    said = texts_of(shown, tokenizer)
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _facts(shown))
    article = (
        f'<article id="{place}" data-pack="{quoted(row.pack_id)}"><div class="pair">'
        '<section class="card see"><h2>Attention mask</h2><p>Rows ask, columns are seen. '
        f"<output></output></p>{draw.mask(shown.spans, shown.length)}</section>"
        f'<section class="card holds"><h2>{escaped(row.pack_id)}</h2><dl>{facts}</dl>'
        f'<div class="strips">{_strips(shown)}</div>{table(shown.parts, place)}</section></div>'
        '<section class="card texts"><header><h2>Tokens</h2><p class="reading"></p></header>'
        f"{''.join(texts(shown.parts, said.texts, place))}</section></article>"
    )
    return article, _data(shown, said.lengths)


def _facts(shown: RowView) -> Iterator[tuple[str, str]]:
    row, length = shown.row, shown.length
    yield "tokens", f"{row.valid:,} <small>of {length:,}</small>"
    yield "documents", f"{len(shown.parts):,} <small>{escaped(row.domain)}</small>"
    yield "packed", percent(row.valid / length)
    yield "scored", percent(row.scored / row.valid) if row.valid else "–"
    yield "attention", f"{percent(shown.density)} <small>of a full square</small>"
    context = _context(shown)
    if context:
        yield "context", context


def _context(shown: RowView) -> str:
    """Describe the context before scored tokens, for rows where that can be much."""
    total = sum(shown.histogram)
    if shown.length <= HISTOGRAM_EDGES[0] or not total:
        return ""
    far = [sum(shown.histogram[at + 1 :]) / total for at in range(len(HISTOGRAM_EDGES))]
    at = max((at for at, share in enumerate(far) if share >= WORTH_SAYING), default=0)
    return f"{percent(far[at])} <small>scored after {HISTOGRAM_EDGES[at] // 1024}k or more</small>"


def _strips(shown: RowView) -> str:
    structure = draw.structure(shown)
    edges = (*shown.row.call_edges, *shown.row.type_edges)
    lines = [
        ("documents", draw.documents(shown.spans, shown.length)),
        ("loss", draw.loss(shown)),
        *([("structure", structure)] if structure else []),
        *([("edges", draw.edges(shown.row.chunks, edges, shown.length))] if edges else []),
    ]
    ticks = "".join(
        f'<text x="{25 * at}%" y="10" class="t{at}">{shown.length * at // 4:,}</text>'
        for at in range(5)
    )
    return "".join(f"<span>{name}</span>{svg}" for name, svg in lines) + (
        f'<span></span><svg class="ticks" aria-hidden="true">{ticks}</svg>'
    )


def _data(shown: RowView, lengths: str) -> str:
    """Return the script's data beside the texts: everything in tokens, runs where there are runs."""
    row = shown.row
    words, lines = rest(shown.parts)
    content = {
        "length": shown.length,
        "valid": row.valid,
        "starts": [each.start for each in shown.parts],
        "lengths": lengths,
        "scored": runs(scored(shown)[: row.valid]),
        "made": runs(generated(shown)[: row.valid]),
        "codes": codes(shown),
        "chunks": [
            value for each in row.chunks for value in (each.start, each.end, each.dep_level)
        ],
        "calls": _edges(row.call_edges),
        "types": _edges(row.type_edges),
        "words": words,
        "lines": lines,
    }
    # No word may end the script that it stands in.
    return json.dumps(content, separators=(",", ":")).replace("<", r"\u003c")


def _edges(edges: Sequence[StructureEdge]) -> list[int]:
    return [value for each in edges for value in (each.source, each.target)]


def named(labels: dict[str, str]) -> str:
    """Describe the rows of an artefact.

    >>> named({"family": "v6_enriched", "base": "v2_simple", "objective": "causal", "row_length": "512",
    ...        "variant": "0", "split": "train"})
    'v6_enriched of v2_simple, causal at 512, train'
    """
    of = f" of {labels['base']}" if "base" in labels else ""
    how = f"{labels['objective']} at {int(labels['row_length']):,}"
    variant = f", variant {labels['variant']}" if labels.get("variant", "0") != "0" else ""
    return f"{labels['family']}{of}, {how}{variant}, {labels['split']}"
