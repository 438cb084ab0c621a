"""The facts of one C or C++ file, read off its syntax tree in one walk that never recurses."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import tree_sitter

from curriculum.graph.facts import Call, CallForm, FileFacts, Range, Symbol
from curriculum.graph.syntax_tree import parse
from schemas.corpus import Language

NOTHING = FileFacts(
    symbols=(), calls=(), includes=(), usings=(), num_bytes=0, error_bytes=0, is_complete=False
)
_CLASSES = frozenset(("class_specifier", "struct_specifier", "union_specifier"))
_NAMES = frozenset(("identifier", "field_identifier", "type_identifier", "namespace_identifier"))
_ARGUMENTS = frozenset(("argument_list", "initializer_list"))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the file a node stands."""

    scope: tuple[str, ...] = ()
    owner: int = -1
    """The class around it."""
    caller: int = -1
    """The function around it."""
    start: int = -1
    """Where the template or declaration that wraps it begins."""
    is_template: bool = False


@dataclass(slots=True)
class _Facts:
    data: bytes
    symbols: list[Symbol] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    usings: list[str] = field(default_factory=list)
    error_bytes: int = 0
    locals: dict[tuple[int, str], str] = field(default_factory=dict)


@functools.lru_cache(maxsize=8)
def facts_of(text: str, language: Language) -> FileFacts:
    """The facts of a file; those of a language that isn't C or C++ are none."""
    data = text.encode()
    parsed = parse(text, language)
    if parsed is None:
        return replace(NOTHING, num_bytes=len(data), error_bytes=len(data))
    facts = _Facts(data=data)
    _walk(parsed.tree.root_node, facts)
    return FileFacts(
        symbols=tuple(facts.symbols),
        calls=tuple(sorted(facts.calls, key=lambda call: call.start)),
        includes=tuple(facts.includes),
        usings=tuple(facts.usings),
        num_bytes=len(data),
        error_bytes=facts.error_bytes,
        is_complete=True,
    )


def _walk(root: tree_sitter.Node, facts: _Facts) -> None:
    stack = [(root, _Place())]
    while stack:
        node, place = stack.pop()
        below = _note(node, place, facts)
        stack.extend((child, below) for child in reversed(node.children))


def _note(node: tree_sitter.Node, place: _Place, facts: _Facts) -> _Place:
    """Note what a node says; the place of its children."""
    kind = node.type
    if kind == "ERROR" and place.caller >= -1:
        facts.error_bytes += 0 if _inside_error(node) else node.end_byte - node.start_byte
    elif kind == "template_declaration":
        start = place.start if place.start >= 0 else node.start_byte
        return replace(place, start=start, is_template=True)
    elif kind == "namespace_definition":
        return replace(place, scope=(*place.scope, *_namespace(node)), start=-1)
    elif kind in _CLASSES:
        return _class(node, place, facts)
    elif kind == "enum_specifier":
        _type(node, place, facts, "enum", node.child_by_field_name("body"))
    elif kind in ("alias_declaration", "type_definition"):
        _alias(node, place, facts)
    elif kind == "function_definition":
        return _function(node, place, facts, node.child_by_field_name("body"))
    elif kind in ("declaration", "field_declaration"):
        return _declaration(node, place, facts)
    elif kind in ("preproc_def", "preproc_function_def"):
        _macro(node, place, facts)
    elif kind == "preproc_include":
        path = node.child_by_field_name("path")
        facts.includes += [_text(path).strip('"<>')] if path else []
    elif kind == "using_declaration":
        facts.usings.append(_text(node).removeprefix("using").replace("namespace", "").strip(" ;\n"))
    elif kind == "call_expression":
        _call(node, place, facts)
    elif kind in ("new_expression", "compound_literal_expression"):
        made = node.child_by_field_name("type")
        if made is not None:
            _add_call(made, place, facts, "construct", None, _arity(node))
    elif kind in ("parameter_declaration", "optional_parameter_declaration", "for_range_loop"):
        _local(node, place, facts)
    return place


def _inside_error(node: tree_sitter.Node) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type == "ERROR":
            return True
        parent = parent.parent
    return False


def _text(node: tree_sitter.Node | None) -> str:
    return node.text.decode(errors="replace") if node is not None and node.text else ""


def _namespace(node: tree_sitter.Node) -> tuple[str, ...]:
    return tuple(_text(node.child_by_field_name("name")).replace(" ", "").split("::"))


