"""Rows that are cut: every one but the last is full, and joined they are the documents again."""

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.packing import best_fit, chop
from curriculum.packing.read import read_rows
from curriculum.packing.row_check import check
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.tokens.encoding import BYTE_END, BYTE_START, KIND, TOKEN_END, TOKEN_START, Encoding
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE, RowFormat

ROW = 128
BOS, EOS, PAD, ELISION = 1, 2, 0, 3
TOKEN_BYTES = np.arange(512, dtype=np.int32) % 4 + 1
TOKEN_BYTES[:ELISION] = 0
WITH_BOS = RowFormat(row_length=ROW, vocab_size=512, pad_id=PAD, bos_id=BOS, eos_id=EOS)
WITHOUT_BOS = replace(WITH_BOS, bos_id=None)
FORMATS = st.sampled_from([WITH_BOS, WITHOUT_BOS])
LENGTHS = st.lists(st.integers(1, 3 * ROW), min_size=1, max_size=60)
SEEDS = st.integers(0, 2**64 - 1)
LABELS = RowLabels(
    rows_key="c0ffee" * 10, family="v2_simple", objective="causal", variant=0, split="train"
)
Int64s = npt.NDArray[np.int64]


def ties_of(count: int) -> npt.NDArray[np.uint64]:
    return np.random.default_rng(count).permutation(count).astype(np.uint64) * np.uint64(977)


def planned(lengths: list[int], *, with_bos: bool, seed: int = 17) -> chop.ChopPlan:
    return chop.plan(np.array(lengths), ROW, ties_of(len(lengths)), seed, with_bos=with_bos)


def fills(plan: chop.ChopPlan) -> Int64s:
    return np.add.reduceat(plan.lengths, plan.row_starts[:-1])


def encoding(length: int, number: int, row_format: RowFormat) -> Encoding:
    """[BOS] text, with an elision line in longer ones, [EOS]; a third of the predictions doesn't count."""
    random = np.random.default_rng(number)
    ids = random.integers(4, 512, length).astype(np.int32)
    kinds = np.full(length, TEXT_PIECE)
    if length > 9:
        ids[4:6], kinds[4:6] = ELISION, GENERATED_PIECE
    for place, token in ((0, row_format.bos_id), (-1, EOS)):
        if token is not None and length > 1:
            ids[place], kinds[place] = token, GENERATED_PIECE
    starts = np.flatnonzero(np.diff(kinds, prepend=-1))
    sizes = np.where(kinds == TEXT_PIECE, TOKEN_BYTES[ids], 0)
    low = (np.cumsum(sizes) - sizes)[starts]
    ends = np.append(starts[1:], length)
    high = low + np.add.reduceat(sizes, starts)
    mask = (random.integers(0, 3, length) > 0).astype(np.uint8)
    mask[-1] = 0
    return Encoding(
        document_id=f"{number:08x}" * 4,
        ids=ids,
        loss_mask=mask,
        pieces=np.stack((kinds[starts], starts, ends, low, high), axis=1).astype(np.int32),
    )


def spooled_in(folder: Path, encodings: list[Encoding]) -> SpooledDocuments:
    folder.mkdir()
    with Spool(folder) as spool:
        for each in encodings:
            spool.append(each)
    return SpooledDocuments(folder)


def chopped(
    folder: Path, encodings: list[Encoding], row_format: RowFormat
) -> tuple[chop.ChopPlan, SpooledDocuments]:
    spooled = spooled_in(folder / "spool", encodings)
    ties = best_fit.tie_breakers(spooled.tie_ids, seed=17)
    plan = chop.plan(spooled.lengths, ROW, ties, 17, with_bos=row_format.bos_marks_documents)
    (folder / "divisions").mkdir()
    return plan, chop.spool_divisions(
        spooled, plan, folder / "divisions", row_format=row_format, token_bytes=TOKEN_BYTES
    )


def written(folder: Path, encodings: list[Encoding], row_format: RowFormat) -> chop.ChopCounts:
    plan, divisions = chopped(folder, encodings, row_format)
    rows, counts = chop.rows_with_targets(plan, divisions.scored)
    with RowWriter(folder, row_format=row_format, labels=LABELS, shard_tokens=4 * ROW) as writer:
        writer.write(divisions, rows.order, rows.row_starts, domain="templates")
    return counts


