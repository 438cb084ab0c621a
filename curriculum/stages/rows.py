"""Rows: documents are fitted to the row length, scored by an objective, packed, written and checked."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from curriculum import encode
from curriculum.corpus.decisions import Decisions, decisions, held_out_files
from curriculum.objectives import objective_of
from curriculum.packing.row_check import check
from curriculum.packing.windows import write_windows
from curriculum.stages.beside import are_shown, shown_by
from curriculum.stages.first_showings import scoring_new_lines
from curriculum.stages.fixed_sets import documents_of_set, sets_of
from curriculum.stages.row_recipe import is_compared, recipe_of
from curriculum.stages.row_sides import RowSide, Split
from curriculum.stages.row_sources import (
    RowSet,
    RowSource,
    RowSources,
    RowsSpec,
    apply_objective,
)
from curriculum.stages.stage import Coordinator, Stage
from curriculum.stages.tokens import load_tokenizer
from curriculum.stages.trained_text import TrainedText
from curriculum.store import Artefact, Recipe, StagingDirectory
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore
from schemas.errors import TokenizerError
from schemas.families import ENRICHED_FAMILY
from schemas.objectives import FIXED_SETS, FixedSet
from schemas.reports import RowsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTask:
    """One data set of which one or both splits are built."""

    wanted: RowsSpec
    splits: tuple[Split, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows(Stage[Sequence[RowsSpec], RowTask]):
    """Stage that packs the training rows of data sets, and validation rows that several data sets share."""

    name = "rows"
    sources: RowSources

    def tasks(self, inputs: Sequence[RowsSpec]) -> Sequence[RowTask]:
        """Return one task per data set; both splits are built in one pass."""
        measured = (held for spec in inputs for held in (spec.held_out, *spec.held_out_apart))
        asked: dict[RowsSpec, tuple[Split, ...]] = dict.fromkeys(measured, ("val",))
        asked |= {spec: ("train", *asked.get(spec, ())) for spec in inputs}
        return [RowTask(wanted=spec, splits=splits) for spec, splits in asked.items()]

    def title(self, task: RowTask) -> str:
        """Return the title of the data set."""
        return task.wanted.title

    def recipes(self, task: RowTask) -> Sequence[Recipe]:
        """Return the recipe of each split."""
        return [recipe_of(self.sources, task.wanted, split) for split in task.splits]

    def run(self, task: RowTask, drafts: Sequence[StagingDirectory]) -> None:
        """Fit, score, pack, write and check the rows of all splits whose artefacts are missing.

        Raises:
            PackError: for rows that violate their schema.
            SchemaError: for rows that violate their schema.
            TokenizerError: if the chat template can't mark more than `max_skipped` of the conversations.
        """
        sources, wanted = self.sources, task.wanted
        tokenizer = load_tokenizer(sources.tokenizer)
        sides: dict[Split, RowSide] = {}
        for draft in drafts:
            label = dict(draft.recipe.labels)["split"]
            split = next(split for split in task.splits if split == label)
            sides[split] = RowSide(draft=draft, split=split, wanted=wanted, tokenizer=tokenizer)
        _spool(sources, wanted, tokenizer, sides)
        counts = [side.counts for side in sides.values()]
        _require_marked(wanted, counts, sources.corpus.max_skipped)
        store_targets = sources.corpus.store_targets
        for side in sides.values():
            if not side.write(store_targets=store_targets).domains:
                continue
            checked = check(side.draft.path)
            checked.raise_first()
            windows = write_windows(side.draft.path, checked.scored_tokens)
            side.draft.record(RowsReport(windows=windows))


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedRows(Rows):
    """Stage that packs the rows of the fixed sets, whose texts are the same for every phase and diet."""

    placement = "each shard"

    def tasks(self, inputs: Sequence[RowsSpec]) -> Sequence[RowTask]:
        """Return one task per set and row length."""
        return [
            RowTask(wanted=wanted, splits=(name,))
            for wanted in inputs
            for name in sets_of(self.sources.corpus, wanted.flat_family)
        ]

    def title(self, task: RowTask) -> str:
        """Return the name of the set."""
        return task.splits[0]


def make_rows(
    coordinator: Coordinator,
    sources: RowSources,
    wanted: Sequence[RowsSpec],
    measured: Sequence[RowsSpec],
) -> tuple[list[RowSet], dict[RowsSpec, dict[FixedSet, Artefact]]]:
    """Return the rows of the requested data sets, and the fixed sets in the formats of `measured`."""
    stage = Rows(sources=sources)
    found = {
        (task.wanted, split): artefact
        for task, made in zip(stage.tasks(wanted), coordinator.by_task(stage, wanted), strict=True)
        for split, artefact in zip(task.splits, made, strict=True)
    }
    sets = [
        RowSet(
            wanted=spec,
            train=found[spec, "train"],
            val=found[spec.held_out, "val"],
            apart={held.objective: found[held, "val"] for held in spec.held_out_apart},
        )
        for spec in wanted
    ]
    of_sets = FixedRows(sources=sources)
    fixed = {
        spec: dict(
            zip(
                sets_of(sources.corpus, spec.flat_family),
                coordinator.make(of_sets, [spec]),
                strict=True,
            )
        )
        for spec in measured
    }
    return sets, fixed


def _spool(
    sources: RowSources, wanted: RowsSpec, tokenizer: Tokenizer, sides: Mapping[Split, RowSide]
) -> None:
    """Write the encodings of all documents to the spools of their splits."""
    built = objective_of(wanted.objective, tokenizer, variant=wanted.variant)
    room = wanted.row_length - built.reserve
    fitters = {
        overlong: encode.fitter_of(
            tokenizer, row_length=room, family=wanted.flat_family, overlong=overlong
        )
        for overlong in {source.overlong for source in sources.of(wanted)}
    }
    selection = sources.selected(wanted)
    held_out = held_out_files(selection)
    chosen = [decisions(selection, source.base) for source in sources.of(wanted)]
    shown = sources.shown_beside(wanted)
    asked = _asked(tuple(sides), sources.of(wanted), chosen)
    reads = [
        partial(
            encode.encode_documents,
            store=TokenStore.open(source.tokens.path),
            fitter=fitters[source.overlong],
            split=encode.Split(
                held_out=picked.is_held_out_file,
                held_out_files=held_out,
                licences=source.licences,
            ),
        )
        for source, picked in zip(sources.of(wanted), chosen, strict=True)
    ]
    plain = apply_objective(built, tokenizer, row_length=wanted.row_length)
    read_measured = (
        read(source.base.shards(), kept=kept & ~picked.kept_on("train"), objective=plain)
        for source, picked, kept, read in zip(sources.of(wanted), chosen, asked, reads, strict=True)
    )
    trained = (
        TrainedText.of(chain.from_iterable(read_measured), sources, wanted, tokenizer)
        if any(is_compared(wanted, split) for split in sides)
        else None
    )
    with contextlib.ExitStack() as spools:
        for side in sides.values():
            spools.enter_context(side.spool)
        for source, picked, kept, read in zip(
            sources.of(wanted), chosen, asked, reads, strict=True
        ):
            if source.repository in shown:
                other = shown[source.repository]
                by_other = shown_by(other, sources.selections[other.manifest.labels["family"]])
                kept = kept & ~(picked.kept_on("train") & are_shown(source.base, by_other))
            objective = plain
            if "later" in sides:
                objective = scoring_new_lines(
                    objective, wanted, source.base, tokenizer, read, picked.kept
                )
            elif "train" in sides and wanted.scores_new_lines:
                learnt = kept & picked.kept_on("train")
                objective = scoring_new_lines(
                    objective, wanted, source.base, tokenizer, read, learnt
                )
            if trained:
                objective = trained.unscoring(objective, ~picked.kept_on("train"))
            for fitted in read(
                source.documents.shards(),
                kept=kept,
                structure=wanted.family == ENRICHED_FAMILY,
                objective=objective,
            ):
                side = _side_of(fitted.row, picked, sides)
                domain = picked.domains[int(picked.domain[fitted.row])]
                lineage = picked.lineages[int(picked.lineage[fitted.row])]
                side.add(fitted, domain=domain, lineage=lineage)


def _asked(
    splits: Sequence[Split], sources: Sequence[RowSource], chosen: Sequence[Decisions]
) -> list[npt.NDArray[np.bool_]]:
    """Return, for each source, a mask of the documents to read.

    These are the documents of a fixed set, or those of train, val or both.
    """
    if splits[0] in FIXED_SETS:
        return documents_of_set(splits[0], sources, chosen)
    return [picked.kept & np.isin(picked.side, splits) for picked in chosen]


def _side_of(row: int, picked: Decisions, sides: Mapping[Split, RowSide]) -> RowSide:
    """Return the split to which the rows of a document go: the only one, or the one in the selection."""
    if len(sides) == 1:
        return next(iter(sides.values()))
    return sides["train" if picked.side[row] == "train" else "val"]


def _require_marked(wanted: RowsSpec, counts: Sequence[encode.Counts], max_skipped: float) -> None:
    refused = sum(count.documents["refused"] for count in counts)
    share = refused / max(1, sum(count.documents.total() for count in counts))
    if share > max_skipped:
        first = next(count for count in counts if count.refused)
        ((cause, most),) = first.refused.most_common(1)
        raise TokenizerError(
            wanted.title,
            f"{share:.1%} of its conversations are left out (most of them, {most:,}, because {cause}, for "
            f"example {first.refused_examples[cause]})",
            cause=f"max_skipped allows {max_skipped:.1%}",
            cure="Change the conversations or the chat template, or raise max_skipped in the corpus file",
        )
