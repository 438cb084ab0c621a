"""Patterns of repositories in servings become the names that a corpus has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from curriculum.diets.resolve import ResolvedPhase, ResolvedServing
from schemas.corpus import CorpusSpec
from schemas.diet import ALTERNATIVE
from schemas.document import CHAT_FAMILY
from schemas.errors import DietError


def with_repositories(
    phases: Sequence[ResolvedPhase], corpus: CorpusSpec
) -> tuple[ResolvedPhase, ...]:
    """The phases with the repositories of each serving by name, sorted; of `chat`, the conversations.

    A serving that names none keeps all of them. What is made of the result depends on names alone, never
    on how a diet writes them.

    Raises:
        DietError: for a pattern that matches nothing in the corpus, and for two servings of a phase that
            read the same rows then.
    """
    return tuple(replace(phase, servings=tuple(_named(phase, corpus))) for phase in phases)


def _named(phase: ResolvedPhase, corpus: CorpusSpec) -> Iterator[ResolvedServing]:
    seen: dict[ResolvedServing, int] = {}
    for serving in phase.servings:
        if not serving.repositories:
            yield serving
            continue
        matched = {
            name
            for pattern in serving.repositories
            for name in _matches(phase, serving, pattern, corpus)
        }
        named = replace(serving, repositories=tuple(sorted(matched)))
        same = replace(named, index=0, share=0.0, tokens=0, domains=(), variants=1)
        if same in seen:
            raise DietError(
                f"phase {phase.name}, serving {serving.index}",
                f"repositories {', '.join(serving.repositories)}",
                cause=f"it reads the same rows of {', '.join(named.repositories)} as serving "
                f"{seen[same]}",
                cure="Make one serving of them, with the sum of their shares",
            )
        seen[same] = serving.index
        yield named


def _matches(
    phase: ResolvedPhase, serving: ResolvedServing, pattern: str, corpus: CorpusSpec
) -> list[str]:
    is_chat = serving.family == CHAT_FAMILY
    sources = corpus.conversations if is_chat else corpus.repositories
    known = [each.name for each in sources]
    patterns = pattern.split(ALTERNATIVE)
    found = [name for name in known if any(fnmatchcase(name, each) for each in patterns)]
    if not found:
        raise DietError(
            f"phase {phase.name}, serving {serving.index}",
            f"repositories {pattern!r}",
            cause=f"it matches no {'conversations' if is_chat else 'repository'} of the corpus "
            f"{corpus.name}",
            cure=f"Take a name or a pattern of those there are: {', '.join(known)}",
        )
    return found
