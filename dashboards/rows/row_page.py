"""Packed rows as an HTML page that sends no requests and is readable without its script.

Strips and masks are drawn from the boundaries of documents. Their size doesn't depend on the row length if
that is above BINS tokens. The text of a document occurs once in the page; the script splits it into tokens.
"""

import codecs
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from curriculum.inspection.formats import day, integer, number, percent
from curriculum.inspection.row_view import DocumentInRow, RowView
from curriculum.tokens.codec import Tokenizer
from dashboards import html, palette
from dashboards.charts import marks
from dashboards.charts.marks import element
from dashboards.commit_links import commit_url
from dashboards.html import escaped
from schemas.packed_row import HISTOGRAM_EDGES, unusual_options
from schemas.structure import StructureEdge
from schemas.visible import visible

TEMPLATES = ("page.html", "rows.html", "row.html", "scroll.css", "rows.css", "rows.js")
"""Templates, styles and scripts of a page."""
MAX_BYTES = 1_000_000
"""Maximum size of a page with automatically chosen rows."""
BINS = 480
"""Maximum number of bins of a strip; with more, bins would be narrower than a pixel."""
MIN_SHARE = 0.05
"""The page names the largest context length that at least this share of the scored tokens has."""
COMMIT_DIGITS = 10
MAX_LINES = 100
"""Maximum number of table lines in the HTML; the script adds the others from `rest`."""
MAX_FILES = 40
"""Maximum number of listed files of a document."""
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""Alphabet of encoded lengths: each letter holds two digits of three bits."""
CARRY = 7
"""Digit that means: add the next digit to this one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsDataSet:
    """The rows artefact from which a page shows some rows."""

    artefact: str = ""
    """First digits of the artefact's key, for a command that searches all of its rows."""
    rows: int = 0
    """Number of rows in the artefact; 0 if unknown."""
    fullness: str = ""
    """Yield of all rows of the artefact, in words."""
    urls: Mapping[str, str] = field(default_factory=dict)
    """Urls of repositories by name, for links to commits."""


def page(
    title: str,
    subtitle: str,
    rows: Sequence[RowView],
    tokenizer: Tokenizer,
    *,
    data_set: RowsDataSet | None = None,
    max_bytes: int = 0,
) -> str:
    """Return the page as HTML.

    With `max_bytes`, the page ends before the first row that would make it larger than that. It always has at
    least one row.
    """
    of = data_set or RowsDataSet()
    style = _style()
    script = html.asset("rows.js")
    articles, data = list[Markup](), list[dict[str, Any]]()
    size = len(style) + len(script)
    for index, row in enumerate(rows):
        texts = texts_of(row, tokenizer)
        article = html.render("row.html", **_article(row, f"r{index}", texts.texts, of.urls))
        row_data = _data(row, texts.lengths)
        size += len(article.encode()) + len(html.data(row_data))
        if max_bytes and articles and size > max_bytes:
            break
        articles.append(article)
        data.append(row_data)
    codes_met = sorted(set().union(*(row.structure_ids for row in rows[: len(articles)])))
    return html.page(
        "rows.html",
        style=style,
        script=script,
        data=html.data(
            {
                "digits": DIGITS,
                "names": palette.NAMES,
                "artefact": of.artefact,
                "total": of.rows,
                "rows": data,
            }
        ),
        title=title,
        subtitle=subtitle,
        fullness=of.fullness,
        articles=articles,
        legend=[(code, palette.NAMES[code]) for code in codes_met if code],
    )


def _style() -> str:
    # Selecting a category in the legend colours only its tokens.
    only = "".join(
        f'[data-only="k{code}"] pre .k{code}{{color:var(--c)}}'
        for code in range(len(palette.SHADES))
    )
    colours = palette.structure_style() + only + palette.document_style()
    return palette.properties() + colours + html.asset("scroll.css") + html.asset("rows.css")


