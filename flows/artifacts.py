"""Artifacts of a flow run: progress while it works, tables when a stage is done."""

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from uuid import UUID

import httpx
from prefect import runtime
from prefect.artifacts import (
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.logging import get_run_logger

from curriculum.inspection.formats import Line
from schemas.progress import Progress, ProgressCallback, ignore_progress
from schemas.visible import one_line, visible

TELL_EVERY_S = 5.0
"""Seconds between updates of progress on the server; each costs a transaction."""

onlooker: ContextVar[ProgressCallback] = ContextVar("onlooker", default=ignore_progress)
"""Second receiver of progress: the terminal, where the flow runs in the command line's process."""


_MARKUP = re.compile(
    r"[\\`*\[\]<>!#&|~@$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|^[-+=]|(?<=^\d)[.)](?=\s|$)",
    re.I,
)
"""The beginnings of markup, HTML, entities, lists and addresses in the markdown of Prefect's pages."""


class Log:
    """The log of the flow run or task run in whose context it is made; it may be written to elsewhere."""

    def __init__(self) -> None:
        self._log = get_run_logger()

    def info(self, line: str) -> None:
        """Write a line, with what a reader can't see escaped."""
        self._log.info("%s", visible(line))

    def warning(self, line: str) -> None:
        """Write a line that a person should not miss."""
        self._log.warning("%s", visible(line))


def unmarked(text: str) -> str:
    r"""Escape a text for Prefect's markdown, so that it is shown as it is and nothing in it is loaded.

    >>> unmarked("v2_simple"), unmarked("![x](http://h)")
    ('v2_simple', '\\!\\[x\\](http\\://h)')
    """
    return _MARKUP.sub(lambda found: f"\\{found[0]}", one_line(text))


@contextlib.contextmanager
def tracked() -> Iterator[ProgressCallback]:
    """A watch that logs, draws progress artifacts on the run, and passes everything on to the onlooker."""
    progress = _Tracked(onlooker.get())
    yield progress.watch


class _Tracked:
    """One progress artifact a stage, updated now and then."""

    def __init__(self, onlooker: ProgressCallback) -> None:
        self.onlooker = onlooker
        self.artifacts: dict[str, UUID] = {}
        self.told: dict[str, float] = {}

    def watch(self, progress: Progress) -> None:
        self.onlooker(progress)
        ended = progress.total is not None and progress.done >= progress.total
        now = time.monotonic()
        if ended or now - self.told.get(progress.stage, float("-inf")) >= TELL_EVERY_S:
            self.told[progress.stage] = now
            self._tell(progress)

    def _tell(self, progress: Progress) -> None:
        of = f" of {progress.total:,}" if progress.total is not None else ""
        words = (
            progress.stage,
            progress.item,
            f"{progress.done:,}{of} {progress.unit}",
            progress.note,
        )
        line = "  ".join(word for word in words if word)
        Log().info(line)
        share = 100 * progress.done / progress.total if progress.total else 0.0
        if progress.stage not in self.artifacts and share == 100:
            return  # What is done at once needs no bar.
        try:
            self._draw(progress.stage, share, line)
        except httpx.HTTPError as failed:
            # A bar is worth no training: the server may come again.
            Log().warning(f"Its progress isn't shown on the server: {failed}")

    def _draw(self, stage: str, share: float, line: str) -> None:
        said = unmarked(line)
        if stage not in self.artifacts:
            made = create_progress_artifact(share, key=_key(stage), description=said)
            assert isinstance(made, UUID), "called inside an event loop"
            self.artifacts[stage] = made
        update_progress_artifact(self.artifacts[stage], share, description=said)


def show(name: str, description: str, lines: Iterable[Line]) -> None:
    """A table on the run's page, if there are lines."""
    if listed := [_unmarked_cells(line) for line in lines]:
        _forget(_key(name))
        create_table_artifact(listed, key=_key(name), description=unmarked(description))


def _unmarked_cells(line: Line) -> dict[str, str | int]:
    return {
        name: value if isinstance(value, int) else unmarked(value) for name, value in line.items()
    }


def link(name: str, description: str, address: str) -> None:
    """A link on the run's page."""
    _forget(_key(name))
    said = unmarked(description)
    create_link_artifact(address, link_text=said, key=_key(name), description=said)


def _forget(key: str) -> None:
    """A run that is retried or resumed shows each thing again; its page has it once."""
    run = runtime.flow_run.id
    if run is None:
        return
    mine = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(run)]), key=ArtifactFilterKey(any_=[key])
    )
    with get_client(sync_client=True) as client:
        for each in client.read_artifacts(artifact_filter=mine):
            client.delete_artifact(each.id)


def _key(name: str) -> str:
    """Prefect's keys have lower case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
