"""The facts of one C or C++ file, read off its syntax tree without recursion.

One query finds the nodes that matter. Definitions are swept in the order of the text with a stack of
what is around them; all else – calls, types, locals – is looked up by its place.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from curriculum.graph.blank import dead_branches, long_opaque
from curriculum.graph.call_sites import calls_of
from curriculum.graph.directives import Directives
from curriculum.graph.extents import Extents
from curriculum.graph.facts import FileFacts, Symbol
from curriculum.graph.grammars import kinds
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
    text = parsed.data.decode("latin-1")
    extents = Extents(data=parsed.data, source=parsed.source)
    numbers = kinds(language)
    found = captures_of(parsed.tree, language)
    swept = sweep(found.get("shell", ()), numbers, extents, text)
    types = types_by_draft(found.get("mention", ()), swept, text)
    directives = Directives(parsed.data, long_opaque(parsed.data))
    drafts = [_symbol(draft, types.get(i, ())) for i, draft in enumerate(swept.drafts)]
    symbols = [*drafts, *directives.macros(extents)]
    order = sorted(range(len(symbols)), key=lambda i: (symbols[i].start, -symbols[i].end))
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    calls = calls_of(found, swept, numbers, text)
    return FileFacts(
        symbols=tuple(replace(symbols[i], parent=place[symbols[i].parent]) for i in order),
        calls=tuple(replace(call, caller=place[call.caller]) for call in calls),
        includes=directives.includes(dead_branches(parsed.data, language)),
        usings=tuple(_usings(found, text)),
        num_bytes=len(parsed.data),
        error_bytes=parsed.error_bytes,
        is_complete=True,
        members=tuple(member._replace(owner=place[member.owner]) for member in swept.members),
    )


def _symbol(draft: Draft, types: tuple[str, ...]) -> Symbol:
    return Symbol(
        kind=draft.kind,
        name=draft.name,
        scope=draft.scope,
        start=draft.start,
        end=draft.end,
        name_start=draft.name_start,
        body=draft.body,
        parent=draft.parent,
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
