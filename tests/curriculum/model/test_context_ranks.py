"""Rows shared by ranks: what each computes of them is what one process computes, gradients included."""

import pytest
import torch

from curriculum.model.masks import Boundaries, ContextRanks, RowPart
from schemas.errors import SchemaError
from tests.curriculum.model import context_ranks
from tests.curriculum.model.context_ranks import CASES, FORGETFUL, RANKS, ROWS, T
from tests.rank_processes import results_of_ranks


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, float]]]:
    """The largest difference of each case, by the number of ranks, as each of four processes found it."""
    found: list[dict[str, dict[str, float]]] = results_of_ranks(
        context_ranks.__name__, RANKS, tmp_path_factory.mktemp("ranks")
    )
    return found


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_outputs_loss_and_gradients_are_those_of_one_process(
    differences: list[dict[str, dict[str, float]]], case: str, size: int
) -> None:
    for each in differences:
        assert each[case][str(size)] <= 1e-12


@pytest.mark.parametrize("size", [2, 4])
def test_a_state_that_is_not_passed_on_would_show(
    differences: list[dict[str, dict[str, float]]], size: int
) -> None:
    assert all(each[FORGETFUL][str(size)] > 1e-4 for each in differences)


def test_the_documents_span_begin_at_and_fill_parts() -> None:
    for size in (2, 4):
        borders = set(range(T // size, T, T // size))
        edges = [{sum(row[:i]) for i in range(len(row))} for row in ROWS]
        assert any(borders <= each for each in edges)
        assert any(not borders & each for each in edges)
        assert any({border + 1 for border in borders} & each for each in edges)
        assert any({border - 1 for border in borders} & each for each in edges)
    assert {1, T} <= {length for row in ROWS for length in row}


def context(rank: int, size: int) -> ContextRanks:
    return ContextRanks(rank=rank, size=size, group=None)


def cut(*lengths: int) -> Boundaries:
    ids = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    return Boundaries.from_doc_ids(ids[None])


def test_a_part_holds_what_a_convolution_reads_before_it() -> None:
    first, second = (RowPart.from_boundaries(cut(3, 5), context(rank, 2), 2) for rank in (0, 1))
    assert first.near.doc_ids.tolist() == [[-1, -1, 0, 0, 0, 1]]
    assert second.near.doc_ids.tolist() == [[0, 1, 1, 1, 1, 1]]
    assert [each.tolist() for each in (second.fills, second.continues)] == [
        [[False], [True]],
        [[False], [True]],
    ]
    assert not RowPart.from_boundaries(cut(4, 4), context(1, 2), 2).continues.any()


def test_rows_that_ranks_do_not_divide_are_refused() -> None:
    with pytest.raises(SchemaError, match="3 ranks"):
        RowPart.from_boundaries(cut(8), context(0, 3), 2)


def test_parts_shorter_than_a_convolution_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"2 positions.* 3\b"):
        RowPart.from_boundaries(cut(8), context(0, 4), 3)
