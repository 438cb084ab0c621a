"""fim moves text and loses none; what it splits, and how, is drawn anew for each document and variant."""

import dataclasses
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.objectives import DocumentFacts, Objective, causal, fim, objective_of
from curriculum.packing.repeats import in_repeats
from curriculum.tokens.codec import ControlRole, Tokenizer
from curriculum.tokens.encoding import Encoding, byte_ranges
from schemas import document as flat
from schemas.document import PartKind, SpanKind
from schemas.errors import TokenizerError
from schemas.packed_row import TEXT_PIECE

GOLDEN = Path(__file__).parents[2] / "golden" / "objectives"
BEFORE = """\
#include "sum.h"

/// The sum of é.
int sum(int a, int b) {
  if (a == b) return twice(a);
  int both = add(a, b);
  return both;
}

/// Twice.
int twice(int a) {
  return sum(a, a);
}
"""
AFTER = BEFORE.replace("add(a, b)", "a + b")
SENTINELS: tuple[ControlRole, ...] = ("fim_prefix", "fim_suffix", "fim_middle")


def v3(kit: Any) -> flat.Document:
    document: flat.Document = kit.document_of(AFTER, "v3_simple", before=BEFORE)
    return document


def expected(byte_level: Tokenizer, kit: Any) -> str:
    """The document in its order, then eight variants of it."""
    document = v3(kit)
    (encoding,) = kit.encoded(document, byte_level, 4096)
    shown = [kit.read(encoding, byte_level)]
    for variant in range(8):
        objective_counts = objective_of("fim", byte_level, variant=variant).apply(
            encoding, kit.known(document)
        )
        counts = " ".join(name for name, _ in objective_counts.counts)
        shown.append(
            f"== variant {variant}: {counts}\n{kit.read(objective_counts.encoding, byte_level)}"
        )
    return "\n".join(shown)


