"""A tokenizer.json of somebody else: of a size that can be parsed without care."""

from pathlib import Path

import pytest

from curriculum.tokens import tokenizer_texts
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from schemas.errors import TokenizerError


def test_a_file_of_too_many_values_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text('{"x":[' + ",".join(['{"":0}'] * 100) + "]}")
    assert TokenizerTexts.read(file).name == "tokenizer.json"
    monkeypatch.setattr(tokenizer_texts, "MAX_VALUES", 150)
    with pytest.raises(TokenizerError) as refused:
        TokenizerTexts.read(file)
    assert refused.value.value == "200 values or more"
