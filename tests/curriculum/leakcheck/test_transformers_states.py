"""State spaces, gated delta rules and GPT-OSS of transformers leak over packed documents; Llama doesn't."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.leakcheck import claims
from curriculum.leakcheck.external_models import external, prove_external_model
from curriculum.model.masks import Boundaries

transformers = pytest.importorskip("transformers", reason="transformers isn't installed")

MODELS = """
import transformers as t

SIZES = dict(
    vocab_size=97, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=64, pad_token_id=0,
)
HEADS = dict(
    linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
)

def llama():
    config = t.LlamaConfig(**SIZES, num_hidden_layers=2)
    config._attn_implementation = "sdpa"
    return t.LlamaForCausalLM(config)

def mamba2():
    return t.Mamba2ForCausalLM(t.Mamba2Config(
        vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=4, head_dim=16,
        n_groups=1, chunk_size=64,
    ))

def falcon_h1():
    return t.FalconH1ForCausalLM(t.FalconH1Config(
        **SIZES, num_hidden_layers=2, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16,
        mamba_d_state=8, mamba_chunk_size=64, mamba_n_groups=1,
    ))

def bamba():
    return t.BambaForCausalLM(t.BambaConfig(
        **SIZES, num_hidden_layers=2, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16,
        mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=64,
    ))

def qwen3_next(layers=("linear_attention", "full_attention")):
    return t.Qwen3NextForCausalLM(t.Qwen3NextConfig(
        **SIZES, **HEADS, num_hidden_layers=2, layer_types=[*layers], head_dim=8,
        num_experts=0, decoder_sparse_step=1, mlp_only_layers=[0, 1],
    ))

def qwen3_next_of_attention():
    return qwen3_next(("full_attention", "full_attention"))

def gpt_oss():
    config = t.GptOssConfig(
        **SIZES, num_hidden_layers=2, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
        layer_types=["sliding_attention", "full_attention"], sliding_window=32,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    config._attn_implementation = "eager"
    return t.GptOssForCausalLM(config)
"""
NEEDED = {
    "llama": "LlamaForCausalLM",
    "mamba2": "Mamba2ForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
    "bamba": "BambaForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_next_of_attention": "Qwen3NextForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
}
KERNELS = ("mamba_ssm", "causal_conv1d", "fla")
LENGTH = 128


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "models_with_states.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    torch.set_num_threads(1)
    yield "models_with_states"
    sys.modules.pop("models_with_states", None)


def needed(name: str) -> None:
    if not hasattr(transformers, NEEDED[name]):
        pytest.skip(f"transformers {transformers.__version__} has no {NEEDED[name]}")


@pytest.mark.parametrize("name", ["mamba2", "falcon_h1", "bamba", "qwen3_next"])
def test_a_state_goes_on_over_documents_that_only_positions_keep_apart(
    models: str, name: str
) -> None:
    needed(name)
    report = prove_external_model(external(f"{models}:{name}"), row_lengths=(LENGTH,))
    assert {each.claim for each in report.failures} == {claims.REPACKED}


def test_gpt_oss_makes_its_mask_without_the_positions_that_restart(models: str) -> None:
    needed("gpt_oss")
    report = prove_external_model(external(f"{models}:gpt_oss"), row_lengths=(LENGTH,))
    assert {failure.claim for failure in report.failures} == {claims.REPACKED}


@pytest.mark.parametrize("name", ["llama", "qwen3_next_of_attention"])
def test_attention_keeps_apart_documents_whose_positions_restart(models: str, name: str) -> None:
    needed(name)
    model = external(f"{models}:{name}")
    assert model.inputs.startswith("hf")
    report = prove_external_model(model, row_lengths=(LENGTH,))
    assert report.passed, report.table()
    assert "transformers" in dict(report.environment)


def packed() -> tuple[Boundaries, dict[str, Any]]:
    boundaries = Boundaries.from_doc_ids(torch.tensor([[0] * 10 + [1] * 14]))
    positions = boundaries.position_ids.long()
    ids = torch.arange(24)[None]
    return boundaries, {"input_ids": ids, "position_ids": positions, "use_cache": False}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("falcon_h1", "seq_idx"),
        ("bamba", "seq_idx"),
        ("qwen3_next", "seq_idx"),
        ("qwen3_next", "cu_seq_lens_q"),
    ],
)
def test_documents_of_states_are_refused_where_their_kernels_are_missing(
    models: str, name: str, given: str
) -> None:
    needed(name)
    without_kernels()
    boundaries, inputs = packed()
    values = {"seq_idx": boundaries.doc_ids, "cu_seq_lens_q": boundaries.cu_seqlens}
    with pytest.raises(ValueError, match="packed sequences"):
        external(f"{models}:{name}").model(**inputs, **{given: values[given]})


def test_documents_that_mamba2_is_given_are_ignored(models: str) -> None:
    """Nothing says so: outputs are those without them."""
    needed("mamba2")
    without_kernels()
    boundaries, inputs = packed()
    model = external(f"{models}:mamba2").model.eval()
    with torch.no_grad():
        plain = model(**inputs).logits
        told = model(**inputs, seq_idx=boundaries.doc_ids).logits
        alone = model(**inputs | {"input_ids": inputs["input_ids"][:, 10:], "position_ids": None})
    assert torch.equal(plain, told)
    assert not torch.allclose(plain[:, 10:], alone.logits)


def without_kernels() -> None:
    installed = [each for each in KERNELS if importlib.util.find_spec(each)]
    if installed:
        pytest.skip(f"{', '.join(installed)} is installed, and then they are kept apart")
