"""`curriculum diff`: differences between two diets, mixtures, sets of rows, or runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.formats import count, number
from curriculum.inspection.token_counts import (
    KINDS,
    ROWS,
    DocumentChange,
    TokenChange,
    TokenDifference,
    ValidTokens,
    changes,
    counted,
    difference,
)
from curriculum.mixing import differences
from curriculum.mixing.diet_files import diet_names, load_diet, load_phases
from curriculum.mixing.imported import imported_rows
from curriculum.mixing.resolve import resolve
from curriculum.pipeline.references import MIXTURES, artefacts_of, is_run_path_or_key, store_of
from curriculum.store import Store
from flows.cli.compare import compare
from flows.cli.console import ACCENT, MUTED, out, print_json, table, warn
from flows.settings.trust import shadow_words, shadows
from schemas.errors import StoreError
from schemas.visible import one_line

MAX_LINES = 12
"""Maximum number of lines per table without --full."""
MAX_DOCUMENTS = 6
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
    """Print the differences between two diets, mixtures, sets of rows, or runs.

    A name may belong to both a diet and a specialist. It means the diet if the other side is a diet too, and
    the current mixtures of the specialist otherwise. Runs are named by path or key; SPECIALIST/PHASE means a
    mixture.

    Raises:
        DietError: if a diet can't be read.
        StoreError: if one side is a diet and the other an artefact, or if a side is unknown.
    """
    sides = (before, after)
    if all(not _is_file(side) and is_run_path_or_key(store_of(home, side), side) for side in sides):
        compare(home, sides, full=full, as_json=as_json)
    elif _are_diets(home, sides):
        _diff_diets(home, before, after, phases_file, as_json=as_json)
    else:
        _diff_tokens(home, before, after, full=full, as_json=as_json)


def _are_diets(home: Path, sides: Sequence[str]) -> bool:
    """Return True if both sides are diets, or one is a diet and the other has no rows or mixture.

    Raises:
        StoreError: if one side has rows or a mixture, and the other is a diet that has no mixture.
    """
    diets = [side for side in sides if side in diet_names(home) or _is_file(side)]
    if len(diets) != 1:
        return bool(diets)
    held = [
        side
        for side in sides
        if not _is_file(side) and artefacts_of(store_of(home, side), side, (ROWS, MIXTURES))
    ]
    if held and diets[0] not in held:
        raise StoreError(
            diets[0],
            cause=f"the diet has no mixture in this workspace, and {held[0]} isn't a diet",
            cure=f"Run curriculum mix {diets[0]} first, or name two diets",
        )
    return not held


def _is_file(side: str) -> bool:
    """Return True if a side is the path of a diet file. Such files can be compared without a workspace."""
    return Path(side).suffix in YAML


def _diff_tokens(home: Path, before: str, after: str, *, full: bool, as_json: bool) -> None:
    found = difference(tokens_of(home, before), tokens_of(home, after))
    if as_json:
        print_json(found)
        return
    for piece in _shown(found, full=full):
        out.print(piece, soft_wrap=isinstance(piece, Text))


def _diff_diets(
    home: Path, before: str, after: str, phases_file: str | None, *, as_json: bool
) -> None:
    for line in shadow_words(home):
        warn(line)
    diets = load_diet(before, home=home), load_diet(after, home=home)
    files = (load_phases(phases_file or diet.phases_file, home) for diet in diets)
    store = Store(home, dry=True)
    old, new = (
        resolve(diet, specs, imported_rows(store, diet))
        for diet, specs in zip(diets, files, strict=True)
    )
    servings = [*differences.changes(old, new)]
    tokens = [{phase.name: phase.tokens for phase in side} for side in (old, new)]
    phases = sorted(changes(*tokens), key=lambda phase: [*tokens[0], *tokens[1]].index(phase.name))
    fields = [*differences.fields(diets, old, new)]
    if as_json:
        found = {
            "phases": phases,
            "servings": servings,
            "fields": fields,
            "shadows": shadows(home),
        }
        print_json(found)
        return
    differing = [serving for serving in servings if serving.tokens_change]
    if differing:
        for lines in (phases, differing):
            out.print(table(lines, heads={"name": "phase"}))
            out.print()
    if fields:
        out.print(table(fields))
    if not differing and not fields:
        out.print("No difference: both diets request the same tokens of the same servings.")


def tokens_of(home: Path, what: str) -> ValidTokens:
    """Count the tokens of rows or mixtures that a path, a key or a name refers to.

    For a run, the tokens of its mixture are counted.

    Raises:
        StoreError: if the name is neither rows nor a mixture, or if rows of a mixture were removed.
    """
    store = store_of(home, what)
    found = artefacts_of(store, what, (ROWS, MIXTURES))
    if not found:
        raise StoreError(
            what,
            cause="no rows, mixture, specialist or run with a mixture has this name",
            cure="`curriculum status` lists the specialists; rows and mixtures are folders in "
            "rows/ and mixtures/",
        )
    return counted(store, what.rstrip("/"), found)


def _shown(found: TokenDifference, *, full: bool) -> Iterator[RenderableType]:
    yield Text.assemble(("before  ", MUTED), (found.before, "bold"))
    yield Text.assemble(("after   ", MUTED), (found.after, f"bold {ACCENT}"))
    yield ""
    yield table(found.totals)
    changed = [change for kind in KINDS for change in found.by[kind] if change.tokens_change]
    if not changed and not any(map(_is_changed, found.documents)):
        yield Text("\nNo difference: the same documents, as often, in the same servings.")
        return
    for kind in KINDS:
        listed = found.by[kind]
        is_serving = kind == "family" and len(listed) == len(found.by["serving"])
        if not is_serving and (kind != "phase" or len(listed) > 1):
            yield from _kind(kind, listed, full=full)
    yield from _documents(found.documents, full=full)


def _kind(kind: str, listed: Sequence[TokenChange], *, full: bool) -> Iterator[RenderableType]:
    """Yield the changes of one kind as a table, or a line that says that nothing changed."""
    changed = [change for change in listed if full or change.tokens_change]
    if len(listed) == 1:
        yield Text(f"\nall of {kind} {one_line(listed[0].name) or 'none'}", MUTED)
    elif not changed:
        yield Text(f"\n{PLURALS[kind]}: unchanged", MUTED)
    else:
        limit = None if full else MAX_LINES
        yield ""
        yield table(changed, heads={"name": kind}, limit=limit, things=PLURALS[kind])


def _documents(listed: Sequence[DocumentChange], *, full: bool) -> Iterator[RenderableType]:
    """Yield tables of added and removed documents, and the number of common documents."""
    limit = None if full else MAX_DOCUMENTS
    sides = {
        "added": [document for document in listed if not document.tokens_before],
        "removed": [document for document in listed if not document.tokens_after],
    }
    for words, own in sides.items():
        if own:
            tokens = sum(document.tokens_before + document.tokens_after for document in own)
            yield Text.assemble(
                (f"\n{number(len(own), 'document')} {words}", "bold"),
                (f"  {count(tokens)} tokens", MUTED),
            )
            shown = "tokens_after" if words == "added" else "tokens_before"
            names = ("document_id", "family", "repository", "commit", "path", shown)
            yield table(own, names, limit=limit, things="documents")
    both = [document for document in listed if document.tokens_before and document.tokens_after]
    if both and any(map(_is_changed, listed)):
        more = sum(document.tokens_after > document.tokens_before for document in both)
        fewer = sum(document.tokens_after < document.tokens_before for document in both)
        yield Text.assemble(
            (f"\n{number(len(both), 'document')} in both", "bold"),
            (f"  {more:,} with more tokens, {fewer:,} with fewer", MUTED),
        )


def _is_changed(document: DocumentChange) -> bool:
    return document.tokens_before != document.tokens_after
