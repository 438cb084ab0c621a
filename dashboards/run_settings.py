"""Settings of runs side by side, and descriptions of their models, for the report and the Runs page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from curriculum.inspection.comparison import (
    ROWS,
    SettingValues,
    recorded_settings,
    setting_values,
)
from curriculum.inspection.formats import integer
from curriculum.store.artefact import KEY_DIGITS
from schemas.job import Job, ModelSpec
from schemas.manifest import Manifest

MAIN: Mapping[str, str] = {
    "diet": "diet",
    "model.name": "model",
    "tokenizer": "tokenizer",
    "mixture": "mixture",
    "starts from": "starts from",
    "seed": "seed",
    "steps": "steps",
    "tokens_per_step": "positions per step",
    "optimizer.learning_rate": "learning rate",
    "optimizer.schedule": "schedule",
    "optimizer.warmup_steps": "warm-up steps",
    "optimizer.weight_decay": "weight decay",
    "optimizer.gradient_clip": "gradient clip",
    "optimizer.beta1": "Adam β₁",
    "optimizer.beta2": "Adam β₂",
    "rope_base": "RoPE base",
    "torch": "torch",
    "run revision": "run revision",
}
"""Settings that every table contains, by their names in `curriculum compare`, with their labels."""


def versions(manifest: Manifest) -> dict[str, str]:
    """Return the versions with which a run was trained: its tools and the revision of the trainer."""
    return {**manifest.tools, "run revision": str(manifest.revision)}


def setting_table(runs: Sequence[tuple[Job, Mapping[str, str]]]) -> list[SettingValues]:
    """Return the main settings of some runs, then all others that differ between them.

    A run is its job and its versions. The key of the mixture stands for the rows and their shares, which
    have tables of their own.
    """
    listed = [
        {
            "mixture": job.plan_key[:KEY_DIGITS],
            **{name: _short(value) for name, value in recorded_settings(job, tools).items()},
        }
        for job, tools in runs
    ]
    found = {setting.name: setting for setting in setting_values(listed)}
    main = [replace(found[name], name=label) for name, label in MAIN.items() if name in found]
    return [*main, *_others(found.values())]


def _others(found: Iterable[SettingValues]) -> Iterator[SettingValues]:
    for setting in found:
        if setting.differs and setting.name not in MAIN and not setting.name.startswith(ROWS):
            yield setting


def _short(value: str) -> str:
    """Return a value without a decimal fraction of zero.

    >>> _short("500000.0"), _short("0.0003"), _short("1.0.0")
    ('500000', '0.0003', '1.0.0')
    """
    whole = value.removesuffix(".0")
    return whole if whole.isdecimal() else value


def model_words(models: Iterable[ModelSpec]) -> list[str]:
    """Describe each model; equal descriptions are listed once."""
    return list(dict.fromkeys(map(_describe, models)))


def _describe(model: ModelSpec) -> str:
    heads = f"{model.heads} heads ({model.kv_heads} key-value heads)"
    return (
        f"{model.name}: blocks {model.blocks} ({_kinds(model.blocks)}), "
        f"width {integer(model.width)}, {heads}, "
        f"feed-forward width {integer(model.mlp_width)}, vocabulary {integer(model.vocab_size)}"
    )


def _kinds(blocks: Iterable[str]) -> str:
    """Explain the letters that occur in a pattern of model blocks.

    >>> _kinds("AFAF")
    'A attention, F feed-forward'
    """
    names = {
        "A": "attention",
        "M": "Mamba-2",
        "C": "convolution",
        "E": "Engram",
        "F": "feed-forward",
    }
    return ", ".join(f"{letter} {names[letter]}" for letter in dict.fromkeys(blocks))
