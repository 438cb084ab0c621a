"""The texts that a question compares columns with, as DuckDB's own parser finds them.

A text counts wherever the question compares it: in a subquery, on either side, in a list, as a pattern, put
together by ||. A text that only running the question would give doesn't.
"""

import itertools
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from curriculum.catalog.connections import connected

Node: TypeAlias = dict[str, Any]
"""A part of a parsed question, as json_serialize_sql gives it."""
_EQUALITIES = frozenset(
    {
        *("COMPARE_EQUAL", "COMPARE_NOTEQUAL"),
        *("COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"),
        *("COMPARE_IN", "COMPARE_NOT_IN"),
    }
)
_PATTERNS = frozenset({"~~", "!~~", "~~*", "!~~*"})
"""LIKE, NOT LIKE, ILIKE and NOT ILIKE."""
_JOINED = frozenset({"||", "concat"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedName:
    """A text that a column is compared with."""

    column: str
    """The column's name in lower case, without its view."""
    text: str
    is_pattern: bool


def compared_names(sql: str, columns: Collection[str]) -> list[ComparedName]:
    """Return the texts that a question compares any of these columns with, each once.

    A question that isn't one SELECT compares nothing.
    """
    if not any(re.search(rf"\b{name}\b", sql, re.IGNORECASE) for name in columns):
        return []
    with connected(threads="1") as connection:
        connection.execute("SET enable_external_access = false")
        (parsed,) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0]
    found = (comparison for node in _nodes(json.loads(parsed)) for comparison in _compared(node))
    return [comparison for comparison in dict.fromkeys(found) if comparison.column in columns]


def _nodes(part: Any) -> Iterator[Node]:
    """Yield a parsed part and all that is below it, in the order of the question."""
    if isinstance(part, dict):
        yield part
    below = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for child in below:
        yield from _nodes(child)


def _compared(node: Node) -> Iterator[ComparedName]:
    """Yield the texts that one comparison compares columns with."""
    is_pattern = node.get("function_name") in _PATTERNS
    kinds = {node.get("type"), node.get("comparison_type")}
    if not is_pattern and kinds.isdisjoint(_EQUALITIES):
        return
    operands = _operands(node)
    names = [
        str(operand["column_names"][-1]).lower()
        for operand in operands
        if "column_names" in operand
    ]
    texts = [text for operand in operands for text in _texts(operand)]
    for name, text in itertools.product(names, texts):
        yield ComparedName(column=name, text=text, is_pattern=is_pattern)


def _operands(node: Node) -> Sequence[Node]:
    """Return what a comparison or a function is applied to; its form depends on DuckDB's version."""
    if "subquery" in node:
        return [operand for operand in (node["child"], node["subquery"]["node"]) if operand]
    if "left" in node:
        return [node["left"], node["right"]]
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return [*node.get("children", ())]


def _texts(node: Node) -> Sequence[str]:
    """Return the texts that an expression is one of; none for what running it alone would give."""
    if (text := _constant(node)) is not None:
        return [text]
    if node.get("function_name") in _JOINED:
        parts = itertools.product(*map(_texts, _operands(node)))
        return ["".join(part) for part in parts]
    if node.get("class") == "CAST":
        return _texts(node["child"])
    if node.get("class") == "SUBQUERY" and not node["child"]:
        return _texts(node["subquery"]["node"])
    source = node.get("from_table") or {}
    if source.get("type") == "EXPRESSION_LIST":
        return [text for line in source["values"] for value in line for text in _texts(value)]
    if source.get("type") == "EMPTY":
        return [text for expression in node["select_list"] for text in _texts(expression)]
    return []


def _constant(node: Node) -> str | None:
    """Return a text that stands in the question; None for anything else."""
    literal, value = node.get("literal") or {}, node.get("value")
    if literal.get("kind") == "STRING":
        return str(literal["text"])
    found = value.get("value") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
