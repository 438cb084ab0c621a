"""Extraction of the facts of one C or C++ file from its syntax tree, without recursion.

One query finds the nodes that matter. Definitions are swept in the order of the text with a stack of what is
around them; all else – calls, types, locals – is looked up by its place.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from curriculum.graph.blank import TO_LINE_END
from curriculum.graph.call_sites import calls_of
from curriculum.graph.extract_symbols import ExtractedSymbols, SymbolDraft, extract_symbols
from curriculum.graph.facts import Call, FileFacts, Member, Range, Symbol
from curriculum.graph.fragments import Extents
from curriculum.graph.line_ranges import byte_text, from_byte_text, is_in
from curriculum.graph.spelling import Parameters, using_of
from curriculum.graph.syntax_tree import Nodes, Parsed, captures_of, kinds, parse
from schemas.corpus import Language

_LAST_WORD = re.compile(r"\w+\Z")
_LONGEST_SCOPE = 40


def types_by_draft(
    mentions: Nodes, swept: ExtractedSymbols, text: str
) -> dict[int, tuple[str, ...]]:
    """Return the sorted names of types by draft, its own left out; a class's methods have their own.

    The parser makes up names of no bytes where it misses one.
    """
    starts = [node.start_byte for node in mentions]
    found: defaultdict[int, set[str]] = defaultdict(set)
    for node, start, symbol in zip(mentions, starts, swept.symbols_at(starts), strict=True):
        name = text[start : node.end_byte]
        if symbol >= 0 and name:
            if text.startswith("::", start - 2):
                name = _scopes(text, start) + name
            found[symbol].add(name)
    return {
        symbol: tuple(sorted(names - {swept.drafts[symbol].name}))
        for symbol, names in found.items()
    }


def _scopes(text: str, place: int) -> str:
    """The scopes that a name is written with, without those that have template arguments."""
    first = place
    while text.startswith("::", first - 2):
        head = text[max(0, first - _LONGEST_SCOPE) : first - 2]
        word = _LAST_WORD.search(head)
        if word is None:
            break
        first -= 2 + len(word[0])
    return text[first:place]


_DIRECTIVE = re.compile(
    rb"\n[ \t]*#[ \t]*(?:include(?:_next)?[ \t]*[<\"]([^>\"\n]*)[>\"]"
    rb"|define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\))?" + TO_LINE_END + rb")"
)


class Directives:
    """The directives of one file that stand in no comment or raw string."""

    def __init__(self, data: bytes, hidden: Sequence[Range]) -> None:
        self._found = [
            match
            for match in _DIRECTIVE.finditer(b"\n" + data)
            if not (hidden and is_in(match.start(), hidden))
        ]

    def includes(self, dead: Sequence[Range]) -> tuple[str, ...]:
        """Return the files that are included outside of dead branches."""
        return tuple(
            match[1].decode(errors="replace")
            for match in self._found
            if match[1] is not None and not is_in(match.start(), dead)
        )

    def macros(self, extents: Extents) -> Iterator[SymbolDraft]:
        """All macros, of whatever branch."""
        for match in self._found:
            if match[2] is None:
                continue
            lines = extents.lines(match.start(), match.end() - 1)
            listed = (match[3] or b"()")[1:-1].strip()
            number = len(listed.split(b",")) if listed else 0
            is_open = b"..." in listed
            parameters = Parameters((), number - is_open, -1 if is_open else number)
            yield SymbolDraft(
                kind="macro", name=match[2].decode(), scope=(), start=lines.start, end=lines.end,
                name_start=match.start(2) - 1, body=None, parent=-1, parameters=parameters,
            )  # fmt: skip


@functools.lru_cache(maxsize=8)
def facts_of(text: str, language: Language) -> FileFacts:
    """The facts of a file; never fails. Those of a language other than C and C++ are none."""
    parsed = parse(text, language)
    if parsed is None:
        size = len(text.encode())
        return FileFacts(
            symbols=(), calls=(), includes=(), usings=(),
            num_bytes=size, error_bytes=size, is_complete=not size,
        )  # fmt: skip
    return _facts(parsed, language)


def _facts(parsed: Parsed, language: Language) -> FileFacts:
    text = byte_text(parsed.data)
    extents = Extents(parsed.data, parsed.source)
    numbers = kinds(language)
    found = captures_of(parsed.tree, language)
    swept = extract_symbols(found.get("shell", ()), numbers, extents, text)
    types = types_by_draft(found.get("mention", ()), swept, text)
    directives = Directives(parsed.data, parsed.hidden)
    drafts = [*swept.drafts, *directives.macros(extents)]
    order = sorted(range(len(drafts)), key=lambda i: (drafts[i].start, -drafts[i].end))
    places = [-1] * (len(order) + 1)
    for new, old in enumerate(order):
        places[old] = new
    facts = FileFacts(
        symbols=tuple(_symbol(drafts[i], types.get(i, ()), places) for i in order),
        calls=tuple(calls_of(found, swept, numbers, text, places)),
        includes=directives.includes(parsed.dead),
        usings=tuple(_usings(found, text)),
        num_bytes=len(parsed.data),
        error_bytes=parsed.error_bytes,
        is_complete=True,
        members=tuple(member._replace(owner=places[member.owner]) for member in swept.members),
    )
    return facts if text.isascii() else _unlettered(facts)


def _unlettered(facts: FileFacts) -> FileFacts:
    return replace(
        facts,
        symbols=tuple(map(_unlettered_symbol, facts.symbols)),
        calls=tuple(Call._make(map(_decoded, each)) for each in facts.calls),
        usings=_decoded(facts.usings),
        members=tuple(Member._make(map(_decoded, each)) for each in facts.members),
    )


def _unlettered_symbol(symbol: Symbol) -> Symbol:
    return replace(
        symbol,
        name=_decoded(symbol.name),
        scope=_decoded(symbol.scope),
        parameters=_decoded(symbol.parameters),
        returns=_decoded(symbol.returns),
        bases=_decoded(symbol.bases),
        types=_decoded(symbol.types),
    )


def _decoded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_decoded, value))
    return from_byte_text(value) if isinstance(value, str) else value


def _symbol(draft: SymbolDraft, types: tuple[str, ...], places: Sequence[int]) -> Symbol:
    return Symbol(
        kind=draft.kind,
        name=draft.name,
        scope=draft.scope,
        start=draft.start,
        end=draft.end,
        name_start=draft.name_start,
        body=draft.body,
        parent=places[draft.parent],
        parameters=draft.parameters.types,
        min_arity=draft.parameters.least,
        max_arity=draft.parameters.most,
        returns=draft.returns,
        bases=draft.bases,
        types=types,
        is_template=draft.is_template,
        is_virtual=draft.is_virtual,
    )


def _usings(found: Mapping[str, Nodes], text: str) -> Iterator[str]:
    for node in sorted(found.get("using", ()), key=attrgetter("start_byte")):
        name = using_of(text[node.start_byte : node.end_byte])
        if name:
            yield name
