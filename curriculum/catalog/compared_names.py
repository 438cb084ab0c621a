"""Texts with which a query compares columns. DuckDB's own parser finds them.

All comparisons count: in a subquery, on either side, in a list, as a pattern, or with a text joined by ||. A
text doesn't count if it is known only after the query has run.
"""

import itertools
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from curriculum.catalog.connections import connected

Node: TypeAlias = dict[str, Any]
"""Part of a parsed query, in the format of json_serialize_sql."""
_EQUALITIES = frozenset(
    {
        *("COMPARE_EQUAL", "COMPARE_NOTEQUAL"),
        *("COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"),
        *("COMPARE_IN", "COMPARE_NOT_IN"),
    }
)
_PATTERNS = frozenset({"~~", "!~~", "~~*", "!~~*"})
"""DuckDB's names for LIKE, NOT LIKE, ILIKE and NOT ILIKE."""
_JOINED = frozenset({"||", "concat"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedName:
    """Text that a column is compared with."""

    column: str
    """Name of the column in lower case, without its view."""
    text: str
    is_pattern: bool


def compared_names(sql: str, columns: Collection[str]) -> list[ComparedName]:
    """Return the distinct texts with which a query compares a column in `columns`.

    The result is empty if `sql` isn't one SELECT.
    """
    if not any(re.search(rf"\b{name}\b", sql, re.IGNORECASE) for name in columns):
        return []
    with connected(threads="1") as connection:
        connection.execute("SET enable_external_access = false")
        (parsed,) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0]
    found = (comparison for node in _nodes(json.loads(parsed)) for comparison in _compared(node))
    return [comparison for comparison in dict.fromkeys(found) if comparison.column in columns]


def _nodes(part: Any) -> Iterator[Node]:
    """Yield a part of a parsed query and all parts inside it, in the order of the query."""
    if isinstance(part, dict):
        yield part
    below = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for child in below:
        yield from _nodes(child)


def _compared(node: Node) -> Iterator[ComparedName]:
    """Yield the texts of one comparison, each with the column that it is compared with."""
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
    """Return the operands of a comparison or function. Their field depends on DuckDB's version."""
    if "subquery" in node:
        return [operand for operand in (node["child"], node["subquery"]["node"]) if operand]
    if "left" in node:
        return [node["left"], node["right"]]
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return [*node.get("children", ())]


def _texts(node: Node) -> Sequence[str]:
    """Return the texts that an expression may have; empty if they are known only after the query has run."""
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
    """Return the text of a string literal, or None for any other expression."""
    literal, value = node.get("literal") or {}, node.get("value")
    if literal.get("kind") == "STRING":
        return str(literal["text"])
    found = value.get("value") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
