"""Rows: documents are fitted to T, scored by an objective, packed, written, checked."""

import shutil
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from curriculum import encode
from curriculum.objectives import objective_of
from curriculum.packing import chop
from curriculum.packing.check import check
from curriculum.packing.held_out_order import write_order
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.packing.write import RowLabels, RowWriter
from curriculum.stages.anchor_documents import ANCHOR_BYTES, anchored
from curriculum.stages.row_plans import PACK_SEED, RowPlanner, WrittenRows
from curriculum.stages.row_sources import RowSet, RowSources, RowsSpec, apply_objective
from curriculum.stages.selection import Decisions, decisions, title, val_lineages
from curriculum.stages.stage import Coordinator, Stage
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Recipe, StagingDirectory
from curriculum.tokens import BYTE_END, BYTE_START
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.store import TokenStore
from schemas.errors import TokenizerError
from schemas.families import CHAT_FAMILY, ENRICHED_FAMILY, VERSIONS_FAMILY
from schemas.objectives import OBJECTIVES
from schemas.packed_row import RowFormat
from schemas.reports import RowsReport

REVISION = 4
COUNTED_AT_A_TIME = 1 << 16
"""Encodings."""
Split = Literal["train", "val", "anchor"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTask:
    """One data set, one or both sides of the split."""

    wanted: RowsSpec
    splits: tuple[Split, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows(Stage[Sequence[RowsSpec], RowTask]):
    """Packed rows of data sets to train on, and of those that measure them, which several may share."""

    name = "rows"
    sources: RowSources

    def tasks(self, inputs: Sequence[RowsSpec]) -> Sequence[RowTask]:
        """Cut by data set: both sides are made in one pass."""
        measured = (held for each in inputs for held in (each.held_out, *each.held_out_apart))
        asked: dict[RowsSpec, tuple[Split, ...]] = dict.fromkeys(measured, ("val",))
        asked |= {each: ("train", *asked.get(each, ())) for each in inputs}
        return [RowTask(wanted=each, splits=splits) for each, splits in asked.items()]

    def title(self, task: RowTask) -> str:
        """Return the title of the data set."""
        return task.wanted.title

    def recipes(self, task: RowTask) -> Sequence[Recipe]:
        """Return the recipe of each side."""
        return [_recipe(self.sources, task.wanted, split) for split in task.splits]

    def run(self, task: RowTask, drafts: Sequence[StagingDirectory]) -> None:
        """Fit, score, pack, write and check the rows of all sides that are missing.

        Raises:
            PackError, SchemaError: for rows that don't keep the contract.
            TokenizerError: where the chat template can't mark more than `max_skipped` of the conversations.
        """
        sources, wanted = self.sources, task.wanted
        tokenizer = load_tokenizer(sources.tokenizer)
        spool = drafts[0].path / "spool"
        spool.mkdir()
        lacking = {_split_of(draft) for draft in drafts}
        spooled = _spool(sources, wanted, tokenizer, spool, lacking)
        _require_marked(wanted, [*spooled.counts.values()], sources.corpus.max_skipped)
        filled = [
            draft for draft in drafts if _write(draft, spooled, sources, wanted, tokenizer).domains
        ]
        shutil.rmtree(spool)
        for draft in filled:
            check(draft.path).raise_first()


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchorRows(Rows):
    """Rows of the anchor, the same validation texts for every phase and diet."""

    placement = "each shard"

    def tasks(self, inputs: Sequence[RowsSpec]) -> Sequence[RowTask]:
        """Return a task for each length of its rows."""
        return [RowTask(wanted=each, splits=("anchor",)) for each in inputs]

    def title(self, task: RowTask) -> str:
        """Return its name."""
        return "anchor"


def make_rows(
    coordinator: Coordinator, sources: RowSources, wanted: Sequence[RowsSpec]
) -> list[RowSet]:
    """Return the rows of each data set, and those that measure it."""
    stage = Rows(sources=sources)
    found = {
        (task.wanted, split): artefact
        for task, made in zip(stage.tasks(wanted), coordinator.by_task(stage, wanted), strict=True)
        for split, artefact in zip(task.splits, made, strict=True)
    }
    return [
        RowSet(
            wanted=each,
            train=found[each, "train"],
            val=found[each.held_out, "val"],
            apart={held.objective: found[held, "val"] for held in each.held_out_apart},
        )
        for each in wanted
    ]


def make_anchor(coordinator: Coordinator, sources: RowSources, row_length: int) -> Artefact:
    """Return the anchor in rows of one length."""
    wanted = RowsSpec(family=VERSIONS_FAMILY, row_length=row_length)
    (anchor,) = coordinator.make(AnchorRows(sources=sources), [wanted])
    return anchor


def _recipe(sources: RowSources, wanted: RowsSpec, split: Split) -> Recipe:
    asked = asdict(wanted)
    assert asked.pop("imported") is None, "imported rows aren't built"
    packer = () if asked.pop("packer") == "best_fit" else (("packer", wanted.packer),)
    assert not packer or split == "train", "what measures is packed best fit"
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
    if split == "anchor":
        config["anchor_bytes"] = ANCHOR_BYTES
    if packer:
        config |= {"packer": wanted.packer, "packer_revision": chop.REVISION}
    made_of = [each for source in sources.of(wanted) for each in source.inputs()]
    return Recipe(
        stage="rows",
        labels=(
            ("family", wanted.family),
            *((("base", wanted.base),) if wanted.base else ()),
            ("objective", wanted.objective),
            ("variant", str(wanted.variant)),
            ("row_length", str(wanted.row_length)),
            *packer,
            ("split", split),
        ),
        revision=REVISION,
        config=config,
        inputs=(
            sources.selected(wanted).as_input("selection"),
            sources.tokenizer.as_input("tokenizer"),
            *(each.as_input(title(each)) for each in made_of),
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spooled:
    """Encodings in files, and by encoding which split and domain it belongs to."""

    documents: SpooledDocuments
    split: npt.NDArray[np.int32]
    """Index into SPLITS."""
    domain: npt.NDArray[np.int32]
    domains: tuple[str, ...]
    counts: Mapping[Split, encode.Counts]
    lineages: Mapping[str, str]
    """Lineages of held-out documents, by document id."""


SPLITS: tuple[Split, ...] = ("train", "val", "anchor")


@dataclass(kw_only=True, slots=True)
class _Sorting:
    """Destinations of encodings while they are spooled; 8 bytes an encoding."""

    split: "array[int]" = field(default_factory=lambda: array("i"))
    domain: "array[int]" = field(default_factory=lambda: array("i"))
    domains: dict[str, int] = field(default_factory=dict)
    counts: dict[Split, encode.Counts] = field(
        default_factory=lambda: {split: encode.Counts() for split in SPLITS}
    )
    lineages: dict[str, str] = field(default_factory=dict)
    """Lineages of held-out documents, by document id."""

    def add(self, fitted: encode.FitResult, split: Split, domain: str, lineage: str) -> None:
        """Note one document and all its encodings."""
        self.counts[split].add(fitted)
        if split != "train" and fitted.encodings:
            self.lineages[fitted.document_id] = lineage
        code = self.domains.setdefault(domain, len(self.domains))
        for _ in fitted.encodings:
            self.split.append(SPLITS.index(split))
            self.domain.append(code)


def _spool(
    sources: RowSources, wanted: RowsSpec, tokenizer: Tokenizer, folder: Path, lacking: set[Split]
) -> _Spooled:
    """Spool what goes to the splits that lack."""
    built = objective_of(wanted.objective, tokenizer, variant=wanted.variant)
    room = wanted.row_length - built.reserve
    fitters = {
        overlong: encode.fitter_of(
            tokenizer, row_length=room, family=wanted.flat_family, overlong=overlong
        )
        for overlong in {source.overlong for source in sources.of(wanted)}
    }
    selection, sorting = sources.selected(wanted), _Sorting()
    held_out, structured = val_lineages(selection), wanted.family == ENRICHED_FAMILY
    chosen = [decisions(selection, each.base) for each in sources.of(wanted)]
    anchor = "anchor" in lacking
    asked = anchored(sources.of(wanted), chosen) if anchor else _selected(chosen, lacking)
    with Spool(folder, structured=structured) as spool:
        for at, source in enumerate(sources.of(wanted)):
            picked = chosen[at]
            for fitted in encode.encode_documents(
                source.documents.files(),
                TokenStore.open(source.tokens.path),
                fitters[source.overlong],
                kept=asked[at],
                val=picked.val,
                val_lineages=held_out,
                structure=structured,
                objective=apply_objective(built, tokenizer, row_length=wanted.row_length),
            ):
                for encoding in fitted.encodings:
                    spool.append(encoding)
                domain = picked.domains[int(picked.domain[fitted.row])]
                lineage = picked.lineages[int(picked.lineage[fitted.row])]
                sorting.add(fitted, _split(picked, fitted.row, anchor), domain, lineage)
    return _Spooled(
        documents=SpooledDocuments(folder),
        split=np.array(sorting.split, dtype=np.int32),
        domain=np.array(sorting.domain, dtype=np.int32),
        domains=tuple(sorting.domains),
        counts=sorting.counts,
        lineages=sorting.lineages,
    )


def _split(picked: Decisions, row: int, anchor: bool) -> Split:
    if anchor:
        return "anchor"
    return "val" if picked.val[row] else "train"


def _selected(chosen: Sequence[Decisions], lacking: set[Split]) -> list[npt.NDArray[np.bool_]]:
    """Return the kept documents of some splits, by artefact."""
    train, val = "train" in lacking, "val" in lacking
    return [each.kept & np.where(each.val, val, train) for each in chosen]


def _write(
    draft: StagingDirectory,
    spooled: _Spooled,
    sources: RowSources,
    wanted: RowsSpec,
    tokenizer: Tokenizer,
) -> RowsReport:
    """Pack and write the rows of a draft; returns the report on them."""
    split = _split_of(draft)
    row_format = RowFormat(
        row_length=wanted.row_length,
        vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    labels = RowLabels(
        rows_key=draft.recipe.key,
        family=wanted.family,
        objective=wanted.objective,
        variant=wanted.variant,
        split=split,
        structured=wanted.family == ENRICHED_FAMILY,
    )
    draft.record(_encoded(spooled.counts[split], spooled, split))
    planner = RowPlanner(
        packer=wanted.packer,
        row_format=row_format,
        tokenizer=tokenizer,
        folder=draft.path / "divisions",
    )
    writer = RowWriter(
        draft.path,
        row_format=row_format,
        labels=labels,
        store_targets=sources.corpus.store_targets,
    )
    written = WrittenRows()
    with writer:
        for each in planner.plans(spooled.documents, _by_domain(spooled, split)):
            plan = each.plan
            written.add(
                each, writer.write(each.spooled, plan.order, plan.row_starts, domain=each.domain)
            )
    if split != "train":
        write_order(draft.path, wanted.row_length, spooled.lineages)
    mixed = planner.rows_needed(spooled.documents, _ours(spooled, split))
    report = written.report(planner, rows_if_mixed=mixed)
    draft.record(report)
    return report


def _by_domain(spooled: _Spooled, split: Split) -> list[tuple[str, npt.NDArray[np.int64]]]:
    """The encodings of each domain that has some, by its name."""
    ours = _ours(spooled, split)
    found = [
        (domain, ours[spooled.domain[ours] == code]) for code, domain in enumerate(spooled.domains)
    ]
    return sorted((each for each in found if len(each[1])), key=lambda pair: pair[0])


def _ours(spooled: _Spooled, split: Split) -> npt.NDArray[np.int64]:
    """The encodings of a split that have targets."""
    scored = spooled.documents.with_targets()
    ours: npt.NDArray[np.int64] = scored[spooled.split[scored] == SPLITS.index(split)]
    return ours


def _require_marked(wanted: RowsSpec, counts: Sequence[encode.Counts], max_skipped: float) -> None:
    refused = sum(each.documents["refused"] for each in counts)
    share = refused / max(1, sum(each.documents.total() for each in counts))
    if share > max_skipped:
        first = next(each for each in counts if each.refused)
        ((cause, most),) = first.refused.most_common(1)
        raise TokenizerError(
            wanted.title,
            f"{share:.1%} of its conversations are left out (most, {most:,}, since {cause}, such as "
            f"{first.refused_examples[cause]})",
            cause=f"max_skipped allows {max_skipped:.1%}",
            cure="Change the conversations or the chat template, or raise max_skipped in the corpus file",
        )


def _encoded(counts: encode.Counts, spooled: _Spooled, split: Split) -> RowsReport:
    """Counts of the encodings, with those that rows leave out for want of a token to learn from."""
    ours = spooled.split == SPLITS.index(split)
    ours[spooled.documents.with_targets()] = False
    unscored = np.flatnonzero(ours)
    num_bytes = 0
    for first in range(0, len(unscored), COUNTED_AT_A_TIME):
        pieces = spooled.documents.pieces.take(unscored[first : first + COUNTED_AT_A_TIME])
        num_bytes += int((pieces[:, BYTE_END] - pieces[:, BYTE_START]).sum(dtype=np.int64))
    return RowsReport(encode=counts.report(), unscored=len(unscored), unscored_bytes=num_bytes)


def _split_of(draft: StagingDirectory) -> Split:
    label = dict(draft.recipe.labels)["split"]
    return next(split for split in SPLITS if split == label)
