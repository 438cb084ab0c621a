"""Answers of git that a workspace keeps: a look at repositories that haven't changed starts no process.

repositories/answers/<digest of a question>.json    the last answer, and the state in which it was given
"""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from curriculum.corpus import git
from curriculum.exposure import leaves_below
from curriculum.store.inside import CLONES
from curriculum.whole_files import write_whole
from schemas import regular_files
from schemas.json_text import digest
from schemas.text import Strict

Question = tuple[str, ...]


class KeptAnswer(Strict):
    """An answer, and the state of all that it depends on."""

    state: str
    answer: tuple[str, ...]
    """A value, or the paths of files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptAnswers:
    """The answers in a folder."""

    folder: Path

    @staticmethod
    def of(workspace: Path) -> "KeptAnswers":
        """Return those of a workspace."""
        return KeptAnswers.beside(workspace / CLONES)

    @staticmethod
    def beside(clones: Path) -> "KeptAnswers":
        """Return those that lie with clones."""
        return KeptAnswers(folder=clones / "answers")

    def find(self, question: Question, state: str) -> tuple[str, ...] | None:
        """Return the answer to a question in a state; None where it isn't kept."""
        try:
            kept = KeptAnswer.model_validate_json(regular_files.read(self._file(question)))
        except (OSError, ValidationError):
            return None
        return kept.answer if kept.state == state else None

    def keep(self, question: Question, kept: KeptAnswer) -> None:
        """Keep an answer in place of an earlier one, where the folder can be written."""
        if self.find(question, kept.state) == kept.answer:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._file(question), kept.model_dump_json())

    def _file(self, question: Question) -> Path:
        return self.folder / f"{digest([*question])[:32]}.json"


def refs_state(layout: git.RepositoryLayout) -> str:
    """Digest HEAD, refs and boundary of a repository: while they stay, a pin resolves to one commit.

    Raises:
        CorpusError: for a link, a pipe or a device among them.
    """
    refs = layout.common / "refs"
    common = (layout.common / name for name in ("packed-refs", "reftable/tables.list", "shallow"))
    hashed = hashlib.sha256()
    for file in (layout.head, *common, *sorted(leaves_below(refs))):
        hashed.update(repr((str(file), git.control_file(file))).encode(errors="surrogatepass"))
    return hashed.hexdigest()
