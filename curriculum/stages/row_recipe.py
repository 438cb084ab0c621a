"""Recipes of rows: everything that decides their bytes."""

from collections.abc import Iterator
from dataclasses import asdict

from pydantic import JsonValue

from curriculum import encode
from curriculum.objectives import new_lines
from curriculum.packing import chop
from curriculum.stages import trained_text
from curriculum.stages.fixed_sets import SET_BYTES
from curriculum.stages.row_sides import PACK_SEED, Split
from curriculum.stages.row_sources import RowSources, RowsSpec
from curriculum.stages.selection import title
from curriculum.store import Input, Recipe
from schemas.families import CHAT_FAMILY
from schemas.objectives import FIXED_SETS, OBJECTIVES

REVISION = 5
"""Version of the code that packs rows. Raise it whenever the same encodings give other rows."""


def is_compared(wanted: RowsSpec, split: Split) -> bool:
    """Return True if the rows leave text unscored that also occurs in training documents."""
    return split != "train" and wanted.family != CHAT_FAMILY


def recipe_of(sources: RowSources, wanted: RowsSpec, split: Split) -> Recipe:
    """Return the recipe of one split of a data set."""
    asked = asdict(wanted)
    assert asked.pop("imported") is None, "imported rows aren't built"
    packer = () if asked.pop("packer") == "best_fit" else (("packer", wanted.packer),)
    assert not packer or split == "train", "validation rows are packed best fit"
    all_lines = (("score", "all"),) if asked.pop("score") == "all" else ()
    assert not all_lines or split == "train", "validation rows score all lines"
    asked.pop("beside")
    beside = (("beside", wanted.beside.family),) if wanted.beside else ()
    config: dict[str, JsonValue] = {
        **asked,
        "repositories": list(wanted.repositories),
        "split": split,
        "seed": PACK_SEED,
        "encode": encode.REVISION,
        "objective_revision": OBJECTIVES[wanted.objective].revision,
        "store_targets": sources.corpus.store_targets,
    }
    if wanted.family == CHAT_FAMILY:
        config["overlong"] = [source.overlong for source in sources.of(wanted)]
    config |= sources.corpus.licences.not_usual()
    if split in FIXED_SETS:
        config["set_bytes"] = SET_BYTES
    if split == "later":
        config["score_revision"] = new_lines.REVISION
    if packer:
        config |= {"packer": wanted.packer, "packer_revision": chop.REVISION}
    if split == "train" and wanted.scores_new_lines:
        config |= {"score": wanted.score, "score_revision": new_lines.REVISION}
    if wanted.beside:
        config |= {"beside": wanted.beside.family, "beside_in": list(wanted.beside.repositories)}
    made_of = [made for source in sources.of(wanted) for made in source.inputs()]
    if is_compared(wanted, split):
        config["trained_text"] = trained_text.REVISION
    return Recipe(
        stage="rows",
        labels=(
            ("family", wanted.family),
            *((("base", wanted.base),) if wanted.base else ()),
            ("objective", wanted.objective),
            ("variant", str(wanted.variant)),
            ("row_length", str(wanted.row_length)),
            *packer,
            *all_lines,
            *beside,
            ("split", split),
        ),
        revision=REVISION,
        config=config,
        inputs=(
            sources.selected(wanted).as_input("selection"),
            *_selection_beside(sources, wanted),
            sources.tokenizer.as_input("tokenizer"),
            *(made.as_input(title(made)) for made in made_of),
            *(
                trained_text.compared_inputs(sources, wanted, beside=made_of)
                if is_compared(wanted, split)
                else ()
            ),
        ),
    )


def _selection_beside(sources: RowSources, wanted: RowsSpec) -> Iterator[Input]:
    """Yield the selection that decides which commits training rows leave out, if there is one.

    The documents of that family need no input of their own, because the selection's key covers them.
    """
    if wanted.beside:
        selection = sources.selections[wanted.beside.family]
        yield selection.as_input(f"selection {wanted.beside.family}")
