"""Data sets of packed rows, as the report shows them."""

from collections.abc import Mapping
from dataclasses import dataclass

from curriculum.inspection.formats import count, family_title
from curriculum.inspection.row_yields import RowYields
from dashboards.rows.write import ExampleRow
from schemas.packed_row import unusual_options
from schemas.reports import RowsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedDataSet:
    """An artefact of training rows, with an example row if the page of its rows could be written."""

    key: str
    """Key of the rows artefact."""
    labels: Mapping[str, str]
    report: RowsReport
    example: ExampleRow | None = None

    @property
    def name(self) -> str:
        """Name of the family; for rows with structure it includes their base family."""
        return family_title(self.labels)

    @property
    def how(self) -> str:
        """Objective, row length, variant and unusual options, in words."""
        labels = self.labels
        variant = f", variant {labels['variant']}" if labels["objective"] == "fim" else ""
        options = f", {unusual}" if (unusual := unusual_options(labels)) else ""
        imported = ", imported" if "imported" in labels else ""
        return f"{labels['objective']} at {int(labels['row_length']):,}{variant}{options}{imported}"

    @property
    def yields(self) -> RowYields | None:
        """Yield of the rows, the yields of other ways to fill rows, and the reasons for unused positions."""
        return RowYields.of(self.report, int(self.labels["row_length"]))

    @property
    def distinct(self) -> str:
        """Numbers of distinct tokens and of scored tokens, in words."""
        windows = self.report.windows
        return f"{count(windows.distinct)} distinct of {count(windows.scored)} scored tokens"