def _split(node: tree_sitter.Node | None) -> tuple[tuple[str, ...], str, int]:
    """Qualifier, name and where the name begins, of a name as it is written; template arguments go."""
    scope: list[str] = []
    while node is not None and node.type == "qualified_identifier":
        scope.append(_text(_bare(node.child_by_field_name("scope"))))
        node = node.child_by_field_name("name")
    bare = _bare(node)
    if bare is None:
        return tuple(scope), "", 0
    return tuple(scope), " ".join(_text(bare).split()), bare.start_byte


def _bare(node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """The name without template arguments."""
    while node is not None and node.type in (
        "template_type", "template_function", "template_method", "dependent_name", "dependent_type",
    ):  # fmt: skip
        node = node.child_by_field_name("name") or (
            node.named_children[0] if node.named_children else None
        )
    return node


def _lines(node: tree_sitter.Node, place: _Place, facts: _Facts) -> tuple[int, int]:
    """Whole lines, with the comments right above."""
    start = place.start if place.start >= 0 else node.start_byte
    start = facts.data.rfind(b"\n", 0, start) + 1
    end = facts.data.find(b"\n", node.end_byte)
    while start > 0:
        above = facts.data.rfind(b"\n", 0, start - 1) + 1
        line = facts.data[above : start - 1].strip()
        if not line.startswith((b"//", b"/*", b"*")) and not line.endswith(b"*/"):
            break
        start = above
    return start, len(facts.data) if end < 0 else end + 1


def _symbol(
    node: tree_sitter.Node,
    place: _Place,
    facts: _Facts,
    name: tree_sitter.Node | None,
    **values: object,
) -> int:
    written, word, at = _split(name)
    if not word:
        return -1
    start, end = _lines(node, place, facts)
    facts.symbols.append(
        Symbol(  # type: ignore[arg-type]
            name=word,
            scope=(*place.scope, *written),
            start=start,
            end=end,
            name_start=at,
            parent=place.owner,
            is_template=place.is_template,
            **values,
        )
    )
    return len(facts.symbols) - 1


def _range(node: tree_sitter.Node | None) -> Range | None:
    return None if node is None else Range(node.start_byte, node.end_byte)


def _type(
    node: tree_sitter.Node, place: _Place, facts: _Facts, kind: str, body: tree_sitter.Node | None
) -> int:
    if body is None or place.caller >= 0:
        return -1
    clause = next((each for each in node.children if each.type == "base_class_clause"), None)
    bases = [] if clause is None else [_base(each) for each in clause.named_children]
    return _symbol(
        node, place, facts, node.child_by_field_name("name"), kind=kind, body=_range(body),
        bases=tuple(filter(None, bases)), types=_types(node),
    )  # fmt: skip


def _base(node: tree_sitter.Node) -> str:
    if node.type not in ("type_identifier", "qualified_identifier", "template_type"):
        return ""
    scope, name, _ = _split(node)
    return "::".join([*scope, name])


def _class(node: tree_sitter.Node, place: _Place, facts: _Facts) -> _Place:
    number = _type(node, place, facts, "class", node.child_by_field_name("body"))
    if number < 0:
        return place
    symbol = facts.symbols[number]
    return _Place(scope=(*symbol.scope, symbol.name), owner=number)


def _alias(node: tree_sitter.Node, place: _Place, facts: _Facts) -> None:
    name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
    if place.caller < 0:
        _symbol(node, place, facts, name, kind="alias", body=None, types=_types(node),
                returns=_type_name(node.child_by_field_name("type")))  # fmt: skip


def _macro(node: tree_sitter.Node, place: _Place, facts: _Facts) -> None:
    listed = node.child_by_field_name("parameters")
    number = len(listed.named_children) if listed else 0
    most = -1 if listed and b"..." in (listed.text or b"") else number
    _symbol(node, replace(place, scope=()), facts, node.child_by_field_name("name"), kind="macro",
            body=None, min_arity=number, max_arity=most)  # fmt: skip


def _declarator(node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """The function declarator below pointers and references."""
    while node is not None and node.type != "function_declarator":
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type in ("reference_declarator", "operator_cast"):
            inner = node.named_children[-1] if node.named_children else None
        node = inner
    return node


def _function(
    node: tree_sitter.Node, place: _Place, facts: _Facts, body: tree_sitter.Node | None
) -> _Place:
    if place.caller >= 0:
        return place
    top = node.child_by_field_name("declarator")
    cast = _find_cast(top)
    declarator = _declarator(top)
    if declarator is None and cast is None:
        return place
    said = _text(node)[: (body.start_byte - node.start_byte) if body else None]
    listed = (declarator or top).child_by_field_name("parameters") if (declarator or top) else None
    parameters = [each for each in (listed.named_children if listed else []) if "parameter" in each.type]
    variadic = any("variadic" in each.type for each in parameters) or (
        listed is not None and b"..." in (listed.text or b"")
    )
    optional = sum(each.type.startswith("optional") for each in parameters)
    number = len(parameters) - sum(_text(each) == "void" for each in parameters)
    name = cast or (declarator.child_by_field_name("declarator") if declarator else None)
    at = _symbol(
        node, place, facts, name, kind="function", body=_range(body),
        parameters=tuple(_type_name(each.child_by_field_name("type")) for each in parameters)[:number],
        min_arity=max(0, number - optional - variadic), max_arity=-1 if variadic else number,
        returns=_type_name(node.child_by_field_name("type")), types=_types(node, body),
        is_virtual=any(word in said.split() or f"{word}{{" in said for word in ("virtual", "override", "final")),
    )  # fmt: skip
    if at < 0:
        return place
    symbol = facts.symbols[at]
    return _Place(scope=symbol.scope, owner=place.owner, caller=at if body is not None else -1)


def _find_cast(node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    while node is not None and node.type == "qualified_identifier":
        node = node.child_by_field_name("name")
    return node if node is not None and node.type == "operator_cast" else None


def _declaration(node: tree_sitter.Node, place: _Place, facts: _Facts) -> _Place:
    if place.caller >= 0:
        _local(node, place, facts)
        return place
    declarator = node.child_by_field_name("declarator")
    if _declarator(declarator) is not None:
        return _function(node, place, facts, None) and place
    if node.type == "declaration" and declarator is not None:
        name = declarator
        while (inner := name.child_by_field_name("declarator")) is not None:
            name = inner
        _symbol(node, place, facts, name, kind="variable", body=None,
                returns=_type_name(node.child_by_field_name("type")), types=_types(node))  # fmt: skip
    return replace(place, start=-1, is_template=False)


def _type_name(node: tree_sitter.Node | None) -> str:
    if node is None:
        return ""
    return _split(node)[1] if node.type != "primitive_type" else ""


def _types(node: tree_sitter.Node, _body: tree_sitter.Node | None = None) -> tuple[str, ...]:
    """The names of types that are mentioned below a node."""
    found: set[str] = set()
    stack = list(node.named_children)
    while stack:
        each = stack.pop()
        if each.type == "type_identifier":
            found.add(_text(each))
        stack.extend(each.named_children)
    own = _split(node.child_by_field_name("name"))[1]
    return tuple(sorted(found - {own}))


def _local(node: tree_sitter.Node, place: _Place, facts: _Facts) -> None:
    kind = _type_name(node.child_by_field_name("type"))
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        if declarator.type == "init_declarator" and kind:
            value = declarator.child_by_field_name("value")
            made = node.child_by_field_name("type")
            if value is not None and value.type in _ARGUMENTS and made is not None:
                _add_call(made, place, facts, "construct", None, len(value.named_children))
        below = declarator.child_by_field_name("declarator")
        declarator = below or (declarator.named_children[0] if declarator.named_children else None)
    if declarator is not None and kind not in ("", "auto"):
        facts.locals[place.caller, _text(declarator)] = kind


def _arity(node: tree_sitter.Node) -> int:
    listed = node.child_by_field_name("arguments") or node.child_by_field_name("value")
    return 0 if listed is None else sum(each.type != "comment" for each in listed.named_children)


def _call(node: tree_sitter.Node, place: _Place, facts: _Facts) -> None:
    callee = node.child_by_field_name("function")
    if callee is None:
        return
    if callee.type == "field_expression":
        receiver = callee.child_by_field_name("argument")
        named = callee.child_by_field_name("field")
        if named is not None:
            _add_call(named, place, facts, "call", _receiver(receiver, place, facts), _arity(node))
    elif callee.type in ("identifier", "qualified_identifier", "template_function"):
        _, name, _ = _split(callee)
        is_macro = callee.type == "identifier" and name.isupper() and len(name) > 2
        _add_call(callee, place, facts, "macro" if is_macro else "call", None, _arity(node))


def _receiver(node: tree_sitter.Node | None, place: _Place, facts: _Facts) -> str:
    if node is None:
        return ""
    if node.type == "this":
        return "this"
    return facts.locals.get((place.caller, _text(node)), "") if node.type == "identifier" else ""


def _add_call(
    node: tree_sitter.Node,
    place: _Place,
    facts: _Facts,
    form: CallForm,
    receiver: str | None,
    arity: int,
) -> None:
    qualifier, name, start = _split(node)
    if name:
        facts.calls.append(
            Call(caller=place.caller, form=form, name=name, qualifier=qualifier, receiver=receiver,
                 arity=arity, start=start)  # fmt: skip
        )
