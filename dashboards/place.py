"""Which workspace the pages show: that of the server they are part of."""

from collections.abc import Callable
from pathlib import Path

Served = Callable[[], str | None]
"""The address of the Prefect server of a workspace, with its token; None while it isn't served."""

_shown: list[Path] = []
_served: list[Served] = []


def unserved() -> None:
    """No server: pages of a workspace that nobody serves."""


def show(home: Path, served: Served = unserved) -> None:
    """Let all pages of this process show a workspace, and the flow runs of its server."""
    _shown[:] = [home]
    _served[:] = [served]


def server() -> str | None:
    """The address that programs of this user log in by; None where the workspace isn't served."""
    return _served[0]() if _served else None


def home() -> Path:
    """The workspace that is shown; a page that is opened on its own shows ./workspace."""
    return _shown[0] if _shown else Path("workspace").absolute()
