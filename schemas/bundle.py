"""bundle.json: trainings for another machine, with all input files in the bundle's folder."""

from typing import Annotated

from pydantic import Field

from schemas.ablation import arm_title
from schemas.corpus import Name
from schemas.diet import Diet, PhaseSpec
from schemas.job import Evaluation
from schemas.json_text import Sealed
from schemas.regular_files import PlainPath
from schemas.text import Strict


class BundledPhase(Strict):
    """Inputs of a phase's training job, except the run to continue; paths are relative to the bundle."""

    phase: Name
    spec: PhaseSpec
    plan: PlainPath
    rows: tuple[PlainPath, ...]
    tokenizer: PlainPath
    evaluations: tuple[Evaluation, ...]
    overrides: dict[str, str]
    """Overrides of diet fields from the command line."""


class BundledArm(Strict):
    """One arm with one seed; its phases are trained in order."""

    arm: Name
    seed: int
    diet: Diet
    phases: Annotated[tuple[BundledPhase, ...], Field(min_length=1)]

    @property
    def title(self) -> str:
        """Arm and seed as a title, for example `flat, seed 2`."""
        return arm_title(self.arm, self.seed)


class Bundle(Sealed):
    """Trainings of an ablation."""

    ablation: Name
    arms: Annotated[tuple[BundledArm, ...], Field(min_length=1)]


class BundledRuns(Sealed):
    """runs.json: the finished runs of a bundle's arms."""

    runs: dict[str, tuple[PlainPath, ...]]
    """Runs in phase order, by the arm's title; paths are relative to the bundle."""
