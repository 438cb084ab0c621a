"""What tests of flows share: a Prefect server (ten seconds to start), a box for what is told."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schemas.progress import Event


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A server of its own, with a database that is thrown away."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=300):
        yield


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Event]]:
    """The events that a command was given so far."""
    box = tmp_path / "box.jsonl"
    monkeypatch.setenv("CURRICULUM_NOTIFY", f"sh -c 'cat >> {box}'")

    def read() -> list[Event]:
        lines = box.read_text().splitlines() if box.is_file() else []
        return [Event.model_validate_json(line) for line in lines]

    return read
