"""Held-out documents in words: how many, of which domains, and which domains val_bpb is silent on."""

import json
import re
from dataclasses import replace

import pytest

from curriculum.corpus.split import BY_HASH, Lineage, choose_val_clusters, hash_fraction
from curriculum.inspection.held_out import (
    ExpectedServing,
    HeldOutDocuments,
    expected_held_out,
)
from curriculum.inspection.run_notes import measured_domains, unmeasured_domains
from curriculum.stages.file_sides import FileSide
from curriculum.supply import ALL, DocumentKind, Estimate, SupplyLine
from schemas.held_out import HeldOutCount
from schemas.mixture import MixtureReport
from tests.factories import READ_ONCE, equal_count, figure, run_report

KINDS = (
    DocumentKind(family="v2_simple", row_length=512),
    DocumentKind(family="v3_simple", row_length=512),
)


def line(kind: DocumentKind, domain: str, tokens: float, held: float) -> SupplyLine:
    return SupplyLine(
        family=kind.family,
        row_length=kind.row_length,
        score=kind.score,
        repository="own",
        domain=domain,
        tokens=tokens,
        error=0.0,
        scored=tokens,
        distinct=tokens,
        documents=1.0,
        shortened=0.0,
        routed=0.0,
        held_out=held,
    )


def test_domains_that_are_served_and_not_held_out_are_named() -> None:
    held = HeldOutDocuments(
        served=("algorithms", "templates", "testing"),
        documents={"testing": 40},
        count=equal_count(40, 9),
        rows={"testing": 12},
    )
    assert held.unmeasured == ("algorithms", "templates")
    assert held.warning() == (
        "val holds 40 documents of 9 lineages in 12 rows, all of testing: val_bpb says nothing of "
        "algorithms, templates. "
        "Add repositories, or raise the corpus's val_fraction"
    )


def _file(path: str, size: int, *, domain: str = "a", is_val: bool = True) -> FileSide:
    return FileSide(lineage=f"own:{path}", domain=domain, num_bytes=size, is_val=is_val)


def test_a_file_that_fills_val_is_named_with_its_share_and_the_line_that_leaves_it_out() -> None:
    files = (
        _file("src/all.cc", 9_000, is_val=False),
        _file("test/catch.hpp", 960),
        _file("src/a.cc", 30),
        _file("src/b.cc", 10),
    )
    held = HeldOutDocuments(
        served=("a",), documents={"a": 40}, count=equal_count(40, 9), files=files
    )
    assert held.warning() == (
        "val is mostly own:test/catch.hpp (96.0%): a file is held out with all its versions, whatever "
        "val_fraction is. Of the whole corpus it is 9.6%. Evaluations read files in turn, so your own code "
        "can stay. To leave out what is bundled or generated, give its repository in the corpus file the "
        "line  "
        'exclude: ["test/catch.hpp"]'
    )
    spread = tuple(_file(f"src/{at}.cc", 10) for at in range(8))
    assert replace(held, files=spread).warning() is None


def test_two_files_that_fill_val_together_are_both_named() -> None:
    files = (_file("x.hpp", 400), _file("y.hpp", 300), *(_file(f"{at}.cc", 60) for at in range(5)))
    held = HeldOutDocuments(
        served=("a",), documents={"a": 40}, count=equal_count(40, 9), files=files
    )
    words = held.warning()
    assert words is not None
    assert "own:x.hpp (40.0%) and own:y.hpp (30.0%)" in words
    assert "40.0% and 30.0%" in words
    assert words.endswith('exclude: ["x.hpp", "y.hpp"]')


def test_the_advice_names_the_val_fraction_that_holds_out_a_file_of_a_domain() -> None:
    sides = tuple(_file(f"{at}.hpp", 9, domain="templates", is_val=False) for at in range(12))
    held = HeldOutDocuments(
        served=("testing", "templates"),
        documents={"testing": 40},
        count=equal_count(40, 9),
        files=sides,
    )
    lowest = min(hash_fraction(each.lineage) for each in sides) / BY_HASH
    found = re.search(r"A val_fraction above ([0-9.]+) holds out a file of templates", _words(held))
    assert found is not None
    fraction = float(found[1])
    assert lowest < fraction <= lowest + 0.001
    files = [
        Lineage(name=each.lineage, repository="own", order=0, since=number)
        for number, each in enumerate(sides)
    ]
    assert choose_val_clusters({file.name: file for file in files}, val_fraction=fraction)
    assert "raise the corpus's val_fraction" in _words(replace(held, is_whole=False))
    alone = _words(replace(held, files=sides[:1]))
    assert " 1 file " in alone


