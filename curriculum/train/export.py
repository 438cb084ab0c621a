"""Export of a checkpoint to a folder: weights, model configuration, tokenizer, and loading instructions.

model.safetensors  config.json  tokenizer.json  README.md
tokenizer_config.json      in the format hf, or if the tokenizer has a chat template
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import JsonValue
from torch import Tensor

from curriculum.outputs import whole_folder
from curriculum.train.checkpoint import read_state
from curriculum.train.checkpoint_files import content_of
from curriculum.train.restore import job_of, model_in
from curriculum.train.sample import backend_for_one, longest_row
from curriculum.train.tensor_file import write_tensors
from schemas.errors import JobError
from schemas.job import Figure, Job, ModelSpec
from schemas.study import study_mark

Format = Literal["curriculum", "hf"]
FORMATS: tuple[Format, ...] = get_args(Format)

LOAD: Mapping[str, str] = {
    "curriculum": """\
import json
from pathlib import Path
from safetensors.torch import load_file
from curriculum.model.decoder import Decoder
from schemas.job import ModelSpec

folder = Path(".")
config = json.loads((folder / "config.json").read_text())
model = Decoder(ModelSpec.model_validate(config["model"]), config["backend"])
model.rope_base = config["rope_base"]
model.load_state_dict(load_file(folder / "model.safetensors"))
""",
    "hf": """\
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
ids = [model.config.bos_token_id, *tokenizer.encode("int main", add_special_tokens=False)]
""",
}
"""Code that loads the model, by export format. It is part of the exported README.md, and a test runs it."""
_USE = {
    "curriculum": "`model(ids, Boundaries.from_doc_ids(doc_ids))` gives logits; both are [rows, tokens], and "
    "`curriculum.model.masks` has Boundaries. A document begins with BOS where there is one.",
    "hf": "A document begins with BOS where there is one; the tokenizer doesn't add it.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """Parts of a tokenizer that an export needs."""

    json: str
    """Content of tokenizer.json."""
    document_tokens: str
    ids: Mapping[str, int]
    """Id of each control token by its role."""
    texts: Mapping[str, str]
    """Text of each control token by its role."""
    chat: Mapping[str, str]
    """Chat template and the tokens in it, by their field in tokenizer_config.json. May be empty."""


def export(checkpoint: Path, to: Path, vocabulary: Vocabulary, form: Format) -> Path:
    """Write the model of a checkpoint to the folder `to`, atomically.

    Raises:
        JobError: for a damaged checkpoint, a checkpoint of a study, or a model that the format can't express.
        StoreError: as `whole_folder`.
    """
    require_exportable(checkpoint)
    with whole_folder(to) as draft:
        spec, weights = model_in(checkpoint)
        if form == "hf":
            require_counterpart(spec)
            weights = qwen_weights(weights)
        _write(draft, checkpoint, spec, weights, vocabulary, form)
    return to


def require_exportable(checkpoint: Path) -> None:
    """Raise if a checkpoint belongs to a study.

    Raises:
        JobError: names the study.
    """
    study = job_of(checkpoint).study
    if study is not None:
        raise JobError(
            str(checkpoint),
            study_mark(study),
            cause="a study is trained only for comparison and can't be exported",
            cure="Train a diet without a study and export its checkpoint",
        )


def _write(
    folder: Path,
    checkpoint: Path,
    spec: ModelSpec,
    weights: dict[str, Tensor],
    vocabulary: Vocabulary,
    form: Format,
) -> None:
    job = job_of(checkpoint)
    about = {"format": "pt", "checkpoint": content_of(checkpoint), "run": job.run_key}
    write_tensors(weights, folder / "model.safetensors", about)
    config = (
        qwen_config(spec, rope_base=job.rope_base, row_length=longest_row(job), ids=vocabulary.ids)
        if form == "hf"
        else _config(spec, job, checkpoint, vocabulary)
    )
    _write_json(folder / "config.json", config)
    about_tokens = _tokenizer_config(vocabulary, job) if form == "hf" else {**vocabulary.chat}
    if about_tokens:
        _write_json(folder / "tokenizer_config.json", about_tokens)
    (folder / "tokenizer.json").write_text(vocabulary.json, encoding="utf-8")
    card = _card(spec, weights, job, checkpoint, form)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _config(
    spec: ModelSpec, job: Job, checkpoint: Path, vocabulary: Vocabulary
) -> dict[str, JsonValue]:
    return {
        "format": "curriculum",
        "schema_version": job.schema_version,
        "model": spec.model_dump(mode="json"),
        "backend": backend_for_one(spec),
        "rope_base": job.rope_base,
        "row_length": longest_row(job),
        "document_tokens": vocabulary.document_tokens,
        "token_ids": {**vocabulary.ids},
        "specialist": job.specialist,
        "branch": job.branch,
        "phase": job.phase,
        "step": read_state(checkpoint).step,
        "run": job.run_key,
        "checkpoint": content_of(checkpoint),
    }


def _tokenizer_config(vocabulary: Vocabulary, job: Job) -> dict[str, JsonValue]:
    roles = {f"{role}_token": vocabulary.texts.get(role) for role in ("bos", "eos", "pad")}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest_row(job),
        "clean_up_tokenization_spaces": False,
        **roles,
        **vocabulary.chat,
    }


def _interval(figure: Figure) -> str:
    """Format the 95 % interval of a figure like all tables do."""
    if not figure.is_sure:
        return "too few to tell"
    return f"{figure.low:.3f} to {figure.high:.3f}"


def _card(
    spec: ModelSpec, weights: Mapping[str, Tensor], job: Job, checkpoint: Path, form: Format
) -> str:
    state = read_state(checkpoint)
    count = sum(weight.numel() for weight in weights.values())
    name = "/".join(filter(None, (job.specialist, job.branch, job.phase)))
    means = [figure for figure in state.figures if figure.family == "*"]
    last = {mean.name: mean for mean in means}
    lines = [
        f"| {name} | {mean.val_bpb:.3f} | {_interval(mean)} | {mean.documents} | {mean.lineages} "
        f"| {mean.step} |"
        for name, mean in last.items()
    ]
    heads = "| evaluation | bits per byte | 95 % | documents | lineages | step |"
    table = "\n".join([heads, "|---|---|---|---|---|---|", *lines])
    return f"""# {name}, step {state.step}

