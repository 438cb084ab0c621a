"""Steps that a changed diet repeats, and the workspace after a kill."""

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from curriculum.mixing.diet_files import DIETS
from curriculum.pipeline.context import Context
from curriculum.pipeline.phase_training import train_phase
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Store
from tests.flows.cli_runner import PROGRAM, curriculum


def walked(order: RunConfig) -> tuple[RunPlan, Counter[tuple[str, str]]]:
    """A dry walk through all phases: what is there and what would be made, by stage."""
    plan = resolve_plan(order, dry=True)
    for phase in plan.phases:
        built = build_phase(plan, phase.name, Context())
        mixture = mix_phase(plan, phase.name, built, Context())
        train_phase(plan, phase.name, built, mixture, retrain=False, context=Context())
    steps = {step.recipe.key: step for step in plan.store.steps}.values()
    return plan, Counter((step.recipe.stage, step.outcome) for step in steps)


def test_nothing_is_made_again_where_nothing_changed(demo_home: Path) -> None:
    _, outcomes = walked(RunConfig.of(specialist="templates.demo", workspace=demo_home))
    assert {outcome for _, outcome in outcomes} == {"there"}
    assert outcomes["rows", "there"] > 5


def test_changing_a_share_remakes_mixture_and_runs_and_not_the_rows(
    demo_home: Path, tmp_path: Path
) -> None:
    diet = tmp_path / "changed.yaml"
    text = (DIETS / "templates.demo.yaml").read_text()
    changed = text.replace("share: 0.6}", "share: 0.5}").replace("share: 0.2}", "share: 0.3}", 1)
    assert changed != text
    diet.write_text(changed)
    _, outcomes = walked(RunConfig.of(specialist=str(diet), workspace=demo_home))
    planned = {stage for stage, outcome in outcomes if outcome == "planned"}
    assert planned == {"mixtures", "runs"}


def test_another_tokenizer_remakes_tokens_and_rows_and_not_the_documents(
    demo_home: Path, tmp_path: Path
) -> None:
    (given,) = demo_home.glob("tokenizers/*/tokenizer.json")
    mine = tmp_path / "tokenizer.json"
    mine.write_text(given.read_text() + "\n")
    order = RunConfig.of(specialist="templates.demo", workspace=demo_home, tokenizer=str(mine))
    _, outcomes = walked(order)
    planned = {stage for stage, outcome in outcomes if outcome == "planned"}
    assert planned == {"tokenizers", "tokens", "rows", "mixtures", "runs"}
    documents = [*Store(demo_home, dry=True).artefacts("documents")]
    assert outcomes["documents", "there"] == len(documents) > 12


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_mix_goes_on_and_equals_an_uninterrupted_one(
    demo_home: Path, tmp_path: Path, seed: int
) -> None:
    homes = [tmp_path / "killed", tmp_path / "whole"]
    for home in homes:
        left_out = shutil.ignore_patterns("runs", "mixtures", "prefect", "current", ".locks")
        shutil.copytree(demo_home, home, ignore=left_out)
    words = ["mix", "templates.demo", "--phase", "syntax", "--seed", str(seed)]
    with subprocess.Popen(
        [PROGRAM, *words, "--home", str(homes[0])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and not list(homes[0].glob(".drafts/*")):
            time.sleep(0.001)
        time.sleep(random.Random(seed).uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
    contents = []
    for home in homes:
        done = curriculum(*words, home=home)
        assert done.returncode == 0, done.stderr
        (mixture,) = Store(home).artefacts("mixtures")
        contents.append((mixture.key, mixture.content))
    assert contents[0] == contents[1]
