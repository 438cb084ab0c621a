"""Check of a tokenizer's token_bytes.parquet, with which bits per byte are measured."""

from curriculum import parquet
from curriculum.store import Artefact
from curriculum.tokens.codec import Tokenizer, TokenizerSettings
from curriculum.tokens.finished import decoding_tokenizer
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME, TokenizerTexts
from curriculum.tokens.train import token_bytes_table


def check_token_bytes(artefact: Artefact) -> None:
    """Raise unless a tokenizer's token_bytes.parquet equals the table that its tokenizer.json gives.

    Raises:
        ValueError: naming the column that differs.
        TokenizerError: if tokenizer.json isn't a tokenizer.
    """
    texts = TokenizerTexts.read(artefact.path / TOKENIZER_NAME)
    settings = artefact.configured(TokenizerSettings)
    tokenizer = (
        Tokenizer.from_texts(texts, settings.roles)
        if settings.encodes
        else decoding_tokenizer(texts, settings.roles, "")
    )
    found = parquet.read_table(artefact.path / "token_bytes.parquet")
    wanted = token_bytes_table(tokenizer)
    for name in wanted.column_names:
        if not found[name].equals(wanted[name]):
            raise ValueError(f"{name} of token_bytes.parquet differs from {TOKENIZER_NAME}")
