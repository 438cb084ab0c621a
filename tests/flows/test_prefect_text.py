"""Foreign text stays text on Prefect's pages and in logs."""

import logging

import pytest
from prefect.logging import disable_run_logger

from flows import artifacts
from schemas.visible import visible

EVIL = (
    "![i](http://evil.example/i.png)", "[l](javascript:alert(1))", "<script>alert(1)</script>", "<b>b</b>",
    "&#x202e;", "*b* _b_ **b** `c` ~~s~~", "http://evil.example", "www.evil.example", "a@evil.example",
    "# head", "> quote", "| a | b |", "- item", "$x$",
)  # fmt: skip
ACTIVE = "\\`*[]<>!#&|~@$"
"""Characters that can start a markdown element."""


def test_examples_of_escaped_markdown_hold() -> None:
    assert artifacts.unmarked("v2_simple, 1.5 of 12") == "v2_simple, 1.5 of 12"
    assert artifacts.unmarked("\u202e\n") == r"\\u202e\\n"


@pytest.mark.parametrize("text", EVIL)
def test_nothing_in_a_text_begins_markup(text: str) -> None:
    said = artifacts.unmarked(text)
    left = said.replace("\\\\", "")
    for letter in ACTIVE:
        assert left.count(letter) == left.count(f"\\{letter}") or letter == "\\"
    assert "://" not in said.replace(r"\://", "")
    assert "www." not in said
    assert not said.startswith(("-", "+", "="))


def test_tables_and_bars_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(artifacts, "create_table_artifact", lambda *a, **k: made.extend([*a, k]))
    monkeypatch.setattr(artifacts, "create_link_artifact", lambda *a, **k: made.extend([*a, k]))
    monkeypatch.setattr(artifacts, "_delete_earlier", lambda key: None)
    with disable_run_logger():
        artifacts.show("x", EVIL[0], [{"domain": EVIL[0], "rows": 3}])
        artifacts.link("x", EVIL[2], "https://here.example")
    said = str(made)
    assert "![i]" not in said
    assert "<script>" not in said
    assert "'rows': 3" in said
    assert r"\\!\\[i\\]" in said


def test_a_log_has_no_raw_control_character(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("a.run")
    monkeypatch.setattr(artifacts, "get_run_logger", lambda: logger)
    with caplog.at_level(logging.INFO, logger="a.run"):
        artifacts.Log().info("50 %d \x1b[31m\u202e")
        artifacts.Log().warning("\x07")
    assert caplog.messages == [r"50 %d \x1b[31m\u202e", r"\x07"]
    assert [visible(each) for each in caplog.messages] == caplog.messages
