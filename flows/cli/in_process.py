"""A flow run in this very process, for the command line; import it only when Prefect's settings are set."""

from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from curriculum.pipeline.config import RunConfig
from curriculum.store import Artefact
from flows import artifacts
from flows.parameters import ALL_PHASES, Changes
from flows.run import run
from schemas.progress import ProgressCallback


def run_flow(
    config: RunConfig, phase: str | None, watch: ProgressCallback, *, onwards: bool = False
) -> tuple[Artefact, ...]:
    """The runs of the phases; `watch` is told what the flow tells the server."""
    artifacts.onlooker.set(watch)
    try:
        return run(
            specialist=config.specialist,
            phase=phase or ALL_PHASES,
            onwards=onwards,
            changes=Changes.model_validate(dict(config.changes())),
        )
    finally:
        # What is still to be sent would otherwise be tried for a minute after the server has gone.
        APILogWorker.drain_all()
        EventsWorker.drain_all()
