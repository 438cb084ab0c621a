"""One split of a data set: encodings are written to a spool, then planned and written by domain."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from curriculum import encode
from curriculum.packing import best_fit, chop
from curriculum.packing.held_out_order import write_order
from curriculum.packing.row_writer import RowCounts, RowLabels, RowWriter
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.stages.row_sources import RowsSpec
from curriculum.store import StagingDirectory
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import BYTE_END, BYTE_START
from schemas.families import ENRICHED_FAMILY
from schemas.objectives import FIXED_SETS, FixedSet
from schemas.packed_row import FAR_CONTEXT, RowFormat
from schemas.reports import ChopReport, ContextReport, DomainRows, RowsReport

PACK_SEED = 17
"""Seed that breaks ties and shuffles the written rows. A mixture shuffles again with its diet's seed."""
LONG = 0.9
"""Quantile of the document lengths that is reported as the length of a long document."""
COUNTED_AT_A_TIME = 1 << 16
"""Number of encodings to count at a time."""
Split = Literal["train", "val"] | FixedSet
SPLITS: tuple[Split, ...] = ("train", "val", *FIXED_SETS)
Int64s = npt.NDArray[np.int64]


@dataclass(kw_only=True, slots=True)
class RowSide:
    """Writer of the rows of one split into a draft. The spool is a folder of the draft until `write` ends."""

    draft: StagingDirectory
    split: Split
    wanted: RowsSpec
    tokenizer: Tokenizer
    spool: Spool = field(init=False)
    counts: encode.Counts = field(default_factory=encode.Counts)
    lineages: dict[str, str] = field(default_factory=dict)
    """Lineages of validation documents, by document id."""

    def __post_init__(self) -> None:
        self._folder.mkdir()
        self.spool = Spool(self._folder, structured=self._labels.structured)

    def add(self, fitted: encode.FitResult, *, domain: str, lineage: str) -> None:
        """Write the encodings of one document to the spool."""
        self.counts.add(fitted)
        if self.split != "train" and fitted.encodings:
            self.lineages[fitted.document_id] = lineage
        for encoding in fitted.encodings:
            self.spool.append(encoding, domain=domain)

    def write(self, *, store_targets: bool) -> RowsReport:
        """Pack and write the rows, and return their report. Call it after the spool is closed."""
        spooled = SpooledDocuments(self._folder)
        self.draft.record(self._encoded(spooled))
        writer = RowWriter(
            self.draft.path,
            row_format=self._row_format,
            labels=self._labels,
            store_targets=store_targets,
        )
        domains: dict[str, DomainRows] = {}
        written: list[RowCounts] = []
        cuts: list[chop.ChopCounts] = []
        with writer:
            for domain, some in spooled.by_domain():
                packed, plan, cut = self._planned(spooled, some)
                counts = writer.write(packed, plan.order, plan.row_starts, domain=domain)
                written.append(counts)
                if counts.rows:
                    domains[domain] = _domain_rows(plan, packed.lengths, counts, len(some))
                if cut is not None:
                    cuts.append(cut)
                    shutil.rmtree(self._divisions)
        if self.split != "train":
            write_order(self.draft.path, self.wanted.row_length, self.lineages)
        report = RowsReport(
            domains=domains,
            rows_if_mixed=self._rows_needed(spooled, spooled.with_targets()),
            context=_context(written, self.wanted.row_length, spooled.lengths),
        )
        if self.wanted.packer == "chop":
            names = [count.name for count in fields(chop.ChopCounts)]
            sums = {name: sum(getattr(cut, name) for cut in cuts) for name in names}
            update = {"packer": self.wanted.packer, "chop": ChopReport(**sums)}
            report = report.model_copy(update=update)
        self.draft.record(report)
        shutil.rmtree(self._folder)
        return report

    def _planned(
        self, spooled: SpooledDocuments, some: Int64s
    ) -> tuple[SpooledDocuments, best_fit.PackPlan, chop.ChopCounts | None]:
        """Return documents, and the plan that packs them into rows: all of the spooled documents `some`.

        The returned documents are the spooled ones, or pieces of them in a folder. The third value counts the
        pieces; it is None for spooled documents.
        """
        ties = best_fit.tie_breakers(spooled.tie_ids[some], PACK_SEED)
        if self.wanted.packer == "best_fit":
            lengths = spooled.lengths[some]
            plan = best_fit.plan(lengths, self.wanted.row_length, ties, PACK_SEED)
            return spooled, plan.reindex(some), None
        cuts = self._cuts(spooled, some)
        self._divisions.mkdir()
        divisions = chop.spool_divisions(
            spooled,
            replace(cuts, documents=some[cuts.documents]),
            self._divisions,
            row_format=self._row_format,
            token_bytes=self.tokenizer.token_bytes,
        )
        rows, counts = chop.rows_with_targets(cuts, divisions.scored)
        return divisions, rows, counts

    def _cuts(self, spooled: SpooledDocuments, some: Int64s) -> chop.ChopPlan:
        return chop.plan(
            spooled.lengths[some],
            self.wanted.row_length,
            best_fit.tie_breakers(spooled.tie_ids[some], PACK_SEED),
            PACK_SEED,
            with_bos=self._row_format.bos_marks_documents,
        )

    def _rows_needed(self, spooled: SpooledDocuments, some: Int64s) -> int:
        """Return the number of rows that the documents `some` need if domains share rows."""
        if self.wanted.packer == "best_fit":
            return best_fit.rows_needed(spooled.lengths[some], self.wanted.row_length)
        return self._cuts(spooled, some).num_rows

    def _encoded(self, spooled: SpooledDocuments) -> RowsReport:
        """Return the counts of all encodings, and of those left out because they have no scored token."""
        unscored = np.flatnonzero(spooled.scored == 0)
        num_bytes = 0
        for first in range(0, len(unscored), COUNTED_AT_A_TIME):
            pieces = spooled.pieces.take(unscored[first : first + COUNTED_AT_A_TIME])
            num_bytes += int((pieces[:, BYTE_END] - pieces[:, BYTE_START]).sum(dtype=np.int64))
        return RowsReport(
            encode=self.counts.report(), unscored=len(unscored), unscored_bytes=num_bytes
        )

    @property
    def _folder(self) -> Path:
        return self.draft.path / "spool"

    @property
    def _divisions(self) -> Path:
        """Folder for pieces of documents that exist while the rows of one domain are written."""
        return self.draft.path / "divisions"

    @property
    def _row_format(self) -> RowFormat:
        return RowFormat(
            row_length=self.wanted.row_length,
            vocab_size=self.tokenizer.vocab_size,
            pad_id=self.tokenizer.pad_id,
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
        )

    @property
    def _labels(self) -> RowLabels:
        return RowLabels(
            rows_key=self.draft.recipe.key,
            family=self.wanted.family,
            objective=self.wanted.objective,
            variant=self.wanted.variant,
            split=self.split,
            structured=self.wanted.family == ENRICHED_FAMILY,
        )


