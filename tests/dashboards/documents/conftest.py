"""Workspace of documents that `inspect` shows in the terminal and on its page."""

from tests.flows.cli.inspect.conftest import context, looked, wide

__all__ = ["context", "looked", "wide"]
