"""Parsing of a translation unit, and a walk over its definitions in the tree's files and their references.

Nothing is recursive, since expressions in a hostile file may be nested to any depth.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clang.cindex import CursorKind as Kind

from curriculum.graph.clang import frontend
from curriculum.graph.clang.database import ROOT, Unit, UnitFile, is_pair, resolve_placeholder
from curriculum.graph.clang.frontend import Tree, callee_of, is_elided
from curriculum.graph.clang.graph_snapshot import (
    ClassKind,
    FunctionKind,
    IndexedClass,
    IndexedFunction,
    IndexedInclude,
    digest_of,
)
from curriculum.graph.clang.libclang import (
    Cursor,
    Problem,
    children,
    library,
    parse,
    place_of,
    problems,
)
from curriculum.graph.clang.union import Chain, Definition, NamedReference, UnitResult

FUNCTIONS: dict[Any, FunctionKind] = {
    Kind.FUNCTION_DECL: "function",
    Kind.FUNCTION_TEMPLATE: "function",
    Kind.CXX_METHOD: "method",
    Kind.CONSTRUCTOR: "constructor",
    Kind.DESTRUCTOR: "destructor",
    Kind.CONVERSION_FUNCTION: "conversion",
}
CLASSES: dict[Any, ClassKind] = {
    Kind.CLASS_DECL: "class",
    Kind.STRUCT_DECL: "class",
    Kind.UNION_DECL: "class",
    Kind.CLASS_TEMPLATE: "class",
    Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION: "class",
    Kind.ENUM_DECL: "enum",
    Kind.TYPEDEF_DECL: "alias",
    Kind.TYPE_ALIAS_DECL: "alias",
    Kind.TYPE_ALIAS_TEMPLATE_DECL: "alias",
}
_TEMPLATES = (Kind.CLASS_TEMPLATE, Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION)
_BODIES = (Kind.COMPOUND_STMT, Kind.CXX_TRY_STMT)
_SHELLS = (Kind.NAMESPACE, Kind.LINKAGE_SPEC, Kind.UNEXPOSED_DECL, Kind.FRIEND_DECL)
_MAKERS = (
    *(Kind.VAR_DECL, Kind.CXX_NEW_EXPR, Kind.CXX_FUNCTIONAL_CAST_EXPR, Kind.CONSTRUCTOR),
    *(Kind.CXX_STATIC_CAST_EXPR, Kind.CSTYLE_CAST_EXPR),
)
"""Kinds of nodes directly above a constructor call that was written in the code. Below other kinds, the
frontend adds the call for a conversion or copy.
"""
_NAMELESS = re.compile(r"\((?:unnamed|anonymous|lambda)[^()]*\)")
_UNNAMED = re.compile(r"@[SUE]A@[^@]*$")
"""End of the USR of a class that has no name except that of a typedef."""


@dataclass(kw_only=True, slots=True)
class _Owner:
    """Class or function that is being walked, with its references and calls."""

    usr: str
    mentions: set[NamedReference] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    """Number of calls by the kind of their callee."""


def walk(unit: Any, tree: Tree) -> tuple[Definition, ...]:
    """Return the definitions and declarations that a translation unit has in the tree's files.

    Definitions inside functions are left out.
    """
    return tuple(_Walk(tree=tree).definitions(unit.cursor))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Walk:
    tree: Tree
    started: set[tuple[str, Any, bool]] = field(default_factory=set)
    """Definitions that were visited; the class in a typedef is visited twice."""

    def definitions(self, top: Cursor) -> Iterator[Definition]:
        stack = [child for child in reversed(children(top)) if self.tree.contains(child)]
        while stack:
            cursor = stack.pop()
            if cursor.kind in FUNCTIONS:
                yield from self._function(cursor)
            elif cursor.kind in CLASSES:
                yield from self._class(cursor, stack)
            elif cursor.kind in _SHELLS:
                stack.extend(reversed(children(cursor)))

    def _is_new(self, cursor: Cursor, usr: str) -> bool:
        # One macro may both declare and define a function.
        key = (usr, place_of(cursor), cursor.is_definition())
        if key in self.started:
            return False
        self.started.add(key)
        return True

    def _class(self, cursor: Cursor, stack: list[Cursor]) -> Iterator[Definition]:
        kind, usr = CLASSES[cursor.kind], self.tree.usr(cursor)
        if not cursor.is_definition() or not self._is_new(cursor, usr):
            return
        within = children(cursor)
        if _is_instantiation(cursor, within, self.tree):
            return
        owner = _Owner(usr=usr)
        for child in within:
            is_inner_class = child.kind in CLASSES and kind != "alias"
            if is_inner_class or child.kind in FUNCTIONS or child.kind in _SHELLS:
                stack.append(child)
            elif child.kind == Kind.CXX_BASE_SPECIFIER:
                self._base(child, owner)
            else:
                self._expression(child, owner, in_template=True)
        value = self._indexed_class(cursor, kind)
        if value is not None and not _UNNAMED.search(usr):
            yield self._definition(cursor, value, owner, is_declaration=False)

    def _base(self, base: Cursor, owner: _Owner) -> None:
        named = [
            child for child in children(base) if child.kind in (Kind.TEMPLATE_REF, Kind.TYPE_REF)
        ]
        target = base.referenced or (named[0].referenced if named else None)
        if target is not None and target.kind in CLASSES and self.tree.contains(target):
            owner.mentions.add(
                NamedReference("inherits", "resolved", (self.tree.chain(target),), 1)
            )
        for reference in named:
            self._type(reference, owner)

    def _indexed_class(self, cursor: Cursor, kind: ClassKind) -> IndexedClass | None:
        at, extent = self.tree.name_place(cursor), self.tree.extent(cursor)
        name = cursor.spelling
        if at is None or extent is None or not name or _NAMELESS.search(name):
            return None
        path, name_start = at
        scope, in_template = _scope(cursor)
        return IndexedClass(
            path=path,
            name=name,
            qualified="::".join([*scope, name]),
            kind=kind,
            start=extent.start,
            end=extent.end,
            name_start=name_start,
            digest=digest_of(self.tree.bytes_of(path)[extent.start : extent.end]),
            is_template=in_template or cursor.kind in (*_TEMPLATES, Kind.TYPE_ALIAS_TEMPLATE_DECL),
            is_partial=False,
        )

    def _function(self, cursor: Cursor) -> Iterator[Definition]:
        usr = self.tree.usr(cursor)
        if not self._is_new(cursor, usr):
            return
        within = children(cursor)
        body = within[-1] if within and within[-1].kind in _BODIES else None
        if body is not None and cursor.is_default_method():
            body = None  # The frontend adds a body where the function is used.
        if body is None and len(frontend.templates_of(cursor)) > 1:
            return  # Explicit instantiation.
        value = self._indexed_function(cursor, within, body)
        if value is None:
            return
        owner = _Owner(usr=usr)
        for base in frontend.overridden_by(cursor):
            if self.tree.contains(base):
                owner.mentions.add(
                    NamedReference("overrides", "resolved", (self.tree.chain(base),), 1)
                )
        self._expression(cursor, owner, in_template=value.is_template)
        yield self._definition(cursor, value, owner, is_declaration=body is None)

    def _indexed_function(
        self, cursor: Cursor, within: list[Cursor], body: Cursor | None
    ) -> IndexedFunction | None:
        at, extent = self.tree.name_place(cursor), self.tree.extent(cursor)
        kind, (scope, in_template) = FUNCTIONS[cursor.kind], _scope(cursor)
        parent = cursor.semantic_parent
        if cursor.kind == Kind.FUNCTION_TEMPLATE and parent is not None and parent.kind in CLASSES:
            kind = _kind_in_class(cursor, parent)
        name = cursor.spelling
        if kind in ("constructor", "destructor"):
            name = name.partition("<")[0]
        if at is None or extent is None or not name or name.startswith("<"):
            return None
        path, name_start = at
        data = self.tree.bytes_of(path)
        range_ = None if body is None else self.tree.extent(body)
        if body is not None and (range_ is None or range_.start < extent.start):
            range_ = extent  # A macro produces the body.
        parameters = [child for child in within if child.kind == Kind.PARM_DECL]
        fewest, most = self._arity(cursor, parameters, data)
        word = re.match(rb"\w+", name.encode())
        return IndexedFunction(
            path=path,
            name=name,
            qualified="::".join([*scope, name]),
            kind=kind,
            start=extent.start,
            end=extent.end,
            name_start=name_start,
            body=range_,
            body_digest=digest_of(data[range_.start : range_.end]) if range_ else "",
            digest=digest_of(data[min(name_start, range_.start) : range_.end]) if range_ else "",
            parameters=tuple(
                _NAMELESS.sub("(unnamed)", parameter.type.spelling) for parameter in parameters
            ),
            min_arity=fewest,
            max_arity=most,
            is_template=in_template or cursor.kind == Kind.FUNCTION_TEMPLATE,
            is_virtual=bool(library().clang_CXXMethod_isVirtual(cursor)),
            is_partial=False,
            is_macro=word is not None and not data.startswith(word[0], name_start),
        )

    def _arity(self, cursor: Cursor, parameters: list[Cursor], data: bytes) -> tuple[int, int]:
        texts = []
        for parameter in parameters:
            extent = self.tree.extent(parameter)
            texts.append(data[extent.start : extent.end] if extent else b"")
        fewest = sum(not (b"=" in text or b"..." in text) for text in texts)
        is_open = bool(library().clang_isFunctionTypeVariadic(cursor.type))
        is_open = is_open or any(b"..." in text for text in texts)
        return fewest, -1 if is_open else len(parameters)

    def _definition(
        self,
        cursor: Cursor,
        value: IndexedFunction | IndexedClass,
        owner: _Owner,
        *,
        is_declaration: bool,
    ) -> Definition:
        parent = cursor.semantic_parent
        member = parent is not None and parent.kind in CLASSES and self.tree.contains(parent)
        chain: Chain = self.tree.chain(parent) if member else ()
        return Definition(
            usr=owner.usr,
            value=value,
            is_declaration=is_declaration,
            owner=chain,
            mentions=frozenset(owner.mentions),
            calls=owner.calls,
        )

    def _expression(self, top: Cursor, owner: _Owner, *, in_template: bool) -> None:
        """Record in `owner` everything that the code below `top` refers to.

        With `in_template`, unresolved names may depend on template parameters.
        """
        stack: list[tuple[Cursor, bool]] = [(top, False)]
        while stack:
            cursor, is_made = stack.pop()
            kind, within = cursor.kind, children(cursor)
            if kind == Kind.CALL_EXPR:
                is_made = self._call(cursor, within, owner, in_template, is_made)
            elif kind in (Kind.TYPE_REF, Kind.TEMPLATE_REF, Kind.DECL_REF_EXPR):
                self._type(cursor, owner)
            if kind != Kind.UNEXPOSED_EXPR and kind != Kind.CALL_EXPR:
                is_made = kind in _MAKERS
            stack.extend((child, is_made) for child in within)

    def _call(
        self,
        cursor: Cursor,
        within: list[Cursor],
        owner: _Owner,
        in_template: bool,
        is_made: bool,
    ) -> bool:
        """Record a call; return True if a constructor call directly below counts as written in the code."""
        if is_elided(cursor, within):
            return is_made
        found = callee_of(cursor, within, self.tree, in_template=in_template, is_made=is_made)
        if found is None:
            return False
        owner.calls[found.callee] += 1
        owner.mentions.update(found.mentions)
        return found.is_copy and is_made

    def _type(self, cursor: Cursor, owner: _Owner) -> None:
        target = cursor.referenced
        if target is not None and target.kind == Kind.ENUM_CONSTANT_DECL:
            target = target.semantic_parent
        if target is not None and target.kind in CLASSES and self.tree.contains(target):
            owner.mentions.add(NamedReference("uses", "resolved", (self.tree.chain(target),), 1))


def _scope(cursor: Cursor) -> tuple[list[str], bool]:
    """Return the names of the scopes that enclose `cursor`, and True if one of these scopes is a template."""
    names: list[str] = []
    around = cursor.lexical_parent
    # The scope of a friend is the namespace, but its types depend on the class in which it is written.
    is_template = around is not None and around.kind in _TEMPLATES
    parent = cursor.semantic_parent
    while parent is not None and parent.kind != Kind.TRANSLATION_UNIT:
        name = parent.spelling
        if parent.kind in CLASSES or parent.kind == Kind.NAMESPACE:
            is_template = is_template or parent.kind in _TEMPLATES
            if name and not name.startswith("("):
                names.append(name)
        parent = parent.semantic_parent
    return names[::-1], is_template


def _kind_in_class(cursor: Cursor, parent: Cursor) -> FunctionKind:
    name = cursor.spelling.partition("<")[0]
    if name == parent.spelling:
        return "constructor"
    return "conversion" if re.match(r"operator [A-Za-z_:(]", name) else "method"


def _is_instantiation(cursor: Cursor, within: list[Cursor], tree: Tree) -> bool:
    """Return True for an explicit instantiation such as `template class S<int>;`, which defines nothing."""
    if cursor.kind in (*_TEMPLATES, Kind.ENUM_DECL) or CLASSES[cursor.kind] == "alias" or within:
        return False
    extent, at = tree.extent(cursor), tree.name_place(cursor)
    if extent is None or at is None or len(frontend.templates_of(cursor)) == 1:
        return False
    return not tree.bytes_of(at[0])[extent.start : extent.end].endswith(b"}")


_LADDER = {"c": ("c17", "c23"), "c++": ("c++17", "c++20", "c++23")}
"""Language standards to try. Databases often specify an older standard than the code needs, since compilers
tolerate that.
"""


def index_unit(work: UnitFile) -> UnitResult:
    """Return the facts that a file's translation unit shows about the tree.

    The file is parsed with the database entry and the language standard that give the fewest errors.
    """
    root = work.root.resolve()
    tree = Tree(root=root)
    best = _best(work, root)
    if best is None:
        return UnitResult(outcome="failed", reason="the parser gave up")
    chosen, unit, errors = best
    return UnitResult(
        is_replaced=chosen != work.units[0],
        outcome="partial" if errors else "indexed",
        reason=_reason(errors, tree) if errors else "",
        errors=len(errors),
        seen=walk(unit, tree),
        includes=frozenset(_includes(unit, tree)),
    )


def _best(work: UnitFile, root: Path) -> tuple[Unit, Any, list[Problem]] | None:
    """Return the first parse without errors; if all have errors, the first one with the fewest errors."""
    best: tuple[Unit, Any, list[Problem]] | None = None
    for entry in work.units:
        for arguments in _attempts(entry, {ROOT: str(root), **work.places}):
            unit = parse(str(root / entry.path), arguments)
            if unit is None:
                continue
            errors = problems(unit)
            if best is None or len(errors) < len(best[2]):
                best = entry, unit, errors
            # No other standard helps if the only errors are missing headers.
            if not errors or all(error.text.endswith("file not found") for error in errors):
                break
        if best is not None and not best[2]:
            break
    return best


def _attempts(entry: Unit, places: Mapping[str, str]) -> Iterator[list[str]]:
    words = [*_textual(resolve_placeholder(word, places) for word in entry.arguments)]
    given = entry.standard
    standards = [given, *(standard for standard in _LADDER[entry.language] if standard != given)]
    for standard in standards:
        chosen = [] if standard is None else [f"-std={standard}"]
        yield ["-x", entry.language, *chosen, *words]


def _textual(words: Iterator[str]) -> Iterator[str]:
    """Yield the arguments, changed so that `-include a.h` reads a.h itself instead of a.h.pch or a.h.gch."""
    for word in words:
        value = [next(words)] if is_pair(word) else []
        if word == "-include":
            yield from ("-Xclang", word, "-Xclang", *value)
        else:
            yield from (word, *value)


def _reason(errors: list[Problem], tree: Tree) -> str:
    first = errors[0]
    path = (tree.relative(first.file) or Path(first.file).name) if first.file else ""
    where = f"{path}:{first.line}: " if path else ""
    return f"{len(errors)} errors, the first: {where}{tree.without_root(first.text)}"


def _includes(unit: Any, tree: Tree) -> Iterator[IndexedInclude]:
    for include in unit.get_includes():
        source, target = tree.relative(str(include.source)), tree.relative(str(include.include))
        if source is not None and target is not None:
            yield IndexedInclude(source, target)
