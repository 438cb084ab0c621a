from typing import Any

from curriculum.inspection.formats import duration
from curriculum.inspection.run_tables import figure_lines, machine_line, run_line
from schemas.job import ANNEAL, MaskingCost, Report
from tests.factories import figure, run_report


def report(**measured: Any) -> Report:
    return run_report(device="cuda", backend="flex", **measured)


def test_what_a_run_measured_of_its_machine_is_a_line() -> None:
    cost = MaskingCost(
        ratio=1.314,
        row_length=16_384,
        positions=327_680,
        micro_batches=20,
        masked_seconds=1.0,
        unmasked_seconds=1.3,
    )
    measured = report(
        masked_mfu=0.414,
        causal_mfu=0.55,
        padded_positions=3 * report().tokens.positions,
        mean_context=1234.5,
        attention_density=0.171,
        masking_cost=cost,
        gpu_seconds=5400.0,
        cost=3.75,
    )
    assert machine_line(measured) == {
        "device": "cuda, flex",
        "GPU hours": "1.50",
        "cost": "3.75",
        "mean context": "1,234 tokens",
        "attention density": "17.1%",
        "masked MFU": "41.4%",
        "MFU unmasked": "55.0%",
        "without packing": f"3.0 × the positions, {duration(2 * report().seconds)} more, 7.50 more",
        "masked ÷ unmasked": "1.31 over 328k positions, rows of 16,384",
    }
    assert run_line(measured)["context"] == "1,234"


def test_what_was_not_measured_is_left_empty() -> None:
    older = Report.model_validate_json(report().model_dump_json(exclude_none=True))
    assert [*machine_line(older).values()][1:] == [""] * 8
    assert run_line(older)["context"] == ""


def test_a_phase_of_imported_rows_alone_has_no_figure_of_the_phase_before() -> None:
    before = figure(1.5, phase="syntax", documents=9)
    imported = report(phase="imported", after=(before,), history=(before,))
    assert imported.own_mean(imported.after, "phase") is None
    assert run_line(imported)["val_bpb"] == ""
    assert run_line(imported)["held out"] == ""
    annealed = report(phase=ANNEAL, after=(before,))
    assert annealed.own_mean(annealed.after, "phase") == before


def test_figures_of_rows_of_two_lengths_are_compared_each_with_its_own() -> None:
    place = {"family": "v6_enriched", "domain": "testing"}
    short, long = figure(2.8, **place), figure(2.3, **place)
    measured = report(before=(short, long), after=(figure(2.7, **place), figure(2.2, **place)))
    found = [(line["before"], line["after"]) for line in figure_lines(measured)]
    assert found == [("2.800", "2.700"), ("2.300", "2.200")]
