"""From comments to code and back: what is read, what is learnt, what is taken away, and nothing else."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.objectives import Result, objective_of
from curriculum.packing.repeats import RUN, in_repeats
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding, byte_ranges
from schemas import document as flat

GOLDEN = Path(__file__).parents[2] / "golden" / "objectives"
BEFORE = """\
/**
 * Sums, and what is made of them.
 */
#include "sum.h"

/**
 * The sum of é.
 *
 *     if (a == b) return twice(a);
 */
int sum(int a, int b) {
  if (a == b) return twice(a);
  return add(a, b);
}

/// Declared, and not here.
int declared(int a);

//! A counter.
class Counter {
 public:
  /*! Counts. */
  void count() { ++n_; }

  // How often it counted.
  int n_ = 0;
};

int undocumented() { return 1; }

/* int twice(int a) { return sum(a, a); } */
int twice(int a) { return sum(a, a); }
"""
AFTER = BEFORE.replace("add(a, b)", "a + b").replace("Counts.", "Counts one more.")
DIRECTIONS = ("doc_to_code", "code_to_doc")


def objective_counts(
    document: flat.Document, direction: str, tokenizer: Tokenizer, kit: Any, row_length: int = 4096
) -> list[Result]:
    objective = objective_of(direction, tokenizer, variant=0)
    known = kit.known(document, room=row_length)
    fitted = kit.encoded(document, tokenizer, row_length - objective.reserve)
    return [objective.apply(each, known) for each in fitted]


def texts(one: Result, tokenizer: Tokenizer) -> tuple[str, str]:
    """Return the text without BOS and EOS, and the scored part of the text."""
    ids, mask = one.encoding.ids, one.encoding.loss_mask
    scored = np.concatenate(([0], mask[:-1])) == 1
    read, learnt = (tokenizer.decode_bytes(each.tolist()) for each in (ids, ids[scored]))
    return read.decode(), learnt.decode(errors="replace")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_both_directions_look_as_reviewed(
    direction: str, byte_level: Tokenizer, kit: Any, request: pytest.FixtureRequest
) -> None:
    shown = []
    for family in ("v2_doxygen", "v3_simple"):
        document = kit.document_of(AFTER, family, before=BEFORE)
        (done,) = objective_counts(document, direction, byte_level, kit)
        counts = " ".join(f"{name} {number}" for name, number in done.counts)
        shown.append(f"== {family}: {counts}\n{kit.read(done.encoding, byte_level)}")
    file, found = GOLDEN / f"{direction}.txt", "\n".join(shown)
    if request.config.getoption("--rewrite"):
        file.write_text(found, encoding="utf-8", newline="\n")
    assert found == file.read_text(encoding="utf-8")


def test_a_body_is_learnt_from_its_documentation(byte_level: Tokenizer, kit: Any) -> None:
    code = "int a;\n\n/// Twice.\nint twice(int x) { return 2 * x; }\n\nint b() { return 1; }\n"
    (done,) = objective_counts(kit.document_of(code), "doc_to_code", byte_level, kit)
    read, learnt = texts(done, byte_level)
    assert read.endswith(code)
    assert learnt.strip() == "{ return 2 * x; }"


def test_documentation_is_learnt_behind_its_code(byte_level: Tokenizer, kit: Any) -> None:
    code = "int a;\n\n/// Twice.\nint twice(int x) {\n  return 2 * x;\n}\n\n// One.\nint b();\n"
    (done,) = objective_counts(kit.document_of(code), "code_to_doc", byte_level, kit)
    read, learnt = texts(done, byte_level)
    assert read.endswith(
        "int a;\n\nint twice(int x) {\n  return 2 * x;\n}\n/// Twice.\n\nint b();\n// One.\n"
    )
    assert learnt == "/// Twice.\n// One.\n"


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("/// Adds.\n/// As in: return left.sum + right.sum;\n", "/// Adds.\n"),
        ("/** Adds.\n *  return left.sum+right.sum;\n */\n", "/** Adds.\n */\n"),
        ("/* return left.sum + right.sum;\n * That is all. */\n", "/*\n * That is all. */\n"),
        ("/* Adds.\n * return left.sum + right.sum; */\n", "/* Adds.\n*/\n"),
        (
            "  /// Adds left.sum and\n  /// right.sum.\n",
            "  /// Adds left.sum and\n  /// right.sum.\n",
        ),
    ],
)
def test_lines_of_documentation_that_give_the_body_away_are_masked(
    comment: str, left: str, byte_level: Tokenizer, kit: Any
) -> None:
    code = "int add(Side left, Side right) {\n  return left.sum + right.sum;\n}\n"
    document = kit.document_of(f"\n{comment}{code}")
    (done,) = objective_counts(document, "doc_to_code", byte_level, kit)
    read, learnt = texts(done, byte_level)
    assert read.endswith(f"\n\n{left}{code}")
    assert learnt.strip() == "{\n  return left.sum + right.sum;\n}"
    counts = dict(done.counts)
    assert counts["masked_bytes"] == len(comment) - len(left)
    assert (counts["bodies"], counts["given_away"]) == (1, 0)


def test_a_body_whose_documentation_is_all_masked_is_not_learnt(
    byte_level: Tokenizer, kit: Any
) -> None:
    body = "{ return left.sum + right.sum; }"
    (done,) = objective_counts(
        kit.document_of(f"/// {body}\nint f() {body}\n"), "doc_to_code", byte_level, kit
    )
    read, learnt = texts(done, byte_level)
    assert read.endswith(f"\n\nint f() {body}\n")
    assert learnt == ""
    assert dict(done.counts)["given_away"] == 1


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_stands_earlier_in_the_document_is_not_learnt(
    direction: str, byte_level: Tokenizer, kit: Any
) -> None:
    one = (
        "/// Sums up whatever there is.\nint {}() {{\n  return sum_of_everything_there_is(7);\n}}\n"
    )
    document = kit.document_of(one.format("f") + "\n" + one.format("g"))
    (done,) = objective_counts(document, direction, byte_level, kit)
    _, learnt = texts(done, byte_level)
    assert learnt.count("sum_of_everything") + learnt.count("whatever there") == 1
    assert dict(done.counts)["repeated_tokens"] > RUN


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_the_changes_showed_is_not_learnt(
    direction: str, byte_level: Tokenizer, kit: Any
) -> None:
    old = "/// Old.\nint f() {\n  return 1;\n}\n"
    new = "/// New.\nint f() {\n  return 2;\n}\n"
    (done,) = objective_counts(
        kit.document_of(new, "v3_simple", before=old), direction, byte_level, kit
    )
    expected = {"doc_to_code": "{\n}", "code_to_doc": ""}
    assert texts(done, byte_level)[1].replace(" ", "") == expected[direction]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nothing_is_learnt_where_nothing_is_documented(
    direction: str, byte_level: Tokenizer, kit: Any
) -> None:
    code = "// About the file.\n\nint f() { return 1; }\n"
    (done,) = objective_counts(kit.document_of(code, "v2_doxygen"), direction, byte_level, kit)
    assert not done.encoding.loss_mask.any()
    assert texts(done, byte_level)[0].endswith(code)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_only_the_target_of_a_context_document_is_learnt(
    direction: str, byte_level: Tokenizer, kit: Any
) -> None:
    code = "/// Doc.\nint f() { return 1; }\n"
    text = f"{code}{code.replace('1', '2').replace('Doc', 'What')}"
    half = len(code.encode())
    kinds: list[tuple[flat.SpanKind, str]] = [
        ("documentation", "/// Doc."),
        ("declaration", "int f() "),
        ("body", "{ return 1; }"),
    ]
    spans = [
        flat.Span(kind=kind, start=at, end=at + len(each))
        for kind, each in kinds
        for at in (code.index(each), half + code.index(each))
    ]
    document = flat.Document(
        text=text.replace("What", "Dog"),
        family="v4_context_graph",
        language="cpp",
        licence=None,
        timestamp=0,
        parts=(
            flat.Part(kind="context", start=0, end=half, rank=1, elidable=True),
            flat.Part(kind="target", start=half, end=2 * half),
        ),
        spans=tuple(spans),
        provenance=(),
        lineage="r:x",
    )
    (done,) = objective_counts(document, direction, byte_level, kit)
    learnt = {"doc_to_code": "{ return 2; }", "code_to_doc": "/// Dog.\n"}
    assert texts(done, byte_level)[1].strip() == learnt[direction].strip()
    moved = "int f() { return 2; }\n/// Dog.\n"
    stays = "/// Dog.\nint f() { return 2; }\n"
    assert texts(done, byte_level)[0] == code + (moved if direction == "code_to_doc" else stays)


def test_as_many_comments_move_as_there_is_room_for(byte_level: Tokenizer, kit: Any) -> None:
    code = "".join(f"\n/// Doc {at}.\nint f{at}();\n" for at in range(8))
    document = kit.document_of(code)
    objective = objective_of("code_to_doc", byte_level, variant=0)
    (encoding,) = kit.encoded(document, byte_level, 4096)
    size = len(encoding.ids)
    moved = []
    for room in (size, size + 2, size + 1000):
        done = objective.apply(encoding, kit.known(document, room=room))
        assert len(done.encoding.ids) <= room
        moved.append(dict(done.counts)["comments"])
        assert moved[-1] + dict(done.counts)["comments_left"] == 8
    assert moved[0] <= moved[1] <= moved[2] == 8


SNIPPETS = st.sampled_from(
    (
        "/// Adds é.\n",
        "/** Adds one.\n * return left.sum + right.sum; */\n",
        "  //! Indented.\n",
        "// return left.sum + right.sum;\n",
        "int f(int a) {\n  return left.sum + right.sum;\n}\n",
        "  int g() { return 2; }\n",
        "int declared(int a);\n",
        "class A {\n",
        "};\n",
        "\n",
        "#if B\n",
        "#endif\n",
        "int h() {\n",
        "}\n",
        "EXPORT\n",
        "x",
        "\n/// Sums.\n/// As: return left.sum + right.sum;\nint s() { return left.sum + right.sum; }\n",
        "\n/// return a[0] + b[0];\nint t() { return a[0] + b[0]; }\n",
        "\n/* One.\n */\nint u() {\n  return 1;\n}\n",
    )
)


def test_nothing_is_learnt_where_what_is_left_would_not_fit(
    byte_level: Tokenizer, kit: Any
) -> None:
    document = kit.document_of("/// Doc.\nint f() { return 1; }\n")
    (encoding,) = kit.encoded(document, byte_level, 4096)
    objective = objective_of("doc_to_code", byte_level, variant=0)
    done = objective.apply(encoding, kit.known(document, room=len(encoding.ids) - 1))
    assert done.counts == (("no_room", 1),)
    assert not done.encoding.loss_mask.any()


ROW_LENGTHS = st.integers(40, 120) | st.integers(120, 900)
CODE = st.lists(SNIPPETS, min_size=1, max_size=24).map("".join)


def check_text(one: Result, document: flat.Document, tokenizer: Tokenizer) -> list[int]:
    """Pieces are truthful; the bytes of the text, as they are read."""
    data, encoding = document.text.encode(), one.encoding
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    for token, low, high in zip(encoding.ids.tolist(), starts.tolist(), ends.tolist(), strict=True):
        assert low == high or tokenizer.decode_bytes([token]) == data[low:high]
    return [byte for low, high in zip(starts, ends, strict=True) for byte in range(low, high)]


def marked(document: flat.Document, kind: flat.SpanKind) -> list[tuple[int, int]]:
    return [(span.start, span.end) for span in document.spans if span.kind == kind]


def scored_tokens(encoding: Encoding, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    at = np.flatnonzero(encoding.loss_mask) + 1
    return list(zip(starts[at].tolist(), ends[at].tolist(), strict=True))


def test_bodies_alone_are_learnt_and_documentation_alone_is_masked(
    byte_level: Tokenizer, kit: Any
) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=300)
    @given(CODE, st.sampled_from(("v2_simple", "v3_simple")), ROW_LENGTHS)
    def holds(code: str, family: str, row_length: int) -> None:
        document = kit.document_of(code, family)
        comments, bodies = marked(document, "documentation"), marked(document, "body")
        fitted = kit.encoded(document, byte_level, row_length)
        for plain, done in zip(
            fitted,
            objective_counts(document, "doc_to_code", byte_level, kit, row_length),
            strict=True,
        ):
            seen.update(dict(done.counts))
            read = check_text(done, document, byte_level)
            assert read == sorted(read)
            whole = check_text(Result(encoding=plain), document, byte_level)
            masked = set(whole) - set(read)
            assert len(masked) == dict(done.counts).get("masked_bytes", 0)
            lines = document.text.encode()
            for byte in masked:
                assert any(low <= byte < high for low, high in comments) or (
                    lines[byte : byte + 1] in (b" ", b"\n")
                )
            for low, high in scored_tokens(done.encoding, byte_level):
                assert any(low < end and start < high for start, end in bodies)
            check_repeats(done.encoding)

    holds()
    assert min(seen["bodies"], seen["masked_bytes"], seen["given_away"]) > 10
    assert seen["repeated_tokens"] > 10


def test_comments_alone_move_and_are_learnt_behind_all_of_their_code(
    byte_level: Tokenizer, kit: Any
) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=300)
    @given(CODE, st.sampled_from(("v2_simple", "v3_simple")), ROW_LENGTHS)
    def holds(code: str, family: str, row_length: int) -> None:
        document = kit.document_of(code, family)
        comments = marked(document, "documentation")
        declarations = marked(document, "declaration")
        objective = objective_of("code_to_doc", byte_level, variant=0)
        fitted = kit.encoded(document, byte_level, row_length - objective.reserve)
        for plain, done in zip(
            fitted,
            objective_counts(document, "code_to_doc", byte_level, kit, row_length),
            strict=True,
        ):
            seen.update(dict(done.counts))
            assert len(done.encoding.ids) <= row_length
            read = check_text(done, document, byte_level)
            assert sorted(read) == check_text(Result(encoding=plain), document, byte_level)
            place = {byte: at for at, byte in enumerate(read)}
            for low, high in scored_tokens(done.encoding, byte_level):
                comment = next(
                    (span for span in comments if low <= span[1] and span[0] < high), None
                ) or next(span for span in comments if span[0] >= high)
                below = next(span for span in declarations if span[0] >= comment[1])
                assert all(place[byte] < place[low] for byte in range(*below))
            check_repeats(done.encoding)

    holds()
    assert min(seen["comments"], seen["comments_left"], seen["repeated_tokens"]) > 10


def check_repeats(encoding: Encoding) -> None:
    """No target lies in a run that stands earlier in the encoding."""
    assert not (in_repeats(encoding.ids)[1:] & (encoding.loss_mask[:-1] == 1)).any()
