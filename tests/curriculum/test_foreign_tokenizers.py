"""Foreign tokenizers are exercised once, in a sandbox; what takes too much of a machine is refused there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tokenizers
from typer.testing import CliRunner

from curriculum import foreign_tokenizers as door
from curriculum import sandboxed_process
from curriculum.foreign_tokenizers import load_finished, load_foreign
from curriculum.sandbox import landlock
from curriculum.stages import tokens as tokens_stage
from curriculum.stages.merge import merge
from curriculum.stages.tokens import foreign_tokenizer, given_tokenizer
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.tokens.adversarial import LONG_RUNS
from curriculum.tokens.codec import NO_ENGINE, Roles, Tokenizer
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from curriculum.tokens.train import token_bytes_table
from curriculum.tokens.word_patterns import BYTE_LEVEL, COMPILED
from flows.cli import app
from schemas.errors import StoreError, TokenizerError
from tests.curriculum.tokens.conftest import foreign_json
from tests.curriculum.tokens.templates import LLAMA3, QWEN25, put

pytestmark = pytest.mark.skipif(
    not landlock(),
    reason="needs Landlock: Linux 5.13 or newer with it in /sys/kernel/security/lsm",
)
ROLES = Roles()
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
CODE = "#include <map>\r\n\tint x1 = 0x1F;  // don't, 1234567 éà 漢字 \u180e e\u0301 👍\n" * 20
IN_USE = {
    "GPT-2": (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",),
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "Bloom": (r" ?[^(\s|[.,!?…。，、।۔،])]+",),
    **{model: patterns for patterns, model in COMPILED.items() if patterns != (BYTE_LEVEL,)},
}
CONTROL = """
import resource, signal, sys
from curriculum.tokens.adversarial import exhausting_texts
from curriculum.tokens.codec import Tokenizer
from schemas.errors import TokenizerError
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
try:
    tokenizer = Tokenizer.parse(sys.stdin.read())
    for text in exhausting_texts():
        tokenizer.encode(text)
