"""A middle is filled in from code: documentation around it that says it verbatim is not read."""

import re
from typing import Any

import pytest

from curriculum.objectives import Result, objective_of
from curriculum.tokens.codec import Tokenizer

BODY = """{
  int carried = left.carry + right.carry;
  if (carried > limit) return overflow(carried, limit);
  return left.sum + right.sum + carried;
}"""
CODE = f"""\
#include "side.h"

/**
 * Adds two sides.
 *
 *     {BODY.splitlines()[1].strip()}
 *     {BODY.splitlines()[2].strip()}
 *     {BODY.splitlines()[3].strip()}
 */
int add(Side left, Side right) {BODY}

/// Nothing that is said here is in the body below.
int none() {{ return 0; }}
"""
SHARED = 8
"""Words and marks in a row that give a text away."""
VARIANTS = 64
SENTINEL = re.compile(r"<\|fim_\w+\|>")
COMMENT = re.compile(r" \*|///")


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def shares_a_run(line: str, text: str) -> bool:
    """Return whether a comment line shares eight consecutive words and marks with a text."""
    found, whole = words(line), words(text)
    runs = {tuple(whole[at : at + SHARED]) for at in range(len(whole) - SHARED + 1)}
    return any(tuple(found[at : at + SHARED]) in runs for at in range(len(found) - SHARED + 1))


def split(variant: int, tokenizer: Tokenizer, kit: Any) -> tuple[Result, str, str]:
    """One variant, what is read before its middle, and the middle of a psm split (else nothing)."""
    document = kit.document_of(CODE)
    (encoding,) = kit.encoded(document, tokenizer, 4096)
    rule = objective_of("fim", tokenizer, variant=variant)
    done = rule.apply(encoding, kit.known(document))
    ids, sentinel = done.encoding.ids.tolist(), tokenizer.ids_of["fim_middle"]
    if "psm" not in dict(done.counts):
        return done, "", ""
    at = ids.index(sentinel)
    end = len(ids) - (ids[-1] == tokenizer.eos_id)
    return done, tokenizer.decode(ids[:at]), tokenizer.decode(ids[at + 1 : end])


def test_no_documentation_that_is_read_says_a_middle_verbatim(
    byte_level: Tokenizer, kit: Any
) -> None:
    bodies = 0
    for variant in range(VARIANTS):
        done, read, middle = split(variant, byte_level, kit)
        texts = SENTINEL.split(read)
        said = [line for text in texts for line in text.splitlines() if COMMENT.match(line)]
        assert [line for line in said if shares_a_run(line, middle)] == [], variant
        if "body" in dict(done.counts) and middle == BODY:
            bodies += 1
            assert " * Adds two sides." in said
            assert "/// Nothing that is said here is in the body below." in said
    assert bodies


ADDED = ("/// Adds, as in:", "/// return left.sum + right.sum + carried;")
UNDOCUMENTED = f'#include "side.h"\n\n//\n//\nint add(Side left, Side right) {BODY}\n'
DOCUMENTED = UNDOCUMENTED.replace("//\n//", "\n".join(ADDED))


@pytest.mark.parametrize("objective", ["fim", "doc_to_code"])
def test_documentation_that_a_commit_adds_is_not_read_among_its_changes_either(
    objective: str, byte_level: Tokenizer, kit: Any
) -> None:
    document = kit.document_of(DOCUMENTED, "v3_simple", before=UNDOCUMENTED)
    assert document.text.count(ADDED[1]) == 2
    (encoding,) = kit.encoded(document, byte_level, 4096)
    bodies = 0
    for variant in range(VARIANTS):
        rule = objective_of(objective, byte_level, variant=variant)
        done = rule.apply(encoding, kit.known(document))
        read = byte_level.decode(done.encoding.ids.tolist())
        if objective == "doc_to_code" or "body" in dict(done.counts):
            bodies += 1
            assert read.count(ADDED[0]) == 2
            assert ADDED[1] not in read
            assert dict(done.counts)["masked_bytes"] == 2 * len(ADDED[1] + "\n")
    assert bodies


def test_a_comment_in_a_middle_is_not_learnt_where_its_code_behind_says_it(
    byte_level: Tokenizer, kit: Any
) -> None:
    body = "{ return a+b*c-d/e; }"
    document = kit.document_of(f"\n/// Mixes:\n/// a+b*c-d/e\nint mix() {body}\n")
    (encoding,) = kit.encoded(document, byte_level, 4096)
    copied = 0
    for variant in range(8 * VARIANTS):
        rule = objective_of("fim", byte_level, variant=variant)
        done = rule.apply(encoding, kit.known(document))
        ids, mask = done.encoding.ids, done.encoding.loss_mask
        at = ids.tolist().index(byte_level.ids_of["fim_middle"])
        middle = byte_level.decode(ids[at + 1 :].tolist())
        learnt = byte_level.decode(ids[at + 1 :][mask[at:-1] == 1].tolist())
        is_read = "return a+b*c-d/e;" in byte_level.decode(ids[:at].tolist())
        if "psm" in dict(done.counts) and "/// a+b*c-d/e" in middle and is_read:
            copied += 1
            assert "a+b*c" not in learnt
            assert dict(done.counts)["copied_bytes"] >= len("/// a+b*c-d/e")
    assert copied


def test_the_documentation_that_a_split_takes_out_is_counted(
    byte_level: Tokenizer, kit: Any
) -> None:
    size = len(kit.document_of(CODE).text.encode())
    masked = []
    for variant in range(VARIANTS):
        done, _, _ = split(variant, byte_level, kit)
        pieces = done.encoding.pieces
        masked.append(dict(done.counts)["masked_bytes"])
        assert size - int((pieces[:, 4] - pieces[:, 3]).sum()) == masked[-1]
    assert max(masked) > 100
    assert min(masked) == 0


def test_no_comment_is_learnt_that_the_code_above_it_says_verbatim(
    byte_level: Tokenizer, kit: Any
) -> None:
    body = "{ return a+b*c-d/e; }"
    document = kit.document_of(f"\n/// Mixes:\n/// a+b*c-d/e\nint mix() {body}\n")
    rule = objective_of("code_to_doc", byte_level, variant=0)
    (encoding,) = kit.encoded(document, byte_level, 4096 - rule.reserve)
    done = rule.apply(encoding, kit.known(document)).encoding
    learnt = byte_level.decode(done.ids[1:][done.loss_mask[:-1] == 1].tolist())
    assert "/// Mixes:" in learnt
    assert [line for line in learnt.splitlines() if shares_a_run(line, body)] == []
