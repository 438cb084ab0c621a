"""The sources of a corpus: what documents and indexes are cut into."""

from dataclasses import dataclass

from pydantic import JsonValue

from curriculum.corpus import history
from curriculum.corpus.conversations import conversation_paths
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import Source, Sources
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.errors import CorpusError


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository of a corpus, with what its pin resolves to."""

    corpus: CorpusSpec
    spec: RepositorySpec
    source: Source

    @property
    def name(self) -> str:
        """Its name in the corpus."""
        return self.spec.name

    def ingredients(self) -> dict[str, JsonValue]:
        """Return all that decides which changes are read, for keys; git's version aside."""
        return history.ingredients(self.source, self.spec, self.corpus)

    def refuse_losses(self, skips: Skips) -> None:
        """Pass if little enough of the history was lost.

        Raises:
            CorpusError: with the counts, if more than `max_skipped` can't be read.
        """
        if skips.lost_share > self.corpus.max_skipped:
            listed = ", ".join(
                f"{reason} {count}" for reason, count in sorted(skips.counts.items())
            )
            raise CorpusError(
                f"repository {self.name}",
                f"{skips.lost_share:.1%} of its changes can't be read ({listed})",
                cause=f"max_skipped allows {self.corpus.max_skipped:.1%}",
                cure="Mend the repository, or raise max_skipped in the corpus file",
            )


def repositories(corpus: CorpusSpec, sources: Sources) -> tuple[Repository, ...]:
    """Resolve the repositories of a corpus, in its order.

    Raises:
        CorpusError: for the first one that doesn't resolve; nothing but clones is written then.
    """
    found = sources.resolve_all(corpus.repositories)
    return tuple(
        Repository(corpus=corpus, spec=spec, source=source)
        for spec, source in zip(corpus.repositories, found, strict=True)
    )


def require_sources(corpus: CorpusSpec, sources: Sources, *, chat: bool) -> None:
    """Check that all that a corpus names can be read, before anything but clones is written.

    `chat` says that its conversations are read too.

    Raises:
        CorpusError: for the first repository that doesn't resolve, and for conversations that aren't there.
    """
    for chats in corpus.conversations if chat else ():
        conversation_paths(chats)
    sources.resolve_all(corpus.repositories)
