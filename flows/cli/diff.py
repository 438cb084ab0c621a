"""`curriculum diff`: changes between two diets, two mixtures or sets of rows, or two runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
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
from curriculum.mixing import differences
from curriculum.mixing.imported import imported_rows
from curriculum.mixing.load import diet_names, load_diet, load_phases
from curriculum.mixing.resolve import resolve
from curriculum.pipeline.references import MIXTURES, artefacts_of, is_run_path_or_key, store_of
from curriculum.store import Store
from flows.cli.compare import compare
from flows.cli.console import ACCENT, MUTED, out, print_json, table, warn
from flows.settings.trust import shadow_words, shadows
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


YAML = (".yaml", ".yml")


def diff(
    home: Path,
    before: str,
    after: str,
    *,
    phases_file: str | None = None,
    full: bool = False,
    as_json: bool = False,
) -> None:
    """Print the changes between two diets, two mixtures or sets of rows, or two runs.

    A name of a diet and a specialist means the diet where both sides are diets, else the current mixtures.
    Runs are those named by path or key; SPECIALIST/PHASE means a mixture.

    Raises:
        DietError: for a diet that can't be read.
        StoreError: for a diet and an artefact, and for what is neither.
    """
    sides = (before, after)
    if all(not _is_file(each) and is_run_path_or_key(store_of(home, each), each) for each in sides):
        compare(home, sides, full=full, as_json=as_json)
    elif _are_diets(home, sides):
        _diff_diets(home, before, after, phases_file, as_json=as_json)
    else:
        _diff_tokens(home, before, after, full=full, as_json=as_json)


def _are_diets(home: Path, sides: Sequence[str]) -> bool:
    """Return True for two diets, and for a diet and what isn't in the workspace.

    Raises:
        StoreError: for a diet that has no mixture, and rows or a mixture.
    """
    diets = [each for each in sides if each in diet_names(home) or _is_file(each)]
    if len(diets) != 1:
        return bool(diets)
    held = [
        each
        for each in sides
        if not _is_file(each) and artefacts_of(store_of(home, each), each, (ROWS, MIXTURES))
    ]
    if held and diets[0] not in held:
        raise StoreError(
            diets[0],
            cause=f"it is a diet without a mixture here, and {held[0]} isn't a diet",
            cure=f"Run curriculum mix {diets[0]} first, or give two diets",
        )
    return not held


def _is_file(side: str) -> bool:
    """Return True for the path of a diet's file, which needs no workspace around it."""
    return Path(side).suffix in YAML


def _diff_tokens(home: Path, before: str, after: str, *, full: bool, as_json: bool) -> None:
    found = difference(tokens_of(home, before), tokens_of(home, after))
    if as_json:
        print_json(_as_json(found))
        return
    for piece in _shown(found, full=full):
        out.print(piece, soft_wrap=isinstance(piece, Text))


def _diff_diets(
    home: Path, before: str, after: str, phases_file: str | None, *, as_json: bool
) -> None:
    for line in shadow_words(home):
        warn(line)
    diets = load_diet(before, home=home), load_diet(after, home=home)
    files = (load_phases(phases_file or each.phases_file, home) for each in diets)
    store = Store(home, dry=True)
    old, new = (
        resolve(diet, specs, imported_rows(store, diet))
        for diet, specs in zip(diets, files, strict=True)
    )
    listed = [*differences.changes(old, new)]
    others = [*differences.fields(diets, old, new)]
    if as_json:
        found = {
            "fields": [asdict(each) for each in others],
            "servings": [{**asdict(each), "difference": each.difference} for each in listed],
            "shadows": [*shadows(home)],
        }
        print_json(found)
        return
    differing = [each for each in listed if each.difference]
    if differing:
        out.print(table(_serving_lines(listed)))
    if others:
        out.print()
        out.print(table({"field": f.name, "before": f.before, "after": f.after} for f in others))
    if not differing and not others:
        out.print("No difference: both diets ask for the same tokens of the same servings.")


def _serving_lines(listed: Sequence[differences.Change]) -> Iterator[Line]:
    """A line a phase with its totals, then one a serving that differs."""
    for phase in dict.fromkeys(each.phase for each in listed):
        own = [each for each in listed if each.phase == phase]
        old, new = sum(each.before for each in own), sum(each.after for each in own)
        yield _serving_line(phase, "", "", "", old, new)
        for each in own:
            if each.difference:
                only = f" of {', '.join(each.repositories)}" if each.repositories else ""
                yield _serving_line(
                    f"  {each.family}{only}",
                    each.objective,
                    f"{each.row_length:,}",
                    each.domains,
                    each.before,
                    each.after,
                )


def _serving_line(
    title: str, objective: str, row_length: str, domains: str, old: int, new: int
) -> Line:
    return {
        "phase and family": title,
        "objective": objective,
        "row length": row_length,
        "domains": domains,
        "before": count(old) if old else "",
        "after": count(new) if new else "",
        "change": _signed(new - old),
    }


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
    yield Text.assemble(("before  ", MUTED), (found.before.title, "bold"))
    yield Text.assemble(("after   ", MUTED), (found.after.title, f"bold {ACCENT}"))
    yield ""
    yield table(_totals(found))
    if not any(each.tokens for each in _every(found)):
        yield Text("\nNo difference: the same documents, as often, in the same servings.")
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
    for words, listed in (("added", found.come), ("removed", found.go)):
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
        (f"{number(len(stay), 'document')} in both", "bold"),
        (f"  {more:,} with more tokens, {less:,} with fewer", MUTED),
    )


def _document_line(change: Change, where: Mapping[str, Any]) -> Line:
    return {
        "document": change.name[:12],
        "family": where["family"],
        "repository": one_line(where["repository"]),
        "commit": where["commit"][:12],
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
