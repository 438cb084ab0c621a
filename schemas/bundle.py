"""bundle.json: trainings that another machine is to do, with nothing but the folder that it lies in."""

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
    """All that the job of a phase is made of, but the run before it. Paths are relative to the bundle."""

    phase: Name
    spec: PhaseSpec
    plan: PlainPath
    rows: tuple[PlainPath, ...]
    tokenizer: PlainPath
    evaluations: tuple[Evaluation, ...]
    overrides: dict[str, str]
    """Changes of the diet by the command line."""


class BundledArm(Strict):
    """An arm with one seed: its phases are trained in order."""

    arm: Name
    seed: int
    diet: Diet
    phases: Annotated[tuple[BundledPhase, ...], Field(min_length=1)]

    @property
    def title(self) -> str:
        """The arm and its seed in words: flat, seed 2."""
        return arm_title(self.arm, self.seed)


class Bundle(Sealed):
    """The trainings of an ablation."""

    ablation: Name
    arms: Annotated[tuple[BundledArm, ...], Field(min_length=1)]


class BundledRuns(Sealed):
    """runs.json: the runs of the arms of a bundle that are trained."""

    runs: dict[str, tuple[PlainPath, ...]]
    """Runs in the order of the phases, by the arm's title; paths are relative to the bundle."""
