"""Tables and warnings of a build, in the order in which a person reads them."""

from collections.abc import Iterator
from dataclasses import dataclass

from curriculum.inspection.conversation_tables import conversation_lines, conversation_warnings
from curriculum.inspection.formats import Line
from curriculum.inspection.losses import lack_warnings
from curriculum.inspection.stage_tables import (
    YIELD_NOTE,
    changed_lines,
    chop_lines,
    comment_lines,
    context_lines,
    context_warnings,
    domain_lines,
    domain_warnings,
    fullness_lines,
    graph_lines,
    graph_warnings,
    held_out_warnings,
    index_lines,
    length_lines,
    tokenizer_warnings,
    yield_lines,
)
from curriculum.stages import Built


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTable:
    """A table, and the notes below it; either may be empty."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


def build_tables(built: Built) -> Iterator[BuildTable]:
    """Yield how full the rows of a phase are, how long their context is, and their domains."""
    notes = (YIELD_NOTE, *fullness_lines(built))
    yield BuildTable(lines=tuple(yield_lines(built)), notes=notes)
    for listed in (chop_lines, length_lines, context_lines):
        yield BuildTable(lines=tuple(listed(built)))
    yield BuildTable(lines=tuple(graph_lines(built)), notes=tuple(changed_lines(built)))
    for listed in (index_lines, conversation_lines, domain_lines, comment_lines):
        yield BuildTable(lines=tuple(listed(built)))


def build_warnings(built: Built) -> Iterator[str]:
    """Yield what a person should not miss of the build of a phase."""
    yield from lack_warnings(built)
    yield from graph_warnings(built)
    yield from context_warnings(built)
    yield from held_out_warnings(built)
    yield from conversation_warnings(built)
    yield from domain_warnings(built)
    yield from tokenizer_warnings(built)
