"""Sheets as one page that needs nothing else: no request, no network, and no script to be read.

Everything from a repository is escaped. The policy in the page allows its own style and its own script by
their digests, and nothing beside.
"""

import json
import re
from collections.abc import Iterator, Sequence

from curriculum.inspection.documents import WORDS, Piece
from dashboards import palette
from dashboards.html import escaped, fill, policy, template
from dashboards.inspect.document_page import PageContent, Section, Stretch
from dashboards.palette import DOCUMENT_COLOURS, NAMES, SHADES
from schemas.document import EDGE_KINDS, EDGE_LABELS

TEMPLATE = "inspect.html"
DEEPEST = 12
"""Levels of the tree that are indented; what lies deeper stands below the deepest."""
_FIRST_EMPTY = re.compile(r"(?:<[^>]*>)?\n")


def page(title: str, subtitle: str, sheets: Sequence[PageContent]) -> str:
    """The page as HTML; each sheet's text is in it once, and whole."""
    codes = sorted(set().union(*(sheet.codes for sheet in sheets)))
    filled = fill(template(TEMPLATE), {"palette": palette.properties(), "shades": _shades()})
    slots = {
        "policy": policy(filled),
        "title": escaped(title),
        "subtitle": escaped(subtitle),
        "legend": "".join(_legend(codes)),
        "tree": "\n".join(_tree(sheets)),
        "sheets": "\n".join(_sheets(sheets)),
        "data": _data(sheets),
    }
    return fill(filled, slots)


def _shades() -> str:
    """The colours as custom properties: c0 … of structure for light and dark, and d0 … of documents."""
    documents = "".join(f"--d{index}:{colour};" for index, colour in enumerate(DOCUMENT_COLOURS))
    light = "".join(f"--c{code}:{shade.light};" for code, shade in enumerate(SHADES.values()))
    dark = "".join(f"--c{code}:{shade.dark};" for code, shade in enumerate(SHADES.values()))
    structure = "".join(f".k{code}{{--c:var(--c{code})}}" for code in range(len(SHADES)))
    coloured = "".join(
        f".d{index}{{--c:var(--d{index})}}" for index in range(len(DOCUMENT_COLOURS))
    )
    return (
        f":root{{{light}{documents}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{structure}{coloured}"
    )


def _legend(codes: Sequence[int]) -> Iterator[str]:
    for code in codes:
        yield f'<li class="k{code}">{NAMES[code]}</li>'


def _tree(sheets: Sequence[PageContent]) -> Iterator[str]:
    """A line a node; where there are several sheets, one for each sheet above its own."""
    number = 0
    below = int(len(sheets) > 1)
    for sheet in sheets:
        if below:
            note = f"<small>{escaped(sheet.facts[0])}</small>"
            yield f'<li class="l0 sheet"><a href=#n{number}><b>{escaped(sheet.title)}</b>{note}</a>'
            number += 1
        for node in sheet.nodes:
            place = f"l{min(node.depth + below, DEEPEST)} {node.colour}{' s' if node.is_stretch else ''}"
            word = f"<i>{escaped(node.word)}</i> " if node.word else ""
            size = f"<u>{escaped(node.size)}</u>" if node.size else ""
            note = f"<small>{escaped(node.note)}</small>" if node.note else ""
            yield (
                f'<li class="{place}"><a href=#n{number}>{word}'
                f"<b>{escaped(node.name)}</b>{size}{note}</a>"
            )
            number += 1


def _sheets(sheets: Sequence[PageContent]) -> Iterator[str]:
    first = 0
    below = int(len(sheets) > 1)
    for sheet in sheets:
        own = f" id=n{first}" if below else ""
        said = "".join(map(_fact, sheet.facts))
        yield f"<article{own}><header><h2>{escaped(sheet.title)}</h2>{said}</header>"
        written: set[int] = set()
        for section in sheet.sections:
            yield _section(section, first + below, written)
        yield "</article>"
        first += below + len(sheet.nodes)


def _fact(fact: str) -> str:
    """A line of words, broken between its items only."""
    items = (f"<span>{escaped(item)}</span>" for item in fact.split(" · "))
    return f"<p>{' '.join(items)}</p>"


def _section(section: Section, first: int, written: set[int]) -> str:
    """A section in the colour of its first piece; what has another says so."""
    code = section.stretches[0].pieces[0].code if section.stretches else 0
    text, before = "", "\n"
    for stretch in section.stretches:
        cut = [*joined(stretch.pieces)]
        if stretch.level < 0:
            text += "".join(_piece(piece, code) for piece in cut)
        else:
            whole = before.endswith("\n") and stretch.text.endswith("\n")
            inner = "".join(_piece(piece, stretch.code) for piece in cut)
            text += f"<b{_classes(f'k{stretch.code}', 'w' if whole else '')}"
            text += f"{_place(stretch, first, written)}>{inner}</b>"
        before = stretch.text
    place = f" id=n{first + section.node}" if section.node >= 0 else ""
    looks = _classes(f"k{code}" if code else "", "e" if _FIRST_EMPTY.match(text) else "")
    # The parser drops one line feed after <pre>.
    return f"<pre{place}{looks}>\n{text}</pre>"


def _place(stretch: Stretch, first: int, written: set[int]) -> str:
    """Return a chunk's level and its name as a target; nothing where it goes on."""
    if stretch.chunk in written:
        return ""
    written.add(stretch.chunk)
    named = f" id=n{first + stretch.node}" if stretch.node >= 0 else ""
    return f" data-l={stretch.level}{named}"


def _classes(*names: str) -> str:
    given = [name for name in names if name]
    quote = '"' if len(given) > 1 else ""
    return f" class={quote}{' '.join(given)}{quote}" if given else ""


def joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one look as one: white space looks like what stands before it."""
    held: Piece | None = None
    for piece in pieces:
        if held and (held.code == piece.code or piece.text.isspace()):
            held = held._replace(text=held.text + piece.text)
            continue
        if held:
            yield held
        held = piece
    if held:
        yield held


def _piece(piece: Piece, code: int) -> str:
    """A piece; its colour is said where it isn't that of the chunk around it."""
    text = escaped(piece.text)
    own = f" class=k{piece.code}" if piece.code != code and not piece.text.isspace() else ""
    return f"<i{own}>{text}</i>" if own else text


def _data(sheets: Sequence[PageContent]) -> str:
    """The edges for the script: source, target and look of each in one list, and the looks by number.

    A look is an edge's kind, label and, where it is known, confidence.
    """
    looks: dict[tuple[float, ...], int] = {}
    edges: list[int] = []
    first = 0
    below = int(len(sheets) > 1)
    for sheet in sheets:
        first += below
        for link in sheet.links:
            sure = () if link.confidence is None else (link.confidence,)
            look = (EDGE_KINDS.index(link.kind), EDGE_LABELS.index(link.label), *sure)
            number = looks.setdefault(look, len(looks))
            edges += (first + link.source, first + link.target, number)
        first += len(sheet.nodes)
    words = [WORDS[kind] for kind in EDGE_KINDS]
    content = {"words": words, "labels": EDGE_LABELS, "looks": [*looks], "edges": edges}
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
