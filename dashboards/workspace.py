"""Workspace of the pages: that of the server they are part of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curriculum.pipeline.context import Resources


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The Prefect server of a workspace."""

    address: str
    headers: tuple[tuple[str, str], ...]
    """Headers for requests of programs: the proof that its owner asks."""


Served = Callable[[], Server | None]
"""The server of a workspace; None while it isn't served."""

_shown: list[Path] = []
_served: list[Served] = []
_resources: "list[Resources]" = []


def unserved() -> None:
    """No server: pages of a workspace that nobody serves."""


def show(home: Path, served: Served = unserved, resources: "Resources | None" = None) -> None:
    """Let all pages of this process show a workspace and the flow runs of its server."""
    _shown[:] = [home]
    _served[:] = [served]
    _resources[:] = [resources] if resources else []


def resources() -> "Resources":
    """The resources of this machine whose slots the jobs of the workspace wait for."""
    # Every command reads Server of this module.
    from curriculum.pipeline.context import Resources

    return _resources[0] if _resources else Resources()


def server() -> Server | None:
    """The server of the workspace that is shown; None where it isn't served."""
    return _served[0]() if _served else None


def home() -> Path:
    """The workspace that is shown; a page that is opened on its own shows ./workspace."""
    return _shown[0] if _shown else Path("workspace").absolute()
