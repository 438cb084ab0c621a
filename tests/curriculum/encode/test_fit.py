import doctest
from itertools import groupby, pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.encode import (
    Counts,
    FitResult,
    Fitter,
    Outcome,
    TokenizedDocument,
    elided_parts,
    fit,
    policy_of,
)
from curriculum.tokens.codec import ControlRole, Roles, Tokenizer
from curriculum.tokens.encoding import Encoding, Spans
from schemas.families import ENRICHED_FAMILY, TooLong, families_of
from schemas.packed_row import TEXT_PIECE

BOS, EOS, NEWLINE = 4, 5, 2
TOKEN_BYTES = np.array([1, 2, 1, 3, 0, 0], dtype=np.int32)
ELISION = np.array([0, NEWLINE], dtype=np.int32)
POLICIES: tuple[TooLong, ...] = get_args(TooLong)
NONE = np.empty(0, dtype=np.int32)
Part = tuple[list[int], int, bool]
"""ids, rank, elidable"""


def fitter(
    row_length: int, *, policy: TooLong = "divide", bos: bool = True, eos: bool = True
) -> Fitter:
    ids_of: dict[ControlRole, int] = {"pad": EOS}
    ids_of |= {"bos": BOS} if bos else {}
    ids_of |= {"eos": EOS} if eos else {}
    tokenizer = Tokenizer(
        name="six tokens",
        json="",
        roles=Roles(),
        chat_template=None,
        ids_of=ids_of,
        engine="none",
        engine_reason="",
        _texts=(b"a", b"bb", b"\n", b"ccc", b"", b""),
        _controls={},
        _encode=lambda texts: (NONE, np.zeros(len(texts) + 1, dtype=np.int64)),
    )
    return Fitter(
        tokenizer=tokenizer, row_length=row_length, policy=policy, elisions={"cpp": ELISION}
    )


def document(parts: list[Part], *, bos: bool = True, eos: bool = True) -> TokenizedDocument:
    ids = [token for part, _, _ in parts for token in part]
    sizes = [int(TOKEN_BYTES[part].sum()) for part, _, _ in parts]
    return TokenizedDocument(
        row=0,
        document_id="d",
        flat_id="d",
        language="cpp",
        ids=np.array([*[BOS][: int(bos)], *ids, *[EOS][: int(eos)]], dtype=np.uint16),
        part_bytes=np.cumsum([0, *sizes]).astype(np.int32),
        part_tokens=np.cumsum([0, *(len(part) for part, _, _ in parts)]).astype(np.int32),
        part_kinds=np.zeros(len(parts), dtype=np.int32),
        ranks=np.array([rank for _, rank, _ in parts], dtype=np.int32),
        elidable=np.array([elidable for _, _, elidable in parts], dtype=np.bool_),
        spans=Spans(kinds=NONE, starts=NONE, ends=NONE),
        generated=np.zeros(len(parts), dtype=np.bool_),
        other_side=np.zeros(len(parts), dtype=np.bool_),
        refused=np.zeros(len(parts), dtype=np.bool_),
    )


def pieces_of(encoding: Encoding) -> list[tuple[str, list[int], tuple[int, int]]]:
    """(kind, ids, bytes) of each piece."""
    return [
        (
            "text" if kind == TEXT_PIECE else "generated",
            encoding.ids[start:end].tolist(),
            (low, high),
        )
        for kind, start, end, low, high in encoding.pieces.tolist()
    ]


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(fit)
    assert done.attempted
    assert not done.failed


def test_what_fits_stands_whole() -> None:
    done = fitter(6).fit(document([([0, 1], 0, False), ([3, 2], 9, True)]))
    assert done.outcome == "whole"
    (encoding,) = done.encodings
    assert pieces_of(encoding) == [
        ("generated", [BOS], (0, 0)),
        ("text", [0, 1, 3, 2], (0, 7)),
        ("generated", [EOS], (7, 7)),
    ]
    assert encoding.loss_mask.tolist() == [1, 1, 1, 1, 1, 0]


def test_the_highest_rank_goes_first_and_leaves_one_line_in_its_gap() -> None:
    parts: list[Part] = [
        ([0] * 4, 0, False),
        ([1] * 4, 1, True),
        ([3] * 4, 2, True),
        ([0], 0, False),
    ]
    done = fitter(14).fit(document(parts))
    assert (done.outcome, done.elided_bytes) == ("elided", 12)
    (encoding,) = done.encodings
    assert pieces_of(encoding) == [
        ("generated", [BOS], (0, 0)),
        ("text", [0] * 4 + [1] * 4, (0, 12)),
        ("generated", ELISION.tolist(), (12, 12)),
        ("text", [0], (24, 25)),
        ("generated", [EOS], (25, 25)),
    ]


def test_neighbours_of_one_rank_go_together() -> None:
    parts: list[Part] = [([0], 0, False), ([1] * 2, 7, True), ([3] * 9, 7, True), ([0], 0, False)]
    (encoding,) = fitter(13).fit(document(parts)).encodings
    assert encoding.ids.tolist() == [BOS, 0, *ELISION, 0, EOS]


