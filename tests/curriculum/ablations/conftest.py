"""An ablation of the sample corpus that a CPU trains in a minute, and its outcome."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from curriculum.ablations.ablate import Outcome, ablate
from curriculum.ablations.arms import Arm, load_ablation
from curriculum.ablations.planned_arms import PlannedArm, train_arm
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import run_in_process
from curriculum.store import Artefact

STEP, STEPS = 1024, 23
DIET: dict[str, object] = {
    "specialist": "small",
    "corpus": "sample",
    "phases_file": "phases.demo",
    "vocab_size": 800,
    "model": "tiny",
    "token_budget": 24_000,
    "tokens_per_step": STEP,
    "phases": [
        {"phase": "syntax", "portion": 1.0, "servings": [{"family": "v2_simple", "share": 1.0}]}
    ],
}


TWO_PHASES = [
    {"phase": name, "portion": 0.5, "servings": [{"family": family, "share": 1.0}]}
    for name, family in (("syntax", "v2_simple"), ("file_graph", "v4_context_graph"))
]
SHORT = {**DIET, "token_budget": 8 * STEP, "phases": TWO_PHASES}
"""Eight steps in two phases."""


def written_ablation(
    folder: Path,
    name: str,
    claims: Sequence[dict[str, str]] = (),
    *,
    diet: dict[str, object] = DIET,
    **arms: object,
) -> Path:
    """Write an ablation of two seeds; without claims one says of each arm that it is worse."""
    (folder / "diet.yaml").write_text(yaml.safe_dump(diet))
    worse = [{"claim": f"{arm} is worse", "arm": arm, "direction": "higher"} for arm in arms]
    file = folder / f"{name}.yaml"
    content = {
        "name": name,
        "diet": "./diet.yaml",
        "arms": arms,
        "seeds": [1, 2],
        "claims": [*claims] or worse,
    }
    file.write_text(yaml.safe_dump(content))
    return file


def run(file: Path, home: Path) -> tuple[Outcome, Artefact, list[Arm]]:
    begun: list[Arm] = []
    context = Context()

    def train(planned: PlannedArm) -> tuple[Artefact, ...]:
        begun.append(planned.arm)
        return train_arm(planned, run_in_process(context), context)

    outcome, made = ablate(load_ablation(file), file, home, context, train=train)
    return outcome, made, begun


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ablations")


UNMASKED = {"study": {"document_mask": "off"}}
CONTINUED = {"study": {"positions": "continue"}}


@pytest.fixture(scope="package")
def first(home: Path) -> tuple[Outcome, Artefact]:
    outcome, made, begun = run(written_ablation(home, "masks", unmasked=UNMASKED), home / "ws")
    assert len(begun) == 8
    return outcome, made
