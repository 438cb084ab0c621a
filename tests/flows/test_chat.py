"""A phase of conversations uses the same steps, and its figure counts the assistant's bytes."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from curriculum.inspection.build_tables import graph_lines
from curriculum.inspection.conversation_tables import conversation_lines, conversation_warnings
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.runs import report_of
from curriculum.pipeline.context import Context
from curriculum.pipeline.phase_training import train_phase
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.references import Reference
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.stages import Built
from curriculum.store import Artefact, Store
from flows.cli.inspect.command import as_page, look
from schemas.errors import CorpusError, DietError
from schemas.job import Report

pytestmark = pytest.mark.system

DIET = """
specialist: talker
phases_file: phases.demo
corpus: sample
vocab_size: 700
model: tiny
token_budget: 12K
phases:
  - phase: syntax
    portion: 1
    servings:
      - {family: chat, share: 0.75}
      - {family: v2_simple, share: 0.25}
    max_repetition: 20
"""


def order(folder: Path, diet: str = DIET, **more: Any) -> RunConfig:
    file = folder / "talker.yaml"
    file.write_text(diet)
    given: dict[str, Any] = {"versions_per_path": 1, "max_commits": 20, "workers": 1, **more}
    return RunConfig.of(specialist=str(file), workspace=folder / "home", **given)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, Artefact, Report]:
    """Return build, run and report of a phase of conversations."""
    plan = resolve_plan(order(tmp_path_factory.mktemp("talker")))
    built = build_phase(plan, "syntax", Context())
    mixture = mix_phase(plan, "syntax", built, Context())
    run = train_phase(plan, "syntax", built, mixture, retrain=False, context=Context())
    return built, mixture, report_of(run)


def test_a_phase_of_conversations_trains_and_its_loss_falls(
    trained: tuple[Built, Artefact, Report],
) -> None:
    _, _, report = trained
    assert report.stopped == "budget"
    before, after = (
        next(each for each in figures if (each.set, each.family) == ("phase", "chat"))
        for figures in (report.before, report.after)
    )
    assert after.val_bpb < before.val_bpb


def test_val_bpb_counts_the_bytes_of_the_assistant_and_no_others(
    trained: tuple[Built, Artefact, Report],
) -> None:
    built, _, report = trained
    (rows,) = [each for each in built.rows if each.wanted.family == "chat"]
    encoded: Any = rows.splits[1].manifest.report["encode"]
    (figure,) = [each for each in report.after if (each.set, each.family) == ("phase", "chat")]
    assert figure.domain == "chat"
    assert figure.scored_bytes == encoded["objective"]["assistant_bytes"] > 0
    assert figure.scored_tokens > encoded["objective"]["turns_ended_by_token"] > 0


def test_a_build_says_what_conversations_came_to(trained: tuple[Built, Artefact, Report]) -> None:
    built, _, _ = trained
    (line,) = conversation_lines(built)
    assert (line["conversations"], line["documents"], line["lines skipped"]) == ("talks", 30, 0)
    assert [*conversation_warnings(built)] == []
    assert [*graph_lines(built)] == []


def shown(artefact: Artefact, options: InspectOptions) -> str:
    console = Console(record=True, width=120, color_system=None)
    for piece in look(Store.containing(artefact.path), Reference(artefacts=(artefact,)), options):
        console.print(piece)
    return console.export_text()


def test_a_conversation_and_its_row_show_who_speaks(
    trained: tuple[Built, Artefact, Report],
) -> None:
    built, _, _ = trained
    (documents,) = [each for each in built.documents if each.manifest.labels["family"] == "chat"]
    told = shown(documents, InspectOptions(rows=1))
    assert "conversations.jsonl:1" in told
    assert [word for line in told.splitlines() for word in line.split()[3:4] if "■" in line] == [
        "system",
        "user",
        "assistant",
    ]
    assert "▎Is there a standard way to keep a value between two bounds?" in told
    assert " ·  · " not in told
    (rows,) = [each.train for each in built.rows if each.wanted.family == "chat"]
    told = shown(rows, InspectOptions(rows=1, full=True))
    assert "<|end_of_turn|><|assistant|>" in told
    page = as_page(Store.containing(documents.path), documents, InspectOptions(rows=1))
    assert "assistant" in page


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        (("family: chat", "family: chat, objective: causal"), DietError, "Remove objective"),
        (("v2_simple", "v2_simple, objective: chat"), DietError, "v2_simple has no turns"),
        (
            ("share: 0.75", "share: 0.75, repositories: [arena]"),
            DietError,
            "Available: talks",
        ),
    ],
)
def test_a_diet_that_asks_what_conversations_are_not_is_refused_with_the_cure(
    tmp_path: Path, changed: tuple[str, str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        resolve_plan(order(tmp_path, DIET.replace(*changed)))


def test_a_corpus_without_conversations_is_refused_before_anything_is_written(
    tmp_path: Path, sample_clone: Path
) -> None:
    asked = order(tmp_path, repositories=(str(sample_clone),))
    with pytest.raises(CorpusError, match="family chat"):
        resolve_plan(asked)
    assert not asked.workspace.exists()
