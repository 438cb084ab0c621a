"""A trained model goes on with a text, on the command line."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from curriculum.pipeline.references import checkpoint_of, run_of
from curriculum.store import Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.train import train_tokenizer
from flows.cli import app
from flows.cli.generate import Prompt, decoded_pieces, prompt_ids, read_prompt
from schemas.errors import CorpusError, JobError, StoreError, TokenizerError

TEXT = "int main() { return 0; } // grüße € 🎉 名前\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.parse(train_tokenizer([TEXT] * 4, vocab_size=280).decode())


def curriculum(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def syntax(demo_home: Path) -> Path:
    return run_of(Store(demo_home, dry=True), "templates/demo/syntax", name="it").path


@given(text=st.text(max_size=40))
def test_text_comes_in_whole_characters_and_is_all_there(text: str) -> None:
    tokenizer = BYTES
    pieces = list(decoded_pieces(tokenizer, tokenizer.encode(text).tolist()))
    assert "".join(pieces) == text
    for piece in pieces:
        piece.encode()


BYTES = Tokenizer.parse(train_tokenizer(["ab"], vocab_size=280).decode())
"""Nearly every byte is a token of its own."""


def test_a_character_that_never_ends_is_shown_as_lost(tokenizer: Tokenizer) -> None:
    euro = BYTES.encode("€").tolist()
    assert len(euro) == 3
    assert "".join(decoded_pieces(BYTES, euro[:2])) == "\ufffd"
    assert "".join(decoded_pieces(BYTES, [*euro[:2], *BYTES.encode("a").tolist()])) == "\ufffda"


def test_a_prompt_is_the_beginning_of_a_document(tokenizer: Tokenizer) -> None:
    ids = prompt_ids(tokenizer, Prompt(before="int main"))
    assert ids[0] == tokenizer.bos_id
    assert tokenizer.decode_bytes(ids) == b"int main"
    assert tokenizer.eos_id not in ids


def test_a_gap_stands_between_its_marks_in_the_order_that_fim_trains(tokenizer: Tokenizer) -> None:
    ids = prompt_ids(tokenizer, Prompt(before="int ", after=" return"))
    shown = tokenizer.decode(ids)
    assert shown == "<|bos|><|fim_prefix|>int <|fim_suffix|> return<|fim_middle|>"


def test_a_gap_needs_a_tokenizer_with_marks(tokenizer: Tokenizer) -> None:
    content = json.loads(tokenizer.json)
    content["added_tokens"] = [t for t in content["added_tokens"] if "fim" not in t["content"]]
    content["model"]["vocab"] = {
        text.replace("<|fim", "<|was"): token for text, token in content["model"]["vocab"].items()
    }
    bare = Tokenizer.parse(json.dumps(content))
    with pytest.raises(TokenizerError, match=r"<\|fim_prefix\|>.*--fim-suffix"):
        prompt_ids(bare, Prompt(before="a", after="b"))


def test_a_prompt_is_given_once_and_in_utf8(tmp_path: Path) -> None:
    file = tmp_path / "a.cpp"
    file.write_text(TEXT, encoding="utf-8")
    assert read_prompt(None, file, None) == Prompt(before=TEXT)
    assert read_prompt("x", None, file) == Prompt(before="x", after=TEXT)
    assert read_prompt(None, None, None) == Prompt(before="")
    with pytest.raises(CorpusError, match="only one"):
        read_prompt("x", file, None)
    file.write_bytes(b"\xff")
    with pytest.raises(CorpusError, match="can't be read"):
        read_prompt(None, file, None)


def test_a_model_goes_on_and_the_same_seed_writes_the_same(demo_home: Path, syntax: Path) -> None:
    words = ["generate", str(syntax), "--prompt", "template <typename T>\n", "--tokens", "12"]
    one, again, other = (curriculum(*words, "--seed", seed) for seed in ("3", "3", "4"))
    assert one.exit_code == 0, one.output
    assert one.stdout == again.stdout != other.stdout
    assert one.stdout
    assert one.stdout.endswith("\n")
    length, _, rest = one.stderr.partition(" after a prompt of ")
    assert length == "12 tokens" or "end of the document" in rest
    assert "templates/demo/syntax, attempt 1, " in one.stderr
    greedy = [
        curriculum(*words, "--greedy", "--seed", seed, "--home", str(demo_home)) for seed in "12"
    ]
    assert greedy[0].stdout == greedy[1].stdout


def test_a_gap_is_filled_from_the_command_line(demo_home: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.cpp"
    after.write_text("}\n")
    words = ["templates/demo", "--prompt", "int f() {", "--fim-suffix", str(after), "--tokens", "3"]
    done = curriculum("generate", *words, "--home", str(demo_home))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["templates.demo", "templates", "templates/demo"])
def test_a_specialist_means_its_last_phase(demo_home: Path, name: str) -> None:
    last = run_of(Store(demo_home, dry=True), "templates/demo/anneal", name="it").path
    assert checkpoint_of(demo_home, name).is_relative_to(last)


def test_a_phase_a_run_a_key_and_a_checkpoint_are_found(demo_home: Path, syntax: Path) -> None:
    found = checkpoint_of(demo_home, "templates.demo/syntax")
    assert found.is_relative_to(syntax)
    key = json.loads((syntax / "job.json").read_text())["run_key"]
    steps = [int(each.name.partition("=")[2]) for each in found.parent.iterdir()]
    assert found.name == f"step={max(steps)}"
    for what in ("templates/syntax", str(syntax), str(syntax.parent), key[:12], str(found)):
        assert checkpoint_of(demo_home, what) == found, what
    earlier = found.with_name(f"step={min(steps)}")
    assert checkpoint_of(demo_home, str(earlier)) == earlier != found


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("zebras", "no run of that name, path or key. Available: templates/demo/anneal"),
        ("RUNS", "several runs"),
    ],
)
def test_an_unknown_model_is_told_with_those_there_are(
    demo_home: Path, what: str, said: str
) -> None:
    what = str(demo_home / "runs") if what == "RUNS" else what
    with pytest.raises(JobError, match=said):
        checkpoint_of(demo_home, what)


def test_a_folder_outside_any_workspace_is_told(demo_home: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="inside a workspace"):
        checkpoint_of(demo_home, str(tmp_path))


def test_a_prompt_beyond_the_longest_row_is_told(demo_home: Path, syntax: Path) -> None:
    done = curriculum("generate", str(syntax), "--prompt", "int x;\n" * 400)
    assert done.exit_code == 2
    assert "rows of at most 512 tokens" in done.stderr
    assert "to 511" in done.stderr


def test_a_damaged_checkpoint_is_told(demo_home: Path, syntax: Path, tmp_path: Path) -> None:
    attempt = tmp_path / "workspace" / "runs" / "attempt=1"
    whole = checkpoint_of(demo_home, str(syntax))
    shutil.copytree(whole, attempt / "checkpoints" / whole.name)
    shutil.copy(syntax / "job.json", attempt)
    shutil.copy(demo_home / "workspace.json", tmp_path / "workspace")
    job = json.loads((syntax / "job.json").read_text())
    shutil.copytree(demo_home / "tokenizers", tmp_path / "workspace" / "tokenizers")
    assert job["tokenizer"]["path"].startswith("tokenizers/")
    broken = attempt / "checkpoints" / whole.name
    for each in broken.glob("*.safetensors"):
        each.write_bytes(each.read_bytes()[:-1])
    done = curriculum("generate", str(broken), "--prompt", "int")
    assert done.exit_code == 2
    assert "damaged" in done.stderr
