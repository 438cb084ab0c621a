"""bundle.json: training jobs for another machine; the bundle's folder has all files that they read."""

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
    """Inputs of the training job for a phase, except the run that it continues.

    Paths are relative to the bundle.
    """

    phase: Name
    spec: PhaseSpec
    plan: PlainPath
    rows: tuple[PlainPath, ...]
    tokenizer: PlainPath
    evaluations: tuple[Evaluation, ...]
    overrides: dict[str, str]
    """Overrides of diet fields from the command line."""


class BundledArm(Strict):
    """One arm with one seed. Its phases are trained in order."""

    arm: Name
    seed: int
    diet: Diet
    phases: Annotated[tuple[BundledPhase, ...], Field(min_length=1)]

    @property
    def title(self) -> str:
        """Title of the arm with its seed, for example `flat, seed 2`."""
        return arm_title(self.arm, self.seed)


class Bundle(Sealed):
    """All training jobs of an ablation."""

    ablation: Name
    arms: Annotated[tuple[BundledArm, ...], Field(min_length=1)]


class BundledRuns(Sealed):
    """runs.json: the finished runs of the arms in a bundle."""

    runs: dict[str, tuple[PlainPath, ...]]
    """Paths of the runs in phase order, by the title of the arm. Paths are relative to the bundle."""
