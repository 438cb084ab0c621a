"""Reading a row and running a query execute few lines: checks happen once, where data enters."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.path_length import lines_of
from curriculum.catalog import query
from curriculum.train.dataloader import PlannedRows
from tests.curriculum.train.conftest import World

MIN_LINES, MAX_LINES_OF_A_ROW, MAX_LINES_OF_A_QUERY = 100, 300, 1150


@pytest.mark.parametrize("structure", [False, True])
def test_a_training_row_is_read_through_at_most_300_lines(
    tmp_path: Path, make_world: Callable[..., World], structure: bool
) -> None:
    world = make_world(tmp_path / "workspace", enriched=(256, 128) if structure else ())
    model = world.job().model.model_copy(update={"structure": structure})
    job, root = world.job(model=model), world.store.root
    # A manifest is read once by a process, for all rows of its artefact.
    assert (PlannedRows.from_job(job, root)[0].structure is not None) is structure
    rows = PlannedRows.from_job(job, root)
    assert MIN_LINES < lines_of(lambda: rows[0]) <= MAX_LINES_OF_A_ROW


def test_a_question_is_answered_through_at_most_1150_lines(world: World) -> None:
    home = world.store.root
    query(home, "SELECT 1")
    lines = lines_of(lambda: query(home, "SELECT count(*) FROM rows"))
    assert MIN_LINES < lines <= MAX_LINES_OF_A_QUERY
