"""One unit of a database, parsed and walked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curriculum.graph.clang.database import ROOT, located
from curriculum.graph.clang.frontend import Problem, Tree, parse, problems
from curriculum.graph.clang.seen import UnitResult, Work
from curriculum.graph.clang.snapshot import IndexedInclude
from curriculum.graph.clang.walk import walk

_LADDER = {"c": ("c17", "c23"), "c++": ("c++17", "c++20", "c++23")}
"""Databases often say an older standard than the code needs: compilers are lenient, each in its way."""


def index(work: Work) -> UnitResult:
    """All that a unit shows of the tree; the standard with the fewest errors is taken."""
    root = work.root.resolve()
    tree = Tree(root=root)
    best = _best(work, root)
    if best is None:
        return UnitResult(outcome="failed", reason="the parser gave up")
    unit, errors = best
    return UnitResult(
        outcome="partial" if errors else "indexed",
        reason=_reason(errors, tree) if errors else "",
        seen=walk(unit, tree),
        includes=frozenset(_includes(unit, tree)),
    )


def _best(work: Work, root: Path) -> tuple[Any, list[Problem]] | None:
    best: tuple[Any, list[Problem]] | None = None
    for arguments in _attempts(work, root):
        unit = parse(str(root / work.unit.path), arguments)
        if unit is None:
            continue
        errors = problems(unit)
        if best is None or len(errors) < len(best[1]):
            best = unit, errors
        # No standard cures a header that isn't there.
        if not errors or all(each.text.endswith("file not found") for each in errors):
            break
    return best


def _attempts(work: Work, root: Path) -> Iterator[list[str]]:
    places = {ROOT: str(root), **work.places}
    words = [located(word, places) for word in work.unit.arguments]
    given = work.unit.standard
    standards = [given, *(each for each in _LADDER[work.unit.language] if each != given)]
    for standard in standards:
        chosen = [] if standard is None else [f"-std={standard}"]
        yield ["-x", work.unit.language, *chosen, *words]


def _reason(errors: list[Problem], tree: Tree) -> str:
    first = errors[0]
    path = (tree.relative(first.file) or Path(first.file).name) if first.file else ""
    where = f"{path}:{first.line}: " if path else ""
    return f"{len(errors)} errors, the first: {where}{tree.neutral(first.text)}"


def _includes(unit: Any, tree: Tree) -> Iterator[IndexedInclude]:
    for each in unit.get_includes():
        source, target = tree.relative(str(each.source)), tree.relative(str(each.include))
        if source is not None and target is not None:
            yield IndexedInclude(source, target)
