"""Progress on a run's page, and a server that goes away meanwhile."""

from uuid import UUID, uuid4

import httpx
import pytest
from prefect.logging import disable_run_logger

from flows import artifacts
from schemas.progress import Progress


def test_a_server_that_goes_away_costs_a_bar_and_not_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[float] = []

    def make(share: float, **_: str) -> UUID:
        return uuid4()

    def update(_: UUID, share: float, **__: str) -> None:
        if share == 50:
            raise httpx.ConnectError("All connection attempts failed")
        drawn.append(share)

    monkeypatch.setattr(artifacts, "UPDATE_EVERY_S", 0.0)
    monkeypatch.setattr(artifacts, "create_progress_artifact", make)
    monkeypatch.setattr(artifacts, "update_progress_artifact", update)
    watch = artifacts.ProgressArtifacts()
    with disable_run_logger():
        for done in (1, 2, 3):
            watch(Progress(stage="train", item="syntax", done=done, total=4, unit="steps"))
    assert drawn == [25.0, 75.0]
