"""Conversations: documents of the chat family by source, and their selection.

They are independent of the rest of the corpus.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.corpus import conversations
from curriculum.corpus.conversations import (
    ConversationFiles,
    SkippedLines,
    find_conversations,
    ingredients,
    read_conversations,
    refuse_losses,
)
from curriculum.corpus.select_conversations import (
    REVISION,
    conversation_ingredients,
    select_conversations,
)
from curriculum.families import chat
from curriculum.families.render import RenderResult
from curriculum.stages.documents import FamilyWriters, write_or_skip
from curriculum.stages.selection import folders, title
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.errors import CorpusError
from schemas.families import CHAT_FAMILY, FAMILIES
from schemas.reports import DocumentsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversations(Stage[Sequence[ConversationsSpec], ConversationFiles]):
    """Stage that turns the conversations of each source into documents."""

    name = "conversations"
    raises_last = True
    corpus: CorpusSpec
    sample: int | None = None
    """Number of documents per source after which reading ends; None to read everything."""

    def tasks(self, inputs: Sequence[ConversationsSpec]) -> Sequence[ConversationFiles]:
        """Return the files of each source.

        Raises:
            CorpusError: for a source without files.
        """
        return [find_conversations(source) for source in inputs]

    def title(self, task: ConversationFiles) -> str:
        """Return the source's name."""
        return task.spec.name

    def recipes(self, task: ConversationFiles) -> Sequence[Recipe]:
        """Return the recipe of the source's documents."""
        sampled = {} if self.sample is None else {"sample": self.sample}
        recipe = Recipe(
            stage="documents",
            labels=(("family", CHAT_FAMILY), ("repository", task.spec.name)),
            revision=FAMILIES[CHAT_FAMILY].revision,
            config={
                "family": CHAT_FAMILY,
                "reader": conversations.REVISION,
                **ingredients(task, self.corpus),
                **self.corpus.tolerance(),
                **sampled,
            },
        )
        return [recipe]

    def run(self, task: ConversationFiles, drafts: Sequence[StagingDirectory]) -> None:
        """Write each conversation as a document.

        Raises:
            CorpusError: if files changed, or more than `max_skipped` of the lines can't be read. If the
            corpus skips the source, its artefact stays empty instead.
        """
        write_or_skip(self.corpus, drafts, functools.partial(self._write, task, drafts))

    def _write(self, task: ConversationFiles, drafts: Sequence[StagingDirectory]) -> None:
        skips = SkippedLines()
        with FamilyWriters(drafts, sample=self.sample) as writers:
            for conversation in read_conversations(task, self.corpus, skips):
                writers.add(RenderResult(documents=(chat.document(conversation),), counts=()))
                if writers.are_full:
                    break
        refuse_losses(task, self.corpus, skips)
        writers.report(DocumentsReport(lines=skips.report()))


def require_conversations(corpus: CorpusSpec) -> None:
    """Raise unless a corpus has conversations.

    Raises:
        CorpusError: naming the corpus.
    """
    if not corpus.conversations:
        raise CorpusError(
            f"corpus {corpus.name}",
            "conversations: none",
            cause=f"the family {CHAT_FAMILY} needs conversations",
            cure=(
                "Add some to the corpus file, conversations: [{name: …, path: ….jsonl}], or "
                f"remove the servings of {CHAT_FAMILY} from the diet"
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationSelection(Stage[Sequence[Artefact], Sequence[Artefact]]):
    """Stage that selects the kept conversations and their splits; all have the same domain."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec

    def tasks(self, inputs: Sequence[Artefact]) -> Sequence[Sequence[Artefact]]:
        """Return all documents as one task, if there are any."""
        return [inputs] if inputs else []

    def title(self, task: Sequence[Artefact]) -> str:
        """Return the family."""
        return CHAT_FAMILY

    def recipes(self, task: Sequence[Artefact]) -> Sequence[Recipe]:
        """Return the recipe of the selection."""
        recipe = Recipe(
            stage="selections",
            labels=(("corpus", self.corpus.name), ("family", CHAT_FAMILY)),
            revision=REVISION,
            config=conversation_ingredients(self.corpus),
            inputs=tuple(documents.as_input(title(documents)) for documents in task),
        )
        return [recipe]

    def run(self, task: Sequence[Artefact], drafts: Sequence[StagingDirectory]) -> None:
        """Find duplicates, apply quality rules, and assign each conversation to a split."""
        (draft,) = drafts
        draft.record(select_conversations(folders(task), self.corpus, draft.path).report())
