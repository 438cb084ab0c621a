"""Events of a plan that is carried out, one for each step that is done."""

from dataclasses import dataclass

from curriculum.pipeline.gates import Verdict
from curriculum.stages import Built
from curriculum.store import Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSampled:
    """Some documents of each family of a phase, to look at."""

    phase: str
    documents: tuple[Artefact, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseBuilt:
    """The rows of a phase, with all that they are made of."""

    phase: str
    built: Built


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseMixed:
    """The plan of a phase's rows."""

    phase: str
    mixture: Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTrained:
    """A run of a phase."""

    phase: str
    run: Artefact
    gate: Verdict | None
    """The gate behind it; None of a run that is only planned."""


Event = PhaseSampled | PhaseBuilt | PhaseMixed | PhaseTrained
