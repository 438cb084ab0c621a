"""Conversations: documents of the chat family, source by source, and the selection over all of them.

They depend on nothing else in the corpus, and nothing else depends on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.corpus import conversations
from curriculum.corpus.conversations import (
    SkippedLines,
    find_conversations,
    ingredients,
    read_conversations,
    refuse_losses,
)
from curriculum.corpus.select import DocumentsOf
from curriculum.corpus.select_conversations import (
    REVISION,
    conversation_ingredients,
    select_conversations,
)
from curriculum.families import chat
from curriculum.families.rendered import Rendered
from curriculum.stages.coordinator import Team
from curriculum.stages.documents import Sheaf
from curriculum.stages.selection import title
from curriculum.store import Artefact, Draft, Recipe, Store
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.document import CHAT_FAMILY
from schemas.errors import CorpusError
from schemas.progress import Progress
from schemas.reports import DocumentsReport


def conversations_of(
    team: Team, corpus: CorpusSpec, *, sample: int | None = None
) -> tuple[Artefact, ...]:
    """The documents of each source of conversations; at most `sample` of each.

    Raises:
        CorpusError: for what can't be read.
    """
    tasks = [_Task(corpus=corpus, spec=each, sample=sample) for each in corpus.conversations]
    made = team.each("conversations", tasks, _make, lambda task: task.spec.name)
    return tuple(artefact for artefacts in made for artefact in artefacts)


def require_conversations(corpus: CorpusSpec) -> None:
    """Pass if a corpus names conversations.

    Raises:
        CorpusError: otherwise.
    """
    if not corpus.conversations:
        raise CorpusError(
            f"corpus {corpus.name}",
            "conversations: none",
            cause=f"the family {CHAT_FAMILY} is made of them",
            cure="Name some in the corpus file, conversations: [{name: …, path: ….jsonl}], "
            f"or take the servings of {CHAT_FAMILY} out of the diet",
        )


def conversation_selection_of(
    team: Team, corpus: CorpusSpec, documents: Sequence[Artefact]
) -> Artefact:
    """What of the conversations is kept, and on which side; their domain is their own."""
    recipe = Recipe(
        stage="selections",
        labels=(("corpus", corpus.name), ("family", CHAT_FAMILY)),
        revision=REVISION,
        config=conversation_ingredients(corpus),
        inputs=tuple(each.as_input(title(each)) for each in documents),
    )

    def fill(drafts: Sequence[Draft]) -> None:
        listed = [
            DocumentsOf(repository=each.manifest.labels["repository"], path=each.path)
            for each in documents
        ]
        drafts[0].record(select_conversations(listed, corpus, drafts[0].path).report())

    artefact = team.store.produce([recipe], fill)[0]
    team.watch(Progress(stage="selection", item=CHAT_FAMILY, done=1, total=1, unit="tasks"))
    return artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    corpus: CorpusSpec
    spec: ConversationsSpec
    sample: int | None


def _make(store: Store, task: _Task) -> tuple[Artefact, ...]:
    found = find_conversations(task.spec)
    sampled = {} if task.sample is None else {"sample": task.sample}
    recipe = Recipe(
        stage="documents",
        labels=(("family", CHAT_FAMILY), ("repository", task.spec.name)),
        revision=chat.REVISION,
        config={
            "family": CHAT_FAMILY,
            "reader": conversations.REVISION,
            **ingredients(found, task.corpus),
            **sampled,
        },
    )

    def fill(drafts: Sequence[Draft]) -> None:
        skips = SkippedLines()
        with Sheaf(drafts, sample=task.sample) as sheaf:
            for each in read_conversations(found, task.corpus, skips):
                sheaf.add(Rendered(documents=(chat.document(each),), counts=()))
                if sheaf.is_full:
                    break
        refuse_losses(found, task.corpus, skips)
        sheaf.report(DocumentsReport(lines=skips.report()))

    return tuple(store.produce([recipe], fill))
