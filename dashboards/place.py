"""Which workspace the pages show: that of the server they are part of."""

from pathlib import Path

_shown: list[Path] = []


def show(home: Path) -> None:
    """Let all pages of this process show a workspace."""
    _shown[:] = [home]


def home() -> Path:
    """The workspace that is shown; a page that is opened on its own shows ./workspace."""
    return _shown[0] if _shown else Path("workspace").absolute()
