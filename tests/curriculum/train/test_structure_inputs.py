from typing import Any

import pytest

from curriculum.train.job import reads_structure
from schemas.diet import Diet
from schemas.errors import JobError

FLAT = [{"family": "v2_simple", "share": 1}]
MIXED = [{"family": "v2_simple", "share": 0.5}, {"family": "v6_enriched", "share": 0.5}]


def diet(*servings: list[dict[str, Any]], **changes: Any) -> Diet:
    """A diet of phases one, two …, each with its servings."""
    names = ("one", "two", "three")
    phases = [
        {"phase": name, "portion": 1 / len(servings), "servings": eaten}
        for name, eaten in zip(names, servings, strict=False)
    ]
    values = {"specialist": "tester", "corpus": "sample", "model": "tiny", "token_budget": "1M"}
    return Diet.model_validate(values | {"phases": phases} | changes)


def before(world: Any, *, structure: bool) -> Any:
    model = world.job().model.model_copy(update={"structure": structure})
    return world.job(model=model)


def test_structure_is_read_from_the_first_phase_that_has_it_to_the_last(world: Any) -> None:
    eaten = diet(FLAT, MIXED, FLAT)
    found = [reads_structure(eaten, name, None) for name in ("one", "two", "three", "anneal")]
    assert found == [False, True, True, True]
    assert not reads_structure(diet(FLAT, FLAT), "anneal", None)
    assert not reads_structure(eaten, "one", before(world, structure=False))
    assert reads_structure(eaten, "two", before(world, structure=False))


def test_a_model_that_reads_structure_goes_on_doing_so(world: Any) -> None:
    assert reads_structure(diet(FLAT), "one", before(world, structure=True))


def test_a_diet_may_leave_structure_to_the_rows(world: Any) -> None:
    flat = diet(FLAT, MIXED, structure_inputs=False)
    assert not reads_structure(flat, "two", before(world, structure=False))
    with pytest.raises(JobError, match=r"structure_inputs: false; .* structure_inputs: true"):
        reads_structure(flat, "two", before(world, structure=True))
