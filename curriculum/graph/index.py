"""The facts of one C or C++ file, read off its syntax tree without recursion.

One query finds the nodes that matter. Definitions are swept in the order of the text with a stack of
what is around them; all else – calls, types, locals – is looked up by its place.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from curriculum.graph.call_sites import calls_of
from curriculum.graph.directives import Directives
from curriculum.graph.extents import Extents
from curriculum.graph.facts import Call, FileFacts, Member, Symbol
from curriculum.graph.grammars import kinds
from curriculum.graph.letters import letters, unlettered
from curriculum.graph.mentions import types_by_draft
from curriculum.graph.patterns import Nodes, captures_of
from curriculum.graph.spelling import using_of
from curriculum.graph.sweep import Draft, sweep
from curriculum.graph.syntax_tree import Parsed, parse
from schemas.corpus import Language


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
    text = letters(parsed.data)
    extents = Extents(parsed.data, parsed.source)
    numbers = kinds(language)
    found = captures_of(parsed.tree, language)
    swept = sweep(found.get("shell", ()), numbers, extents, text)
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
        calls=tuple(Call._make(map(_told, each)) for each in facts.calls),
        usings=_told(facts.usings),
        members=tuple(Member._make(map(_told, each)) for each in facts.members),
    )


def _unlettered_symbol(symbol: Symbol) -> Symbol:
    return replace(
        symbol,
        name=_told(symbol.name),
        scope=_told(symbol.scope),
        parameters=_told(symbol.parameters),
        returns=_told(symbol.returns),
        bases=_told(symbol.bases),
        types=_told(symbol.types),
    )


def _told(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_told, value))
    return unlettered(value) if isinstance(value, str) else value


def _symbol(draft: Draft, types: tuple[str, ...], places: Sequence[int]) -> Symbol:
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
