"""A phase: one stage of the curriculum, data in phases.yaml."""

from typing import Annotated

from pydantic import Field, RootModel, model_validator

from schemas.corpus import Name
from schemas.families import FamilyName
from schemas.packed_row import LONGEST_ROW, ROW_MULTIPLE
from schemas.text import Number, Strict, Whole

RowLength = Annotated[Whole, Field(ge=ROW_MULTIPLE, le=LONGEST_ROW, multiple_of=ROW_MULTIPLE)]


class PhaseSpec(Strict):
    """The defaults of a phase; a serving may name any family and its own row length."""

    row_length: RowLength | Annotated[tuple[RowLength, ...], Field(min_length=1)]
    """Tokens of a row, a multiple of 128; of several lengths each serving names one."""
    rope_base: Annotated[Number, Field(gt=1)] = 500_000.0
    """The base of rotary positions: the longer the rows, the larger."""
    families: Annotated[tuple[FamilyName, ...], Field(min_length=1)]
    """The families that the phase is meant for; a serving may name any."""

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The row lengths of the phase, as a tuple also where there is one."""
        return self.row_length if isinstance(self.row_length, tuple) else (self.row_length,)


class PhasesSpec(RootModel[dict[Name, PhaseSpec]]):
    """A phases file: names to phases, in the order of the curriculum."""

    @model_validator(mode="after")
    def _some(self) -> "PhasesSpec":
        if not self.root:
            raise ValueError("there is no phase. Define at least one")
        if "anneal" in self.root:
            raise ValueError("anneal is the name of the tail job. Name the phase otherwise")
        return self
