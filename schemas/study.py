"""A study: settings of training and packing that only comparisons need, and that mark a run for good."""

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from schemas.packed_row import Packer
from schemas.seeds import Seed
from schemas.text import Documented, Number


class MaskFrom(Documented):
    """Document masks that are off in the first steps of each phase and on in the others."""

    on_from: Annotated[Number, Field(gt=0, lt=1)]
    """Fraction of a phase's steps that have no masks: 0.5 for the first half."""


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
    """Settings for comparisons; held-out documents are measured as in any other run."""

    OTHER_NAMES = MappingProxyType(
        dict.fromkeys(("mask", "masks", "document_masks"), "document_mask")
        | dict.fromkeys(("position", "position_ids"), "positions")
    )

    document_mask: DocumentMask = "on"
    """off: in every layer a token reads all that is before it in its row, of whatever document.
    {on_from: 0.5}: off in the first half of each phase's steps, then on."""
    positions: Literal["reset", "continue"] = "reset"
    """continue: positions count on over the documents of a row. Rotations follow, masks don't."""
    packer: Packer = Field(default="best_fit", exclude_if=_is_best_fit)
    """chop: rows to train on are documents end to end, in a shuffled order, cut every T tokens; what a cut
    leaves in a row is a document to masks and positions. Only for objective causal, and neither for
    v6_enriched nor for imported rows."""

    order_seed: Seed | None = Field(default=None, exclude_if=_is_none)
    """Seed of the order of rows where it isn't the diet's seed, which then is that of initial weights alone:
    what it changes is chance."""
    budget: BudgetUnit = Field(default="tokens", exclude_if=_is_tokens)
    """positions: token_budget counts row positions, with those that hold no token, so that diets whose rows
    are filled otherwise train equally many steps."""

    @model_validator(mode="after")
    def _differs(self) -> "Study":
        if not self.settings:
            raise ValueError(
                "it sets nothing that a run without it has otherwise. Set document_mask: off, "
                "positions: continue, packer: chop, an order_seed or budget: positions, or leave study out"
            )
        return self

    @property
    def settings(self) -> dict[str, str]:
        """The settings that a run without a study has otherwise, in words."""
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
        """True for masks or positions of its own; a packer makes other rows, which are trained on as any."""
        return not self.is_always_masked or self.positions != USUAL["positions"]

    @property
    def is_always_masked(self) -> bool:
        """True where documents are kept apart in every step."""
        return self.document_mask == "on"

    def is_masked(self, step: int, steps: int) -> bool:
        """Return True if a step, counted from 0, of so many keeps documents apart.

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
"""The settings of a run without a study."""


def study_words(study: Study | None) -> str:
    """The settings of a study in words; empty for none.

    >>> study_words(Study(document_mask="off", positions="continue")), study_words(None)
    ('document_mask off, positions continue', '')
    """
    settings = study.settings if study is not None else {}
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def study_mark(study: Study | None) -> str:
    """The mark of a run wherever it is shown; empty for one without a study.

    >>> study_mark(Study(document_mask="off")), study_mark(None)
    ('study: document_mask off', '')
    """
    words = study_words(study)
    return f"study: {words}" if words else ""


def study_remark(study: Study) -> str:
    """A sentence on what a study's runs are good for."""
    return (
        f"{study_mark(study)}. Its runs are for comparison only: they can't be exported, nor continued by a "
        "diet that isn't the same study"
    )


def no_study(study: object) -> bool:
    """Return True for None: files and keys of a run without a study don't mention it."""
    return study is None
