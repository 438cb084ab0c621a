"""Claims about our model alone hold on every backend, and each fails of the leak that it is for."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from curriculum.leakcheck import check_decoder, claims, doc_ids_of
from curriculum.leakcheck.proof import ProofScope, cases_of, prove
from curriculum.leakcheck.subject import layouts
from curriculum.model import backends, decoder, dense_backends, masks
from curriculum.model.decoder import rotation_of
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.job import Backend
from tests.curriculum.leakcheck.leaks.site import one_document_a_row
from tests.error_fields import fields

BACKENDS: tuple[Backend, ...] = ("math", "sdpa", "documents", "flex")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


ALWAYS = {
    claims.RECURRING,
    claims.POSITIONS,
    claims.REPEATS,
    claims.REACHES,
    claims.OUTPUTS,
    *claims.CAUSAL,
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_crosses_a_boundary(backend: Backend) -> None:
    everything = {"blocks": "EMCFAF", "streams": 2}
    report = check_decoder(model_spec("tiny", 4096).model_copy(update=everything), backend)
    assert report.passed, report.table()
    found = {finding.claim for finding in report.findings}
    scores = {claims.SCORES} if backend == "math" else set()
    assert found == ALWAYS | {claims.READS_POSITIONS, claims.MASS} | scores
    assert len(report.findings) == len(found)


def test_nothing_crosses_a_boundary_under_a_softcap() -> None:
    report = check_decoder(
        model_spec("tiny", 97, softcap=5.0).model_copy(update={"blocks": "AF"}), "math"
    )
    assert report.passed, report.table()


def failing(backend: Backend = "math") -> set[str]:
    report = check_decoder(model_spec("tiny", 97).model_copy(update={"blocks": "AF"}), backend)
    return {finding.claim for finding in report.failures}


def test_a_mask_without_order_fails_the_claims_about_the_future(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leaking(boundaries: Boundaries, queries: range | None = None) -> Tensor:
        ids_BT = boundaries.doc_ids
        asked_BQ = ids_BT if queries is None else ids_BT[:, queries.start : queries.stop]
        return (asked_BQ[:, :, None] == ids_BT[:, None])[:, None]

    monkeypatch.setattr(dense_backends, "document_mask", leaking)
    assert failing() == claims.CAUSAL | {claims.SCORES}


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_over_rows_has_mass_on_others_and_reads_their_content(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{backend}_attend"
    right = getattr(backends, name)

    def leaking(*given: Any) -> Any:
        joined = (one_document_a_row(x) if isinstance(x, Boundaries) else x for x in given)
        return right(*joined)

    monkeypatch.setattr(backends, name, leaking)
    scores = {claims.SCORES} if backend == "math" else set()
    assert failing(backend) == {claims.OUTPUTS, claims.MASS} | scores


def test_rotations_that_count_by_the_row_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rotation_of

    def leaking(position_ids_BT: Tensor, head_width: int, base: float) -> tuple[Tensor, Tensor]:
        counted = torch.arange(position_ids_BT.shape[1]).expand_as(position_ids_BT)
        return right(counted, head_width, base)

    monkeypatch.setattr(decoder, "rotation_of", leaking)
    assert failing() == {claims.READS_POSITIONS}


def test_positions_that_do_not_restart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Boundaries.from_doc_ids

    def leaking(doc_ids_BT: Tensor) -> Boundaries:
        counted = torch.arange(doc_ids_BT.shape[1]).expand_as(doc_ids_BT).int()
        return dataclasses.replace(right(doc_ids_BT), position_ids=counted)

    monkeypatch.setattr(Boundaries, "from_doc_ids", staticmethod(leaking))
    assert failing() == {claims.POSITIONS}


def test_ids_that_may_recur_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "_require_contiguous_documents", lambda doc_ids_BT: None)
    assert failing() == {claims.RECURRING}


def test_what_a_machine_lacks_is_told_and_nothing_else_is_examined() -> None:
    scope = ProofScope(cases=cases_of(None)[:1], backends=("varlen",), dtypes=(torch.float32,))
    if torch.cuda.is_available():
        pytest.skip("varlen runs here")
    with pytest.raises(JobError, match="on cpu", check=fields(name="leakcheck", value="varlen")):
        prove(scope)


@pytest.mark.slow
def test_every_claim_holds_in_every_dtype() -> None:
    report = prove(
        ProofScope(cases=cases_of(None), backends=BACKENDS, row_lengths=(203, 256, 1000))
    )
    assert report.passed, report.table()
    assert {finding.dtype for finding in report.findings} == {"float64", "float32", "bfloat16"}
    assert len(report.findings) > 500


@pytest.mark.parametrize("row_length", [203, 256, 512, 1000])
def test_layouts_hold_the_shapes_that_go_wrong(row_length: int) -> None:
    rows = layouts(row_length)
    edges = {sum(each[:at]) for each in rows for at in range(len(each) + 1)}
    assert {63, 64, 65, 127, 128, 129} <= edges
    assert {1, 2, 3, row_length} <= {length for each in rows for length in each}
    assert all(sum(each) == row_length for each in rows)


def test_the_example_of_layouts() -> None:
    first, second, third, fourth, *_ = layouts(256)
    assert (first, second) == ((127, 1, 128), (64, 64, 64, 64))
    assert third == (63, 66, 62, 65)
    assert sum(fourth) == 256
    assert doc_ids_of(((2, 1), (3,))).tolist() == [[0, 0, 1], [0, 0, 0]]
