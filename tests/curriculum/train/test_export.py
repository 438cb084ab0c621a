"""A checkpoint is handed on: what is loaded elsewhere computes the same."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from curriculum.model.decoder import Decoder
from curriculum.model.masks import Boundaries
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from curriculum.tokens.train import train_tokenizer
from curriculum.train import checkpoint
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.export import FORMATS, LOAD, Vocabulary, export, require_counterpart
from curriculum.train.optimizer import new_train_state
from curriculum.train.restore import model_in
from curriculum.train.sample import longest_row, trained_model
from flows.cli.exports import vocabulary_of
from schemas.errors import JobError, StoreError
from schemas.job import ModelSpec
from tests.curriculum.tokens.templates import QWEN25, tokenizer_with
from tests.error_fields import fields

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[3]
IDS = [1, 9, 33, 4, 60, 9, 7, 2]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    text = train_tokenizer(["int main() {}"], vocab_size=270).decode()
    return vocabulary_of(Tokenizer.parse(text))


@pytest.fixture
def saved(world: Any, tmp_path: Path) -> Any:
    """A maker of checkpoints in runs of a workspace, for models with these changes."""

    def make(**changes: Any) -> Path:
        model = world.job().model.model_copy(update=changes)
        plain = model.softcap is None and not model.structure
        job = world.job(model=model, backend="documents" if plain else "math")
        train_state = new_train_state(job, CPU)
        with torch.no_grad():
            for weight in train_state.model.parameters():
                weight.add_(torch.randn_like(weight) * 0.05)
        for weight in train_state.model.parameters():
            weight.grad = torch.zeros_like(weight)
        train_state.optimizer.step()
        attempt = world.store.root / "runs" / "attempt=1"
        attempt.mkdir(parents=True, exist_ok=True)
        (attempt / "job.json").write_text(job.model_dump_json())
        return checkpoint.save(attempt / "checkpoints", train_state, CheckpointState(step=4))

    return make


def logits_of(path: Path) -> torch.Tensor:
    model, ids_BT = trained_model(path, CPU), torch.tensor([IDS])
    with torch.no_grad():
        logits: torch.Tensor = model(ids_BT, Boundaries.from_doc_ids(torch.zeros_like(ids_BT)))
    return logits


def python_in(card: Path) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", card.read_text(), flags=re.DOTALL)
    return str(code)


def in_a_fresh_process(folder: Path, use: str) -> torch.Tensor:
    """Return the logits after the card's lines and `use`."""
    code = f"import torch\ntorch.set_num_threads(1)\n{python_in(folder / 'README.md')}\n{use}"
    code += "\nfrom safetensors.torch import save_file\nsave_file({'logits': logits}, '../out')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return load_file(folder.parent / "out")["logits"]


