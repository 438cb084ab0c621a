"""Explanations of artefacts that somebody else may have made are lines of their own, whatever these say."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from curriculum.pipeline.explanations import explain_steps, reason_lines, why
from curriculum.store import Recipe, StagingDirectory, Store

FORGED = "\nerror: forged\r\n\x1b[31m"


def recipe(config: dict[str, JsonValue], **tools: str) -> Recipe:
    return Recipe(
        stage="documents",
        labels=(("family", "v2_simple"),),
        revision=1,
        config=config,
        tools=tools,
    )


def fill(drafts: Sequence[StagingDirectory]) -> None:
    (drafts[0].path / "text.json").write_text("{}")


@pytest.mark.parametrize(
    ("config", "tools"),
    [
        ({"limit": FORGED}, {}),
        ({f"limit{FORGED}": 1}, {}),
        ({"limit": {FORGED: [FORGED]}}, {}),
        ({}, {f"git{FORGED}": "1"}),
        ({}, {"git": FORGED}),
    ],
)
def test_line_feeds_of_a_manifest_begin_no_line(
    tmp_path: Path, config: dict[str, JsonValue], tools: dict[str, str]
) -> None:
    Store(tmp_path).produce([recipe(config, **tools)], fill)
    dry, now = Store(tmp_path, dry=True), recipe({"limit": 2})
    dry.produce([now], fill)
    assert [step.outcome for step in dry.steps] == ["planned"]
    lines = [line for reason in explain_steps(dry, dry.steps) for line in reason.differences]
    shown = [*lines, why(dry, now), *(str(line["why"]) for line in reason_lines(dry))]
    assert any("forged" in line for line in lines)
    assert [line for line in shown if len(line.splitlines()) > 1 or not line.isprintable()] == []
