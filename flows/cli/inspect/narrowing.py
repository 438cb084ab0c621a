"""The artefacts among those that were found that have a line of what is asked for."""

from dataclasses import replace

from curriculum.inspection.formats import number
from curriculum.inspection.line_selection import (
    FILTERS,
    InspectOptions,
    LineFilter,
    has_row,
    select_lines,
)
from curriculum.pipeline.references import Reference
from curriculum.store import Artefact, Store
from flows.cli.inspect.tokenizers import documents_of
from schemas.errors import StoreError


def narrowed(store: Store, found: Reference, options: InspectOptions) -> Reference:
    """Without the artefacts that have no line of what is asked for.

    Raises:
        StoreError: where none is left, and for what can't be chosen by.
    """
    only, stages = options.only, {each.manifest.stage for each in found.artefacts}
    if options.pack_id is not None:
        found = _with_row(found, options.pack_id)
    if not only.given:
        return found
    if found.open_run is not None or found.checkpoint is not None:
        only.refuse("checkpoints", "it", known=FILTERS["checkpoints"] if found.checkpoint else ())
        return found
    for stage in sorted(stages):
        only.refuse(stage, "it")
    left = [each for each in found.artefacts if _has_some(store, each, only)]
    if not left:
        asked = " ".join(f"--{name} {only.words(name)}" for name in only.given)
        raise StoreError(
            asked,
            cause=f"nothing in {number(len(found.artefacts), 'artefact')} matches",
            cure="Use fewer filters; --list shows the artefacts that were searched",
        )
    return replace(found, artefacts=tuple(left))


def _with_row(found: Reference, pack_id: str) -> Reference:
    holders = [
        each for each in found.artefacts if each.manifest.stage == "rows" and has_row(each, pack_id)
    ]
    if not holders:
        raise StoreError(
            pack_id,
            cause=f"no row in {number(len(found.artefacts), 'artefact')} has this pack_id",
            cure="A pack_id begins with the first digits of its artefact's key",
        )
    return replace(found, artefacts=tuple(holders))


def _has_some(store: Store, artefact: Artefact, only: LineFilter) -> bool:
    stage = artefact.manifest.stage
    if stage == "runs":
        # A run's figures are chosen where they are shown.
        only = LineFilter(step=only.step, where=only.where)
    if stage == "tokens":
        made_of = documents_of(store, artefact)
        if made_of is None:
            return False
        artefact = made_of
    masks = select_lines(store, artefact, only)
    return masks is None or any(mask.any() for mask in masks)
