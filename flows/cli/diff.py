"""`curriculum diff`: what changes from one mixture or set of rows to another, in tokens and in documents."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.formats import Line, count, number, percent
from curriculum.inspection.token_counts import (
    KINDS,
    ROWS,
    Change,
    Difference,
    TokenCounts,
    counted,
    difference,
)
from curriculum.pipeline.references import MIXTURES, artefacts_of, store_of
from flows.cli.console import ACCENT, MUTED, out, print_json, table
from schemas.errors import StoreError
from schemas.visible import one_line

MOST_LINES = 12
"""Lines of each table, unless all are asked for."""
MOST_DOCUMENTS = 6
PLURALS = {
    "phase": "phases",
    "serving": "servings",
    "family": "families",
    "domain": "domains",
    "repository": "repositories",
    "licence": "licences",
}
assert tuple(PLURALS) == KINDS


def diff(home: Path, before: str, after: str, *, full: bool = False, as_json: bool = False) -> None:
    """Print what changes from one mixture or set of rows to another."""
    found = difference(tokens_of(home, before), tokens_of(home, after))
    if as_json:
        print_json(_as_json(found))
        return
    for piece in _shown(found, full=full):
        out.print(piece, soft_wrap=isinstance(piece, Text))


def tokens_of(home: Path, what: str) -> TokenCounts:
    """Count the tokens of rows or mixtures by path, key or name; a run means its mixture.

    Raises:
        StoreError: for what is none of them, and where rows that a mixture draws on are gone.
    """
    store = store_of(home, what)
    found = artefacts_of(store, what, (ROWS, MIXTURES))
    if not found:
        raise StoreError(
            what,
            cause="it is neither rows nor a mixture, nor the name of a specialist or run that has one",
            cure="`curriculum status` lists the specialists; rows/… and mixtures/… are folders",
        )
    return counted(store, what.rstrip("/"), found)


def _shown(found: Difference, *, full: bool) -> Iterator[RenderableType]:
    yield Text.assemble(
        (found.before.title, "bold"), ("  →  ", MUTED), (found.after.title, f"bold {ACCENT}")
    )
    yield ""
    yield table(_totals(found))
    if not any(each.tokens for each in _every(found)):
        yield Text("\nThey hold the same documents, as often and as served.")
        return
    for kind in _worth_telling(found):
        yield from _table(kind, found.by[kind], full=full)
    yield from _documents(found, full=full)


def _every(found: Difference) -> Iterator[Change]:
    yield from found.documents
    for kind in KINDS:
        yield from found.by[kind]


def _worth_telling(found: Difference) -> Iterator[str]:
    """The kinds that say something: phases where a side has several, families where servings share some."""
    for kind in KINDS:
        several = any(len(side.by(kind)) > 1 for side in _both(found))
        told = len(found.by[kind]) == len(found.by["serving"])
        if (kind != "phase" or several) and (kind != "family" or not told):
            yield kind


def _totals(found: Difference) -> Iterator[Line]:
    for name in ("tokens", "rows", "documents", "source files"):
        old, new = _total(found.before, name), _total(found.after, name)
        yield {
            "": name,
            "before": f"{old:,}",
            "after": f"{new:,}",
            "change": _signed(new - old),
        }
    empty = [percent(1 - each.tokens / max(each.positions, 1)) for each in _both(found)]
    yield {"": "padding", "before": empty[0], "after": empty[1], "change": ""}


def _both(found: Difference) -> tuple[TokenCounts, TokenCounts]:
    return found.before, found.after


def _total(side: TokenCounts, name: str) -> int:
    match name:
        case "tokens":
            return side.tokens
        case "rows":
            return side.rows
        case "documents":
            return len(side.by("document_id"))
        case _:
            return len(side.by("lineage"))


def _table(kind: str, listed: Sequence[Change], *, full: bool) -> Iterator[RenderableType]:
    """Yield the differences of one kind as a table, or a line that there are none."""
    if len(listed) == 1:
        yield Text(f"\nall of {kind} {one_line(listed[0].name)}", MUTED)
        return
    differing = [each for each in listed if full or each.tokens]
    if not differing:
        yield Text(f"\n{PLURALS[kind]}: no change", MUTED)
        return
    most = None if full else MOST_LINES
    yield ""
    yield table(_line(kind, each) for each in differing[:most])
    rest = len(differing) - len(differing[:most])
    if rest:
        yield Text(f"… {rest:,} more {PLURALS[kind] if rest > 1 else kind} (--full)", MUTED)


def _line(kind: str, change: Change) -> Line:
    return {
        kind: one_line(change.name),
        "before": count(change.before) if change.before else "",
        "share": percent(change.share_before) if change.before else "",
        "after": count(change.after) if change.after else "",
        "share ": percent(change.share_after) if change.after else "",
        "tokens": _signed(change.tokens),
        "points": _points(change.share),
    }


def _documents(found: Difference, *, full: bool) -> Iterator[RenderableType]:
    where = {
        line["document_id"]: line
        for side in _both(found)
        for line in side.documents.select(
            ["document_id", "repository", "commit", "path", "family"]
        ).to_pylist()
    }
    for words, listed in (("come in", found.come), ("go", found.go)):
        if not listed:
            continue
        tokens = sum(abs(each.tokens) for each in listed)
        yield ""
        yield Text.assemble(
            (f"{number(len(listed), 'document')} {words}", "bold"),
            (f"  {count(tokens)} tokens", MUTED),
        )
        most = None if full else MOST_DOCUMENTS
        yield table(_document_line(each, where[each.name]) for each in listed[:most])
        rest = len(listed) - len(listed[:most])
        if rest:
            yield Text(f"… {number(rest, 'more document')} (--full)", MUTED)
    yield from _staying(found)


def _staying(found: Difference) -> Iterator[RenderableType]:
    stay = found.stay
    if not stay or not any(each.tokens for each in found.documents):
        return
    more = sum(1 for each in stay if each.tokens > 0)
    less = sum(1 for each in stay if each.tokens < 0)
    yield ""
    yield Text.assemble(
        (f"{number(len(stay), 'document')} stay", "bold"),
        (f"  {more:,} with more tokens, {less:,} with fewer", MUTED),
    )


def _document_line(change: Change, where: Mapping[str, Any]) -> Line:
    return {
        "document": change.name[:12],
        "family": where["family"],
        "repository": one_line(where["repository"]),
        "commit": where["commit"][:10],
        "path": one_line(where["path"]),
        "tokens": f"{abs(change.tokens):,}",
    }


def _signed(amount: int) -> str:
    """A change with its sign; empty for none.

    >>> _signed(1_500), _signed(-20_000), _signed(0)
    ('+1.5k', '−20k', '')
    """
    if not amount:
        return ""
    return f"{'+' if amount > 0 else '−'}{count(abs(amount))}"


def _points(share: float) -> str:
    """A change of a share in points of a hundred; empty where it rounds to none.

    >>> _points(0.021), _points(-0.5), _points(0.0001)
    ('+2.1', '−50.0', '')
    """
    shown = f"{100 * abs(share):.1f}"
    if shown == "0.0":
        return ""
    return f"{'+' if share > 0 else '−'}{shown}"


def _as_json(found: Difference) -> dict[str, object]:
    sides = {"before": found.before, "after": found.after}
    columns = ["document_id", "family", "repository", "commit", "path", "licence", "lineage"]
    where = {
        line["document_id"]: line
        for side in sides.values()
        for line in side.documents.select(columns).to_pylist()
    }
    return {
        **{name: _side_json(side) for name, side in sides.items()},
        "by": {kind: [_change_json(each) for each in found.by[kind]] for kind in KINDS},
        "documents": {
            "in": [{**where[each.name], "tokens": each.after} for each in found.come],
            "out": [{**where[each.name], "tokens": each.before} for each in found.go],
            "stay": [
                {"document_id": each.name, "before": each.before, "after": each.after}
                for each in found.stay
            ],
        },
    }


def _side_json(side: TokenCounts) -> dict[str, object]:
    return {
        "what": side.title,
        "artefacts": [{"key": each.key, "path": str(each.path)} for each in side.artefacts],
        "tokens": side.tokens,
        "rows": side.rows,
        "positions": side.positions,
        "documents": len(side.by("document_id")),
        "source_files": len(side.by("lineage")),
    }


def _change_json(change: Change) -> dict[str, object]:
    return {
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "change": change.tokens,
        "share_before": change.share_before,
        "share_after": change.share_after,
    }
