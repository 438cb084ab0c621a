"""Studies: settings of training and packing that serve only for comparisons, and mark a run permanently."""

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from schemas.packed_row import Packer
from schemas.seeds import Seed
from schemas.text import Documented, Number


class MaskFrom(Documented):
    """Document masks that are switched on after the first steps of each phase."""

    on_from: Annotated[Number, Field(gt=0, lt=1)]
    """Fraction of a phase's steps that are trained without masks, for example 0.5 for the first half."""


def _kind(value: object) -> str:
    return "a fraction" if isinstance(value, dict | MaskFrom) else "a word"


BudgetUnit = Literal["tokens", "positions"]
DocumentMask = Annotated[
    Annotated[Literal["on", "off"], Tag("a word")] | Annotated[MaskFrom, Tag("a fraction")],
    Discriminator(_kind),
]


def _is_none(value: object) -> bool:
    return value is None


def _is_tokens(budget: object) -> bool:
    return budget == "tokens"


def _is_best_fit(packer: object) -> bool:
    return packer == "best_fit"


class Study(Documented):
    """Settings for comparisons. Validation documents are measured as in any other run."""

    OTHER_NAMES = MappingProxyType(
        dict.fromkeys(("mask", "masks", "document_masks"), "document_mask")
        | dict.fromkeys(("position", "position_ids"), "positions")
    )

    document_mask: DocumentMask = "on"
    """off: in every layer, a token reads all tokens before it in its row, across documents. {on_from: 0.5}:
    masks are off in the first half of each phase's steps, and then on.
    """
    positions: Literal["reset", "continue"] = "reset"
    """continue: positions are counted across the documents of a row. This changes rotary positions, not
    masks.
    """
    packer: Packer = Field(default="best_fit", exclude_if=_is_best_fit)
    """chop: training rows are concatenated documents in shuffled order, cut every T tokens. Masks and
    positions treat each piece as a document. Only for objective causal, not for v6_enriched or imported
    rows."""

    order_seed: Seed | None = Field(default=None, exclude_if=_is_none)
    """Seed of the row order, if it isn't the diet's seed. The diet's seed then only sets the initial weights.
    Differences between runs with different order seeds are chance.
    """
    budget: BudgetUnit = Field(default="tokens", exclude_if=_is_tokens)
    """positions: token_budget counts row positions including padding, so that diets with different packing
    train for the same number of steps."""

    @model_validator(mode="after")
    def _differs(self) -> "Study":
        if not self.settings:
            raise ValueError(
                "the study has only default settings. Set document_mask: off, positions: continue, "
                "packer: chop, an order_seed or budget: positions, or remove study"
            )
        return self

    @property
    def settings(self) -> dict[str, str]:
        """Settings that aren't defaults, by name."""
        mask = self.document_mask
        said = {
            "document_mask": mask if isinstance(mask, str) else f"on from {mask.on_from:g}",
            "positions": self.positions,
            "packer": self.packer,
            "order_seed": "" if self.order_seed is None else str(self.order_seed),
            "budget": self.budget,
        }
        return {name: value for name, value in said.items() if value != USUAL[name]}

    @property
    def acts_in_training(self) -> bool:
        """True if masks or positions aren't the defaults. A packer changes only rows."""
        return not self.is_always_masked or self.positions != USUAL["positions"]

    @property
    def is_always_masked(self) -> bool:
        """True if documents are masked from each other in every step."""
        return self.document_mask == "on"

    def is_masked(self, step: int, steps: int) -> bool:
        """Return True if documents are masked from each other in a 0-based step of `steps`.

        >>> study = Study(document_mask=MaskFrom(on_from=0.4))
        >>> [study.is_masked(step, 5) for step in range(5)]
        [False, False, True, True, True]
        """
        mask = self.document_mask
        return mask == "on" if isinstance(mask, str) else step >= round(mask.on_from * steps)


USUAL = {
    "document_mask": "on",
    "positions": "reset",
    "packer": "best_fit",
    "order_seed": "",
    "budget": "tokens",
}
"""Settings of a run that isn't a study."""


def study_words(study: Study | None) -> str:
    """Return a text with the settings of a study; empty without a study.

    >>> study_words(Study(document_mask="off", positions="continue")), study_words(None)
    ('document_mask off, positions continue', '')
    """
    settings = study.settings if study is not None else {}
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def study_mark(study: Study | None) -> str:
    """Return the label that marks a run as a study wherever it is shown; empty without a study.

    >>> study_mark(Study(document_mask="off")), study_mark(None)
    ('study: document_mask off', '')
    """
    words = study_words(study)
    return f"study: {words}" if words else ""


def study_remark(study: Study) -> str:
    """Return a sentence about what runs of a study can't be used for."""
    return (
        f"{study_mark(study)}. Its runs are for comparison only: they can't be exported, and only a diet "
        "with the same study can continue them"
    )


def no_study(study: object) -> bool:
    """Return True for None. The files and keys of a run without a study leave out the field."""
    return study is None
