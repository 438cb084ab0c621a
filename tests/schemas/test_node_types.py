import hashlib
from collections import Counter
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_c
import tree_sitter_cpp

from schemas import structure
from schemas.structure import BUCKETS, NO_NODE, NODE_TYPES, OTHER, TABLE, TOKEN_TYPES, node_type

GOLDEN = "1130227b7c9c479b3f0474e10ceaba661c3aa07d88317601371a186570075d5f"
"""Numbers are in datasets and in what models learned: a new kind takes a free number, and only then
does this digest change."""
NOT_IN_THE_TABLE: set[str] = set()
"""Kinds of the installed grammars that are OTHER on purpose."""
GRAMMARS = {"c": tree_sitter_c, "cpp": tree_sitter_cpp}


def kinds(grammar: str) -> list[tuple[str, bool]]:
    language = tree_sitter.Language(GRAMMARS[grammar].language())
    return [
        (language.node_kind_for_id(number) or "", language.node_kind_is_named(number))
        for number in range(language.node_kind_count)
        if language.node_kind_is_visible(number)
    ]


def test_the_table_is_what_it_was() -> None:
    file = Path(structure.__file__).with_name("node_types.txt")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == GOLDEN


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_every_kind_of_the_grammars_has_a_bucket(grammar: str) -> None:
    found = kinds(grammar)
    assert len(found) > 250
    missing = {kind for kind, is_named in found if node_type(kind, is_named=is_named) == OTHER}
    assert missing == NOT_IN_THE_TABLE


def test_numbers_are_consecutive_and_in_range() -> None:
    assert [bucket.number for bucket in TABLE] == list(range(len(TABLE)))
    assert 200 < len(TABLE) <= BUCKETS


def test_no_kind_stands_in_two_buckets() -> None:
    for what in ("node", "token"):
        seen = Counter(kind for b in TABLE if b.what == what for kind in b.kinds)
        assert seen
        assert max(seen.values()) == 1


def test_a_node_has_a_bucket_of_its_own_unless_it_is_of_a_rare_family() -> None:
    shared = {bucket.name for bucket in TABLE if bucket.what == "node" and len(bucket.kinds) > 1}
    assert shared == {"gnu_asm", "microsoft", "structured_exception"}
    assert set(NODE_TYPES.values()).isdisjoint(TOKEN_TYPES.values())


def test_kinds_are_told_apart_by_what_they_are() -> None:
    assert node_type("noexcept", is_named=True) != node_type("noexcept", is_named=False)
    assert node_type("ERROR", is_named=True) == NO_NODE
    assert node_type("a kind of next year", is_named=True) == OTHER
    assert node_type("\n", is_named=False) == TOKEN_TYPES["\n"]
