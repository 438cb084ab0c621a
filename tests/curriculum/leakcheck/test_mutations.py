"""Every leak that is planted turns exactly its claims red, and leaves nothing behind."""

import pytest
import torch

from curriculum.leakcheck import proof
from curriculum.leakcheck.claims import MASS, OUTPUTS, SCORES
from curriculum.leakcheck.injected.site import swapped
from curriculum.leakcheck.mutations import MUTATIONS, Mutation
from curriculum.leakcheck.proof import Scope, cases_of, prove
from curriculum.model import conv, dense_backends
from curriculum.model.masks import Chunks
from schemas.errors import JobError
from schemas.leak import Finding, InjectedLeakReport, LeakReport

EVERYTHING = cases_of(None)
HERE = [each for each in MUTATIONS if each.backend != "varlen"]


def planted(mutation: Mutation) -> LeakReport:
    """The proof of one family with one leak to plant."""
    case = next(each for each in EVERYTHING if each.name == mutation.case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "MUTATIONS", (mutation,))
        scope = Scope(
            cases=(case,),
            backends=(mutation.backend,),
            dtypes=(torch.float32,),
            row_lengths=(128,),
            uneven=False,
        )
        return prove(scope)


@pytest.mark.parametrize("mutation", HERE, ids=lambda each: f"{each.leak}-{each.backend}")
def test_a_planted_leak_turns_exactly_its_claims_red(mutation: Mutation) -> None:
    report = planted(mutation)
    (only,) = report.planted
    assert set(only.red) == mutation.red, (only.blind, only.beyond)
    assert report.passed, report.table()


def test_leaks_are_planted_into_every_family_that_mixes_tokens() -> None:
    families = {case.name for case in EVERYTHING[:-1]} - {"feed-forward"}
    assert {each.case for each in MUTATIONS} == families
    unmasked = [each.backend for each in MUTATIONS if each.of_backend]
    assert unmasked == ["math", "sdpa", "documents", "flex", "varlen"]


def test_a_leak_is_gone_after_its_context() -> None:
    right = (conv.within, vars(dense_backends)["document_mask"], Chunks.of)
    for mutation in HERE:
        with mutation.plant():
            pass
    assert (conv.within, vars(dense_backends)["document_mask"], Chunks.of) == right


def test_a_leak_that_a_claim_does_not_see_is_a_failure_of_the_proof() -> None:
    harmless = Mutation(
        leak="nothing",
        case="feed-forward",
        plant=lambda: swapped(conv, "within", conv.within),
        red=frozenset({OUTPUTS}),
    )
    report = planted(harmless)
    assert not report.failures
    assert not report.passed
    assert report.unproven[0].blind == (OUTPUTS,)


def test_a_leak_that_turns_more_red_than_told_is_a_failure_of_the_proof() -> None:
    told = InjectedLeakReport(leak="", subject="", dtype="", expected=(MASS,), red=(MASS, SCORES))
    assert (told.blind, told.beyond, told.passed) == ((), (SCORES,), False)
    holds = Finding(subject="", dtype="", claim="", passed=True)
    assert LeakReport(findings=(holds,)).passed
    assert not LeakReport(findings=(holds,), planted=(told,)).passed
    assert not LeakReport(findings=()).passed


def test_what_a_machine_lacks_is_told_and_nothing_else_is_examined() -> None:
    scope = Scope(
        cases=EVERYTHING[:1], backends=("varlen",), dtypes=(torch.float32,), mutations=False
    )
    if torch.cuda.is_available():
        pytest.skip("varlen runs here")
    with pytest.raises(JobError, match="its kernel runs on GPUs only"):
        prove(scope)


@pytest.mark.slow
def test_everything_holds_in_every_dtype() -> None:
    report = prove(
        Scope(
            cases=EVERYTHING,
            backends=("math", "sdpa", "documents", "flex"),
            every_dtype=True,
        )
    )
    assert report.passed, report.table()
    assert {each.dtype for each in report.findings} == {"float64", "float32", "bfloat16"}
    assert len(report.findings) > 700
