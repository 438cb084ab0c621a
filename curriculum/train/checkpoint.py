"""Checkpoints: weights, Adam's moments, generator and cursor; valid when their own manifest stands.

    checkpoints/step=120/model.safetensors  model.json  optimizer.safetensors  state.json  manifest.json

Files hold tensors and JSON only, nothing that runs when it is read, and are the same bytes for the same
values.
"""

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor

from curriculum.model.decoder import Decoder
from curriculum.store.recipe import digest
from curriculum.train.disk import flush, write_text
from curriculum.train.metrics import say
from schemas.errors import JobError
from schemas.job import Figure, ModelSpec, TokenCounts
from schemas.manifest import MANIFEST_NAME, FileRecord
from schemas.text import Strict

KEPT = 2
_NAME = re.compile(r"step=(\d+)")
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class CheckpointManifest(Strict):
    """What a complete checkpoint holds."""

    step: int
    files: tuple[FileRecord, ...]


class TrainerState(Strict):
    """How far a run has come; `slot` is the data cursor."""

    step: int = 0
    slot: int = 0
    tokens: TokenCounts = TokenCounts(positions=0, valid=0, scored=0, bytes=0)
    figures: tuple[Figure, ...] = ()
    """Of all evaluations, strata and weighted means."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Learner:
    """The model and what optimises it."""

    model: Decoder
    optimizer: torch.optim.AdamW


def save(folder: Path, learner: Learner, state: TrainerState) -> Path:
    """Write checkpoint `folder`/step=N whole, drop all but the newest two, and return its path."""
    target = folder / f"step={state.step}"
    draft = folder / f".step={state.step}.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    save_file(_weights(learner.model), draft / "model.safetensors")
    save_file(_moments(learner), draft / "optimizer.safetensors")
    (draft / "model.json").write_text(learner.model.spec.model_dump_json(indent=1))
    (draft / "state.json").write_text(state.model_dump_json(indent=1))
    files = tuple(_record(path) for path in sorted(draft.iterdir()))
    for record in files:
        flush(draft / record.name)
    manifest = CheckpointManifest(step=state.step, files=files)
    write_text(draft / MANIFEST_NAME, manifest.model_dump_json(indent=1))
    if target.exists():
        shutil.rmtree(target)
    draft.rename(target)
    flush(folder)
    for old in _numbered(folder)[KEPT:]:
        shutil.rmtree(old)
    return target


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; damaged ones are named and passed over."""
    for path in _numbered(folder):
        fault = damage(path)
        if fault is None:
            return path
        say(f"{path.name} is passed over: {fault}")
    return None


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint's files, or None."""
    file = checkpoint / MANIFEST_NAME
    if not file.is_file():
        return "it has no manifest"
    try:
        manifest = CheckpointManifest.model_validate_json(file.read_text())
    except ValidationError:
        return "its manifest can't be read"
    for record in manifest.files:
        path = checkpoint / record.name
        if not path.is_file() or _record(path) != record:
            return f"{record.name} isn't what was written"
    return None


def content_of(checkpoint: Path) -> str:
    """What a checkpoint is: a digest of its files; 64 hex digits."""
    manifest = CheckpointManifest.model_validate_json((checkpoint / MANIFEST_NAME).read_text())
    return digest([[record.name, record.sha256] for record in manifest.files])


def resume(checkpoint: Path, learner: Learner) -> TrainerState:
    """Load everything: the run goes on as if it had never stopped."""
    generators = carry_over(checkpoint, learner)
    torch.set_rng_state(generators["generator"])
    if "cuda_generator" in generators:
        torch.cuda.set_rng_state(generators["cuda_generator"])
    return read_state(checkpoint)


def read_state(checkpoint: Path) -> TrainerState:
    """How far the run had come at a checkpoint."""
    return TrainerState.model_validate_json((checkpoint / "state.json").read_text())


def carry_over(checkpoint: Path, learner: Learner) -> dict[str, Tensor]:
    """Load weights and Adam's moments, as a new phase does; returns the generators' states.

    Raises:
        JobError: for a checkpoint that is damaged, or of a model of other sizes.
    """
    fault = damage(checkpoint)
    if fault is not None:
        raise JobError(
            str(checkpoint), fault, cause="the checkpoint is damaged", cure="Train that phase again"
        )
    spec = ModelSpec.model_validate_json((checkpoint / "model.json").read_text())
    if spec != learner.model.spec:
        raise JobError(
            f"model {learner.model.spec.name}",
            f"{learner.model.spec.vocab_size} ids, {learner.model.spec.width} wide",
            cause=f"{checkpoint} holds {spec.name}: {spec.vocab_size} ids, {spec.width} wide",
            cure="Keep model and tokenizer over all phases of a specialist",
        )
    learner.model.load_state_dict(load_file(checkpoint / "model.safetensors"))
    loaded = load_file(checkpoint / "optimizer.safetensors")
    for name, weight in learner.model.named_parameters():
        learner.optimizer.state[weight] = {
            moment: _at(loaded[f"{name}.{moment}"], weight, moment) for moment in _MOMENTS
        }
    return {name: loaded[name] for name in loaded if name.endswith("generator")}


def _at(moment: Tensor, weight: Tensor, name: str) -> Tensor:
    # AdamW counts its steps on the CPU unless it is fused on a GPU.
    return moment if name == "step" else moment.to(weight.device)


def _weights(model: Decoder) -> dict[str, Tensor]:
    return {name: weight.detach().cpu() for name, weight in model.named_parameters()}


def _moments(learner: Learner) -> dict[str, Tensor]:
    state = learner.optimizer.state
    tensors = {
        f"{name}.{moment}": state[weight][moment].detach().cpu()
        for name, weight in learner.model.named_parameters()
        for moment in _MOMENTS
        if weight in state
    }
    tensors["generator"] = torch.get_rng_state()
    if learner.model.head.weight.is_cuda:
        tensors["cuda_generator"] = torch.cuda.get_rng_state()
    return tensors


def _numbered(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    if not folder.is_dir():
        return []
    found = [
        (int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found, reverse=True)]


def _record(path: Path) -> FileRecord:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(name=path.name, sha256=sha256, num_bytes=path.stat().st_size)