def _article(
    row: RowView, place: str, texts: Sequence[str], urls: Mapping[str, str]
) -> dict[str, object]:
    """Return the values for the template of a row; the HTML ids of its documents start with `place`."""
    parts, length = row.documents, row.length
    lines = [(part, *_words(part)) for part in parts[:MAX_LINES]]
    documents = [
        (part, _document_facts(part, urls), text) for part, text in zip(parts, texts, strict=True)
    ]
    return {
        "place": place,
        "pack_id": row.pack_id,
        "mask": marks.mask(row.spans, length),
        "facts": [*_facts(row)],
        "strips": [*_strips(row)],
        "axis": marks.axis([integer(length * tick // 4) for tick in range(5)], look="ticks"),
        "lines": lines,
        "more_lines": len(parts) - len(lines),
        "documents": documents,
        "max_files": MAX_FILES,
        "commit_digits": COMMIT_DIGITS,
    }


def _facts(row: RowView) -> Iterator[tuple[str, str, str]]:
    """Yield facts about a row, each as its name, value and note."""
    length = row.length
    yield "tokens", integer(row.valid_token_count), f"of {integer(length)}"
    yield "documents", integer(len(row.documents)), row.domain
    yield "packed", percent(row.valid_token_count / length), ""
    yield (
        "scored",
        percent(row.loss_token_count / row.valid_token_count) if row.valid_token_count else "–",
        "",
    )
    yield "attention", percent(row.density), "of the causal triangle"
    total = sum(row.context_histogram)
    if row.length > HISTOGRAM_EDGES[0] and total:
        # Shares of scored tokens with at least each number of context tokens.
        far = [sum(row.context_histogram[at + 1 :]) / total for at in range(len(HISTOGRAM_EDGES))]
        at = max((at for at, share in enumerate(far) if share >= MIN_SHARE), default=0)
        yield (
            "context",
            percent(far[at]),
            f"of scored tokens have at least {HISTOGRAM_EDGES[at] // 1024}k tokens of context",
        )


def _strips(row: RowView) -> Iterator[tuple[str, Markup]]:
    """Yield the strips that show a row, each with its name."""
    length = row.length
    yield "documents", marks.document_strip(row.spans, length)
    label = f"{integer(row.loss_token_count)} of {integer(length)} tokens are scored"
    yield "loss", marks.strip("loss", length, _loss_path(row), label=label)
    if row.is_structured:
        drawn = _structure_rects(row)
        yield "structure", marks.strip("structure", length, *drawn, label="code categories")
    if edges := (*row.call_edges, *row.type_edges):
        label = f"{len(edges)} edges between chunks"
        yield "edges", marks.strip("edges", length, *_arcs(row, edges), label=label)


def _loss_path(row: RowView) -> Markup:
    """Return a filled step line: the share of tokens that are scored, in each bin of the row."""
    shares = [f"{1 - share:.3g}" for share in binned(scored(row))]
    size = -(-row.length // BINS)
    path, end = "M0 1", 0
    for height, run in itertools.groupby(shares):
        end += sum(1 for _ in run)
        path += f"V{height}H{min(end * size, row.length)}"
    return element("path", d=f"{path}V1z")


def _structure_rects(row: RowView) -> Iterator[Markup]:
    """Yield rectangles coloured by structure: in each bin of the row, by its most frequent category."""
    size = -(-row.length // BINS)
    values = np.asarray(row.structure_ids[: row.valid_token_count], dtype=np.int64)
    most = [int(np.bincount(values[at : at + size]).argmax()) for at in range(0, len(values), size)]
    start = 0
    for code, run in itertools.groupby(most):
        width = min(sum(1 for _ in run) * size, len(values) - start)
        if code:
            yield element("rect", class_=f"k{code}", x=start, width=width, height=1)
        start += width


def _arcs(row: RowView, edges: Sequence[StructureEdge]) -> Iterator[Markup]:
    """Yield arcs between chunks for edges, which are calls or uses."""
    chunks = row.chunk_boundaries
    for edge in edges:
        first, last = (
            (chunks[end].start + chunks[end].end) // 2 for end in (edge.source, edge.target)
        )
        path = f"M{first} 0Q{(first + last) / 2:g} 2 {last} 0"
        yield element("path", data_e=f"{edge.source} {edge.target}", d=path)


def binned(flags: npt.NDArray[np.bool_]) -> list[float]:
    """Return the share of flags that are True in each bin; there are at most `BINS` bins of equal size.

    >>> binned(np.array([True, True, False]))
    [1.0, 1.0, 0.0]
    """
    size = -(-len(flags) // BINS)
    starts = np.arange(0, len(flags), size)
    sums = np.add.reduceat(flags.astype(np.int64), starts)
    sizes = np.minimum(starts + size, len(flags)) - starts
    return [float(share) for share in sums / sizes]


def _words(part: DocumentInRow) -> tuple[str, str, str, str]:
    """Return the words of a document's table line: repository, commit, licence and share of scored tokens."""
    share = percent(part.scored / part.tokens)
    return part.repository, part.commit[:COMMIT_DIGITS], part.licence or "", share


def rest(parts: Sequence[DocumentInRow]) -> tuple[list[str], list[int]]:
    """Return the table lines that the HTML leaves out, for the script.

    The first list has the distinct words of these lines. The second list has four numbers per line, which are
    positions in the first list.
    """
    numbers: dict[str, int] = {}
    words = (visible(word) for part in parts[MAX_LINES:] for word in _words(part))
    lines = [numbers.setdefault(word, len(numbers)) for word in words]
    return list(numbers), lines


def _commit(part: DocumentInRow, urls: Mapping[str, str]) -> Markup:
    """Return the commit of a document; it is a link if the repository has a web address."""
    address = commit_url(urls.get(part.repository), part.commit)
    return element("a", part.commit, href=address) if address else escaped(part.commit)


def _document_facts(part: DocumentInRow, urls: Mapping[str, str]) -> list[str | Markup]:
    facts: list[str | Markup] = ["unknown source: its documents artefact was deleted"]
    if part.commit:
        facts = [escaped(f"{part.repository} at ") + _commit(part, urls)]
    if part.timestamp:
        facts.append(day(part.timestamp))
    if part.licence:
        facts.append(part.licence)
    facts.append(f"{number(part.tokens, 'token')} from token {integer(part.start)}")
    if part.scored < part.tokens - 1:
        facts.append(f"{integer(part.scored)} scored")
    if 0 < part.last_byte - part.first_byte < part.num_bytes:
        span = f"{integer(part.first_byte)} to {integer(part.last_byte)}"
        facts.append(f"bytes {span} of {integer(part.num_bytes)}")
    return facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """Texts of a row's documents, with invisible characters escaped, and the lengths of the tokens."""

    texts: tuple[str, ...]
    lengths: str
    """Token lengths of all documents in UTF-16 units, encoded by `encode_lengths`."""


def texts_of(row: RowView, tokenizer: Tokenizer) -> Texts:
    """Return the texts of a row and the lengths of its tokens.

    A character whose bytes are in several tokens belongs to the last of these tokens.
    """
    special = tokenizer.special
    known: dict[int, bytes] = {}
    texts, lengths = [], list[int]()
    for part in row.documents:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoded = []
        ids = row.input_ids[part.start : part.end]
        for at, token in enumerate(ids, start=1):
            if token not in known:
                is_control = bool(special[token])
                known[token] = (
                    tokenizer.decode([token]).encode()
                    if is_control
                    else tokenizer.decode_bytes([token])
                )
            # Escape here, because the script splits the text by these lengths.
            text = visible(decoder.decode(known[token], final=at == len(ids)))
            decoded.append(text)
            # JavaScript counts UTF-16 units.
            lengths.append(len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2)
        texts.append("".join(decoded))
    return Texts(texts=tuple(texts), lengths=encode_lengths(lengths))


def encode_lengths(lengths: Iterable[int]) -> str:
    """Encode token lengths as a text.

    A length is one or more digits from 0 to 7: a digit 7 means that the next digit is added to it. A letter
    of the text holds two digits.

    >>> encode_lengths([0, 2]), encode_lengths([7, 9, 1]), encode_lengths([3])
    ('C', '46P', 'f')
    """
    digits = [
        digit for length in lengths for digit in (*[CARRY] * (length // CARRY), length % CARRY)
    ]
    if len(digits) % 2:
        digits.append(CARRY)
    return "".join(
        DIGITS[8 * one + two] for one, two in zip(digits[::2], digits[1::2], strict=True)
    )


def _data(row: RowView, lengths: str) -> dict[str, Any]:
    """Return the data of a row for the script, as token positions and as lengths of runs of tokens."""
    words, lines = rest(row.documents)
    return {
        "length": row.length,
        "valid": row.valid_token_count,
        "starts": [document.start for document in row.documents],
        "lengths": lengths,
        "scored": runs(scored(row)[: row.valid_token_count]),
        "made": runs(generated(row)[: row.valid_token_count]),
        "codes": codes(row),
        "chunks": [
            value
            for chunk_boundary in row.chunk_boundaries
            for value in (chunk_boundary.start, chunk_boundary.end, chunk_boundary.dep_level)
        ],
        "calls": [
            end for call_edge in row.call_edges for end in (call_edge.source, call_edge.target)
        ],
        "types": [
            end for type_edge in row.type_edges for end in (type_edge.source, type_edge.target)
        ],
        "words": words,
        "lines": lines,
    }


def runs(flags: Sequence[bool] | npt.NDArray[np.bool_]) -> list[int]:
    """Encode flags as the lengths of runs: first a run of False, which may be empty, then True, and so on.

    >>> runs([True, True, False, True])
    [0, 2, 1, 1]
    """
    values = np.asarray(flags, dtype=np.int8)
    edges = np.flatnonzero(np.diff(values, prepend=0)).tolist()
    return [end - start for start, end in itertools.pairwise((0, *edges, len(values)))]


def scored(row: RowView) -> npt.NDArray[np.bool_]:
    """Return one flag per token: True if its prediction counts in the loss."""
    mask = np.asarray(row.loss_mask, dtype=np.bool_)
    return np.concatenate([[False], mask[:-1]])


def generated(row: RowView) -> npt.NDArray[np.bool_]:
    """Return one flag per token: True if the token isn't part of a document's text."""
    flags = np.zeros(row.length, dtype=np.bool_)
    for start, end in row.generated:
        flags[start:end] = True
    return flags


def codes(row: RowView) -> list[int]:
    """Return the structure of a row as runs, code and length in turn; empty without structure."""
    if not row.is_structured:
        return []
    grouped = itertools.groupby(row.structure_ids[: row.valid_token_count])
    return [value for code, run in grouped for value in (code, sum(1 for _ in run))]


def describe_rows(labels: dict[str, str]) -> str:
    """Describe a rows artefact in words by its labels.

    >>> describe_rows({"family": "v6_enriched", "base": "v2_simple", "objective": "causal",
    ...                "row_length": "512", "variant": "0", "split": "train"})
    'v6_enriched of v2_simple, causal at 512, train'
    """
    of = f" of {labels['base']}" if "base" in labels else ""
    how = f"{labels['objective']} at {integer(int(labels['row_length']))}"
    variant = f", variant {labels['variant']}" if labels.get("variant", "0") != "0" else ""
    options = f", {unusual}" if (unusual := unusual_options(labels)) else ""
    return f"{labels['family']}{of}, {how}{variant}{options}, {labels['split']}"
