"""One Prefect server for all tests of flows; it takes ten seconds to start."""

from collections.abc import Iterator

import pytest
from prefect.testing.utilities import prefect_test_harness


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A server of its own, with a database that is thrown away."""
    with prefect_test_harness(server_startup_timeout=120):
        yield
