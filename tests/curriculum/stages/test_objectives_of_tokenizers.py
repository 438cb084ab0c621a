"""Objectives that a tokenizer can't serve are refused before anything is read."""

import json
from pathlib import Path

import pytest

from curriculum.stages import RowsSpec, Tokenizing, build
from curriculum.store import Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.train import train_tokenizer
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.errors import TokenizerError

NOWHERE = CorpusSpec(name="none", repositories=(RepositorySpec(name="none", path="/nowhere"),))


def given(folder: Path) -> Tokenizing:
    """A tokenizer that has no sentinels."""
    content = json.loads(train_tokenizer(["int main() { return 0; }\n"], vocab_size=300))
    lost = [each["content"] for each in content["added_tokens"] if "fim" in each["content"]]
    content["added_tokens"] = [
        each for each in content["added_tokens"] if each["content"] not in lost
    ]
    for name in lost:
        content["model"]["vocab"].pop(name, None)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return Tokenizing(given=Tokenizer.load(file))


def test_fim_without_sentinels_is_refused_before_a_repository_is_read(tmp_path: Path) -> None:
    wanted = [
        RowsSpec(family="v2_simple", row_length=512),
        RowsSpec(family="v2_simple", objective="fim", row_length=512),
    ]
    with pytest.raises(TokenizerError, match=r"fim_suffix\|> and no <\|fim_middle"):
        build(Store(tmp_path), NOWHERE, wanted, fixed_length=512, tokenizing=given(tmp_path))
