"""Names, texts and paths as SQL writes them."""

import re

from curriculum.catalog.errors import CatalogError

_GLOB = re.compile(r"[*?\[]")


def pattern(path: str) -> str:
    r"""The pattern that matches a path alone: DuckDB takes whatever it reads for a pattern.

    >>> pattern("/w*s [a]/rows.parquet")
    '/w[*]s [[]a]/rows.parquet'

    Raises:
        CatalogError: for a backslash beside pattern characters; DuckDB takes it for a separator there.
    """
    if not _GLOB.search(path):
        return path
    if "\\" in path:
        raise CatalogError(
            path,
            cause="DuckDB can't read a path with a backslash and one of * ? [",
            cure="Rename the folder",
        )
    return _GLOB.sub(r"[\g<0>]", path)


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
