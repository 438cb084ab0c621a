"""Notes on finished runs: rises with cause and cure, how the anneal left them, and the best anchor."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.inspection import run_notes
from curriculum.inspection.formats import TOO_FEW
from curriculum.inspection.run_notes import (
    FinishedRun,
    anchor_words,
    rise_words,
    rises,
    samples,
    silences,
)
from curriculum.inspection.runs import NOT_SURE
from curriculum.packing.held_out_order import read_order
from curriculum.store import Store
from curriculum.train.document_sums import PairedChange
from schemas.mixture import MixtureReport, StratumReport
from tests import factories
from tests.curriculum.train.conftest import World, make_plan, make_rows, make_tokenizer


def run(path: Path, *curve: tuple[int, float], **changes: Any) -> FinishedRun:
    """A run with this curve of val_bpb of syntax by step, which ends with the last of them."""
    mixture = changes.pop("mixture", None)
    history = tuple(factories.figure(val_bpb, step=step) for step, val_bpb in curve)
    report = factories.run_report(
        history=history, after=history[-1:], steps=curve[-1][0] if curve else 3
    ).model_copy(update=changes)
    return FinishedRun(path=path, report=report, mixture=mixture)


def paired(monkeypatch: pytest.MonkeyPatch, low: float, high: float, documents: int = 9) -> None:
    """Let the change on the same documents have this interval."""
    count = factories.equal_count(documents, documents)
    found = PairedChange(change=(low + high) / 2, low=low, high=high, count=count)
    monkeypatch.setattr(run_notes, "change_between", lambda *_: found)


def test_a_phase_that_got_worse_is_remarked_with_its_cause_and_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paired(monkeypatch, 0.1, 0.3)
    worse = rise_words(run(tmp_path, (0, 2.0), (20, 2.1), (40, 2.2)))
    assert re.findall(r"\d\.\d{3}", worse)[:2] == ["2.000", "2.200"]
    assert "advance_when" in worse
    late = rise_words(run(tmp_path, (0, 3.0), (20, 1.8), (40, 2.0)))
    assert re.findall(r"\d\.\d{3}| step \d+", late)[:3] == ["1.800", " step 20", "2.000"]
    anneal = rise_words(run(tmp_path, (0, 1.0), (40, 1.1), phase="anneal"))
    assert "max_repetition" in anneal


@pytest.mark.parametrize("curve", [(), ((40, 2.0),), ((0, 3.0), (20, 2.0), (40, 1.9))])
def test_a_phase_that_did_not_get_worse_is_not_remarked(
    tmp_path: Path, curve: Sequence[tuple[int, float]]
) -> None:
    assert rise_words(run(tmp_path, *curve)) == ""


def test_a_rise_of_too_few_documents_asks_for_more_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for low, high, documents, doubt in ((-0.1, 0.5, 9, NOT_SURE), (0.2, 0.2, 1, TOO_FEW)):
        paired(monkeypatch, low, high, documents)
        rise = rise_words(run(tmp_path, (0, 2.0), (40, 2.2)))
        assert f"12 documents of 5 lineages, {doubt}:" in rise
        assert "learning rate" not in rise
        assert rise_words(run(tmp_path, (0, 3.0), (20, 1.8), (40, 1.81))) == ""


def test_without_documents_of_a_run_no_rise_is_sure(tmp_path: Path) -> None:
    assert TOO_FEW in rise_words(run(tmp_path, (0, 2.0), (40, 2.2)))


@pytest.mark.parametrize(("end", "made_up"), [(1.9, True), (2.1, False)])
def test_a_rise_says_whether_the_anneal_made_up_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: float, made_up: bool
) -> None:
    paired(monkeypatch, 0.1, 0.3)
    worse = run(tmp_path, (0, 2.0), (40, 2.2))
    anneal = run(tmp_path, (0, 2.2), (40, end), phase="anneal")
    (line,) = rises([worse, anneal])
    assert ("The anneal made up" in line) is made_up
    assert f"{end:.3f}" in line
    assert ("portion" in line) is not made_up, "what is made up for needs no cure"
    (alone,) = rises([worse])
    assert "anneal" in alone


@pytest.mark.parametrize(
    ("drawn", "losses", "by_heart"),
    [(31, (3.7, 1.3), True), (31, (1.3, 1.4), False), (20, (3.7, 1.3), False)],
)
def test_rows_read_often_while_the_loss_falls_are_named_as_the_cause(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    drawn: int,
    losses: tuple[float, float],
    by_heart: bool,
) -> None:
    paired(monkeypatch, 0.1, 0.3)
    (tmp_path / "metrics").mkdir()
    table = pa.table({"step": [1, 40], "loss": [*losses]})
    pq.write_table(table, tmp_path / "metrics" / "0000000001.parquet")
    words = rise_words(run(tmp_path, (0, 2.0), (40, 2.2), mixture=mixture(drawn)))
    assert ("3.1 times" in words) == by_heart
    assert ("from 3.70 to 1.30" in words) == by_heart
    assert ("learning rate" in words) is not by_heart


def mixture(drawn: int, *domains: str) -> MixtureReport:
    """A plan that read each ten rows of a domain so many times in all."""
    strata = tuple(
        StratumReport(
            stratum=at, serving=0, family="v4_context_graph", objective="causal", domain=domain,
            row_length=512, rows_key="k", rows=10, rows_tokens=1, share=0.5, served=0.5, slots=1,
            drawn=drawn, drawn_before=0, tokens=1,
        )
        for at, domain in enumerate(domains or ("testing",))
    )  # fmt: skip
    return MixtureReport(
        slot_length=512, slots=1, rows=1, tokens=1, budget=1, tokens_per_step=512, steps=1, warnings=(),
        strata=strata, repetition=factories.READ_ONCE,
    )  # fmt: skip


def anchors(path: Path, phase: str, val_bpb: float) -> FinishedRun:
    after = (factories.figure(val_bpb, set="anchor", phase="anchor"),)
    return FinishedRun(path=path, report=factories.run_report(phase=phase, after=after))


def test_a_model_that_ends_worse_than_a_phase_of_its_own_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = [
        anchors(tmp_path, phase, val_bpb)
        for phase, val_bpb in (("syntax", 1.729), ("file_graph", 1.806), ("anneal", 1.817))
    ]
    paired(monkeypatch, 0.05, 0.12)
    words = anchor_words(runs)
    assert re.findall(r"after \w+|\d\.\d{3}", words)[:4] == [
        "after syntax",
        "1.729",
        "1.817",
        "after anneal",
    ]
    assert "+0.085 (+0.050 to +0.120)" in words
    paired(monkeypatch, -0.03, 0.2)
    assert anchor_words(runs).endswith(NOT_SURE)
    paired(monkeypatch, 0.05, 0.12, documents=3)
    assert anchor_words(runs).endswith(TOO_FEW)
    assert anchor_words(runs[:1]) == anchor_words(runs[:0]) == ""
    assert anchor_words(runs[::-1]) == "", "the last is the best"


def test_domains_that_no_phase_measures_are_named_once(tmp_path: Path) -> None:
    after = (factories.figure(2.0), factories.figure(2.0, family="v2_simple", domain="testing"))
    runs = [
        FinishedRun(
            path=tmp_path,
            report=factories.run_report(phase=phase, after=after),
            mixture=mixture(1, "testing", *more),
        )
        for phase, more in (("syntax", ["kernels"]), ("file_graph", []), ("anneal", ["kernels"]))
    ]
    (line,) = silences(runs)
    assert line.startswith("syntax, anneal: ")
    assert "kernels" in line


def test_the_documents_that_evaluations_skip_are_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows, val = (make_rows(store, length=256, count=16, split=split) for split in ("train", "val"))
    plan = make_plan(store, [rows], slots=4)
    world = World(store=store, rows=(rows,), val=val, tokenizer=make_tokenizer(store), plan=plan)
    job = world.job()
    after = (factories.figure(2.0, documents=32, lineages=8),)
    done = FinishedRun(path=world.open_run(job), report=factories.run_report(after=after))
    held = {name for row in read_order(val.path).rows for name in row.documents}
    (line,) = samples(store, [done])
    assert line.startswith("syntax: ")
    assert f"32 of {len(held)} " in line
    assert "2,048 positions" in line
    whole = tuple(each.model_copy(update={"documents": len(held)}) for each in job.evaluations)
    everything = world.open_run(world.job(evaluations=whole))
    assert samples(store, [FinishedRun(path=everything, report=done.report)]) == []
