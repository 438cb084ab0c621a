"""Questions as files, and their answers from one snapshot of a workspace.

A file begins with the question in plain words, as comments; the SELECT after them is what is run and what
is shown.
"""

from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from curriculum.catalog import open_catalog

Line = TypeVar("Line")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One file of dashboards/queries."""

    name: str
    words: str
    """What is asked, and what the answer means."""
    sql: str
    """The whole file, as it is run."""


def question(name: str) -> Question:
    """The question of that name.

    >>> question("specialists").words.split(":")[0]
    'How does each phase of each specialist stand'
    """
    text = (resources.files("dashboards") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    said = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        said.append(line.removeprefix("--").strip())
    return Question(name=name, words=" ".join(said), sql=text)


class Snapshot:
    """A workspace as it stood when a page was opened; all panels of a page look at the same."""

    def __init__(self, home: Path) -> None:
        self._catalog: Any = open_catalog(home)

    def ask(self, name: str, line: type[Line]) -> list[Line]:
        """The answer to the question of that name; the fields of a line are its columns."""
        asked = self._catalog.execute(question(name).sql)
        columns = [column[0] for column in asked.description]
        wanted = [each.name for each in fields(line)]  # type: ignore[arg-type]
        assert columns == wanted, f"{name}.sql gives {columns}, {line.__name__} has {wanted}"
        return [line(*each) for each in asked.fetchall()]
