"""The sources of a corpus: what documents and indexes are cut into."""

from dataclasses import dataclass
from pathlib import Path

from curriculum.corpus.conversations import conversation_paths
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import require_all
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.errors import CorpusError


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository of a corpus."""

    corpus: CorpusSpec
    spec: RepositorySpec

    @property
    def name(self) -> str:
        """Its name in the corpus."""
        return self.spec.name

    def refuse_losses(self, skips: Skips) -> None:
        """Pass if little enough of the history was lost.

        Raises:
            CorpusError: with the counts, if more than `max_skipped` can't be read.
        """
        if skips.lost > self.corpus.max_skipped:
            listed = ", ".join(
                f"{reason} {count}" for reason, count in sorted(skips.counts.items())
            )
            raise CorpusError(
                f"repository {self.name}",
                f"{skips.lost:.1%} of its changes can't be read ({listed})",
                cause=f"max_skipped allows {self.corpus.max_skipped:.1%}",
                cure="Mend the repository, or raise max_skipped in the corpus file",
            )


def repositories(corpus: CorpusSpec) -> list[Repository]:
    """The repositories of a corpus, in its order."""
    return [Repository(corpus=corpus, spec=spec) for spec in corpus.repositories]


def clones(home: Path) -> Path:
    """The folder of a workspace that bundles and urls are cloned into."""
    return home / "repositories"


def require_sources(corpus: CorpusSpec, home: Path, *, chat: bool) -> None:
    """Check that all that a corpus names can be read, before anything but clones is written.

    `chat` says that its conversations are read too.

    Raises:
        CorpusError: for the first repository that doesn't resolve, and for conversations that aren't there.
    """
    for talks in corpus.conversations if chat else ():
        conversation_paths(talks)
    require_all(corpus.repositories, cache=clones(home))
