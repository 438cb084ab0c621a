"""Model, hyperparameters and seed of a specialist's finished runs, read from their jobs."""

from collections.abc import Iterable, Mapping

from curriculum.inspection.formats import count, integer
from dashboards.report.facts import Facts
from schemas.job import Job, ModelSpec

SCHEDULES: Mapping[str, str] = {
    "stable": "constant after warm-up",
    "decay": "linear decay to 10 %",
}


def setting_lines(facts: Facts) -> list[dict[str, str]]:
    """Return one table line per finished phase: the seed, optimizer and batch settings of its run."""
    found = ((phase.name, phase.run.job) for phase in facts.phases if phase.run)
    return [{"phase": name, **_settings(job)} for name, job in found if job is not None]


def _settings(job: Job) -> dict[str, str]:
    optimizer = job.optimizer
    return {
        "seed": str(job.seed),
        "learning rate": f"{optimizer.learning_rate:g}",
        "schedule": SCHEDULES[optimizer.schedule],
        "warm-up steps": integer(optimizer.warmup_steps),
        "steps": integer(job.steps),
        "positions per step": integer(job.tokens_per_step),
        "weight decay": f"{optimizer.weight_decay:g}",
        "gradient clip": f"{optimizer.gradient_clip:g}",
        "Adam β₁, β₂": f"{optimizer.beta1:g}, {optimizer.beta2:g}",
        "RoPE base": count(job.rope_base),
    }


def model_words(facts: Facts) -> list[str]:
    """Describe each model that was trained; normally all phases have the same model."""
    jobs = (phase.run.job for phase in facts.phases if phase.run)
    return list(dict.fromkeys(_describe(job.model) for job in jobs if job is not None))


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