except TokenizerError:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
"""
"""Exercise a tokenizer without a sandbox; end by SIGPROF after some CPU seconds, or print the peak memory."""


def in_order(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*parts]}}


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def written(folder: Path, text: str) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(text)
    return file


def without_sandbox(text: str, cpu_seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CONTROL, str(cpu_seconds)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("model", IN_USE)
def test_patterns_in_use_pass_and_give_the_ids_of_tokenizers(tmp_path: Path, model: str) -> None:
    text = foreign_json(**in_order(*map(split, IN_USE[model]), BYTES))
    began = sum(os.times()[:4])
    loaded = load_foreign(TokenizerTexts.read(written(tmp_path, text)), ROLES)
    assert sum(os.times()[:4]) - began < door.SECONDS / 2
    reference = tokenizers.Tokenizer.from_str(text)
    for sample in (CODE, *(unit * 500 for unit in LONG_RUNS)):
        assert loaded.encode(sample).tolist() == reference.encode(sample).ids


@pytest.mark.parametrize("pattern", [r"\s*[\r\n]+|.", "a*a*b", "(?:a{1000}){1000}"])
def test_a_pattern_that_takes_a_power_of_a_line_ends_at_the_limit_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(door, "SECONDS", 2)
    text = foreign_json(**in_order(split(pattern), BYTES))
    with pytest.raises(TokenizerError) as refused:
        load_foreign(TokenizerTexts.read(written(tmp_path, text)), ROLES)
    assert refused.value.name == "tokenizer.json"
    assert "2 s of processor time" in str(refused.value.value)
    assert without_sandbox(text, 2.0).returncode == -signal.SIGPROF


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("(a+)+$", "a" * 40 + "!"),
        ("(?:a|a)*b", "a" * 40 + "!b"),
        (r"(\w+\s*)+;", "a" * 40 + "!;"),
        ("(?:x+x+)+y", "x" * 40 + "!y"),
    ],
)
def test_a_pattern_that_takes_exponential_time_ends_at_the_limit_of_its_engine(
    tmp_path: Path, pattern: str, line: str
) -> None:
    text = foreign_json(**in_order(split(pattern), BYTES))
    with pytest.raises(TokenizerError, match="failed"):
        load_foreign(TokenizerTexts.read(written(tmp_path, text)), ROLES)
    with pytest.raises(BaseException, match="retry-limit"):
        tokenizers.Tokenizer.from_str(text).encode(line)


def test_parts_that_multiply_text_end_at_the_limit_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MEMORY", 600 << 20)
    text = foreign_json(**in_order(*[BYTES] * 8))
    with pytest.raises(TokenizerError) as refused:
        load_foreign(TokenizerTexts.read(written(tmp_path, text)), ROLES)
    assert "SIGABRT" in str(refused.value.value)
    assert int(without_sandbox(text, 60.0).stdout) > 600 << 20


def test_long_added_tokens_end_at_the_limit_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MEMORY", 600 << 20)
    text = foreign_json(*((f"{number:010000}", 256 + number, True) for number in range(60)))
    with pytest.raises(TokenizerError) as refused:
        load_foreign(TokenizerTexts.read(written(tmp_path, text)), ROLES)
    assert "SIGABRT" in str(refused.value.value)
    assert int(without_sandbox(text, 60.0).stdout) > 600 << 20


def test_a_normalizer_that_crashes_its_engine_is_run_by_nobody(tmp_path: Path) -> None:
    """Rows that come packed need no text encoded, so their tokenizer may have one."""
    vocab = [["<unk>", 0.0], ["a", -1.0]]
    content: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "Precompiled",
            "precompiled_charsmap": "EAAAAP////////////////////9hAA==",
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab},
    }
    file = written(tmp_path, json.dumps(content))
    with pytest.raises(BaseException, match="index out of bounds"):
        tokenizers.Tokenizer.from_str(file.read_text()).encode("héllo")
    with pytest.raises(TokenizerError):
        load_foreign(TokenizerTexts.read(file), ROLES)
    assert load_finished(TokenizerTexts.read(file), ROLES).engine == NO_ENGINE


@pytest.mark.parametrize("words", [("supply", "sample"), ("import", "ROWS", "--format", "flat")])
def test_commands_refuse_a_foreign_tokenizer_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(door, "SECONDS", 2)
    rows, home = tmp_path / "tokens.bin", tmp_path / "home"
    rows.write_bytes(b"\0\0")
    file = written(tmp_path, foreign_json(**in_order(split("a*a*b"), BYTES)))
    asked = [str(rows) if word == "ROWS" else word for word in words]
    done = CliRunner().invoke(app, [*asked, "--tokenizer", str(file), "--home", str(home)])
    assert done.exit_code == 2, done.output
    assert "tokenizer.json: " in done.output
    assert not [*Store(home).artefacts("tokenizers")]


def test_a_tokenizer_that_is_swapped_once_it_was_found_known_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "home")
    known = put(tmp_path / "known", QWEN25)
    given_tokenizer(store, known, "bos_eos")
    text, compare = known.read_text(), tokens_stage._same
    other = foreign_json(("<|eos|>", 256, True), ("<|other|>", 257, True))

    def raced(*compared: Any) -> list[Artefact]:
        found = compare(*compared)
        written(tmp_path / "known", other)
        return found

    monkeypatch.setattr(tokens_stage, "_same", raced)
    assert foreign_tokenizer(store, known, ROLES).json == text
    assert known.read_text() != text, "the swap came in time"


@pytest.mark.parametrize("finished", [False, True])
def test_a_tokenizer_whose_files_are_swapped_as_it_is_exercised_stays_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    """Finished rows take it without an engine, which read it twice more."""
    file, private = put(tmp_path / "theirs", QWEN25), put(tmp_path / "private", LLAMA3)
    text, exercise = file.read_text(), door._exercise

    def raced(*asked: Any) -> None:
        exercise(*asked)
        for other in private.parent.iterdir():
            (file.parent / other.name).unlink()
            (file.parent / other.name).symlink_to(other)
        if finished:
            raise TokenizerError("tokenizer.json", cause="it is slow", cure="Mend it")

    monkeypatch.setattr(door, "_exercise", raced)
    made = given_tokenizer(Store(tmp_path / "home"), file, "bos_eos", finished=finished)
    assert (made.path / "tokenizer.json").read_text() == text
    config = json.loads((made.path / "tokenizer_config.json").read_text())
    assert config["chat_template"] == QWEN25
    assert file.read_text() != text, "the swap came in time"


def test_without_landlock_a_foreign_tokenizer_needs_an_option_and_a_known_one_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "home")
    known = put(tmp_path / "known", QWEN25)
    given_tokenizer(store, known, "bos_eos")
    monkeypatch.setattr(sandboxed_process, "landlock", lambda: 0)
    other = written(tmp_path, foreign_json(("<|eos|>", 256, True), ("<|other|>", 257, True)))
    for finished in (False, True):
        with pytest.raises(StoreError) as refused:
            foreign_tokenizer(store, other, ROLES, finished=finished)
        assert (refused.value.name, "--unsandboxed" in refused.value.cure) == ("Landlock", True)
    assert foreign_tokenizer(store, other, ROLES, unsandboxed=True).eos_id == 256
    assert foreign_tokenizer(store, known, ROLES).sha256 == Tokenizer.load(known).sha256


def test_a_tokenizer_that_a_workspace_has_is_not_exercised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "home")
    file = written(tmp_path, foreign_json(("<|eos|>", 256, True)))
    made = given_tokenizer(store, file, "eos")
    monkeypatch.setattr(door, "SandboxedProcess", None)
    door._exercise.cache_clear()
    assert given_tokenizer(store, file, "eos").key == made.key
    assert given_tokenizer(store, file, "none").key != made.key
    file.write_text(file.read_text() + "\n")
    with pytest.raises(TypeError):
        given_tokenizer(store, file, "eos")


def sealed_tokenizer(home: Path, text: str, **config: Any) -> Artefact:
    """A tokenizer of somebody else's workspace, whose manifest agrees with its file."""

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        written(drafts[0].path, text)
        table = token_bytes_table(Tokenizer.parse(foreign_json()))
        pq.write_table(table, drafts[0].path / "token_bytes.parquet")

    recipe = Recipe(stage="tokenizers", labels=(), revision=1, config=asdict(ROLES) | config)
    return Store(home).produce([recipe], fill)[0]