def test_five_documents_are_cut_every_six_tokens() -> None:
    plan = chop.cut(np.array([3, 5, 2, 4, 1]), 6, with_bos=False)
    assert plan.row_starts.tolist() == [0, 2, 5, 7]
    assert plan.documents.tolist() == [0, 1, 1, 2, 3, 3, 4]
    assert plan.starts.tolist() == [0, 0, 3, 0, 0, 2, 0]
    assert plan.lengths.tolist() == [3, 3, 2, 2, 2, 2, 1]
    assert not plan.with_bos.any()


def test_a_bos_that_leads_what_is_behind_a_cut_takes_a_token_of_its_row() -> None:
    plan = chop.cut(np.array([3, 5, 2, 4, 1]), 6, with_bos=True)
    assert plan.row_starts.tolist() == [0, 2, 5, 7]
    assert plan.starts.tolist() == [0, 0, 3, 0, 0, 1, 0]
    assert plan.lengths.tolist() == [3, 3, 3, 2, 1, 4, 1]
    assert np.flatnonzero(plan.with_bos).tolist() == [2, 5]


@given(LENGTHS, SEEDS, st.booleans())
def test_every_row_but_the_last_is_full(lengths: list[int], seed: int, with_bos: bool) -> None:
    *before, last = fills(planned(lengths, with_bos=with_bos, seed=seed)).tolist()
    assert all(each == ROW for each in before)
    assert 0 < last <= ROW


@given(LENGTHS, SEEDS, st.booleans())
def test_each_document_is_cut_only_where_a_row_ends(
    lengths: list[int], seed: int, with_bos: bool
) -> None:
    plan = planned(lengths, with_bos=with_bos, seed=seed)
    assert set(np.flatnonzero(plan.starts > 0)) <= set(plan.row_starts.tolist())
    assert np.array_equal(plan.with_bos, (plan.starts > 0) & with_bos)
    taken = plan.lengths - plan.with_bos
    found = np.zeros(len(lengths), dtype=np.int64)
    for document, start, tokens in zip(plan.documents, plan.starts, taken, strict=True):
        assert start == found[document]
        found[document] += tokens
    assert found.tolist() == lengths


