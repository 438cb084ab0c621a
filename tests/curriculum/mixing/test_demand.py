import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from curriculum.mixing.phase_faults import domain_faults
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_supply import Supply
from curriculum.mixing.strata import Stratum, demand, missing_domains
from schemas.errors import MixtureError
from tests.error_fields import fields

Make = Callable[..., Any]


def supply(key: str = "a", **tokens: list[int]) -> Supply:
    names = sorted(tokens)
    valid = [each for name in names for each in tokens[name]]
    codes = [at for at, name in enumerate(names) for _ in tokens[name]]
    return Supply(
        key=key,
        domains=tuple(names),
        domain=np.array(codes, dtype=np.int16),
        valid_tokens=np.array(valid, dtype=np.int32),
        attention_pairs=np.zeros(len(valid), dtype=np.int64),
        pack_index=np.arange(len(valid)),
        shard_starts=np.array([0, len(valid)]),
    )


def of_one_variant(phase: ResolvedPhase, supplies: list[Supply]) -> tuple[Stratum, ...]:
    return demand(phase, [[each] for each in supplies])


def test_a_domain_gets_tokens_by_what_there_is_times_its_factor(serving: Make, phase: Make) -> None:
    one = serving(domains=(("*", 1.0), ("templates", 3.0)))
    strata = of_one_variant(phase(one, tokens=10), [supply(templates=[10, 20], other=[90])])
    assert [(each.domain, each.share) for each in strata] == [("other", 0.5), ("templates", 0.5)]


def test_domains_without_factors_are_seen_alike(serving: Make, phase: Make) -> None:
    strata = of_one_variant(phase(serving(), tokens=10), [supply(templates=[30], other=[90])])
    assert {each.domain: each.share for each in strata} == {"other": 0.75, "templates": 0.25}


def test_a_factor_of_zero_leaves_a_domain_out(serving: Make, phase: Make) -> None:
    one = serving(domains=(("*", 0.0), ("templates", 1.0)))
    (stratum,) = of_one_variant(phase(one, tokens=10), [supply(templates=[10], other=[90])])
    assert (stratum.domain, stratum.share) == ("templates", 1.0)


def test_a_domain_without_rows_is_warned_of_and_takes_nothing(serving: Make, phase: Make) -> None:
    one = serving(domains=(("*", 1.0), ("nothing", 0.0), ("tests", 2.0)))
    resolved = phase(one, tokens=10)
    (stratum,) = strata = of_one_variant(resolved, [supply(other=[90])])
    assert (stratum.domain, stratum.share) == ("other", 1.0)
    (said,) = missing_domains(resolved, strata)
    assert "tests" in said
    assert said.endswith(" 2 is idle")


def test_a_serving_of_domains_without_rows_alone_is_empty(serving: Make, phase: Make) -> None:
    one = serving(domains=(("*", 0.0), ("tests", 1.0)))
    with pytest.raises(MixtureError, check=fields(value="v3_simple causal at 512")):
        of_one_variant(phase(one, tokens=10), [supply(other=[90])])


def test_a_domain_that_no_rule_gives_is_refused_with_the_likely_one(
    serving: Make, phase: Make
) -> None:
    known = ("testing", "templates", "general")
    right = phase(serving(domains=(("*", 1.0), ("testing", 2.0))), tokens=10)
    assert not [*domain_faults([right], known)]
    wrong = phase(serving(domains=(("testng", 2.0),)), tokens=10)
    (fault,) = domain_faults([right, wrong], known)
    assert fault.location == ("phases", 1, "servings", 0, "domains", "testng")
    assert "'testing'" in fault.cure


def test_slots_come_as_often_as_their_share_needs_at_their_fill(serving: Make, phase: Make) -> None:
    """Rows of 512 that are half full must come twice as often as full ones."""
    strata = of_one_variant(
        phase(serving(share=0.5), serving(1, share=0.5, row_length=1024), tokens=10),
        [supply("a", x=[256] * 8), supply("b", x=[1024] * 4)],
    )
    assert [each.slots_per_token(1024) for each in strata] == [1 / 512, 1 / 1024]


def test_a_shortage_says_what_there_is_what_is_asked_and_what_to_change(
    serving: Make, phase: Make
) -> None:
    asked = phase(serving(share=0.5), serving(1, share=0.5), tokens=10_000, max_repetition=4)
    with pytest.raises(MixtureError) as caught:
        of_one_variant(asked, [supply("a", x=[500]), supply("b", x=[5000])])
    said = str(caught.value)
    assert "v3_simple causal at 512, domain x" in said
    assert {"5,000", "500"} <= {*said.replace(";", " ").split()}
    assert re.search(r" 10 times, .* 4\b", said)
    assert re.search(r"token_budget to 4K, .*max_repetition to 10\b", said)


