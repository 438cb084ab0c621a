"""JSON from elsewhere: what parsers disagree on, what is deep, huge or no file, is refused in one line."""

import json
import os
from pathlib import Path

import pytest

from schemas import regular_files
from schemas.errors import StoreError
from schemas.json_text import DEEPEST, Sealed, parse_json, read_json
from schemas.text import Strict


class Note(Sealed):
    """A sealed file."""

    text: str


class Held(Strict):
    """A file without a seal."""

    values: dict[str, object]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[" * 100_000 + "]" * 100_000, "levels of nesting"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "levels of nesting"),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "levels of nesting"),
        ("[" * 100_000, "levels of nesting"),
        ("9" * 5_000, "5,000 digits"),
        ("[NaN]", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("1e999", "exceeds the largest number"),
        ('{"a": 1, "b": {"c": 2, "c": 3}}', "'c' occurs twice"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ('"\ud800"', "lone surrogate"),
        ("\ufeff{}", "BOM"),
        ('{"a": "\x01"}', "control character"),
        ("01", "Extra data"),
        (b"\xff", "can't decode byte 0xff"),
        ('{"a": 1}'.encode("utf-16"), "can't decode byte"),
        ("", "Expecting value"),
    ],
)  # fmt: skip
def test_what_is_no_strict_json_is_refused_in_one_line(text: str | bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as refused:
        parse_json(text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_python_by_itself_reads_what_is_no_strict_json() -> None:
    """The control of the test above."""
    for text in ("[NaN]", "-Infinity", "1e999", '{"a": 1, "a": 2}', '{"a": "\\ud800"}'):
        json.loads(text)
    with pytest.raises(RecursionError):
        json.loads("[" * 100_000)


@pytest.mark.parametrize(
    "text", ["[" * DEEPEST + "]" * DEEPEST, '"\\ud83d\\udc4d"', '{"a": 1, "b": [1.5e-3, -0, null]}']
)
def test_strict_json_is_read_as_python_reads_it(text: str) -> None:
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"text": NaN}', '{"text": "a", "text": "b"}'])
def test_a_record_of_ours_that_is_no_strict_json_is_refused_by_its_file(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "note.json"
    for model in (Note, Held):
        file.write_text(text)
        with pytest.raises(StoreError, match=r"note\.json: the file: "):
            read_json(model, file, error=StoreError, cause="a", cure="b")


def test_a_duplicate_name_does_not_pass_under_the_digest_of_its_last_value(tmp_path: Path) -> None:
    file = tmp_path / "note.json"
    sealed = Note(text="b").model_dump_json()
    file.write_text(sealed)
    assert read_json(Note, file, error=StoreError, cause="a", cure="b").text == "b"
    file.write_text(sealed.replace("{", '{"text":"a",', 1))
    with pytest.raises(StoreError, match="'text' occurs twice"):
        read_json(Note, file, error=StoreError, cause="a", cure="b")


@pytest.mark.timeout(20)
def test_neither_a_pipe_nor_a_device_nor_a_file_without_end_is_waited_for(tmp_path: Path) -> None:
    pipe, device, long = (tmp_path / name for name in ("pipe", "device", "long"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    with long.open("wb") as made:
        made.truncate(1 << 40)
    for file, fault in (
        (pipe, "not a regular file"),
        (device, "not a regular file"),
        (long, "more than"),
    ):
        with pytest.raises(ValueError, match=fault):
            regular_files.read(file, follow_links=True)
        with pytest.raises(StoreError, match=fault):
            read_json(Note, file, error=StoreError, cause="a", cure="b")
