"""SPDX licence expressions: parsing, joining, policies, and classification by redistribution terms."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from license_expression import Licensing

UNRECOGNISED = "LicenseRef-unrecognised"
"""Licence of a text whose licence statement isn't recognised."""
MAX_JOINED = 1_000
"""Maximum number of characters of a joined licence expression. A longer one becomes unrecognised."""
_REFERENCE = ("LicenseRef-", "DocumentRef-")
"""Prefixes of user-defined licence names."""
LicenceKind = Literal["permissive", "weak copyleft", "copyleft", "restricted", "unknown"]
"""Kinds of licences, in ascending order of obligations."""
_KINDS: dict[str, LicenceKind] = {
    "Permissive": "permissive",
    "Public Domain": "permissive",
    "Copyleft Limited": "weak copyleft",
    "Copyleft": "copyleft",
}
_HINT = "Write an id, or ids with AND, OR, WITH and parentheses, for example `MIT OR Apache-2.0`"
_ORDER: tuple[LicenceKind, ...] = get_args(LicenceKind)


@lru_cache(maxsize=1)
def _licensing() -> "Licensing":
    """Load the SPDX list on first use, which takes 50 ms."""
    from license_expression import get_spdx_licensing

    return get_spdx_licensing()


@lru_cache(maxsize=1)
def _kinds_by_id() -> dict[str, LicenceKind]:
    from license_expression import get_license_index

    return {
        line["spdx_license_key"]: _KINDS.get(line["category"], "restricted")
        for line in get_license_index()
        if line.get("spdx_license_key")
    }


def is_spdx_id(name: str) -> bool:
    """Return True for an id that is spelled as on the SPDX list, or for a LicenseRef.

    >>> is_spdx_id("MIT"), is_spdx_id("LicenseRef-ours"), is_spdx_id("Frob-1.0")
    (True, True, False)
    """
    return name.startswith(_REFERENCE) or name in _licensing().known_symbols


def spdx_ids() -> Iterable[str]:
    """Return all ids of the SPDX list."""
    known: Iterable[str] = _licensing().known_symbols
    return known


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Any:
    """Return the parse tree of an expression, with ids in SPDX's current spelling.

    Raises:
        ValueError: if the text isn't an SPDX expression.
    """
    try:
        parsed = _licensing().parse(text)
    except (
        Exception
    ) as wrong:  # its parser raises IndexError and TypeError for some malformed texts
        raise ValueError(f"{text!r} isn't an SPDX expression. {_HINT}") from wrong
    if parsed is None:
        raise ValueError(f"an SPDX expression can't be empty. {_HINT}")
    return parsed


def unknown_ids(text: str) -> list[str]:
    """Return the ids of an expression that are neither on the SPDX list nor a LicenseRef.

    Raises:
        ValueError: if the text isn't an SPDX expression.
    """
    found: list[str] = _licensing().unknown_license_keys(parse_expression(text))
    return [name for name in found if not name.startswith(_REFERENCE)]


def normalized(text: str) -> str:
    """Return an expression with ids in SPDX's current spelling.

    >>> normalized("(gpl-2.0+ or mit)"), normalized("GPL-2.0 with Linux-syscall-note")
    ('GPL-2.0-or-later OR MIT', 'GPL-2.0-only WITH Linux-syscall-note')

    Raises:
        ValueError: if the text isn't an SPDX expression.
    """
    return str(parse_expression(text))


@lru_cache(maxsize=4096)
def _combined(names: tuple[str, ...], relation: str) -> str:
    from license_expression import combine_expressions

    return str(combine_expressions(names, relation=relation, unique=True, licensing=_licensing()))


def joined(licences: Iterable[str], relation: Literal["AND", "OR"] = "AND") -> str | None:
    """Return one expression for the licences of several texts, without repetition; None if there are none.

    An expression longer than MAX_JOINED becomes unrecognised, since it is stored in every document.

    >>> joined(["MIT", "GPL-2.0-only OR MIT", "MIT"])
    '(GPL-2.0-only OR MIT) AND MIT'
    """
    distinct = tuple(sorted(set(licences)))
    if sum(map(len, distinct)) + len(" OR ") * (len(distinct) - 1) > MAX_JOINED:
        return UNRECOGNISED
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    combined = _combined(distinct, relation)
    return combined if len(combined) <= MAX_JOINED else UNRECOGNISED


def is_satisfied(tree: Any, accepts: Callable[[str, str], bool]) -> bool:
    """Return True if an expression is accepted. One accepted licence is enough for OR; AND needs all.

    Args:
        tree: parse tree from `parse_expression`.
        accepts: called with a licence name, for example `GPL-2.0-only WITH Bison-exception-2.2`, and the
        name without its exception.
    """
    if tree.isliteral:
        return accepts(*_names(tree))
    judged = (is_satisfied(part, accepts) for part in tree.args)
    return any(judged) if tree.operator == " OR " else all(judged)


def _names(leaf: Any) -> tuple[str, str]:
    base = getattr(leaf, "license_symbol", leaf)
    return str(leaf), str(base)


def licence_kind(licence: str | None) -> LicenceKind:
    """Return the kind of a licence expression: the mildest kind for OR, the strictest for AND.

    Kinds are the categories of ScanCode's LicenseDB, which ships with license-expression.

    >>> [licence_kind(name) for name in ("MIT", "MIT AND GPL-2.0-only", "MIT OR GPL-2.0-only", None)]
    ['permissive', 'copyleft', 'permissive', 'unknown']
    """
    if licence is None:
        return "unknown"
    try:
        return _ORDER[_rank(parse_expression(licence))]
    except ValueError:
        return "unknown"


def _rank(tree: Any) -> int:
    if not tree.isliteral:
        ranks = [_rank(part) for part in tree.args]
        return min(ranks) if tree.operator == " OR " else max(ranks)
    kinds = _kinds_by_id()
    base = _ORDER.index(kinds.get(_names(tree)[1], "unknown"))
    exception = getattr(tree, "exception_symbol", None)
    if exception is None:
        return base
    return min(base, _ORDER.index(kinds.get(str(exception), "unknown")))
