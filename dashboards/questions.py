"""Questions as files, and their answers from one snapshot of a workspace.

A file begins with the question in plain words, as comments; the SELECT after them is what is run and what
is shown.
"""

from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from curriculum.catalog import open_catalog

Line = TypeVar("Line")
MOST_MEMORY = "2GiB"
"""Memory of one page's snapshot; what doesn't fit is written to a folder that goes with the server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One file of dashboards/queries."""

    name: str
    words: str
    """Question, and the meaning of the answer."""
    sql: str
    """The whole file, as it is run."""


def question(name: str) -> Question:
    """The question of that name.

    >>> question("panels/standing").words.split("?")[0]
    'How does each phase of each specialist stand'
    """
    text = (resources.files("dashboards") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    said = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        said.append(line.removeprefix("--").strip())
    return Question(name=name, words=" ".join(said), sql=text)


def narrowed(asked: Question, **equal: str | None) -> Question:
    r"""The same question of only those lines whose columns hold these values; None for empty ones.

    >>> narrowed(Question(name="n", words="", sql="SELECT 1 AS a"), a="it's").sql
    "SELECT * FROM (\nSELECT 1 AS a\n) WHERE a IS NOT DISTINCT FROM 'it''s'"
    """
    held = " AND ".join(
        f"{column} IS NOT DISTINCT FROM {_quoted(value)}" for column, value in equal.items()
    )
    return replace(asked, sql=f"SELECT * FROM (\n{asked.sql.rstrip()}\n) WHERE {held}")


def _quoted(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


class Snapshot:
    """A workspace as it stood when a page was opened; all panels of a page look at the same.

    A `status` that was computed since replaces the one that is written.
    """

    def __init__(self, home: Path, status: pa.Table | None = None) -> None:
        self.home = home
        self._catalog = open_catalog(home, status)
        # Some kilobytes of somebody else's Parquet can unpack to gigabytes.
        self._catalog.execute(f"SET memory_limit = '{MOST_MEMORY}'")

    def ask(self, asked: Question, line: type[Line]) -> list[Line]:
        """The answer to a question; the fields of a line are its columns."""
        answer = self._catalog.execute(asked.sql)
        columns = [column[0] for column in answer.description or ()]
        wanted = list(getattr(line, "__dataclass_fields__", ()))
        assert columns == wanted, f"{asked.name}.sql gives {columns}, {line.__name__} has {wanted}"
        return [line(**dict(zip(columns, each, strict=True))) for each in answer.fetchall()]


def recipes() -> list[Question]:
    """The questions that stand in the cookbook, by name; those of panels aren't among them."""
    folder = resources.files("dashboards") / "queries"
    names = (file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [question(name.removesuffix(".sql")) for name in sorted(names)]


def cookbook() -> str:
    """The cookbook as Markdown: a line a question, which opens to its meaning and its SQL."""
    return "\n\n".join(_entry(each) for each in recipes())


def _entry(recipe: Question) -> str:
    asked, _, meaning = recipe.words.partition("? ")
    said = f"{meaning}\n\n" if meaning else ""
    comments = (line for line in recipe.sql.splitlines() if not line.startswith("--"))
    sql = "\n".join(comments).strip()
    title = asked.removesuffix("?")
    return f"<details><summary>{title}?</summary>\n\n{said}```sql\n{sql}\n```\n\n</details>"
