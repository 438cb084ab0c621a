"""A process in which tests use JAX, and what comes back of it.

JAX starts threads with its first array and keeps them; loaders that other tests start fork, and a process
that forks must not hold any. So tests name functions, and none imports JAX itself.
"""

import importlib
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Call = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Apart:
    """The largest differences, as shares of the largest values of torch."""

    outputs: float
    gradients: float
    across: float = 0.0
    """The largest gradient, not a share, at other documents of a loss on one."""


@contextmanager
def jax_process(module: str) -> Iterator[Call]:
    """Call functions of a module by name in one process, which compiles for the sake of compiling fast."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_start) as pool:
        yield lambda name, *given, **named: pool.submit(_call, module, name, given, named).result()


def _start() -> None:
    warnings.simplefilter("error")
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"


def _call(module: str, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*given, **named)
