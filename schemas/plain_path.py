"""Paths that a file of a workspace may give: they lead nowhere but down from where they begin."""

from typing import Annotated

from pydantic import AfterValidator


def is_plain(path: str) -> bool:
    """Return True for a relative path without `.`, `..`, an empty step or a NUL.

    >>> is_plain("rows/part-00000.parquet"), is_plain("../rows"), is_plain("/rows"), is_plain("a//b")
    (True, False, False, False)
    """
    return "\0" not in path and not {"", ".", ".."} & {*path.split("/")}


def _plain(path: str) -> str:
    if not is_plain(path):
        raise ValueError(f"{path!r} doesn't lead down from the folder that it is relative to")
    return path


PlainPath = Annotated[str, AfterValidator(_plain)]
"""A relative path that leads down."""
PlainPathOrNone = Annotated[str, AfterValidator(lambda path: path and _plain(path))]
"""A relative path that leads down; empty for none."""