def test_a_tokenizer_of_anothers_workspace_is_exercised_before_merge_publishes_it(
    tmp_path: Path,
) -> None:
    usual = sealed_tokenizer(tmp_path / "usual", foreign_json())
    store = Store(tmp_path / "to")
    assert [each.content for each in merge(store, tmp_path / "usual")] == [usual.content]
    text = foreign_json(**in_order(split("(?:a|a|aa|b)+$|(?:(?:x+x+)+y)"), BYTES))
    slow = sealed_tokenizer(tmp_path / "slow", text)
    store = Store(tmp_path / "none")
    with pytest.raises(TokenizerError) as refused:
        list(merge(store, tmp_path / "slow"))
    assert refused.value.name == str(slow.path)
    assert [*store.artefacts()] == []
    assert [each.key for each in merge(store, tmp_path / "slow", own=True)] == [slow.key]
    with pytest.raises(BaseException, match="retry-limit"):
        tokenizers.Tokenizer.from_str(text).encode("x" * 40 + "!y")


@pytest.mark.parametrize("config", [{"bos": 3}, {"eos": ["a"]}, {"document_tokens": "any"}])
def test_a_merged_tokenizer_without_roles_is_refused_by_name(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    sent = sealed_tokenizer(tmp_path / "from", foreign_json(), **config)
    with pytest.raises(TokenizerError) as refused:
        list(merge(Store(tmp_path / "to"), tmp_path / "from"))
    assert refused.value.name == str(sent.path)
    assert str(refused.value.value).startswith(f"config.{next(iter(config))}")
