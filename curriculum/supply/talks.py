"""Documents of a sample of the conversations of a source."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from curriculum.corpus.conversations import (
    SkippedLines,
    find_conversations,
    read_conversations,
)
from curriculum.corpus.survey import SURVEY_SCHEMA, in_sample
from curriculum.families import chat
from curriculum.families.rendered import Rendered
from curriculum.stages.coordinator import Team
from curriculum.stages.documents import Sheaf
from curriculum.store import Artefact, Draft, Recipe, Store
from curriculum.supply.sample import SURVEY_NAME, write_frame, write_touched
from schemas.conversation import Conversation
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.document import CHAT_FAMILY

FEWEST = 2_000
"""Conversations of a source that are read at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TalkTask:
    """One source of conversations."""

    corpus: CorpusSpec
    spec: ConversationsSpec
    share: float


def sampled_talks(team: Team, tasks: Sequence[TalkTask]) -> list[tuple[Artefact, ...]]:
    """By source its survey and the documents of its sample; all lines are read twice."""
    return team.each("conversations", tasks, _make, lambda task: task.spec.name)


def _make(store: Store, task: TalkTask) -> tuple[Artefact, ...]:
    name = task.spec.name
    recipes = [
        Recipe(
            stage="surveys",
            labels=(("repository", name),),
            revision=0,
            config={"conversations": name},
        ),
        Recipe(
            stage="documents",
            labels=(("family", CHAT_FAMILY), ("repository", name)),
            revision=0,
            config={"conversations": name},
        ),
    ]

    def fill(drafts: Sequence[Draft]) -> None:
        found = find_conversations(task.spec)
        rows = [_row(each) for each in read_conversations(found, task.corpus, SkippedLines())]
        frame = pl.DataFrame(rows, schema=SURVEY_SCHEMA, orient="row")
        frame = frame.unique("commit", keep="first", maintain_order=True)
        write_frame(frame, drafts[0].path / SURVEY_NAME)
        listed = in_sample(frame["commit"], task.share, fewest=FEWEST)
        write_touched([(each, "", 0) for each in listed], drafts[0].path)
        chosen = frozenset(listed)
        with Sheaf(drafts[1:]) as sheaf:
            for each in read_conversations(found, task.corpus, SkippedLines()):
                if each.digest in chosen:
                    sheaf.add(Rendered(documents=(chat.document(each),), counts=()))

    return tuple(store.produce(recipes, fill))


def _row(conversation: Conversation) -> tuple[str, str, int, int]:
    """A conversation as a survey lists commits: its digest stands for one."""
    size = sum(len(turn.text.encode()) for turn in conversation.turns)
    lineage = f"{conversation.source}:{conversation.name}"
    return conversation.digest, lineage, size, 0
