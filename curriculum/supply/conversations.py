"""Documents of a sample of the conversations of a source."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from curriculum.corpus.conversations import (
    ConversationFiles,
    SkippedLines,
    find_conversations,
    read_conversations,
)
from curriculum.corpus.survey import SURVEY_SCHEMA, in_sample
from curriculum.families import chat
from curriculum.families.render import RenderResult
from curriculum.stages.documents import FamilyWriters
from curriculum.stages.stage import Stage
from curriculum.store import Recipe, StagingDirectory
from curriculum.supply.sample import SURVEY_NAME, write_frame, write_touched
from schemas.change import Conversation
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.families import CHAT_FAMILY

FEWEST_CONVERSATIONS = 2_000
"""Conversations of a source that are read at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledConversations(Stage[Sequence[ConversationsSpec], ConversationFiles]):
    """The survey of each source of conversations, and the documents of its sample."""

    name = "conversations"
    corpus: CorpusSpec
    share: float

    def tasks(self, inputs: Sequence[ConversationsSpec]) -> Sequence[ConversationFiles]:
        """Find the files of each source.

        Raises:
            CorpusError: for a source without one.
        """
        return [find_conversations(each) for each in inputs]

    def title(self, task: ConversationFiles) -> str:
        """Return the source's name."""
        return task.spec.name

    def recipes(self, task: ConversationFiles) -> Sequence[Recipe]:
        """Return the recipes of the survey and of the documents."""
        place, config = ("repository", task.spec.name), {"conversations": task.spec.name}
        return [
            Recipe(stage="surveys", labels=(place,), revision=0, config=config),
            Recipe(
                stage="documents",
                labels=(("family", CHAT_FAMILY), place),
                revision=0,
                config=config,
            ),
        ]

    def run(self, task: ConversationFiles, drafts: Sequence[StagingDirectory]) -> None:
        """Survey all lines, then read them again for the documents of the sample."""
        rows = [_row(each) for each in read_conversations(task, self.corpus, SkippedLines())]
        frame = pl.DataFrame(rows, schema=SURVEY_SCHEMA, orient="row")
        frame = frame.unique("commit", keep="first", maintain_order=True)
        write_frame(frame, drafts[0].path / SURVEY_NAME)
        listed = in_sample(frame["commit"], self.share, fewest=FEWEST_CONVERSATIONS)
        write_touched([(each, "", 0) for each in listed], drafts[0].path)
        chosen = frozenset(listed)
        with FamilyWriters(drafts[1:]) as writers:
            for each in read_conversations(task, self.corpus, SkippedLines()):
                if each.digest in chosen:
                    writers.add(RenderResult(documents=(chat.document(each),), counts=()))


def _row(conversation: Conversation) -> tuple[str, str, int, int]:
    """A conversation as a survey lists commits: its digest stands for one."""
    size = sum(len(turn.text.encode()) for turn in conversation.turns)
    lineage = f"{conversation.source}:{conversation.name}"
    return conversation.digest, lineage, size, 0
