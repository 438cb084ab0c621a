"""The tokenizer of a diet, trained before any rows are built."""

from pathlib import Path

from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.plan import RunPlan
from curriculum.stages.documents import Documents, repositories
from curriculum.stages.selection import KeptDocuments, SplitDocuments
from curriculum.stages.stage import Coordinator, Workers
from curriculum.stages.tokens import Tokenizers, Tokenizing
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME
from schemas.progress import ProgressCallback


def train_tokenizer(plan: RunPlan, watch: ProgressCallback) -> Path:
    """Train the tokenizer of a diet on its corpus, as a build would, and return its file.

    Raises:
        CurriculumError: from the stages of a build.
    """
    listed = repositories(plan.corpus, plan.sources)
    with plan.store.leased():
        workers = Workers(processes=plan.config.corpus.workers or 1)
        coordinator = Coordinator(store=plan.store, workers=workers, watch=watch)
        documents = coordinator.make(Documents(), listed)
        (kept,) = coordinator.make(SplitDocuments.of_files(plan.store, plan.corpus), documents)
        wanted = Tokenizing(
            vocab_size=plan.diet.vocab_size, document_tokens=plan.diet.document_tokens
        )
        inputs = KeptDocuments(documents=documents, kept=kept)
        (trained,) = coordinator.make(Tokenizers(tokenizing=wanted), inputs)
        mark_current(plan.store, f"tokenizer-{plan.corpus.name}", [trained])
    return trained.path / TOKENIZER_NAME
