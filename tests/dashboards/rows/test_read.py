"""Rows come back with their documents, each down to its commit."""

import doctest
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.inspection import row_view as inspected_rows
from curriculum.inspection.row_view import sources_of, spread
from curriculum.store import Artefact
from dashboards.rows import row_page


class _Rows:
    """Rows of nothing but their names, in a few files."""

    def __init__(self, folder: Path, sizes: list[int]) -> None:
        self._files = []
        number = 0
        for at, size in enumerate(sizes):
            names = [str(number + each) for each in range(size)]
            self._files.append(folder / f"part-{at:05d}.parquet")
            pq.write_table(
                pa.table({"pack_id": pa.array(names, pa.string())}),
                self._files[-1],
                row_group_size=2,
            )
            number += size

    def shards(self) -> list[Path]:
        return self._files


def _nine(folder: Path) -> Any:
    return _Rows(folder, [4, 5])


@pytest.mark.parametrize("module", [inspected_rows, row_page])
def test_examples_hold(module: Any, tmp_path: Path) -> None:
    names = {"rows_of_nine": _nine(tmp_path), "spread": spread}
    done = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (done.failed, done.attempted > 0) == (0, True)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 9))
def test_rows_are_taken_once_each_in_order_from_all_over_an_artefact(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int
) -> None:
    rows: Any = _Rows(tmp_path_factory.mktemp("spread"), sizes)
    taken = [int(line["pack_id"]) for line in spread(rows, most)]
    assert len(taken) == min(most, sum(sizes))
    assert taken == sorted(set(taken))
    assert all(0 <= each < sum(sizes) for each in taken)
    gaps = [later - sooner for sooner, later in itertools.pairwise(taken)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_each_document_of_a_row_has_its_tokens_its_bytes_and_where_it_came_from(
    rows_home: Any,
) -> None:
    one, three, _ = rows_home.shown()
    assert [len(each.documents) for each in (one, three)] == [1, 3]
    assert three.spans[0][0] == 0
    assert three.spans[-1][1] == three.valid_token_count
    for at, part in enumerate(three.documents):
        assert part.licence == "MIT"
        assert part.path == f"src/f{at}.cpp"
        assert part.commit.startswith(f"{at}c")
        assert part.first_byte == 0
        assert part.last_byte == part.num_bytes
        assert part.scored == sum(three.loss_mask[part.start : part.end])
    assert sum(end - start for start, end in three.generated) == 3, "a BOS a document"
    assert 0 < three.density < one.density * 9


def test_a_document_whose_artefact_is_gone_is_unknown_and_the_rest_is_there(rows_home: Any) -> None:
    alone = inspected_rows.row_views(spread(rows_home.rows, 1), [])[0]
    document = alone.documents[0]
    assert (document.repository, document.commit, document.files) == ("?", "", ())
    assert document.document_id == alone.document_ids[0]


def test_only_what_is_asked_for_is_found(rows_home: Any) -> None:
    artefact: Artefact = rows_home.documents[0]
    wanted = rows_home.shown()[1].document_ids[1]
    assert [*sources_of([artefact], {wanted, "0" * 32})] == [wanted]
