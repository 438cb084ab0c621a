"""Cache of git's answers in a workspace, so that unchanged repositories need no git process.

repositories/answers/<digest of a question>.json    the last answer, and the repository's state at that time
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
    """A cached answer, and the state of everything that the answer depends on."""

    state: str
    answer: tuple[str, ...]
    """The answer: a single value, or paths of files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptAnswers:
    """The folder that contains the cached answers."""

    folder: Path

    @staticmethod
    def from_workspace(workspace: Path) -> "KeptAnswers":
        """Return the cached answers of a workspace."""
        return KeptAnswers.from_clones(workspace / CLONES)

    @staticmethod
    def from_clones(clones: Path) -> "KeptAnswers":
        """Return the cached answers that belong to a folder of clones."""
        return KeptAnswers(folder=clones / "answers")

    def find(self, question: Question, state: str) -> tuple[str, ...] | None:
        """Return the cached answer to a question, or None if there is none for the state `state`."""
        try:
            kept = KeptAnswer.model_validate_json(regular_files.read(self._file(question)))
        except (OSError, ValidationError):
            return None
        return kept.answer if kept.state == state else None

    def keep(self, question: Question, kept: KeptAnswer) -> None:
        """Write an answer to the cache; do nothing if the folder isn't writable."""
        if self.find(question, kept.state) == kept.answer:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._file(question), kept.model_dump_json())

    def _file(self, question: Question) -> Path:
        return self.folder / f"{digest([*question])[:32]}.json"


def refs_state(layout: git.RepositoryLayout) -> str:
    """Return a digest of HEAD, refs and the shallow boundary of a repository.

    While the digest stays the same, each pin refers to the same commit.

    Raises:
        CorpusError: if one of these files is a link, a pipe or a device.
    """
    refs = layout.common / "refs"
    common = (layout.common / name for name in ("packed-refs", "reftable/tables.list", "shallow"))
    hashed = hashlib.sha256()
    for file in (layout.head, *common, *sorted(leaves_below(refs))):
        hashed.update(repr((str(file), git.control_file(file))).encode(errors="surrogatepass"))
    return hashed.hexdigest()
