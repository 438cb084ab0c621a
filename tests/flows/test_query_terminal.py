"""Answers can't control a terminal; pipes and files get the bytes unchanged."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from flows.cli.app import AnswerFormat
from flows.cli.query import query

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eabc\u2066\x7fß"
SQL = """SELECT chr(27) || ']0;title' || chr(7) || chr(27) || '[2J' || chr(155) || '31m' || chr(8238) || 'abc'
|| chr(8294) || chr(127) || 'ß' AS evil, 'plain' AS "na\x1bme" """
CONTROLS = {
    *map(chr, (*range(9), *range(11, 13), *range(14, 32), *range(127, 160))),
    "\u202e",
    "\u2066",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty workspace."""
    return tmp_path


def _on_a_terminal(home: Path, form: AnswerFormat, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an answer as a terminal receives it."""
    ours, theirs = os.openpty()
    sent = bytearray()

    def read() -> None:
        while chunk := os.read(ours, 1 << 16):
            sent.extend(chunk)
            if b"END" in sent:
                return

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        assert sys.stdout.isatty()
        query(home, SQL, form=form)
        screen.write("END")
        screen.flush()
        monkeypatch.undo()
        reader.join()
    os.close(ours)
    return sent.decode()


@pytest.mark.parametrize("form", [AnswerFormat.CSV, AnswerFormat.JSON, AnswerFormat.JSONL])
def test_a_terminal_is_sent_no_control_character_of_an_answer(
    home: Path, form: AnswerFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _on_a_terminal(home, form, monkeypatch)
    assert not CONTROLS & set(shown)
    assert "]0;title" in shown
    assert "plain" in shown
    assert "ß" in shown


def test_a_pipe_and_a_file_get_the_bytes_as_they_are(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", pipe)
    query(home, SQL, form=AnswerFormat.CSV)
    monkeypatch.undo()
    assert isinstance(pipe.buffer, io.BytesIO)
    lines = f"evil,na\x1bme\n{EVIL},plain\n"
    assert pipe.buffer.getvalue().decode() == lines
    assert set(lines) & CONTROLS, "there was something to be shown otherwise"
    file = tmp_path / "answer.csv"
    query(home, SQL, form=AnswerFormat.CSV, file=file)
    assert file.read_bytes().decode() == lines
