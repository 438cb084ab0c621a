"""Definitions that a tree holds several times: a document shows one of them."""

from schemas.document import Document
from tests.curriculum.families.small_trees import MakeChange, rendered

CALLEE = "int length(int x) {\n  return x + 1;\n}\n"
CALLER = "int use() {\n  // All that there is.\n  return length(0);\n}\n"
BEFORE = {
    "extras/copies/use.cc": f'#include "../../src/core/length.h"\n\n{CALLER}',
    "extras/more/deep/use.cc": f'#include "../../../src/core/length.h"\n\n{CALLER}',
    "src/core/length.h": CALLEE,
    "src/core/use.cc": f'#include "length.h"\n\n{CALLER}',
}


def shown(document: Document) -> list[tuple[str, str]]:
    """The path of each chunk, and what it shows without the blank lines around."""
    data = document.text.encode()
    found = []
    for chunk in document.chunks:
        parts = document.parts[chunk.first_part : chunk.last_part]
        cited = [part for part in parts if part.source >= 0]
        text = b"".join(data[part.start : part.end] for part in cited).decode()
        found.append((document.provenance[cited[0].source].path, text.strip()))
    return found


def test_an_equal_definition_stands_once_under_the_nearest_path(make_change: MakeChange) -> None:
    after = BEFORE | {"src/core/length.h": CALLEE.replace("x + 1", "x + 2")}
    (document,) = rendered(make_change, BEFORE, after).documents
    found = shown(document)
    assert [path for path, text in found if text == CALLER.strip()] == ["src/core/use.cc"]
    texts = [text for _, text in found]
    assert sorted(set(texts)) == sorted(texts)


def test_what_equals_the_target_stands_in_the_target_alone(make_change: MakeChange) -> None:
    before = BEFORE | {"src/core/use.cc": BEFORE["src/core/use.cc"].replace("length(0)", "7")}
    (document,) = rendered(make_change, before, BEFORE).documents
    found = shown(document)
    assert [path for path, text in found if text == CALLER.strip()] == ["src/core/use.cc"]
    assert [path for path, text in found if text == CALLEE.strip()] == ["src/core/length.h"]


def test_what_is_left_out_as_a_repetition_is_counted(make_change: MakeChange) -> None:
    after = BEFORE | {"src/core/length.h": CALLEE.replace("x + 1", "x + 2")}
    found = rendered(make_change, BEFORE, after)
    counts: dict[str, int] = {each.reason: each.number for each in found.counts}
    assert counts == {"repeated_definitions": 2, "repeated_bytes": 2 * len(CALLER.encode())}