@given(LENGTHS, SEEDS, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_depends_on_documents_and_the_seed_and_not_on_their_order(
    lengths: list[int], seed: int, with_bos: bool, random: Random
) -> None:
    shuffle = list(range(len(lengths)))
    random.shuffle(shuffle)
    before = planned(lengths, with_bos=with_bos, seed=seed)
    ties = ties_of(len(lengths))[shuffle]
    after = chop.plan(np.array(lengths)[shuffle], ROW, ties, seed, with_bos=with_bos)
    assert np.array_equal(np.array(shuffle)[after.documents], before.documents)
    assert np.array_equal(after.starts, before.starts)


def test_another_seed_shuffles_documents_otherwise() -> None:
    lengths = np.random.default_rng(3).integers(1, ROW, 500).tolist()
    first, again, other = (planned(lengths, with_bos=True, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.documents, again.documents)
    assert not np.array_equal(first.documents, other.documents)
    assert abs(np.corrcoef(first.documents, np.arange(len(first.documents)))[0, 1]) < 0.3


def test_encodings_of_one_document_stay_behind_each_other_in_their_order() -> None:
    ties = np.repeat(ties_of(40), 3)
    plan = chop.plan(np.full(120, 50), ROW, ties, 17, with_bos=True)
    first = plan.documents[plan.starts == 0].reshape(-1, 3)
    assert np.array_equal(first - first[:, :1], np.tile([0, 1, 2], (40, 1)))
    assert not np.array_equal(first[:, 0], np.arange(0, 120, 3))


def test_no_documents_make_no_rows() -> None:
    plan = chop.cut(np.zeros(0, dtype=np.int64), ROW, with_bos=True)
    assert plan.num_rows == 0
    rows, counts = chop.rows_with_targets(plan, np.zeros(0, dtype=np.int64))
    assert rows.num_rows == 0
    assert counts.divided == 0


@settings(max_examples=30, deadline=None)
@given(LENGTHS, FORMATS, st.integers(1, 4))
def test_rows_joined_are_the_documents_end_to_end(
    lengths: list[int], row_format: RowFormat, block_rows: int
) -> None:
    encodings = [encoding(length, at, row_format) for at, length in enumerate(lengths)]
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(chop, "BLOCK_TOKENS", block_rows * ROW)
        plan, divisions = chopped(Path(folder), encodings, row_format)
        everything = np.arange(len(plan.lengths))
        ids, mask = divisions.ids.take(everything), divisions.loss_mask.take(everything)
    order = [each for each, _ in itertools.groupby(plan.documents.tolist())]
    begins = np.cumsum(plan.lengths) - plan.lengths
    own = np.ones(len(ids), dtype=np.bool_)
    own[begins[plan.with_bos]] = False
    assert (ids[~own] == BOS).all()
    assert np.array_equal(ids[own], np.concatenate([encodings[each].ids for each in order]))
    # Each target counts as it did; without a BOS nothing predicts the first token behind a cut.
    counts = np.concatenate([[0], mask[:-1]])[own]
    expected = np.concatenate([[0, *encodings[each].loss_mask[:-1]] for each in order])
    if not row_format.bos_marks_documents:
        expected[begins[plan.starts > 0]] = 0
    assert np.array_equal(counts, expected)
    assert not mask[np.cumsum(plan.lengths) - 1].any()


@settings(max_examples=20, deadline=None)
@given(LENGTHS, FORMATS)
def test_each_byte_is_in_one_piece_and_pieces_keep_their_kind(
    lengths: list[int], row_format: RowFormat
) -> None:
    encodings = [encoding(length, at, row_format) for at, length in enumerate(lengths)]
    with tempfile.TemporaryDirectory() as folder:
        plan, divisions = chopped(Path(folder), encodings, row_format)
        found: dict[int, list[list[int]]] = {at: [] for at in range(len(lengths))}
        for at, (document, start, with_bos) in enumerate(
            zip(plan.documents.tolist(), plan.starts.tolist(), plan.with_bos.tolist(), strict=True)
        ):
            pieces = divisions.pieces.take(np.array([at])).copy()
            if with_bos:
                assert pieces[0, : TOKEN_END + 1].tolist() == [GENERATED_PIECE, 0, 1]
                assert pieces[0, BYTE_START] == pieces[1, BYTE_START]
                pieces = pieces[1:]
            pieces[:, (TOKEN_START, TOKEN_END)] += start - with_bos
            found[document] += pieces.tolist()
    for at, given_pieces in enumerate(each.pieces for each in encodings):
        assert _joined(found[at]) == given_pieces.tolist()


def _joined(pieces: list[list[int]]) -> list[list[int]]:
    """Pieces of one kind that continue each other become one."""
    joined: list[list[int]] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last and (last[KIND], last[TOKEN_END], last[BYTE_END]) == (
            piece[KIND], piece[TOKEN_START], piece[BYTE_START],
        ):  # fmt: skip
            last[TOKEN_END], last[BYTE_END] = piece[TOKEN_END], piece[BYTE_END]
        else:
            joined.append([*piece])
    return joined


@pytest.mark.parametrize("row_format", [WITH_BOS, WITHOUT_BOS], ids=["bos", "no bos"])
def test_rows_that_were_cut_keep_the_contract(tmp_path: Path, row_format: RowFormat) -> None:
    lengths = np.random.default_rng(5).integers(2, 2 * ROW, 200).tolist()
    encodings = [encoding(length, at, row_format) for at, length in enumerate(lengths)]
    counts = written(tmp_path, encodings, row_format)
    report = check(tmp_path)
    report.raise_first()
    assert report.rows == sum(
        len(each) for each in read_rows(sorted(tmp_path.glob("data/*.parquet")))
    )
    assert report.valid_tokens == sum(lengths) + (
        counts.begun_inside if row_format.bos_marks_documents else 0
    )
    assert counts.begun_inside > 0.9 * report.rows
    assert 0 < counts.divided <= counts.begun_inside
    assert counts.unscored_rows == 0


def test_rows_without_a_target_are_left_out_and_counted(tmp_path: Path) -> None:
    silent = encoding(3 * ROW, 0, WITHOUT_BOS)
    silent.loss_mask[:] = 0
    silent.loss_mask[2] = 1
    counts = written(tmp_path, [silent], WITHOUT_BOS)
    assert (counts.unscored_rows, counts.unscored_row_tokens) == (2, 2 * ROW)
    assert (counts.begun_inside, counts.divided) == (0, 1)
    assert check(tmp_path).rows == 1