def _words(held: HeldOutDocuments) -> str:
    words = held.warning()
    assert words is not None
    return words


@pytest.mark.parametrize(
    ("documents", "lineages", "warned"), [(0, 0, True), (7, 7, True), (99, 3, True), (8, 4, False)]
)
def test_too_few_documents_or_lineages_are_warned_of(
    documents: int, lineages: int, warned: bool
) -> None:
    served = ("a",) if documents else ()
    held = HeldOutDocuments(
        served=served, documents={"a": documents}, count=equal_count(documents, lineages)
    )
    found = held.warning()
    assert (found is not None) == warned
    if found:
        assert "8 documents of 4 lineages" in found


def test_documents_enough_of_little_weight_are_warned_of_with_what_they_are_worth() -> None:
    count = HeldOutCount(documents=21, lineages=12, effective_documents=4.0, effective_lineages=2.1)
    words = HeldOutDocuments(
        served=("a",), documents={"a": 21}, count=count, rows={"a": 9}
    ).warning()
    assert words is not None
    assert "21 documents of 12 lineages (by weight 4.0 of 2.1) in 9 rows" in words


def serving(kind: DocumentKind, share: float = 0.5) -> ExpectedServing:
    return ExpectedServing(kind=kind, share=share)


def test_an_estimate_holds_out_the_documents_of_all_families() -> None:
    two, three = KINDS
    lines = (
        line(two, ALL, 900.0, 30.0),
        line(two, "a", 500.0, 25.0),
        line(two, "b", 400.0, 0.0),
        line(three, "a", 300.0, 27.0),
        line(three, "c", 0.0, 3.0),
    )
    files = (_file("a.cc", 9), _file("b.cc", 9, domain="z"), _file("c.cc", 9, is_val=False))
    found = Estimate(kinds=frozenset(KINDS), lines=lines, samplings=(), notes=(), files=files)
    held = expected_held_out(found, [*map(serving, KINDS)])
    assert (held.served, held.unmeasured) == (("a", "b"), ("b",))
    assert held.documents == {"a": 52, "b": 0, "c": 3}
    assert held.count.lineages == 1, "of the domains that are served"
    assert expected_held_out(found, [serving(two)]).documents == {"a": 25, "b": 0}


def test_an_estimate_is_weighed_by_the_shares_of_the_servings() -> None:
    """19 documents of 10 files of a light serving don't carry 2 documents of a heavy one."""
    two, three = KINDS
    lines = (line(two, "a", 500.0, 19.0), line(three, "a", 500.0, 2.0))
    files = tuple(_file(f"{at}.cc", 9) for at in range(10))
    found = Estimate(kinds=frozenset(KINDS), lines=lines, samplings=(), notes=(), files=files)
    light, heavy = serving(two, 0.3), serving(three, 0.7)
    assert expected_held_out(found, [light]).count.is_sure
    held = expected_held_out(found, [light, heavy])
    assert (held.count.documents, held.count.lineages) == (21, 10)
    assert not held.count.is_sure
    words = held.warning()
    assert words is not None
    assert "about 21 documents of 10 lineages (by weight 4.0 of" in words


def mixture(*domains: str) -> MixtureReport:
    stratum = {
        "serving": 0, "family": "v2_simple", "objective": "causal", "row_length": 512, "rows_key": "k",
        "rows": 1, "rows_tokens": 1, "share": 0.5, "served": 0.5, "slots": 1, "drawn": 1,
        "drawn_before": 0, "tokens": 1, "variants": [],
    }  # fmt: skip
    return MixtureReport.model_validate_json(
        json.dumps(
            {
                "slot_length": 512, "slots": 1, "rows": 1, "tokens": 1, "budget": 1,
                "repetition": READ_ONCE.model_dump(), "tokens_per_step": 512, "steps": 1, "warnings": [],
                "strata": [
                    {**stratum, "stratum": at, "domain": name} for at, name in enumerate(domains)
                ],
            }
        )
    )  # fmt: skip


def test_a_report_names_the_domains_of_its_own_phase_alone() -> None:
    figures = (
        figure(2.0, phase="syntax", family="*", domain="*"),
        figure(2.0, phase="syntax", family="v2_simple", domain="templates"),
        figure(2.0, phase="file_graph", family="*", domain="*"),
        figure(2.0, phase="file_graph", family="v2_simple", domain="testing"),
    )
    report = run_report(phase="file_graph", after=figures)
    assert measured_domains(report) == ("testing",)
    assert unmeasured_domains(report, mixture("testing", "algorithms")) == ("algorithms",)
    assert unmeasured_domains(run_report(after=()), mixture("testing")) == ()