def test_neighbours_that_go_share_one_line() -> None:
    parts: list[Part] = [([0], 0, False), ([1] * 4, 1, True), ([3] * 4, 2, True), ([0], 0, False)]
    (encoding,) = fitter(8).fit(document(parts)).encodings
    assert encoding.ids.tolist() == [BOS, 0, *ELISION, 0, EOS]


def test_a_long_part_is_divided_at_line_starts_and_eos_stands_only_at_the_end() -> None:
    part = [0, 0, NEWLINE, 1, 1, NEWLINE, 0, 0, 0, NEWLINE]
    done = fitter(6).fit(document([(part, 0, False)]))
    assert done.outcome == "divided"
    assert [encoding.ids.tolist() for encoding in done.encodings] == [
        [BOS, 0, 0, NEWLINE],
        [BOS, 1, 1, NEWLINE],
        [BOS, 0, 0, 0, NEWLINE, EOS],
    ]
    assert [encoding.loss_mask.tolist()[-1] for encoding in done.encodings] == [0, 0, 0]
    assert [pieces_of(encoding)[0][2] for encoding in done.encodings] == [(0, 0), (3, 3), (8, 8)]


def test_a_document_is_divided_between_its_parts_where_that_leaves_a_half_full_row() -> None:
    parts: list[Part] = [([0, NEWLINE, 0, NEWLINE], 0, False), ([1, NEWLINE, 1, NEWLINE], 0, False)]
    done = fitter(7).fit(document(parts))
    assert [encoding.ids.tolist() for encoding in done.encodings] == [
        [BOS, 0, NEWLINE, 0, NEWLINE],
        [BOS, 1, NEWLINE, 1, NEWLINE, EOS],
    ]


def test_a_header_alone_is_no_division() -> None:
    parts: list[Part] = [([0, NEWLINE], 0, False), ([1, 1, NEWLINE] * 4, 0, False)]
    first = fitter(9).fit(document(parts)).encodings[0]
    assert first.ids.tolist() == [BOS, 0, NEWLINE, 1, 1, NEWLINE, 1, 1, NEWLINE]


def test_a_line_longer_than_a_row_is_cut_between_tokens() -> None:
    done = fitter(4, bos=False, eos=False).fit(
        document([([3] * 9, 0, False)], bos=False, eos=False)
    )
    assert [len(encoding.ids) for encoding in done.encodings] == [4, 4, 1]
    assert [encoding.pieces.tolist() for encoding in done.encodings] == [
        [[0, 0, 4, 0, 12]], [[0, 0, 4, 12, 24]], [[0, 0, 1, 24, 27]]
    ]  # fmt: skip


def test_where_only_eos_has_no_room_the_last_division_still_has_text() -> None:
    done = fitter(4).fit(document([([0] * 3, 0, False)]))
    assert [encoding.ids.tolist() for encoding in done.encodings] == [[BOS, 0, 0], [BOS, 0, EOS]]


def test_a_target_that_does_not_fit_is_routed_never_cut() -> None:
    parts: list[Part] = [([0] * 9, 1, True), ([1] * 9, 0, False)]
    done = fitter(8, policy="route").fit(document(parts))
    assert (done.outcome, done.encodings, done.elided_bytes, done.num_bytes) == (
        "routed",
        (),
        0,
        27,
    )
    assert fitter(16, policy="route").fit(document(parts)).outcome == "elided"


def test_a_text_of_which_all_may_go_is_not_elided_as_a_whole() -> None:
    done = fitter(8).fit(document([([0] * 9, 1, True)]))
    assert (done.outcome, done.elided_bytes) == ("divided", 0)


def test_a_document_without_text_is_dropped() -> None:
    assert fitter(8).fit(document([])).outcome == "dropped"


def test_targets_that_stand_last_are_routed_and_files_are_divided() -> None:
    policies = {
        family: policy_of(family) for family in (*families_of("changes"), *families_of("commits"))
    }
    routed = {family for family, policy in policies.items() if policy == "route"}
    assert routed == {"edit", "v4_context_graph", "v5_clang_graph"}


def test_documents_with_structure_are_fitted_as_their_base() -> None:
    with pytest.raises(AssertionError, match="base family"):
        policy_of(ENRICHED_FAMILY)


PARTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 3), st.booleans()
    ),
    max_size=8,
)


def test_every_byte_stands_in_one_text_piece_or_is_counted() -> None:
    seen: set[str] = set()

    @given(PARTS, st.integers(4, 40), st.booleans(), st.booleans(), st.sampled_from(POLICIES))
    def check(parts: list[Part], row_length: int, bos: bool, eos: bool, policy: TooLong) -> None:
        own = document(parts, bos=bos, eos=eos)
        done = fitter(row_length, policy=policy, bos=bos, eos=eos).fit(own)
        check_bytes(own, done, row_length, bos=bos, eos=eos, policy=policy)
        seen.add(done.outcome)

    check()
    assert seen == set(get_args(Outcome)) - {"straddles", "refused", "too_long"}


