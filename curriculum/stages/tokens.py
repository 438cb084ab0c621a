"""The tokenizer, and the ids of each document."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from curriculum.corpus.decisions import train_ids
from curriculum.foreign_tokenizers import load_finished, load_foreign
from curriculum.stages.selection import KeptDocuments, title
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.tokens import token_store as token_store
from curriculum.tokens import train
from curriculum.tokens.codec import DocumentTokens, Roles, Tokenizer, TokenizerSettings
from curriculum.tokens.finished import decoding_tokenizer
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME, TokenizerTexts
from schemas.errors import StoreError, TokenizerError
from schemas.families import VERSIONS_FAMILY
from schemas.reports import TokenizerReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenizing:
    """Choice of a tokenizer: the tokenizer `given`, or one with `vocab_size` ids trained on the corpus."""

    given: Tokenizer | None = None
    vocab_size: int = 32_768
    document_tokens: DocumentTokens = "bos_eos"

    @property
    def config(self) -> dict[str, JsonValue]:
        """Settings that decide the tokenizer, for artefact keys."""
        if self.given is not None:
            return train.given_config(self.given)
        roles = Roles(document_tokens=self.document_tokens)
        return {**train.trained_config(vocab_size=self.vocab_size), **asdict(roles)}


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerTask:
    """The texts that a tokenizer is trained on."""

    texts: Sequence[Artefact]
    kept: Artefact


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenizers(Stage[KeptDocuments, TokenizerTask]):
    """Stage that makes the tokenizer of a build; it is only trained on texts of the training set."""

    name = "tokenizer"
    placement = "each shard"
    tokenizing: Tokenizing

    def tasks(self, inputs: KeptDocuments) -> Sequence[TokenizerTask]:
        """Return the documents on which a tokenizer is trained, unless one is given."""
        task = TokenizerTask(
            texts=[
                document
                for document in inputs.documents
                if document.manifest.labels["family"] == VERSIONS_FAMILY
            ],
            kept=inputs.kept,
        )
        return [task]

    def title(self, task: TokenizerTask) -> str:
        """Return the name of the tokenizer's file, or a title that says that it is trained."""
        given = self.tokenizing.given
        return given.name if given else "trained on the corpus"

    def recipes(self, task: TokenizerTask) -> Sequence[Recipe]:
        """Return the recipe of the tokenizer."""
        given = self.tokenizing.given
        return [_given(given) if given else _trained(self.tokenizing, task)]

    def run(self, task: TokenizerTask, drafts: Sequence[StagingDirectory]) -> None:
        """Train the tokenizer unless one is given, and write it."""
        (draft,) = drafts
        tokenizer = self.tokenizing.given or _train(self.tokenizing, task)
        draft.record(train.write_tokenizer(tokenizer, draft.path))


def foreign_tokenizer(
    store: Store, file: Path, roles: Roles, *, finished: bool = False, unsandboxed: bool = False
) -> Tokenizer:
    """Return the tokenizer in a file or folder, exercising it first unless the workspace already has it.

    A tokenizer for `finished` rows may lose bytes, because it doesn't encode any text.

    Raises:
        TokenizerError: for an unknown tokenizer that loses bytes, or takes too much time or memory.
        StoreError: for an unknown tokenizer, if the kernel has no sandbox and `unsandboxed` is False.
    """
    texts = TokenizerTexts.read(file)
    known = _same(store, texts.sha256)
    if any(artefact.configured(TokenizerSettings).encodes for artefact in known):
        return Tokenizer.from_texts(texts, roles)
    load = load_finished if finished else load_foreign
    return load(texts, roles, unsandboxed=unsandboxed)


def given_tokenizer(
    store: Store,
    file: Path,
    document_tokens: DocumentTokens,
    *,
    finished: bool = False,
    unsandboxed: bool = False,
) -> Artefact:
    """Return the artefact of the tokenizer in a file or folder, reusing an equal one of the workspace.

    Raises:
        TokenizerError: as for `foreign_tokenizer`; nothing is written then.
        StoreError: as for `foreign_tokenizer`; nothing is written then.
    """
    roles = Roles(document_tokens=document_tokens)
    given = foreign_tokenizer(store, file, roles, finished=finished, unsandboxed=unsandboxed)
    for same in _same(store, given.sha256):
        known = load_tokenizer(same)
        if known.ids_of == given.ids_of and _template(known) == _template(given):
            return store.load(same.path)

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        drafts[0].record(train.write_tokenizer(given, drafts[0].path))

    return store.produce([_given(given)], fill)[0]


def _same(store: Store, sha256: str) -> list[Artefact]:
    """Return the tokenizers of a workspace whose tokenizer.json has the digest `sha256`."""
    return [
        artefact
        for artefact in store.artefacts("tokenizers")
        if any(
            file.name == TOKENIZER_NAME and file.sha256 == sha256
            for file in artefact.manifest.files
        )
    ]


def _template(tokenizer: Tokenizer) -> str:
    return tokenizer.chat_template.config if tokenizer.chat_template else ""


def exercise_tokenizer(artefact: Artefact, *, name: str) -> None:
    """Exercise the tokenizer of an untrusted artefact, unless it has no engine that could run.

    Raises:
        TokenizerError: naming the artefact, if `load_foreign` refuses it or it has no roles.
        StoreError: if the kernel has no sandbox.
    """
    try:
        settings = artefact.configured(TokenizerSettings)
        if settings.encodes:
            load_foreign(TokenizerTexts.read(artefact.path / TOKENIZER_NAME), settings.roles)
    except (StoreError, TokenizerError) as refused:
        raise TokenizerError(
            name,
            refused.value,
            cause=refused.cause,
            cure="Ask its sender for another one, or move it out of the workspace",
        ) from None


def load_tokenizer(artefact: Artefact) -> Tokenizer:
    """Return the tokenizer of an artefact."""
    texts = TokenizerTexts.read(artefact.path / TOKENIZER_NAME)
    settings = artefact.configured(TokenizerSettings)
    if settings.encodes:
        return Tokenizer.from_texts(texts, settings.roles)
    return decoding_tokenizer(
        texts, settings.roles, artefact.reported(TokenizerReport).engine_reason
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens(Stage[Sequence[Artefact], Artefact]):
    """Stage that encodes each document of an artefact once. v6_enriched uses the tokens of its base."""

    name = "tokens"
    tokenizer: Artefact

    def title(self, task: Artefact) -> str:
        """Return the title of the documents."""
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
        """Encode the documents in order."""
        (draft,) = drafts
        tokenizer = load_tokenizer(self.tokenizer)
        draft.record(token_store.tokenize_documents(task.shards(), tokenizer, draft.path))


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
        config=tokenizing.config,
        inputs=(
            task.kept.as_input("kept"),
            *(text.as_input(title(text)) for text in task.texts),
        ),
        tools=train.TOOLS,
    )


def _train(tokenizing: Tokenizing, task: TokenizerTask) -> Tokenizer:
    known: set[str] = set()
    for documents in task.texts:
        known |= train_ids(task.kept, documents)
    files = [file for text in task.texts for file in text.shards()]
    sample = train.sample_texts(files, keep=known)
    made = train.train_tokenizer(sample, vocab_size=tokenizing.vocab_size)
    return Tokenizer.parse(made.decode(), Roles(document_tokens=tokenizing.document_tokens))
