"""Reading a row and answering a question enter few lines: guards stand at doors, and not on the way."""

from collections.abc import Callable

from curriculum.catalog import query
from curriculum.train.dataloader import PlannedRows
from tests.curriculum.train.conftest import World
from tests.entered_lines import entered_lines

MAX_LINES_OF_A_ROW, MAX_LINES_OF_A_QUERY = 300, 1150


def _lines(call: Callable[[], object], *, through: str) -> int:
    lines = entered_lines(call)
    assert lines[through] > 0
    return lines.total()


def test_a_training_row_is_read_through_at_most_300_lines(world: World) -> None:
    # A manifest is read once by a process, for all rows of its artefact.
    PlannedRows.of(world.job(), world.store.root)[0]
    rows = PlannedRows.of(world.job(), world.store.root)
    lines = _lines(lambda: rows[0], through="curriculum/packing/read.py")
    assert 0 < lines <= MAX_LINES_OF_A_ROW


def test_a_question_is_answered_through_at_most_1150_lines(world: World) -> None:
    home = world.store.root
    query(home, "SELECT 1")
    count = "SELECT count(*) FROM rows"
    lines = _lines(lambda: query(home, count), through="curriculum/catalog/answer.py")
    assert 0 < lines <= MAX_LINES_OF_A_QUERY