def _domain_rows(
    plan: best_fit.PackPlan, lengths: Int64s, counts: RowCounts, encodings: int
) -> DomainRows:
    """Return the report of one domain; `encodings` is the number of encodings before they were cut."""
    packed = replace(best_fit.report(plan, lengths), documents=encodings)
    return DomainRows(
        **asdict(packed),
        scored_tokens=counts.scored_tokens,
        pack_yield=packed.pack_yield,
        padded_yield=packed.padded_yield,
    )


def _context(written: Sequence[RowCounts], row_length: int, lengths: Int64s) -> ContextReport:
    """Return the mean context of scored tokens, and the shares of tokens with more than 4k, 16k and 64k.

    Only rows that are long enough count for 64k.
    """
    scored = max(1, sum(counts.scored_tokens for counts in written))
    over_16k = sum(counts.context_histogram[-1] for counts in written)
    over_4k = over_16k + sum(counts.context_histogram[-2] for counts in written)
    return ContextReport(
        mean=round(sum(counts.context_sum for counts in written) / scored, 1),
        past_4k=round(over_4k / scored, 6),
        past_16k=round(over_16k / scored, 6),
        past_64k=sum(counts.far for counts in written) if row_length > FAR_CONTEXT else 0,
        long_document=int(np.quantile(lengths, LONG, method="higher")) if len(lengths) else 0,
    )
