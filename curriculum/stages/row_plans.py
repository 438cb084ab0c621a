"""Rows of each domain as a packer plans them, and the report on those that were written."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.packing import best_fit, chop
from curriculum.packing.spool import SpooledDocuments
from curriculum.packing.write import RowCounts
from curriculum.tokens.codec import Tokenizer
from schemas.packed_row import FAR_CONTEXT, Packer, RowFormat
from schemas.reports import ChopReport, ContextReport, DomainRows, RowsReport

PACK_SEED = 17
"""Seed of ties and of the shuffle at write time; a mixture shuffles again with its diet's seed."""
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainPlan:
    """Rows of one domain, and the documents, or divisions of some, that their plan is over."""

    domain: str
    spooled: SpooledDocuments
    plan: best_fit.PackPlan
    encodings: int
    """Number of encodings in them, however often they were cut."""
    cuts: chop.ChopCounts | None = None
    """Counts of the packer that cuts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPlanner:
    """Plans rows of one side of a data set."""

    packer: Packer
    row_format: RowFormat
    tokenizer: Tokenizer
    folder: Path
    """Room for divisions of documents while the rows of one domain are written."""

    def plans(
        self, spooled: SpooledDocuments, by_domain: Sequence[tuple[str, Int64s]]
    ) -> Iterator[DomainPlan]:
        """Plan the rows of each domain's encodings; one plan is done with when the next is made."""
        for domain, some in by_domain:
            if self.packer == "best_fit":
                plan = best_fit.plan(
                    spooled.lengths[some],
                    self.row_format.row_length,
                    best_fit.ties(spooled.tie_ids[some], PACK_SEED),
                    PACK_SEED,
                ).over(some)
                yield DomainPlan(domain=domain, spooled=spooled, plan=plan, encodings=len(some))
            else:
                yield self._chopped(spooled, domain, some)
                shutil.rmtree(self.folder)

    def rows_needed(self, spooled: SpooledDocuments, some: Int64s) -> int:
        """Rows that these encodings take where domains share them."""
        if self.packer == "best_fit":
            return best_fit.rows_needed(spooled.lengths[some], self.row_format.row_length)
        return self._cuts(spooled, some).num_rows

    def _cuts(self, spooled: SpooledDocuments, some: Int64s) -> chop.ChopPlan:
        return chop.plan(
            spooled.lengths[some],
            self.row_format.row_length,
            best_fit.ties(spooled.tie_ids[some], PACK_SEED),
            PACK_SEED,
            led=self.row_format.bos_marks_documents,
        )

    def _chopped(self, spooled: SpooledDocuments, domain: str, some: Int64s) -> DomainPlan:
        cuts = self._cuts(spooled, some)
        self.folder.mkdir()
        divisions = chop.spool_divisions(
            spooled,
            replace(cuts, documents=some[cuts.documents]),
            self.folder,
            row_format=self.row_format,
            token_bytes=self.tokenizer.token_bytes,
        )
        plan, counts = chop.rows_with_targets(cuts, divisions.scored)
        return DomainPlan(
            domain=domain, spooled=divisions, plan=plan, encodings=len(some), cuts=counts
        )


@dataclass(kw_only=True, slots=True)
class WrittenRows:
    """Counts of rows as they are written, domain by domain."""

    domains: dict[str, DomainRows] = field(default_factory=dict)
    context_sum: int = 0
    scored: int = 0
    far: int = 0
    farther: int = 0
    cuts: list[chop.ChopCounts] = field(default_factory=list)

    def add(self, planned: DomainPlan, written: RowCounts) -> None:
        """Count the rows of one domain."""
        lengths = planned.spooled.lengths
        packed = replace(best_fit.report(planned.plan, lengths), documents=planned.encodings)
        if written.rows:
            self.domains[planned.domain] = DomainRows(
                **asdict(packed),
                scored_tokens=written.scored_tokens,
                pack_yield=packed.pack_yield,
                padded_yield=packed.padded_yield,
            )
        if planned.cuts is not None:
            self.cuts.append(planned.cuts)
        self.context_sum += written.context_sum
        self.scored += written.scored_tokens
        self.far += written.context_histogram[-1]
        self.farther += written.far

    def report(self, planner: RowPlanner, rows_if_mixed: int) -> RowsReport:
        """Report all of them."""
        report = RowsReport(
            domains=self.domains,
            rows_if_mixed=rows_if_mixed,
            context=self._context(planner.row_format.row_length),
        )
        if planner.packer == "best_fit":
            return report
        sums = {
            count.name: sum(getattr(each, count.name) for each in self.cuts)
            for count in fields(chop.ChopCounts)
        }
        return report.model_copy(update={"packer": planner.packer, "chop": ChopReport(**sums)})

    def _context(self, row_length: int) -> ContextReport:
        """The mean over scored tokens, and those past 16k of context; in longer rows also past 64k."""
        mean = round(self.context_sum / max(1, self.scored), 1)
        past_16k = round(self.far / max(1, self.scored), 6)
        if row_length <= FAR_CONTEXT:
            return ContextReport(mean=mean, past_16k=past_16k)
        return ContextReport(mean=mean, past_16k=past_16k, past_64k=self.farther)
