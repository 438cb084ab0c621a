"""REPACKED sees leaks, wherever in the product they are; and says nothing of the product without them."""

import pytest
import torch
from torch import Tensor, nn

from curriculum.leakcheck.proof import MAX_LENGTH
from curriculum.model import conv
from tests.curriculum.leakcheck.leaks import (
    LEAKS,
    OUTSIDE,
    InjectedLeak,
    Needs,
    Site,
    first_disagreement,
    try_leak,
)

SMALL = [leak for leak in LEAKS if leak.needs.row_length <= MAX_LENGTH and leak not in OUTSIDE]
LARGE = [leak for leak in LEAKS if leak not in SMALL]


@pytest.mark.parametrize("leak", SMALL, ids=lambda leak: leak.words)
def test_a_leak_is_seen(leak: InjectedLeak) -> None:
    assert try_leak(leak) is not None


@pytest.mark.system
@pytest.mark.parametrize("leak", LARGE, ids=lambda leak: leak.words)
def test_a_leak_of_long_rows_or_from_outside_is_seen(leak: InjectedLeak) -> None:
    assert try_leak(leak) is not None


@pytest.mark.parametrize("needs", [*dict.fromkeys(leak.needs for leak in SMALL)], ids=repr)
def test_packings_agree_under_the_settings_of_each_leak_without_it(needs: Needs) -> None:
    assert first_disagreement(needs) is None


@pytest.mark.system
@pytest.mark.parametrize("needs", [*dict.fromkeys(leak.needs for leak in LARGE)], ids=repr)
def test_packings_agree_in_long_rows_too(needs: Needs) -> None:
    assert first_disagreement(needs) is None


def test_there_are_sixty_leaks_at_many_places() -> None:
    assert len({leak.words for leak in LEAKS}) == len(LEAKS) >= 60
    assert len(OUTSIDE) >= 50
    assert len({(leak.owner, leak.name) for leak in LEAKS}) >= 30


def test_no_leak_is_left_after_its_context() -> None:
    right = [leak.owner.__dict__[leak.name] for leak in LEAKS]
    for leak in LEAKS:
        with leak.injected():
            assert leak.owner.__dict__[leak.name] is not right[LEAKS.index(leak)]
    assert [leak.owner.__dict__[leak.name] for leak in LEAKS] == right


def harmful(site: Site[Tensor], *given: Tensor) -> Tensor:
    site.ran()
    return site.right(*given) + 1


def leak_at(owner: object, name: str, *, blocks: str) -> InjectedLeak:
    return InjectedLeak(
        words="made up",
        kind="made up",
        owner=owner,
        name=name,
        leaking=harmful,
        needs=Needs(blocks=blocks, row_length=128),
    )


def test_a_leak_whose_function_is_gone_is_refused() -> None:
    with pytest.raises(KeyError, match="no_such_function"):
        try_leak(leak_at(conv, "no_such_function", blocks="C"))
    with pytest.raises(KeyError, match="forward"):
        try_leak(leak_at(type("Bare", (nn.Linear,), {}), "forward", blocks="F"))


def test_a_change_that_is_the_same_for_all_packings_is_no_leak() -> None:
    assert try_leak(leak_at(torch.nn.functional, "silu", blocks="F")) is None
