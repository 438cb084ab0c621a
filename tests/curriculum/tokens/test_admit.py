"""A tokenizer.json describes byte-level BPE with the ids that tokenizers gives, or is refused by a fault."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from curriculum.tokens import codec
from curriculum.tokens.codec import Tokenizer
from schemas.errors import TokenizerError
from tests.error_fields import fields

pytestmark = pytest.mark.timeout(120)
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern: str, kind: str = "Split", **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
        **more,
    }


def in_order(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*parts]}}


def replaced(count: int) -> dict[str, Any]:
    one = split("a", "Replace", content="aa")
    return {"normalizer": {"type": "Sequence", "normalizers": [one] * count}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (replaced(1), "Replace"),
        (replaced(40), "Replace"),
        ({"added_tokens": [{"id": 2**40, "content": "x"}]}, "added_tokens.0.id"),
        ({"added_tokens": [{"id": -1, "content": "x"}]}, "added_tokens.0.id"),
        ({"added_tokens": [{"id": True, "content": "x"}]}, "added_tokens.0.id"),
        ({"added_tokens": [{"id": 256, "content": ""}]}, "added_tokens.0.content"),
        ({"added_tokens": [{"id": 256, "content": ["x"]}]}, "added_tokens.0.content"),
        ({"added_tokens": [{"id": 256}]}, "added_tokens.0.content"),
        ({"added_tokens": "x"}, "added_tokens"),
        ({"added_tokens": [{"id": 256, "content": "x"}] * 2}, "the same id"),
        ({"model": {"type": "BPE", "vocab": {"a": 2**40}, "merges": []}}, "model.vocab.a"),
        ({"model": {"type": "BPE", "vocab": {"a": 1, "b": 1}, "merges": []}}, "the same id"),
        ({"model": {"type": "BPE", "vocab": 3, "merges": []}}, "model.vocab"),
        ({"model": {"type": ["BPE"], "vocab": {}, "merges": []}}, "only BPE"),
        ({"normalizer": []}, "normalizer"),
    ],
)
def test_what_an_engine_would_misread_is_refused_by_its_place(
    foreign_tokenizer: Any, changes: dict[str, Any], said: str
) -> None:
    Tokenizer.parse(foreign_tokenizer())
    with pytest.raises(TokenizerError, match=said):
        Tokenizer.parse(json.dumps(json.loads(foreign_tokenizer()) | changes))


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"model":' * 100_000, '{"model": NaN}', '"\ud800"']
)
def test_a_deep_or_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(text, errors="surrogatepass")
    with pytest.raises(TokenizerError):
        Tokenizer.load(file)


def test_a_pipe_and_an_endless_device_are_refused_at_once(tmp_path: Path) -> None:
    pipe, device = tmp_path / "tokenizer.json", tmp_path / "zero.json"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for file in (pipe, device):
        with pytest.raises(TokenizerError, match="regular", check=fields(name=file)):
            Tokenizer.load(file)


def test_a_panic_of_an_engine_is_an_error_of_the_tokenizer(
    foreign_tokenizer: Any, capfd: Any
) -> None:
    """Whatever is admitted: an engine's own limits end a text, not the command."""
    content = json.loads(foreign_tokenizer(**in_order(split("(a+)+$"), BYTES)))
    encode = codec._reference_engine(json.dumps(content))
    with pytest.raises(BaseException, match="retry-limit"):
        tokenizers.Tokenizer.from_str(json.dumps(content)).encode("a" * 40 + "b")
    with pytest.raises(TokenizerError, match="failed"):
        encode(["a" * 40 + "b"])


def test_an_added_token_that_is_a_byte_of_text_is_refused(foreign_tokenizer: Any) -> None:
    """No text yields a control token, so the byte would have none."""
    with pytest.raises(TokenizerError, match="failed"):
        Tokenizer.parse(foreign_tokenizer(("1", 49, True)))


def test_a_panic_while_a_file_is_loaded_is_an_error_of_the_tokenizer(
    foreign_tokenizer: Any, capfd: Any
) -> None:
    content = json.loads(foreign_tokenizer())
    content["model"]["continuing_subword_prefix"] = "longer than a token"
    content["model"]["merges"] = [["a", "b"]]
    with pytest.raises(TokenizerError, match="load"):
        Tokenizer.parse(json.dumps(content))
    assert "panicked" in capfd.readouterr().err


def test_an_engine_that_gives_an_id_outside_of_its_vocabulary_is_refused() -> None:
    def encode(texts: list[str]) -> tuple[codec.Ids, codec.Offsets]:
        return np.array([0, 2], np.int32), np.array([0, 2], np.int64)

    with pytest.raises(TokenizerError, match="vocabulary of 2"):
        codec._check_round_trip(encode, (b"a", b"b"), ["ab"], {}, name="tokenizer.json")


def test_the_command_ends_with_2_in_little_memory(foreign_tokenizer: Any, tmp_path: Path) -> None:
    """Each part makes text longer: without a limit an engine asks for terabytes."""
    file, rows = tmp_path / "tokenizer.json", tmp_path / "tokens.bin"
    file.write_text(foreign_tokenizer(**in_order(*[BYTES] * 40)))
    rows.write_bytes(b"\0\0")
    words = ("import", str(rows), "--format", "flat", "--tokenizer", str(file), "--family", "mine")
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *words, "--home", str(tmp_path / "ws")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: tokenizer.json: ")
    assert "Traceback" not in done.stderr
