"""Lengths of time as pages say them."""

import doctest

from dashboards import times


def test_examples_hold() -> None:
    done = doctest.testmod(times)
    assert (done.failed, done.attempted > 0) == (0, True)
