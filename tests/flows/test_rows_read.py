"""The next rows of a phase depend on the rows that earlier phases read, not on their plans."""

from pathlib import Path

import polars as pl
import pytest

from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact, Recipe
from tests import factories
from tests.curriculum.pipeline.tiny_diet import edit, write_tiny_diet
from tests.flows.cli_runner import curriculum

STEPS = 5
"""Steps after which the gate ends the phase."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which a phase and its anneal, which reads the same rows, are mixed."""
    home = tmp_path_factory.mktemp("gated") / "home"
    write_tiny_diet(home)
    diet = home / "diets" / "tiny.yaml"
    start, _, last = diet.read_text().partition("  - phase: syntax")
    last = last[last.index("  - phase: file_graph") :]
    diet.write_text(f"{start}{last}anneal: {{portion: 0.25}}\n")
    edit(home, "diets/tiny.yaml", "token_budget: 4K", "token_budget: 48K")
    edit(home, "diets/tiny.yaml", "portion: 0.5", "portion: 0.75")
    mixed(home)
    return home


def mixed(home: Path) -> None:
    done = curriculum("mix", "tiny", "--workers", "1", home=home)
    assert done.returncode == 0, done.stdout + done.stderr


def resolved(home: Path) -> RunPlan:
    return resolve_plan(RunConfig.of(specialist="tiny", workspace=home, workers=1))


def mixture_of(plan: RunPlan, phase: str) -> Artefact:
    found = plan.current("mixtures", plan.phase(phase))
    assert found is not None
    return found


def drawn_before(mixture: Artefact) -> int:
    return sum(stratum.drawn_before for stratum in report_of(mixture).strata)


def train(plan: RunPlan, *, steps: int, attempt: int) -> None:
    """Leave what a run of the first phase leaves that reads `steps` steps of its plan."""
    labels = (("specialist", "tiny"), ("phase", "file_graph"))
    inputs = (mixture_of(plan, "file_graph").as_input("plan"),)
    recipe = Recipe(stage="runs", labels=labels, revision=1, inputs=inputs)
    folder = plan.store.root / recipe.directory / f"attempt={attempt}"
    folder.mkdir(parents=True)
    said = factories.run_report(phase="file_graph", attempt=attempt, stopped="gate", reason="why")
    said = said.model_copy(update={"steps": steps})
    (folder / "report.json").write_text(said.model_dump_json())
    kept = said.model_dump(mode="json")
    run = plan.store.publish_run(folder, recipe, kept, content=f"attempt {attempt}")
    plan.keep("runs", plan.phase("file_graph"), run)


def test_rows_that_a_gate_left_unread_come_first_in_the_next_phase(home: Path) -> None:
    plan = resolved(home)
    mixture, planned = mixture_of(plan, "file_graph"), mixture_of(plan, "anneal")
    report = report_of(mixture)
    rows = pl.read_parquet(mixture.path / PLAN_NAME)
    assert report.steps > STEPS
    assert drawn_before(planned) == report.rows == len(rows)
    train(plan, steps=STEPS, attempt=1)
    mixed(home)
    anneal = mixture_of(resolved(home), "anneal")
    assert anneal.key != planned.key
    read = rows.filter(pl.col("slot") < STEPS * report.tokens_per_step // report.slot_length)
    assert drawn_before(anneal) == len(read) < len(rows)
    after = pl.read_parquet(anneal.path / PLAN_NAME)
    unread = 0
    for stratum in report_of(anneal).strata:
        mine, then = (part.filter(stratum=stratum.stratum)["pack_id"] for part in (read, after))
        assert stratum.drawn_before == len(mine)
        left = max(stratum.rows - len(mine), 0)
        assert not {*mine} & {*then.head(left)}
        unread += left
    assert mixture_of(resolved(home), "file_graph").key == mixture.key
    asked = "SELECT sum(rows_never_seen) FROM epochs('tiny', 'file_graph')"
    said = curriculum("query", asked, "--format", "csv", home=home).stdout.splitlines()
    assert said[1:] == [str(unread)]

    train(plan, steps=report.steps, attempt=2)
    mixed(home)
    assert mixture_of(resolved(home), "anneal").key == planned.key


def test_a_run_of_another_plan_reads_none_of_a_plans_rows(home: Path) -> None:
    plan = resolved(home)
    train(plan, steps=1, attempt=3)
    done = curriculum("mix", "tiny", "--seed", "5", "--workers", "1", home=home)
    assert done.returncode == 0, done.stderr
    reseeded = resolved(home)
    rows = report_of(mixture_of(reseeded, "file_graph")).rows
    assert drawn_before(mixture_of(reseeded, "anneal")) == rows
