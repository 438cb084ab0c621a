"""What is said of what steps read: rows down to commits, and the steps that read something."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["commit", "document", "row", "file"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A commit that a document was made of."""

    repository: str
    commit: str
    file: str
    """What the document is about: `repository:path`, the path as it was first."""
    licence: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document as it stands in a row; a text that several commits hold was made of each."""

    document_id: str
    tokens: int
    commits: tuple[Commit, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A packed row that a step read."""

    position: int
    """In the plan."""
    pack_id: str
    family: str
    objective: str
    domain: str
    row_length: int
    tokens: int
    repetition: int
    """Times that the plan had it before."""
    documents: tuple[Document, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRead:
    """What one step of a run read."""

    run: str
    run_key: str
    attempt: int
    step: int
    steps: int
    """That the run has taken."""
    rows: tuple[Row, ...]

    @property
    def commits(self) -> list[Commit]:
        """Each commit and file once, in the order of the rows."""
        every = (commit for row in self.rows for each in row.documents for commit in each.commits)
        return list(dict.fromkeys(every))


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """A step of a run that read something."""

    run: str
    path: str
    """Of the run's directory, relative to the workspace."""
    run_key: str
    attempt: int
    step: int
    rows: int
    documents: int
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Readers:
    """Every step that read a commit, document, row or file, and the checkpoints that came after."""

    kind: Kind
    name: str
    visits: tuple[Visit, ...]
    checkpoints: tuple[str, ...]
    """Paths in the workspace, of finished runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What a model read of one phase, or of one repository under one licence."""

    names: tuple[str, ...]
    steps: int
    rows: int
    documents: int
    commits: int
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadUntil:
    """All that a model read until a step of a run, in that run and in those that it goes on from."""

    run: str
    run_key: str
    step: int
    phases: tuple[Share, ...]
    repositories: tuple[Share, ...]
    """By repository and licence."""
