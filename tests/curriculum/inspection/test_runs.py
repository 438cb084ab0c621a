from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from curriculum.inspection import runs
from curriculum.inspection.formats import TOO_FEW
from curriculum.inspection.runs import NOT_SURE, rise_words
from curriculum.train.document_sums import PairedChange
from schemas.job import Figure, Report
from tests import factories


def figure(step: int, val_bpb: float) -> Figure:
    """The mean of the phase's own set at a step."""
    return factories.figure(val_bpb, step=step, low=val_bpb - 0.1, high=val_bpb + 0.1)


def report(*curve: tuple[int, float], **changes: Any) -> Report:
    """A run with this curve of val_bpb by step, which ends with the last of them."""
    history = tuple(figure(*point) for point in curve)
    return factories.run_report(history=history, steps=curve[-1][0] if curve else 3, **changes)


def paired(monkeypatch: pytest.MonkeyPatch, low: float, high: float, documents: int = 9) -> None:
    """Let the change on the same documents have this interval."""
    found = PairedChange(
        change=(low + high) / 2,
        low=low,
        high=high,
        count=factories.equal_count(documents, documents),
    )
    monkeypatch.setattr(runs, "rise_between", lambda *_: found)


def test_a_phase_that_got_worse_is_remarked_with_its_cause_and_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paired(monkeypatch, 0.1, 0.3)
    worse = rise_words(tmp_path, report((0, 2.0), (20, 2.1), (40, 2.2)))
    assert worse.startswith("val_bpb rose from 2.000 before its first step to 2.200: likeliest")
    assert "advance_when" in worse
    late = rise_words(tmp_path, report((0, 3.0), (20, 1.8), (40, 2.0)))
    assert late.startswith("val_bpb rose from 1.800 at step 20 to 2.000: likeliest")
    anneal = rise_words(tmp_path, report((0, 1.0), (40, 1.1), phase="anneal"))
    assert "max_repetition" in anneal


@pytest.mark.parametrize("curve", [(), ((40, 2.0),), ((0, 3.0), (20, 2.0), (40, 1.9))])
def test_a_phase_that_did_not_get_worse_is_not_remarked(
    tmp_path: Path, curve: Sequence[tuple[int, float]]
) -> None:
    assert rise_words(tmp_path, report(*curve)) == ""


def test_a_rise_of_too_few_documents_asks_for_more_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for low, high, documents, doubt in ((-0.1, 0.5, 9, NOT_SURE), (0.2, 0.2, 1, TOO_FEW)):
        paired(monkeypatch, low, high, documents)
        rise = rise_words(tmp_path, report((0, 2.0), (40, 2.2)))
        assert f"on 12 documents of 5 lineages, {doubt}: raise val_fraction" in rise
        assert "learning rate" not in rise
        assert rise_words(tmp_path, report((0, 3.0), (20, 1.8), (40, 1.81))) == ""


def test_without_documents_of_a_run_no_rise_is_sure(tmp_path: Path) -> None:
    rise = rise_words(tmp_path, report((0, 2.0), (40, 2.2)))
    assert "too few to tell" in rise
