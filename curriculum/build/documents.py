"""Documents: one pass over the history of a repository feeds all families."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from curriculum.build.workers import Team
from curriculum.corpus import git, history
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import Source, resolve
from curriculum.families.render import REVISIONS, render, tools
from curriculum.families.write import DocumentWriter
from curriculum.store import Artefact, Draft, Recipe, Store
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import BUILDABLE_FAMILIES
from schemas.errors import CorpusError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Repository:
    corpus: CorpusSpec
    spec: RepositorySpec


def documents_of(team: Team, corpus: CorpusSpec) -> tuple[Artefact, ...]:
    """The documents of all families that can be built, repository by repository."""
    tasks = [_Repository(corpus=corpus, spec=spec) for spec in corpus.repositories]
    made = team.each("documents", tasks, _make, lambda task: task.spec.name)
    return tuple(artefact for artefacts in made for artefact in artefacts)


def _make(store: Store, task: _Repository) -> tuple[Artefact, ...]:
    source = resolve(task.spec, cache=store.root / "repositories")
    recipes = [_recipe(task, source, family) for family in BUILDABLE_FAMILIES]

    def fill(drafts: Sequence[Draft]) -> None:
        _render(task, source, drafts)

    return tuple(store.produce(recipes, fill))


def _recipe(task: _Repository, source: Source, family: str) -> Recipe:
    config: dict[str, JsonValue] = {
        "family": family,
        "reader": history.REVISION,
        **history.ingredients(source, task.spec, task.corpus),
    }
    return Recipe(
        stage="documents",
        labels=(("family", family), ("repository", task.spec.name)),
        revision=REVISIONS[family],
        config=config,
        tools={"git": git.version(), **tools()},
    )


def _render(task: _Repository, source: Source, drafts: Sequence[Draft]) -> None:
    skips = Skips()
    left_out: dict[str, Counter[str]] = {_family(draft): Counter() for draft in drafts}
    with contextlib.ExitStack() as files:
        writers = {
            _family(draft): files.enter_context(DocumentWriter(draft.path)) for draft in drafts
        }
        for change in history.read_changes(source, task.spec, task.corpus, skips):
            rendered = render(change, list(writers))
            for document in rendered.documents:
                writers[document.family].append(document)
            for count in rendered.counts:
                left_out[count.family][count.reason] += count.number
    _refuse_losses(task, skips)
    for draft in drafts:
        family = _family(draft)
        draft.report.update(
            {
                "documents": writers[family].count,
                "num_bytes": writers[family].num_bytes,
                "left_out": dict(sorted(left_out[family].items())),
                "changes": skips.report(),
            }
        )


def _family(draft: Draft) -> str:
    return dict(draft.recipe.labels)["family"]


def _refuse_losses(task: _Repository, skips: Skips) -> None:
    if skips.lost > task.corpus.max_skipped:
        listed = ", ".join(f"{reason} {count}" for reason, count in sorted(skips.counts.items()))
        raise CorpusError(
            f"repository {task.spec.name}",
            f"{skips.lost:.1%} of its changes can't be read ({listed})",
            cause=f"max_skipped allows {task.corpus.max_skipped:.1%}",
            cure="Mend the repository, or raise max_skipped in the corpus file",
        )
