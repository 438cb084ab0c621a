"""Fixtures of flow tests: a Prefect server (ten seconds to start) and a trained workspace."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schemas.progress import Event
from tests.curriculum.pipeline.tiny_diet import write_tiny_diet
from tests.flows.cli_runner import curriculum


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A server of its own, with a database that is thrown away."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=300):
        yield


@pytest.fixture(scope="session")
def trained_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose first phase is trained, to copy; about 15 s of a core."""
    home = tmp_path_factory.mktemp("trained") / "home"
    write_tiny_diet(home)
    done = curriculum("train", "tiny", "--phase", "syntax", "--workers", "1", home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture
def sent_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Event]]:
    """The events that a command was given so far."""
    box = tmp_path / "box.jsonl"
    monkeypatch.setenv("CURRICULUM_NOTIFY", f"sh -c 'cat >> {box}'")

    def read() -> list[Event]:
        lines = box.read_text().splitlines() if box.is_file() else []
        return [Event.model_validate_json(line) for line in lines]

    return read
