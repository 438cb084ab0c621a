"""REPACKED of steps in JAX, as they are and with leaks: for test_tpu_steps.py, which calls these by name."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from jax import numpy as jnp

from curriculum.leakcheck.subject import one_thread
from curriculum.leakcheck.tpu_steps import Compute, compiled, prove_tpu_step, repacked_in_jax
from curriculum.model import tpu
from curriculum.model.presets import model_spec
from schemas.job import EngramSpec, MambaSpec, ModelSpec
from schemas.leak import Finding
from tests.curriculum.leakcheck.leaks import LEAKS
from tests.curriculum.leakcheck.leaks.site import swapped


def spec(blocks: str) -> ModelSpec:
    return ModelSpec(
        name="small", vocab_size=97, blocks=blocks, width=32, heads=2, kv_heads=1, mlp_width=48,
        mamba=MambaSpec(state=16, head_width=16, expand=1, chunk=32 if blocks == "M" else 64),
        engram=EngramSpec(orders=(2, 3), heads=2, slots=53, slot_width=8),
    )  # fmt: skip


def proof(vocab_size: int, row_length: int, streams: int) -> tuple[Finding, ...]:
    """REPACKED for the layers and sizes of a preset."""
    model = model_spec("tiny", vocab_size, softcap=20.0).model_copy(update={"streams": streams})
    return prove_tpu_step(model, row_length=row_length)


@functools.cache
def compute(blocks: str) -> Compute:
    """A step, compiled once per shape."""
    return compiled(spec(blocks))


@one_thread()
def agrees(blocks: str) -> bool:
    """Return True if packings agree."""
    findings = repacked_in_jax(spec(blocks), compute(blocks), row_length=128)
    return all(finding.passed for finding in findings)


def _inputs(**changed: Callable[[Any], Any]) -> AbstractContextManager[None]:
    right = tpu.inputs_of

    def leaking(rows: Any, spec: ModelSpec) -> Any:
        found = right(rows, spec)
        return replace(found, **{name: change(found) for name, change in changed.items()})

    return swapped(tpu, "inputs_of", leaking)


def _n_grams_over_rows() -> AbstractContextManager[None]:
    right = tpu.n_gram_slots
    return swapped(
        tpu, "n_gram_slots", lambda ids, at, hashes: right(ids, _by_the_row(ids), hashes)
    )


def _by_the_row(x: Any) -> Any:
    return np.broadcast_to(np.arange(x.shape[-1], dtype=np.int32), x.shape)


def _one_segment(found: Any) -> Any:
    return np.zeros_like(found.segments)


def _first_position_only(found: Any) -> Any:
    return _by_the_row(found.ids) == 0


LEAKING: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "attention over rows": ("A", lambda: _inputs(segments=_one_segment)),
    "a state that goes on": ("EMC", lambda: _inputs(resets=_first_position_only)),
    "a convolution over rows": ("EMC", lambda: _inputs(positions=lambda each: _by_the_row(each.ids))),
    "n-grams over rows": ("EMC", _n_grams_over_rows),
    "padding and last tokens scored": (
        "EMC", lambda: _inputs(loss_mask=lambda each: np.ones_like(each.loss_mask)),
    ),
}  # fmt: skip
"""Leaks in the inputs of a step that is compiled already."""


def _convolution_over_rows() -> AbstractContextManager[None]:
    return _swapped_in(
        "reaches_back", lambda _right, at, _k: jnp.ones_like(at[..., None], dtype=bool)
    )


def _scan_over_rows() -> AbstractContextManager[None]:
    return _swapped_in("chunk_masks", lambda right, resets: right(jnp.zeros_like(resets)))


@contextmanager
def _swapped_in(name: str, leak: Callable[..., Any]) -> Iterator[None]:
    """A leak in place of an operator; JAX must not take what it has traced of the right one."""
    right, runs = getattr(tpu, name), []

    def leaking(*given: Any) -> Any:
        runs.append(name)
        return leak(right, *given)

    with swapped(tpu, name, leaking):
        yield
    assert runs


COMPILED: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "an unmasked convolution": ("C", _convolution_over_rows),
    "a scan without resets": ("M", _scan_over_rows),
}
"""Leaks in operators, which are compiled with them; so no other leak has the same blocks."""


def is_seen(name: str) -> bool:
    """Return True if packings disagree with a leak planted."""
    blocks, plant = (LEAKING | COMPILED)[name]
    if name in LEAKING:
        agrees(blocks)
    with plant():
        return not agrees(blocks)


def is_seen_in_loading(words: str) -> bool:
    """Return True if packings disagree with a leak of the loader, planted as into our own step."""
    (leak,) = (each for each in LEAKS if each.words == words)
    agrees("A")
    with leak.injected() as site:
        seen = not agrees("A")
    assert site.runs
    return seen