def test_ten_lines_in_a_fresh_process_give_bitwise_the_same_logits(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    path = saved(blocks="EMFCFAF", streams=2)
    folder = export(path, tmp_path / "handed" / "on", vocabulary, "curriculum")
    assert len([line for line in LOAD["curriculum"].splitlines() if line]) <= 10
    found = in_a_fresh_process(
        folder,
        "from curriculum.model.masks import Boundaries\n"
        f"ids = torch.tensor([{IDS}])\n"
        "with torch.no_grad(): logits = model(ids, Boundaries.from_doc_ids(torch.zeros_like(ids)))",
    )
    expected = logits_of(path)
    assert expected.std() > 0.01
    assert torch.equal(found, expected)


@pytest.mark.slow
def test_attention_alone_is_qwen3_in_transformers(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    pytest.importorskip("transformers")
    path = saved()
    folder = export(path, tmp_path / "hf", vocabulary, "hf")
    use = f"with torch.no_grad(): logits = model(torch.tensor([{IDS}])).logits"
    found, expected = in_a_fresh_process(folder, use), logits_of(path)
    assert expected.std() > 0.01
    assert torch.allclose(found, expected, atol=1e-5, rtol=0)


def test_names_cover_every_weight_once(saved: Any, tmp_path: Path, vocabulary: Vocabulary) -> None:
    path = saved()
    weights = load_file(export(path, tmp_path / "hf", vocabulary, "hf") / "model.safetensors")
    assert len(weights) == len(list(trained_model(path, CPU).parameters()))
    assert all(name.startswith(("model.", "lm_head.")) for name in weights)


def test_a_chat_template_goes_with_the_model_and_is_read_beside_it(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    tokenizer = tokenizer_with(QWEN25)
    for form in FORMATS:
        folder = export(saved(), tmp_path / form, vocabulary_of(tokenizer), form)
        read = TokenizerTexts.read(folder / "tokenizer.json").chat_template
        assert read is not None
        assert tokenizer.chat_template is not None
        assert read.config == tokenizer.chat_template.config
    bare = export(saved(), tmp_path / "bare", vocabulary, "curriculum")
    assert TokenizerTexts.read(bare / "tokenizer.json").chat_template is None


def test_weights_come_back_bitwise_through_the_reader_of_safetensors(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    path = saved()
    _, weights = model_in(path)
    file = export(path, tmp_path / "out", vocabulary, "curriculum") / "model.safetensors"
    with safe_open(file, framework="pt") as read:
        assert {*read.keys()} == {*weights}
        for name, weight in weights.items():
            found = read.get_tensor(name)
            assert found.dtype == weight.dtype
            assert torch.equal(found, weight), name
    assert weights


def test_everyone_who_may_read_one_file_of_a_model_may_read_all(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    folder = export(saved(), tmp_path / "out", vocabulary, "curriculum")
    (tmp_path / "usual").touch()
    assert {each.stat().st_mode for each in folder.iterdir()} == {
        (tmp_path / "usual").stat().st_mode
    }


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"blocks": "AFMF"}, "block 2 of AFMF, Mamba-2"),
        ({"blocks": "EAF"}, "block 0 of EAF, Engram"),
        ({"blocks": "AFAC"}, "block 3 of AFAC, gated convolution"),
        ({"blocks": "AFA"}, "AFA, where no feed-forward follows the last attention"),
        ({"softcap": 30.0}, "softcap 30"),
        ({"streams": 2}, "2 residual streams"),
        ({"structure": True}, "structure columns"),
    ],
)
def test_what_has_no_counterpart_is_named(changes: dict[str, Any], named: str) -> None:
    spec = ModelSpec(
        name="m", vocab_size=8, blocks="AFAF", width=8, heads=2, kv_heads=1, mlp_width=8
    )
    require_counterpart(spec)
    with pytest.raises(JobError, check=fields(name="model m as hf", value=named)):
        require_counterpart(spec.model_copy(update=changes))


def test_the_config_says_all_that_rebuilds_and_where_it_is_from(
    saved: Any, world: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    path = saved()
    folder = export(path, tmp_path / "on", vocabulary, "curriculum")
    config = json.loads((folder / "config.json").read_text())
    assert ModelSpec.model_validate(config["model"]) == world.job().model
    assert config["rope_base"] == 10_000.0
    assert config["row_length"] == longest_row(world.job()) == 256
    assert (config["document_tokens"], config["step"]) == ("bos_eos", 4)
    assert config["token_ids"] == vocabulary.ids
    assert {"bos", "eos", "fim_prefix"} <= set(vocabulary.ids)
    assert vocabulary.texts["bos"] == "<|bos|>"
    assert (folder / "tokenizer.json").read_text() == vocabulary.json
    assert "tester/syntax, step 4" in (folder / "README.md").read_text()


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_that_holds_something_is_left_as_it_is(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary, form: Any
) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(StoreError) as refused:
        export(saved(), folder, vocabulary, form)
    assert refused.value.name == "--to"
    assert [each.name for each in folder.iterdir()] == ["mine.txt"]


def test_a_damaged_checkpoint_is_not_handed_on(
    saved: Any, tmp_path: Path, vocabulary: Vocabulary
) -> None:
    path = saved()
    (path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(JobError, match="damaged"):
        export(path, tmp_path / "on", vocabulary, "curriculum")
    assert not (tmp_path / "on").exists()


def test_a_model_that_reads_structure_answers_without_any(saved: Any) -> None:
    assert logits_of(saved(structure=True)).isfinite().all()
    assert isinstance(trained_model(saved(softcap=20.0), CPU), Decoder)
