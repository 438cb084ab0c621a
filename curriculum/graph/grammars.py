"""The grammars of C and C++."""

import functools
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass

import tree_sitter
import tree_sitter_c
import tree_sitter_cpp

from schemas.corpus import Language

_PACKAGES = {"cpp": tree_sitter_cpp, "c": tree_sitter_c}


def has_grammar(language: Language) -> bool:
    """Whether there is one for this language."""
    return language in _PACKAGES


@functools.cache
def grammar(language: Language) -> tree_sitter.Language:
    """The grammar of a language that has one."""
    return tree_sitter.Language(_PACKAGES[language].language())


@functools.cache
def grammar_versions() -> Mapping[str, str]:
    """The installed versions that decide what a tree is."""
    packages = ("tree-sitter", "tree-sitter-c", "tree-sitter-cpp")
    return {package: importlib.metadata.version(package) for package in packages}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds:
    """What the grammar calls nodes and fields, as its numbers; 0 for what it hasn't."""

    shells: Mapping[str, int]
    """Kinds that hold or are definitions, by name."""
    around_classes: frozenset[int]
    around_declarators: frozenset[int]
    bodies: frozenset[int]
    function_declarator: int
    operator_cast: int
    init_declarator: int
    identifier: int
    comment: int
    field_expression: int
    written_names: frozenset[int]
    """Kinds of callees that are names with scopes or template arguments."""
    name: int
    body: int
    type: int
    declarator: int
    parameters: int
    field: int
    value: int
    arguments: int
    function: int


SHELLS = (
    "function_definition",
    "declaration",
    "field_declaration",
    "struct_specifier",
    "union_specifier",
    "enum_specifier",
    "type_definition",
)
SHELLS_CPP = (
    "class_specifier",
    "namespace_definition",
    "template_declaration",
    "friend_declaration",
    "alias_declaration",
    "concept_definition",
)


@functools.cache
def kinds(language: Language) -> Kinds:
    """The numbers of a grammar."""
    own = grammar(language)

    def kind(name: str) -> int:
        return own.id_for_node_kind(name, True) or 0

    def some(*names: str) -> frozenset[int]:
        return frozenset(map(kind, names)) - {0}

    def named(field: str) -> int:
        return own.field_id_for_name(field) or 0

    shells = SHELLS + (SHELLS_CPP if language == "cpp" else ())
    return Kinds(
        shells={name: kind(name) for name in shells},
        around_classes=some("translation_unit", "declaration_list", "template_declaration"),
        around_declarators=some(
            "pointer_declarator",
            "reference_declarator",
            "qualified_identifier",
            "attributed_declarator",
        ),
        bodies=some("compound_statement", "try_statement"),
        function_declarator=kind("function_declarator"),
        operator_cast=kind("operator_cast"),
        init_declarator=kind("init_declarator"),
        identifier=kind("identifier"),
        comment=kind("comment"),
        field_expression=kind("field_expression"),
        written_names=some("qualified_identifier", "template_function"),
        name=named("name"),
        body=named("body"),
        type=named("type"),
        declarator=named("declarator"),
        parameters=named("parameters"),
        field=named("field"),
        value=named("value"),
        arguments=named("arguments"),
        function=named("function"),
    )
