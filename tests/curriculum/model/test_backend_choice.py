"""The choice of a backend: every combination of what is asked, had and needed gives one, or a reason."""

import itertools
import re
from typing import get_args

import pytest

from curriculum.model.backend_choice import AttentionNeeds, Capabilities, Choice, choose
from schemas.diet import AskedBackend
from schemas.errors import JobError
from schemas.job import Backend
from tests.error_fields import fields

CPU = Capabilities.expected("cpu")
GPU = Capabilities.expected("cuda")
OLD = Capabilities(device="cuda", triton=False, flash=False)
FLASH_ALONE = Capabilities(device="cuda", triton=False, flash=True)
DEVICES = {"cpu": CPU, "gpu": GPU, "old": OLD, "flash alone": FLASH_ALONE}
LENGTHS = (100, 4096, 8192, 16384, 65536)


def allowed(asked: str, device: str, length: int, softcap: float | None, structure: bool) -> bool:
    """The same rules as a truth table, written apart from those under test."""
    plain = softcap is None and not structure
    return {
        "math": True,
        "documents": True,
        "sdpa": softcap is None and length <= 8192,
        "varlen": device in ("gpu", "flash alone") and plain,
        "flex": length % 128 == 0
        and {"cpu": length <= 8192, "gpu": True, "old": False, "flash alone": False}[device],
    }[asked]


COMBINATIONS = [
    (asked, device, length, softcap, structure)
    for asked, device, length, softcap, structure in itertools.product(
        get_args(Backend), DEVICES, LENGTHS, (None, 30.0), (False, True)
    )
]


@pytest.mark.parametrize("asked", get_args(Backend))
def test_each_backend_is_had_or_refused_with_a_reason_in_every_combination(asked: Backend) -> None:
    outcomes = set()
    for _, device, length, softcap, structure in (c for c in COMBINATIONS if c[0] == asked):
        needs = AttentionNeeds(row_length=length, softcap=softcap, structure=structure)
        may = allowed(asked, device, length, softcap, structure)
        outcomes.add(may)
        if may:
            chosen = choose(asked, DEVICES[device], needs)
            assert chosen == Choice(backend=asked, reason="requested")
            continue
        with pytest.raises(JobError) as refused:
            choose(asked, DEVICES[device], needs)
        assert refused.value.name == "backend"
        assert str(refused.value.value).startswith(asked)
        assert "hoose" in refused.value.cure
    assert outcomes == ({True} if asked in ("math", "documents") else {True, False})


def test_auto_takes_the_first_that_nothing_refuses_in_every_combination() -> None:
    order = {"cpu": ("documents",)}
    for device, length, softcap, structure in itertools.product(
        DEVICES, LENGTHS, (None, 30.0), (False, True)
    ):
        needs = AttentionNeeds(row_length=length, softcap=softcap, structure=structure)
        chosen = choose("auto", DEVICES[device], needs)
        first = next(
            each
            for each in order.get(device, ("flex", "varlen", "documents"))
            if allowed(each, device, length, softcap, structure)
        )
        assert chosen.backend == first
        assert chosen.reason


@pytest.mark.parametrize(
    ("has", "needs", "backend", "reason"),
    [
        (CPU, AttentionNeeds(row_length=65536), "documents", "every document separately"),
        (GPU, AttentionNeeds(row_length=65536), "flex", "block mask"),
        (
            OLD,
            AttentionNeeds(row_length=4096),
            "documents",
            "flex: it is compiled to Triton",
        ),
        (FLASH_ALONE, AttentionNeeds(row_length=4096), "varlen", "within document boundaries"),
        (FLASH_ALONE, AttentionNeeds(row_length=4096, softcap=5), "documents", "support softcap"),
    ],
)
def test_the_reason_says_what_was_passed_over(
    has: Capabilities, needs: AttentionNeeds, backend: Backend, reason: str
) -> None:
    chosen = choose("auto", has, needs)
    assert chosen.backend == backend
    assert re.search(reason, chosen.reason)


def test_varlen_refuses_relations_and_names_what_takes_them() -> None:
    needs = AttentionNeeds(row_length=4096, structure=True)
    with pytest.raises(JobError, check=fields(value="varlen with structure")):
        choose("varlen", GPU, needs)


def test_a_diet_may_ask_for_every_backend_but_the_reference() -> None:
    assert {*get_args(AskedBackend)} == {"auto", *get_args(Backend)} - {"math"}


def test_ranks_that_share_rows_pass_varlen_over_and_cut_whole_blocks() -> None:
    gpu = Capabilities.expected("cuda")
    shared = AttentionNeeds(row_length=131_072, context=4)
    with pytest.raises(JobError, match=r"^backend: varlen with context_parallel"):
        choose("varlen", gpu, shared)
    assert choose("auto", gpu, shared).backend == "flex"
    uneven = AttentionNeeds(row_length=384, context=2)
    with pytest.raises(JobError, match=r"384, .* 2 ranks"):
        choose("flex", gpu, uneven)
    assert choose("auto", gpu, uneven).backend == "documents"
