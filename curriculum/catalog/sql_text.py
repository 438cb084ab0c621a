"""Names, texts and paths in SQL, and the error of the catalog."""

import re

from schemas.errors import CurriculumError


class CatalogError(CurriculumError):
    """A question that the catalog can't answer."""


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