def test_splits_look_as_reviewed(
    byte_level: Tokenizer, kit: Any, request: pytest.FixtureRequest
) -> None:
    file, found = GOLDEN / "fim.txt", expected(byte_level, kit)
    if request.config.getoption("--rewrite"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8", newline="\n")
    assert found == file.read_text(encoding="utf-8")


TEXTS = st.lists(
    st.tuples(
        st.lists(
            st.sampled_from(("return", " ab", "é", "𝄞 ", "\t", "int", "(x)", "  ")), max_size=9
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=9,
)


@st.composite
def documents(draw: st.DrawFn) -> flat.Document:
    """A head of parts, code of parts, some of which may be elided, and spans anywhere in it."""
    drawn = draw(TEXTS)
    lines = ["".join(words) + "\n" for words, _ in drawn]
    text = "".join(lines)
    borders = list(accumulate((len(line.encode()) for line in lines), initial=0))
    head = draw(st.integers(0, len(lines)))
    parts = tuple(
        flat.Part(
            kind="header" if at < head else "code", start=start, end=end, rank=at, elidable=may
        )
        for at, ((start, end), (_, may)) in enumerate(zip(pairwise(borders), drawn, strict=True))
    )
    edges = list(accumulate((len(each.encode()) for each in text), initial=0))
    spans: list[flat.Span] = []
    kinds: tuple[SpanKind, ...] = ("body", "repeated", "statement", "arguments")
    for kind in kinds:
        cuts = sorted(draw(st.sets(st.sampled_from(edges), max_size=4)))
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        spans += [flat.Span(kind=kind, start=start, end=end) for start, end in pairs]
    return flat.Document(
        text=text,
        family="v3_simple",
        language="cpp",
        licence=None,
        timestamp=0,
        parts=parts,
        spans=tuple(spans),
        provenance=(),
        lineage="r:x",
    )


def test_what_stands_around_the_middle_and_the_middle_are_the_text_again(
    byte_level: Tokenizer, kit: Any
) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=400)
    @given(documents(), st.integers(8, 120), st.integers(0, 63))
    def holds(document: flat.Document, row_length: int, variant: int) -> None:
        objective = objective_of("fim", byte_level, variant=variant)
        own = kit.known(document)
        for encoding in kit.encoded(document, byte_level, row_length):
            plain = causal.apply(encoding, own.spans.of("repeated"), byte_level.token_bytes)
            objective_counts = objective.apply(encoding, own)
            assert len(objective_counts.encoding.ids) <= len(encoding.ids) + objective.reserve
            counts = dict(objective_counts.counts)
            seen.update(counts)
            if "psm" in counts or "spm" in counts:
                check_split(
                    plain, objective_counts.encoding, byte_level, document, is_psm="psm" in counts
                )
            else:
                assert list(counts) == ["unsplit_too_small", "repeated_tokens"]
                unsplit, _ = causal.drop_repeated_targets(plain)
                for name in ("ids", "loss_mask", "pieces"):
                    assert np.array_equal(
                        getattr(objective_counts.encoding, name), getattr(unsplit, name)
                    )
            check_targets(objective_counts.encoding, byte_level, own)

    holds()
    assert seen.keys() >= {"psm", "spm", "random", "unsplit_too_small", *fim.SYNTACTIC}


def check_split(
    plain: Encoding, done: Encoding, tokenizer: Tokenizer, document: flat.Document, *, is_psm: bool
) -> None:
    """Head, sentinels, and between them the text of `plain` in another order."""
    head, before, after, middle = stretches(done, tokenizer, is_psm=is_psm)
    assert middle
    code = min(part.start for part in document.parts if part.kind == "code")
    assert all(byte < code for byte, _ in head)
    assert all(byte >= code for byte, _ in before + middle + after)
    again = head + before + middle + after
    everything = stretch(plain, 0, len(plain.ids), tokenizer)
    assert [byte for byte, _ in again] == [byte for byte, _ in everything]
    assert b"".join(text for _, text in again) == b"".join(text for _, text in everything)


def stretches(
    done: Encoding, tokenizer: Tokenizer, *, is_psm: bool
) -> list[list[tuple[int, bytes]]]:
    """Head, before, after, middle."""
    ids = done.ids.tolist()
    prefix, suffix, middle = (ids.index(tokenizer.ids_of[role]) for role in SENTINELS)
    assert sum(ids.count(tokenizer.ids_of[role]) for role in SENTINELS) == 3
    head, first, second, last = (
        stretch(done, start, end, tokenizer)
        for start, end in pairwise((0, prefix, suffix, middle, len(ids)))
    )
    if is_psm:
        return [head, first, second, last]
    assert first == []
    jump = next((at for at, (a, b) in enumerate(pairwise(last)) if a[0] > b[0]), None)
    assert jump is None, "before and middle go on as one"
    low = second[0][0] if second else last[-1][0] + 1
    assert all(byte < low for byte, _ in last)
    return [head, [], second, last]


def stretch(done: Encoding, start: int, end: int, tokenizer: Tokenizer) -> list[tuple[int, bytes]]:
    """(byte, its value) of text, and (byte, all of the line) of a gap."""
    starts, ends = byte_ranges(done.ids, done.pieces, tokenizer.token_bytes)
    found: list[tuple[int, bytes]] = []
    for token in range(start, end):
        text = tokenizer.decode_bytes([int(done.ids[token])])
        if starts[token] == ends[token]:
            found += [(int(starts[token]), text)] if text else []
        else:
            found += [(int(starts[token]) + at, text[at : at + 1]) for at in range(len(text))]
    return found


def check_targets(done: Encoding, tokenizer: Tokenizer, own: DocumentFacts) -> None:
    """Text that isn't repeated counts, and EOS; sentinels and lines of gaps don't."""
    before = in_repeats(done.ids)
    starts, ends = byte_ranges(done.ids, done.pieces, tokenizer.token_bytes)
    repeated = {byte for low, high in own.spans.of("repeated") for byte in range(low, high)}
    for token, (low, high) in enumerate(zip(starts[1:].tolist(), ends[1:].tolist(), strict=True)):
        is_end = done.ids[token + 1] == tokenizer.eos_id
        counts = is_end or (low < high and not repeated & set(range(low, high)))
        assert done.loss_mask[token] == (counts and not before[token + 1])
    assert done.loss_mask[-1] == 0


def test_forms_kinds_and_variants_are_drawn_evenly(byte_level: Tokenizer, kit: Any) -> None:
    document = v3(kit)
    (encoding,) = kit.encoded(document, byte_level, 4096)
    seen: Counter[str] = Counter()
    orders = set()
    for variant in range(400):
        objective = objective_of("fim", byte_level, variant=variant)
        first, again = (objective.apply(encoding, kit.known(document)) for _ in range(2))
        assert np.array_equal(first.encoding.ids, again.encoding.ids)
        seen.update(dict(first.counts))
        orders.add(first.encoding.ids.tobytes())
    assert 160 < seen["psm"] < 240
    assert 160 < seen["random"] < 240
    assert seen["psm"] + seen["spm"] == 400
    assert min(seen[kind] for kind in fim.SYNTACTIC) > 40
    assert len(orders) > 180


def test_structure_decides_nothing_about_a_split(byte_level: Tokenizer, kit: Any) -> None:
    document = v3(kit)
    (encoding,) = kit.encoded(document, byte_level, 4096)
    enriched = dataclasses.replace(encoding, document_id="f" * 32)
    first, second = (
        objective_of("fim", byte_level, variant=3).apply(each, kit.known(document)).encoding
        for each in (encoding, enriched)
    )
    assert np.array_equal(first.ids, second.ids)


def test_only_the_target_of_a_context_document_is_split(byte_level: Tokenizer, kit: Any) -> None:
    document = v3(kit)
    kinds: dict[str, PartKind] = {"header": "context", "changes": "header", "code": "target"}
    parts = tuple(
        dataclasses.replace(part, kind=kinds[part.kind], elidable=False) for part in document.parts
    )
    document = dataclasses.replace(document, parts=parts, family="v4_context_graph")
    (encoding,) = kit.encoded(document, byte_level, 4096)
    region = min(part.start for part in parts if part.kind == "target")
    for variant in range(20):
        objective = objective_of("fim", byte_level, variant=variant)
        done = objective.apply(encoding, kit.known(document)).encoding
        at = done.ids.tolist().index(byte_level.ids_of["fim_prefix"])
        assert np.array_equal(done.ids[:at], encoding.ids[:at])
        text = [piece for piece in done.pieces.tolist() if piece[0] == TEXT_PIECE]
        assert text[0][1:] == [1, at, 0, region]


def test_what_grows_past_its_reserve_stays_as_it_is(byte_level: Tokenizer, kit: Any) -> None:
    document = v3(kit)
    (encoding,) = kit.encoded(document, byte_level, 4096)
    objective: Any = objective_of("fim", byte_level, variant=0)
    tight: Objective = dataclasses.replace(objective, reserve=2)
    objective_counts = tight.apply(encoding, kit.known(document))
    assert dict(objective_counts.counts).keys() == {"unsplit_no_room", "repeated_tokens"}
    assert np.array_equal(objective_counts.encoding.ids, encoding.ids)


def test_a_tokenizer_without_sentinels_is_refused_with_a_cure(kit: Any) -> None:
    with pytest.raises(TokenizerError, match=r"<\|fim_prefix\|>"):
        objective_of("fim", kit.tokenizer_of(sentinels=False), variant=0)


def test_characters_of_several_tokens_are_never_cut(byte_level: Tokenizer, kit: Any) -> None:
    """A line without an end, of characters of four tokens each, is divided between them, and split so."""
    text = "𝄞é" * 60 + "\n"
    part = flat.Part(kind="code", start=0, end=len(text.encode()))
    document = dataclasses.replace(v3(kit), text=text, parts=(part,), spans=())
    encodings = kit.encoded(document, byte_level, 40)
    assert len(encodings) > 9
    for encoding in encodings:
        for variant in range(30):
            objective_counts = objective_of("fim", byte_level, variant=variant).apply(
                encoding, kit.known(document)
            )
            for kind, start, end, _, _ in objective_counts.encoding.pieces.tolist():
                if kind == TEXT_PIECE:
                    ids = objective_counts.encoding.ids[start:end].tolist()
                    assert set(byte_level.decode_bytes(ids).decode()) <= set(text)
