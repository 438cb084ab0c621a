import re
from pathlib import Path

import pytest

from schemas.errors import StoreError
from schemas.json_text import read_json
from schemas.text import Strict


class Point(Strict):
    """Something that a file holds."""

    x: int
    y: int


def read(file: Path) -> Point:
    return read_json(Point, file, error=StoreError, cause="it is no point", cure="Draw it anew")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "point.json"
    file.write_text(Point(x=1, y=2).model_dump_json())
    assert read(file) == Point(x=1, y=2)


@pytest.mark.parametrize(
    ("held", "fault"),
    [
        (b'{"x": 1, "y": "two"}', "y: Input should be a valid integer"),
        (b'{"x": 1}', "y: Field required"),
        (b'{"x": 1, "y": 2, "z": 3}', "z: Extra inputs are not permitted"),
        (b'{"x": 1, "y"', "the file: Invalid JSON"),
        (b"", "the file: Invalid JSON"),
        (b'"\xff"', "the file: Invalid JSON"),
    ],
)
def test_what_is_something_else_is_named_with_its_first_fault(
    tmp_path: Path, held: bytes, fault: str
) -> None:
    file = tmp_path / "point.json"
    file.write_bytes(held)
    said = rf"point\.json: {re.escape(fault)}.*; it is no point\. Draw it anew"
    with pytest.raises(StoreError, match=said):
        read(file)
