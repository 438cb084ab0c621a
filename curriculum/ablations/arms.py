"""Arms of an ablation: each arm with each seed becomes a diet in the workspace."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from curriculum.mixing.diet_files import PATHS, DietOverrides, is_path, load_diet, merge_diets
from curriculum.pipeline.run_config import RunConfig
from schemas.ablation import BASE, CONTROL, NULL, AblationSpec, arm_title
from schemas.diet import Diet
from schemas.errors import DietError
from schemas.regular_files import expanded
from schemas.text import parse, text_of

CONTROL_SHARE = 4
"""Number that the token budget is divided by for the control arm."""
NULL_ORDER = 1_000_003
"""Number that is added to the seed to get the null arm's order_seed."""
FIELDS_OF_AN_ABLATION = ("extends", "specialist", "branch", "seed")
"""Fields of a diet that the ablation itself sets. Arms can't set them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """Arm with one seed, and the configuration of its run."""

    name: str
    seed: int
    config: RunConfig

    @property
    def title(self) -> str:
        """Arm and seed as text: flat, seed 2."""
        return arm_title(self.name, self.seed)


def load_ablation(file: Path) -> AblationSpec:
    """Read an ablation file.

    Raises:
        DietError: for a mistake; names the file and the line.
    """
    return parse(AblationSpec, text_of(file, error=DietError), file=str(file), error=DietError)


def write_arms(
    spec: AblationSpec, file: Path, workspace: Path, repositories: Sequence[str] = ()
) -> list[Arm]:
    """Write the diet of each arm and seed into the workspace, and return the arms, seed by seed.

    `repositories` are paths that replace the repositories of the diet's corpus.

    The diets have no gates and no requirements of phases. Their budgets count row positions. Therefore, all
    arms train equally many steps.

    Raises:
        DietError: for a diet that can't be found or read, a diet with its own trainer, and an arm that sets
            fields of the ablation.
    """
    name = str(file.absolute().parent / expanded(spec.diet)) if is_path(spec.diet) else spec.diet
    diet = load_diet(name, DietOverrides(), workspace)
    if diet.trainer is not None:
        raise DietError(
            str(file),
            f"diet {spec.diet}",
            cause="the diet has its own trainer, and an ablation doesn't run its command",
            cure="Remove trainer from the diet",
        )
    folder = workspace / "diets" / f"ablation-{spec.name}"
    folder.mkdir(parents=True, exist_ok=True)
    arms = []
    for seed in spec.seeds:
        for arm, patch in _patches(spec, diet, seed):
            _require_own_fields(arm, patch, file)
            content = _content(_absolute(patch, file), diet)
            content |= {"branch": f"{spec.name}-{arm}-{seed}", "seed": seed}
            written = folder / f"{arm}-{seed}.yaml"
            written.write_text(yaml.safe_dump(content, sort_keys=False))
            budget = str(diet.token_budget // CONTROL_SHARE) if arm == CONTROL else None
            config = RunConfig.of(
                specialist=str(written),
                workspace=workspace,
                token_budget=budget,
                repositories=tuple(repositories),
            )
            arms.append(Arm(name=arm, seed=seed, config=config))
    return arms


def _require_own_fields(arm: str, patch: Mapping[str, Any], file: Path) -> None:
    for field in FIELDS_OF_AN_ABLATION:
        if field in patch:
            raise DietError(
                f"{file}: arm {arm}",
                field,
                cause="the ablation sets this field for all arms",
                cure="Remove the field from the arm",
            )


def _content(patch: Mapping[str, Any], diet: Diet) -> dict[str, Any]:
    """Return the content of an arm's diet: no gates, no requirements, and a budget in row positions."""
    own = diet.model_dump(mode="json", exclude_unset=True, exclude={"extends"})
    content = merge_diets(patch, own)
    content["study"] = {**(content.get("study") or {}), "budget": "positions"}
    for phase in content["phases"]:
        for gate in ("advance_when", "on_budget", "require"):
            phase.pop(gate, None)
    return content


def _patches(spec: AblationSpec, diet: Diet, seed: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each arm's name and changes to the diet: base, null and control, then the ablation's own arms."""
    study = diet.study.model_dump(mode="json") if diet.study is not None else {}
    yield BASE, {}
    yield NULL, {"study": {**study, "order_seed": seed + NULL_ORDER}}
    yield CONTROL, {}
    yield from spec.arms.items()


def _absolute(patch: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return an arm's changes with absolute paths. Relative paths are relative to the ablation's file."""
    found = dict(patch)
    for name in PATHS:
        value = found.get(name)
        if isinstance(value, str) and is_path(value):
            found[name] = str(file.absolute().parent / expanded(value))
    return found