def test_a_shortage_says_how_far_a_share_must_be_lowered(serving: Make, phase: Make) -> None:
    rows = [supply("a", x=[500], y=[9_000]), supply("b", y=[90_000])]

    def asked(share: float, **domains: float) -> ResolvedPhase:
        first = serving(share=share, domains=tuple(domains.items()))
        resolved: ResolvedPhase = phase(
            first,
            serving(1, share=1 - share),
            tokens=10_000,
            max_repetition=1,
            location=("phases", 2),
        )
        return resolved

    for domains, before, said in (
        ({"x": 9.0}, 9.0, "its factor in domains"),
        ({"y": 0.0}, 0.6, "the serving's share"),
    ):
        with pytest.raises(MixtureError, match=f"lower {said} from {before:g} to") as short:
            of_one_variant(asked(0.6, **domains), rows)
        assert short.value.location == ("phases", 2, "servings", 0)
        fitting = float(short.value.cure.partition(f"{said} from {before:g} to ")[2].split(",")[0])
        for number, fits in ((fitting, True), (1.02 * fitting, False)):
            now = asked(0.6, x=number) if "x" in domains else asked(number, **domains)
            with nullcontext() if fits else pytest.raises(MixtureError):
                of_one_variant(now, rows)


def test_all_that_a_phase_lacks_is_named(serving: Make, phase: Make) -> None:
    servings = (serving(share=0.5), serving(1, share=0.5, row_length=1024))
    rows = [supply("a", x=[500], y=[400]), supply("b", z=[300], y=[400])]
    with pytest.raises(MixtureError) as short:
        of_one_variant(phase(*servings, tokens=100_000, max_repetition=2), rows)
    assert "at 512 (x)" in short.value.cause or "at 512 (x, y)" in short.value.cause
    assert "at 1024 (" in short.value.cause
    assert " 0.5 to " in short.value.cure


def test_exactly_max_repetition_is_served(serving: Make, phase: Make) -> None:
    (stratum,) = of_one_variant(phase(serving(), tokens=2000, max_repetition=4), [supply(x=[500])])
    assert stratum.served == 1.0
    with pytest.raises(MixtureError, match=r"4\.01 times"):
        of_one_variant(phase(serving(), tokens=2001, max_repetition=4), [supply(x=[500])])


def test_renormalise_cuts_the_short_and_raises_the_others_alike(serving: Make, phase: Make) -> None:
    servings = [serving(at, share=share) for at, share in enumerate((0.5, 0.25, 0.25))]
    strata = of_one_variant(
        phase(*servings, tokens=1000, max_repetition=2, on_shortage="renormalise"),
        [supply("a", x=[100]), supply("b", x=[900]), supply("c", x=[900])],
    )
    assert [each.served for each in strata] == pytest.approx([0.2, 0.4, 0.4])
    assert [each.share for each in strata] == [0.5, 0.25, 0.25]


def test_renormalise_cuts_those_that_the_raise_makes_short(serving: Make, phase: Make) -> None:
    servings = [serving(at, share=share) for at, share in enumerate((0.6, 0.3, 0.1))]
    strata = of_one_variant(
        phase(*servings, tokens=1000, max_repetition=1, on_shortage="renormalise"),
        [supply("a", x=[300]), supply("b", x=[310]), supply("c", x=[900])],
    )
    assert [each.served for each in strata] == pytest.approx([0.3, 0.31, 0.39])


def test_renormalise_cannot_make_rows(serving: Make, phase: Make) -> None:
    with pytest.raises(MixtureError, match=r" 200 .*max_repetition 2"):
        of_one_variant(
            phase(serving(), tokens=1000, max_repetition=2, on_shortage="renormalise"),
            [supply(x=[100])],
        )


def test_a_serving_without_rows_is_an_error_unless_the_phase_renormalises(
    serving: Make, phase: Make
) -> None:
    servings = (serving(share=0.5), serving(1, share=0.5, family="v2_simple"))
    supplies = [supply("a", x=[500]), supply("b")]
    with pytest.raises(MixtureError, check=fields(value="v2_simple causal at 512")):
        of_one_variant(phase(*servings, tokens=100), supplies)
    (stratum,) = of_one_variant(phase(*servings, tokens=100, on_shortage="renormalise"), supplies)
    assert (stratum.serving.index, stratum.served, stratum.share) == (0, 1.0, 0.5)
    with pytest.raises(MixtureError, check=fields(value="v3_simple causal at 512")):
        of_one_variant(phase(serving(), tokens=100, on_shortage="renormalise"), [supply("a")])
