"""Digests of pages' inputs: the last line of a page, by which an outdated page is recognised."""

import hashlib
from pathlib import Path


def digest_line(*inputs: object) -> str:
    """Return the last line of a page; it has a digest of the representations of `inputs`."""
    return f"<!-- {hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]} -->\n"


def ends_with(file: Path, line: str) -> bool:
    """Return True if a page exists and its last line is `line`."""
    expected = line.encode()
    try:
        with file.open("rb") as opened:
            opened.seek(-len(expected), 2)
            return opened.read() == expected
    except OSError:
        return False
