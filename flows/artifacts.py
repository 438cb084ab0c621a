"""Prefect artifacts on the page of a flow run: progress while a stage runs, tables when it has finished."""

import re
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from uuid import UUID

import httpx
from prefect import runtime
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
    ArtifactFilterType,
)
from prefect.logging import get_run_logger

from curriculum.inspection.formats import Line
from schemas.progress import Progress, ProgressCallback, ignore_progress
from schemas.visible import one_line, visible

UPDATE_EVERY_S = 5.0
"""Seconds between updates of the progress on the server; each update costs a transaction."""

onlooker: ContextVar[ProgressCallback] = ContextVar("onlooker", default=ignore_progress)
"""Second receiver of progress: the terminal, if the flow runs in the command line's process."""


_MARKUP = re.compile(
    r"[\\`*\[\]<>!#&|~@$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|^[-+=]|(?<=^\d)[.)](?=\s|$)",
    re.I,
)
"""Characters that start markup, HTML, entities, lists and links in Prefect's markdown."""
_ESCAPED = re.compile(r"\\(.)")


class Log:
    """Log of the flow run or task run in which this object was created.

    The log stays usable outside of that run's context.
    """

    def __init__(self) -> None:
        self._log = get_run_logger()

    def info(self, line: str) -> None:
        """Write a line; invisible characters are escaped."""
        self._log.info("%s", visible(line))

    def error(self, line: str) -> None:
        """Write an error: the reason why the run fails."""
        self._log.error("%s", visible(line))

    def warning(self, line: str) -> None:
        """Write a warning."""
        self._log.warning("%s", visible(line))


def unmarked(text: str) -> str:
    r"""Escape a text for Prefect's markdown, so that it is shown literally and loads nothing.

    >>> unmarked("v2_simple"), unmarked("![x](http://h)")
    ('v2_simple', '\\!\\[x\\](http\\://h)')
    """
    return _MARKUP.sub(lambda found: f"\\{found[0]}", one_line(text))


def progress_of(client: SyncPrefectClient, run: UUID) -> str:
    """Return the latest progress line on the page of a flow run; empty if there is none."""
    shown = client.read_artifacts(
        artifact_filter=ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[run]),
            type=ArtifactFilterType(any_=["progress"]),
        )
    )
    newest = max(shown, key=lambda artifact: str(artifact.updated), default=None)
    return _ESCAPED.sub(r"\1", newest.description or "") if newest else ""


class ProgressArtifacts:
    """Progress callback of a run: writes log lines, and shows one progress bar per stage on the run's page.

    Log and bars are updated every UPDATE_EVERY_S seconds, and at the end of a stage.
    """

    def __init__(self) -> None:
        self._onlooker = onlooker.get()
        self._artifacts: dict[str, UUID] = {}
        self._updated: dict[str, float] = {}

    def __call__(self, progress: Progress) -> None:
        """Pass `progress` on to `onlooker`; show it too if an update of its stage is due."""
        self._onlooker(progress)
        stage, now = progress.stage, time.monotonic()
        ended = progress.total is not None and progress.done >= progress.total
        if not ended and now - self._updated.get(stage, float("-inf")) < UPDATE_EVERY_S:
            return
        self._updated[stage] = now
        of = f" of {progress.total:,}" if progress.total is not None else ""
        amount = f"{progress.done:,}{of} {progress.unit}"
        line = "  ".join(filter(None, (stage, progress.item, amount, progress.note)))
        Log().info(line)
        share = 100 * progress.done / progress.total if progress.total else 0.0
        if stage not in self._artifacts and share == 100:
            return  # A single short item needs no bar.
        description = unmarked(line)
        try:
            if stage not in self._artifacts:
                key = _key(f"progress-{stage}")
                made = create_progress_artifact(share, key=key, description=description)
                assert isinstance(made, UUID), "called inside an event loop"
                self._artifacts[stage] = made
            update_progress_artifact(self._artifacts[stage], share, description=description)
        except httpx.HTTPError as failed:
            # A failed update must not stop training; the server may come back.
            Log().warning(f"The server doesn't show the progress of this run: {failed}")


def show(name: str, description: str, lines: Iterable[Line]) -> None:
    """Show a table on the run's page; does nothing without lines."""
    cells = [
        {name: value if isinstance(value, int) else unmarked(value) for name, value in line.items()}
        for line in lines
    ]
    if cells:
        _delete_earlier(_key(name))
        create_table_artifact(cells, key=_key(name), description=unmarked(description))


def show_table_and_link(
    name: str, lines: Sequence[Line], *, notes: Sequence[str], link: tuple[str, str]
) -> None:
    """Show notes, a table and a link on the run's page; `link` is the pair of its text and its address."""
    heads = [*lines[0]]
    cells = [[unmarked(f"{value}") for value in line.values()] for line in lines]
    table = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *cells)]
    words, address = link
    parts = [*map(unmarked, notes), "\n".join(table), f"[{unmarked(words)}]({address})"]
    _delete_earlier(_key(name))
    create_markdown_artifact("\n\n".join(parts), key=_key(name), description=unmarked(name))


def link(name: str, description: str, address: str) -> None:
    """Show a link on the run's page."""
    _delete_earlier(_key(name))
    text = unmarked(description)
    create_link_artifact(address, link_text=text, key=_key(name), description=text)


def _delete_earlier(key: str) -> None:
    """Delete the artifacts with a key that this run created before it was retried or resumed.

    The page of a run lists all artifacts with the same key, so a new artifact doesn't replace them there.
    """
    run = runtime.flow_run.id
    if run is None:
        return
    mine = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(run)]), key=ArtifactFilterKey(any_=[key])
    )
    with get_client(sync_client=True) as client:
        for artifact in client.read_artifacts(artifact_filter=mine):
            client.delete_artifact(artifact.id)


def _key(name: str) -> str:
    """Convert a name to an artifact key, which has only lower case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
