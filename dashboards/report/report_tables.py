"""Facts of a report from Parquet files: curves, changes on documents, largest files and example rows.

Reading them takes much longer than reading all other facts, so an up-to-date report is kept without it.
"""

from collections.abc import Mapping
from dataclasses import replace

from curriculum.inspection.held_out import filling_of
from curriculum.inspection.largest_files import lines_of_artefacts
from curriculum.inspection.paired import changes_within
from dashboards.report.facts import Facts, MarkedArtefacts, PhaseFacts
from dashboards.report.step_curves import read_points
from dashboards.rows.write import ExampleRow


def with_tables(facts: Facts, marked: MarkedArtefacts, examples: Mapping[str, ExampleRow]) -> Facts:
    """Return facts with their tables; `examples` are the example rows by the key of their artefact.

    Only files of the artefacts in `marked` are read.
    """
    built = [*marked.artefacts.values()]
    filled = filling_of(built)
    return replace(
        facts,
        phases=tuple(
            replace(
                _with_curves(phase, marked),
                packed=tuple(
                    replace(packed, example=examples.get(packed.key)) for packed in phase.packed
                ),
                filled=filled,
            )
            for phase in facts.phases
        ),
        largest_files=lines_of_artefacts(built),
    )


def _with_curves(phase: PhaseFacts, marked: MarkedArtefacts) -> PhaseFacts:
    if phase.report is None:
        return phase
    run = marked.runs[phase.name].path
    return replace(phase, changes=changes_within(run, phase.report), points=read_points(run))
