"""Leaks planted into the step that trains: each turns exactly its claims red, and the right step none."""

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from curriculum.leakcheck import claims, proof
from curriculum.leakcheck.injected import (
    KINDS,
    LEAKS,
    InjectedLeak,
    Needs,
    Site,
    red_claims,
    try_leak,
)
from curriculum.leakcheck.proof import Scope, cases_of, prove
from curriculum.model import conv
from curriculum.train import optimizer

SETTINGS = tuple({repr(each.needs): each.needs for each in LEAKS}.values())


@pytest.mark.parametrize("leak", LEAKS, ids=lambda each: each.words)
def test_a_planted_leak_turns_exactly_its_claims_red(leak: InjectedLeak) -> None:
    tried = try_leak(leak)
    assert tried.passed, (tried.blind, tried.beyond)


@pytest.mark.parametrize("needs", SETTINGS, ids=repr)
def test_nothing_is_red_under_the_settings_of_a_leak_without_it(needs: Needs) -> None:
    assert red_claims(needs) == ()


def test_each_kind_has_leaks_at_two_places() -> None:
    places = {(each.kind, each.owner, each.name) for each in LEAKS}
    found = Counter(kind for kind, _, _ in places)
    assert set(found) == set(KINDS)
    assert min(found.values()) >= 2
    assert len({each.words for each in LEAKS}) == len(LEAKS)


def test_no_leak_is_left_after_its_context() -> None:
    right = [each.owner.__dict__[each.name] for each in LEAKS]
    for leak in LEAKS:
        with leak.injected():
            assert leak.owner.__dict__[leak.name] is not right[LEAKS.index(leak)]
    assert [each.owner.__dict__[each.name] for each in LEAKS] == right


def harmful(site: Site[Tensor], *given: Tensor) -> Tensor:
    site.ran()
    return site.right(*given) + 1


def leak_at(owner: object, name: str, *, blocks: str) -> InjectedLeak:
    return InjectedLeak(
        words="made up",
        kind=KINDS[0],
        owner=owner,
        name=name,
        leaking=harmful,
        needs=Needs(blocks=blocks),
        red=frozenset({claims.SCORED}),
    )


def test_a_leak_whose_function_is_gone_is_refused() -> None:
    with pytest.raises(KeyError, match="no_such_function"):
        try_leak(leak_at(conv, "no_such_function", blocks="C"))
    with pytest.raises(KeyError, match="forward"):
        try_leak(leak_at(type("Bare", (nn.Linear,), {}), "forward", blocks="F"))


def test_a_leak_whose_code_never_runs_is_a_failure_though_claims_are_red() -> None:
    def silent(site: Site[object], *given: object, **named: object) -> object:
        return site.right(*given, **named)

    assert not try_leak(leak_at(conv, "_heads", blocks="F")).passed
    unread = leak_at(optimizer, "decays", blocks="F")
    assert try_leak(unread).red == ()


def test_a_leak_that_no_claim_sees_is_a_failure() -> None:
    def harmless(site: Site[object], *given: object) -> object:
        site.ran()
        return site.right(*given)

    made_up = leak_at(conv, "_heads", blocks="C")
    blind = InjectedLeak(
        words=made_up.words,
        kind=made_up.kind,
        owner=conv,
        name="_heads",
        leaking=harmless,
        needs=made_up.needs,
        red=made_up.red,
    )
    tried = try_leak(blind)
    assert (tried.passed, tried.blind) == (False, (claims.SCORED,))


@pytest.mark.parametrize(("full", "planted"), [(True, 1), (False, 0)])
def test_a_full_proof_plants_leaks_into_the_step_too(
    monkeypatch: pytest.MonkeyPatch, full: bool, planted: int
) -> None:
    own, other = (next(each for each in LEAKS if each.needs.blocks == blocks) for blocks in "FM")
    monkeypatch.setattr(proof, "LEAKS", (own, other))
    monkeypatch.setattr(proof, "MUTATIONS", ())
    report = prove(
        Scope(
            cases=cases_of("F")[:1],
            backends=("documents",),
            dtypes=(torch.float32,),
            row_lengths=(128,),
            uneven=False,
            every_dtype=full,
        )
    )
    assert [each.leak for each in report.planted] == [own.words][:planted]
    assert report.passed, report.planted