def check_bytes(
    own: TokenizedDocument,
    done: FitResult,
    row_length: int,
    *,
    bos: bool,
    eos: bool,
    policy: TooLong,
) -> None:
    text = own.ids[int(bos) : len(own.ids) - int(eos)]
    borders = np.cumsum([0, *TOKEN_BYTES[text]])
    covered: list[tuple[int, int]] = []
    for encoding in done.encodings:
        check_frame(encoding, row_length, bos=bos, eos=eos and encoding is done.encodings[-1])
        for kind, ids, (low, high) in pieces_of(encoding):
            if kind == "text":
                first, last = np.searchsorted(borders, (low, high))
                assert ids == text[first:last].tolist()
                assert (borders[first], borders[last]) == (low, high)
                covered.append((low, high))
    assert all(before[1] <= after[0] for before, after in pairwise(covered))
    if done.outcome in ("routed", "dropped"):
        assert not covered
        assert done.num_bytes == 0 or policy == "route"
    else:
        held = sum(high - low for low, high in covered)
        assert held + done.elided_bytes == done.num_bytes == own.num_bytes
        check_gaps(done, own, covered)


def check_frame(encoding: Encoding, row_length: int, *, bos: bool, eos: bool) -> None:
    ids, pieces = encoding.ids, encoding.pieces
    assert len(ids) <= row_length
    assert (ids == BOS).tolist() == [bos and at == 0 for at in range(len(ids))]
    assert (ids == EOS).tolist() == [eos and at == len(ids) - 1 for at in range(len(ids))]
    assert encoding.loss_mask.tolist() == [1] * (len(ids) - 1) + [0]
    assert [0, *pieces[:, 2]] == [*pieces[:, 1], len(ids)]
    assert (pieces[:, 1] < pieces[:, 2]).all()
    kinds = pieces[:, 0].tolist()
    assert (0, 0) not in pairwise(kinds)
    generated = pieces[pieces[:, 0] == 1]
    assert (generated[:, 3] == generated[:, 4]).all()


def check_gaps(done: FitResult, own: TokenizedDocument, covered: list[tuple[int, int]]) -> None:
    """Gaps are whole elidable parts, and one elision line stands for each."""
    edges = [0, *(edge for span in covered for edge in span), own.num_bytes]
    gaps = [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]
    elidable = {
        byte
        for part, may in enumerate(own.elidable)
        if may
        for byte in range(own.part_bytes[part], own.part_bytes[part + 1])
    }
    assert all(byte in elidable for low, high in gaps for byte in range(low, high))
    assert all(low in own.part_bytes and high in own.part_bytes for low, high in gaps)
    generated = [
        token
        for encoding in done.encodings
        for kind, ids, _ in pieces_of(encoding)
        if kind == "generated"
        for token in ids
        if token not in (BOS, EOS)
    ]
    assert generated == ELISION.tolist() * len(gaps)


@given(PARTS, st.integers(0, 60), st.integers(0, 5))
def test_as_few_parts_go_as_a_patient_loop_would_take(
    parts: list[Part], room: int, elision: int
) -> None:
    own = document(parts)
    lengths = np.diff(own.part_tokens)
    found = elided_parts(
        lengths=lengths,
        units=own.units,
        ranks=own.ranks,
        elidable=own.elidable,
        forbidden=own.other_side,
        elision=elision,
        room=room,
    )
    gone = np.zeros(len(parts), dtype=np.bool_)
    runs = [
        [part for part, _ in run]
        for (_, may), run in groupby(enumerate(parts), key=lambda item: (item[1][1], item[1][2]))
        if may
    ]
    for run in sorted(runs, key=lambda run: (-own.ranks[run[0]], run)):
        gone[run] = True
        gaps = int(gone[:1].sum()) + int((np.diff(gone.astype(int)) == 1).sum())
        if lengths[~gone].sum() + elision * gaps <= room:
            break
    assert found.tolist() == (gone & (not gone.all())).tolist()


def test_counts_say_what_became_of_the_documents() -> None:
    counts = Counts()
    counts.add(fitter(8).fit(document([])))
    counts.add(fitter(8).fit(document([([3] * 9, 0, False)])))
    counts.add(fitter(8).fit(document([([0], 0, False), ([1] * 9, 1, True)])))
    assert counts.report().dump() == {
        "documents": {"divided": 1, "dropped": 1, "elided": 1},
        "num_bytes": {"divided": 27, "dropped": 0, "elided": 19},
        "encodings": 3,
        "tokens": 8 + 4 + 5,
        "elided_bytes": 18,
        "lengths": {
            "to 1k": {"documents": 3, "tokens": 2 + 11 + 12, "encodings": 3, "encoded_tokens": 17},
            **{
                name: {"documents": 0, "tokens": 0, "encodings": 0, "encoded_tokens": 0}
                for name in ("1k to 4k", "4k to 16k", "16k to 64k", "over 64k")
            },
        },
    }


def test_a_row_too_short_for_anything_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(AssertionError):
        Fitter.from_tokenizer(None, row_length=3, policy="divide")  # type: ignore[arg-type]
