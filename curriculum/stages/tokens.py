"""The tokenizer, and each document's ids once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from curriculum.stages.selection import KeptDocuments, title, train_ids
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.tokens import store as token_store
from curriculum.tokens import train
from curriculum.tokens.codec import DocumentTokens, Roles, Tokenizer
from curriculum.tokens.finished import load_finished
from schemas.families import VERSIONS_FAMILY

TOKENIZER_NAME = "tokenizer.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenizing:
    """Choice of a tokenizer: `file` a given tokenizer.json, else one of `vocab_size` ids from the corpus."""

    file: Path | None = None
    vocab_size: int = 32_768
    document_tokens: DocumentTokens = "bos_eos"

    @property
    def roles(self) -> Roles:
        """Roles given for the tokenizer's control tokens."""
        return Roles(document_tokens=self.document_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerTask:
    """A given tokenizer, or the texts that one is trained on."""

    given: Tokenizer | None
    texts: Sequence[Artefact]
    kept: Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenizers(Stage[KeptDocuments, TokenizerTask]):
    """The tokenizer of a build; one that is trained sees texts of the train side only."""

    name = "tokenizer"
    placement = "each shard"
    tokenizing: Tokenizing

    def tasks(self, inputs: KeptDocuments) -> Sequence[TokenizerTask]:
        """Load the given tokenizer, or choose the documents whose texts one is trained on.

        Raises:
            TokenizerError: for a given one that loses bytes.
        """
        file, roles = self.tokenizing.file, self.tokenizing.roles
        task = TokenizerTask(
            given=Tokenizer.load(file, roles) if file else None,
            texts=[
                each
                for each in inputs.documents
                if each.manifest.labels["family"] == VERSIONS_FAMILY
            ],
            kept=inputs.kept,
        )
        return [task]

    def title(self, task: TokenizerTask) -> str:
        """Return the name of the file, or say that it is trained."""
        file = self.tokenizing.file
        return file.name if file else "trained on the corpus"

    def recipes(self, task: TokenizerTask) -> Sequence[Recipe]:
        """Return the recipe of the tokenizer."""
        return [_given(task.given) if task.given else _trained(self.tokenizing, task)]

    def run(self, task: TokenizerTask, drafts: Sequence[StagingDirectory]) -> None:
        """Train the tokenizer if none is given, and write it."""
        (draft,) = drafts
        tokenizer = task.given or _train(self.tokenizing, task)
        draft.record(train.write_tokenizer(tokenizer, draft.path))


def given_tokenizer(
    store: Store, file: Path, document_tokens: DocumentTokens, *, finished: bool = False
) -> Artefact:
    """The artefact of a tokenizer.json; one of the workspace that is the same, where there is one.

    One for `finished` rows, for which no text is encoded, may lose bytes.

    Raises:
        TokenizerError: for another one that loses bytes; nothing is written then.
    """
    load = load_finished if finished else Tokenizer.load
    given = load(file, Tokenizing(document_tokens=document_tokens).roles)
    for each in store.artefacts("tokenizers"):
        known = load_tokenizer(each)
        same = known.json == given.json and known.ids_of == given.ids_of
        if same and _template(known) == _template(given):
            return store.load(each.path)

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        drafts[0].record(train.write_tokenizer(given, drafts[0].path))

    return store.produce([_given(given)], fill)[0]


def _template(tokenizer: Tokenizer) -> str:
    return tokenizer.chat_template.config if tokenizer.chat_template else ""


def load_tokenizer(artefact: Artefact) -> Tokenizer:
    """The tokenizer of an artefact."""
    config = artefact.manifest.config
    roles = {field.name: config[field.name] for field in fields(Roles)}
    load = load_finished if config.get("encodes") is False else Tokenizer.load
    return load(artefact.path / TOKENIZER_NAME, Roles(**cast(Any, roles)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens(Stage[Sequence[Artefact], Artefact]):
    """Ids of the documents of an artefact, each document encoded once."""

    name = "tokens"
    tokenizer: Artefact

    def tasks(self, inputs: Sequence[Artefact]) -> Sequence[Artefact]:
        """Return artefacts of documents; those of v6_enriched have the tokens of their base."""
        return inputs

    def title(self, task: Artefact) -> str:
        """Name the documents."""
        return title(task)

    def recipes(self, task: Artefact) -> Sequence[Recipe]:
        """Return the recipe of the documents' tokens."""
        labels = task.manifest.labels
        recipe = Recipe(
            stage="tokens",
            labels=(("family", labels["family"]), ("repository", labels["repository"])),
            revision=token_store.REVISION,
            inputs=(task.as_input("documents"), self.tokenizer.as_input("tokenizer")),
        )
        return [recipe]

    def run(self, task: Artefact, drafts: Sequence[StagingDirectory]) -> None:
        """Encode the documents in their order."""
        (draft,) = drafts
        tokenizer = load_tokenizer(self.tokenizer)
        draft.record(token_store.tokenize_documents(task.files(), tokenizer, draft.path))


def _given(tokenizer: Tokenizer) -> Recipe:
    return Recipe(
        stage="tokenizers",
        labels=(),
        revision=train.REVISION,
        config=train.given_config(tokenizer),
    )


def _trained(tokenizing: Tokenizing, task: TokenizerTask) -> Recipe:
    return Recipe(
        stage="tokenizers",
        labels=(),
        revision=train.REVISION,
        config={
            **train.trained_config(vocab_size=tokenizing.vocab_size),
            **asdict(tokenizing.roles),
        },
        inputs=(
            task.kept.as_input("kept"),
            *(each.as_input(title(each)) for each in task.texts),
        ),
        tools=train.TOOLS,
    )


def _train(tokenizing: Tokenizing, task: TokenizerTask) -> Tokenizer:
    known: set[str] = set()
    for each in task.texts:
        known |= train_ids(task.kept, each)
    files = [file for each in task.texts for file in each.files()]
    sample = train.sample_texts(files, keep=known)
    made = train.train_tokenizer(sample, vocab_size=tokenizing.vocab_size)
    return Tokenizer.parse(made.decode(), tokenizing.roles)
