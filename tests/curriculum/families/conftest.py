import difflib
from collections.abc import Callable
from typing import Any

import pytest

from schemas.change import Blob, FileChange, Hunk

MakeChange = Callable[..., FileChange]


def hunks_between(before: str, after: str) -> tuple[Hunk, ...]:
    matcher = difflib.SequenceMatcher(None, _lines(before), _lines(after), autojunk=False)
    return tuple(
        Hunk(before_start=a, before_lines=b - a, after_start=c, after_lines=d - c)
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    )


def _lines(text: str) -> list[str]:
    """Lines with their ends, so that a missing last line end is a difference."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


def _make_change(before: str | None, after: str | None, **fields: Any) -> FileChange:
    kind = "added" if before is None else "deleted" if after is None else "modified"
    path = fields.pop("path", "src/a.cc")
    settings: dict[str, Any] = {
        "kind": kind,
        "repository": "sample",
        "licence": "MIT",
        "commit": "0123456789abcdef" * 2 + "01234567",
        "timestamp": 1_600_000_000,
        "subject": "Mend it",
        "path": path,
        "old_path": path,
        "language": "cpp",
        "before": None if before is None else Blob(blob_id="b" * 40, text=before),
        "after": None if after is None else Blob(blob_id="a" * 40, text=after),
        "lineage": f"sample:{path}",
        "before_is_new": True,
    }
    if "hunks" not in fields:
        settings["hunks"] = hunks_between(before or "", after or "")
    return FileChange(**settings | fields)


@pytest.fixture(scope="session")
def make_change() -> MakeChange:
    """A change from two texts, with hunks as difflib sees them."""
    return _make_change