{count:,} weights in blocks `{spec.blocks}`, {spec.width} wide, {spec.vocab_size:,} ids. Trained on rows of
at most {longest_row(job):,} tokens, {state.tokens.valid:,} tokens in this phase, RoPE base {job.rope_base:g}.

{table}

Load it in this folder:

```python
{LOAD[form]}```

{_USE[form]}
"""


def _write_json(file: Path, content: Mapping[str, JsonValue]) -> None:
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


BLOCK_NAMES = {
    "A": "attention",
    "M": "Mamba-2",
    "C": "gated convolution",
    "E": "Engram",
    "F": "feed-forward",
}
_ENDS = {
    "embedding.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_ATTENTION = {
    "norm": "input_layernorm",
    "layer.query": "self_attn.q_proj",
    "layer.key": "self_attn.k_proj",
    "layer.value": "self_attn.v_proj",
    "layer.output": "self_attn.o_proj",
    "layer.query_norm": "self_attn.q_norm",
    "layer.key_norm": "self_attn.k_norm",
}
_FEED_FORWARD = {
    "norm": "post_attention_layernorm",
    "layer.gate": "mlp.gate_proj",
    "layer.up": "mlp.up_proj",
    "layer.output": "mlp.down_proj",
}


def require_counterpart(spec: ModelSpec) -> None:
    """Raise unless Qwen3's architecture can express a model. Such a model has only attention layers.

    Raises:
        JobError: names the part of the model that Qwen3 doesn't have.
    """
    part = _without_counterpart(spec)
    if part is not None:
        raise JobError(
            f"model {spec.name} as hf",
            part,
            cause="transformers has no architecture with this part",
            cure="Export without --format hf, to a folder that curriculum can load",
        )


def _without_counterpart(spec: ModelSpec) -> str | None:
    expected = "AF" * len(spec.blocks)
    for number, (letter, wanted) in enumerate(zip(spec.blocks, expected, strict=False)):
        if letter != wanted:
            return f"block {number} of {spec.blocks}, {BLOCK_NAMES[letter]}"
    if len(spec.blocks) % 2:
        return f"{spec.blocks}, where no feed-forward follows the last attention"
    if spec.softcap is not None:
        return f"softcap {spec.softcap:g}"
    if spec.streams > 1:
        return f"{spec.streams} residual streams"
    return "structure columns" if spec.structure else None


def qwen_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights under Qwen3's names.

    blocks.2.layer.query.weight -> model.layers.1.self_attn.q_proj.weight
    """
    return {_renamed(name): weight for name, weight in weights.items()}


def qwen_config(
    spec: ModelSpec, *, rope_base: float, row_length: int, ids: Mapping[str, int]
) -> dict[str, JsonValue]:
    """Return the config.json of a Qwen3ForCausalLM.

    It works with old versions of transformers (rope_theta) and new ones (rope_parameters).
    """
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.width,
        "intermediate_size": spec.mlp_width,
        "num_hidden_layers": len(spec.blocks) // 2,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.width // spec.heads,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": rope_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_base},
        "max_position_embeddings": row_length,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "bos_token_id": ids.get("bos"),
        "eos_token_id": ids.get("eos"),
        "pad_token_id": ids.get("pad"),
        "torch_dtype": "float32",
    }


def _renamed(name: str) -> str:
    if name in _ENDS:
        return _ENDS[name]
    _, number, rest = name.split(".", 2)
    part, _, kind = rest.rpartition(".")
    names = _FEED_FORWARD if int(number) % 2 else _ATTENTION
    return f"model.layers.{int(number) // 2}.{names[part]}.{kind}"
