"""Complete proof for presets and block patterns: the claim REPACKED, and the claims about a model alone."""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from curriculum.leakcheck.claims import REPACKED, ROW_LENGTH
from curriculum.leakcheck.decoders import (
    NAMES,
    Case,
    cases,
    every_case,
    findings,
    small_model,
    subject,
)
from curriculum.leakcheck.kept_verdicts import device_words
from curriculum.leakcheck.packings import MULTIPLE, Packing, many_packings, packings
from curriculum.leakcheck.proof_documents import ProofSteps, many_documents, proof_documents
from curriculum.leakcheck.repacked import (
    Disagreement,
    ProofSetting,
    Train,
    disagreements,
    first_layer,
)
from curriculum.leakcheck.subject import dtype_name, one_thread, same_bits
from curriculum.model.masks import BLOCK
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.job import Backend, ModelSpec
from schemas.leak import Finding, LeakReport, Skipped
from schemas.progress import Progress, ProgressCallback, ignore_progress

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
THREE = tuple(DTYPES.values())[:3]
UNEVEN = 203
"""Row length that isn't a multiple of any block or chunk."""
TRAINED_LENGTHS = (1024,)
"""Lengths of the longest document in proofs of REPACKED without a job. Rows are as long, or twice as long."""
TRAINED_STEPS = 16
JOB_STEPS = 4
TRAINED_IDS = 4096
MAX_LENGTH = 2176
"""Maximum document length in the proof of REPACKED for a job.

It is long enough that a scan over the row needs a second level.
"""
TRAINED_BACKENDS: tuple[Backend, ...] = ("documents", "sdpa", "math", "flex", "varlen")
"""Backends for training, the preferred one first. The first one is the fastest on a CPU."""
CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofScope:
    """Scope of a proof: models, dtypes, backends and row lengths."""

    cases: tuple[Case, ...]
    backends: tuple[Backend, ...]
    dtypes: tuple[torch.dtype, ...] = THREE
    row_lengths: tuple[int, ...] = (ROW_LENGTH,)
    uneven: bool = True
    """True to examine the case with all kinds of blocks also in float32 rows of UNEVEN tokens."""
    model: ModelSpec | None = None
    """Model for which REPACKED is proven; None leaves only the claims about models alone."""
    trained_lengths: tuple[int, ...] = TRAINED_LENGTHS
    device: torch.device = CPU


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    case: Case
    backend: Backend
    dtype: torch.dtype
    row_length: int

    def __str__(self) -> str:
        backend = f" {self.backend}" if self.case.attends else ""
        return f"{self.case.name}{backend} {dtype_name(self.dtype)} T={self.row_length}"

    def skipped(self, reason: str) -> Skipped:
        return Skipped(
            subject=self.case.name,
            backend=self.backend if self.case.attends else "",
            dtype=dtype_name(self.dtype),
            row_length=self.row_length,
            reason=reason,
        )


def cases_of(model: str | None) -> tuple[Case, ...]:
    """Return the cases to examine for a model.

    `model` is a preset, or the letters of blocks, which get tiny sizes. None means all kinds of blocks.

    Raises:
        JobError: if `model` is neither a preset nor a block pattern.
    """
    tiny = model_spec("tiny", 97)
    if model is None:
        return every_case(tiny)
    if model and set(model) <= set("AMCEF"):
        return cases(tiny.model_copy(update={"name": model, "blocks": model}))
    return cases(model_spec(model, 97))


def trained_model(model: str | None) -> ModelSpec:
    """Return the model that the proof of REPACKED trains.

    `model` is a preset, or the letters of blocks, which get tiny sizes. None means all kinds of blocks.

    Raises:
        JobError: if `model` is neither a preset nor a block pattern.
    """
    tiny = model_spec("tiny", TRAINED_IDS)
    if model is None:
        return tiny.model_copy(update={"blocks": "".join(NAMES)})
    if model and set(model) <= set(NAMES):
        return tiny.model_copy(update={"name": model, "blocks": model})
    return model_spec(model, TRAINED_IDS)


def device_of(name: str | None) -> torch.device:
    """Return the device with this name. None means a GPU if there is one, else the CPU.

    Raises:
        JobError: if cuda is named and torch finds no GPU.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise JobError(
            "device", name, cause="torch finds no GPU here", cure="Leave --device out, or say cpu"
        )
    return torch.device(name)


@one_thread()
def prove(scope: ProofScope, watch: ProgressCallback = ignore_progress) -> LeakReport:
    """Examine everything in `scope`; report combinations that a backend refuses as skipped.

    Raises:
        JobError: if everything was skipped.
    """
    tasks = list(_tasks(scope))
    found: list[Finding] = []
    skipped: list[Skipped] = []
    for done, task in enumerate(tasks):
        watch(_progress(done, len(tasks), str(task)))
        result = _examined(task, scope)
        found.extend(result if isinstance(result, tuple) else ())
        skipped.extend([result] if isinstance(result, Skipped) else ())
    watch(_progress(len(tasks), len(tasks), ""))
    _require_some(found, skipped)
    covered: list[str] = []
    uncovered: list[str] = []
    if scope.model is not None:
        found += _trained(scope.model, scope, covered, uncovered, watch)
    return LeakReport(
        findings=tuple(found),
        skipped=tuple(skipped),
        covered=tuple(covered),
        uncovered=tuple(uncovered),
        environment=environment(scope.device),
    )


def _trained(
    model: ModelSpec,
    scope: ProofScope,
    covered: list[str],
    uncovered: list[str],
    watch: ProgressCallback,
) -> Iterator[Finding]:
    """Yield the REPACKED findings for each document length. Every second length also recomputes blocks."""
    backend = next(name for name in TRAINED_BACKENDS if name in scope.backends)
    if len(scope.backends) > 1 and "A" in model.blocks:
        others = ", ".join(name for name in scope.backends if name != backend)
        uncovered.append(f"training by the backends {others}: {backend} was examined")
    for number, length in enumerate(scope.trained_lengths):
        if length % MULTIPLE:
            uncovered.append(f"training in rows of {length} tokens: no multiple of {MULTIPLE}")
            continue
        setting = ProofSetting(
            model=small_model(model),
            backend=backend,
            recompute=number % 2 == 1,
            dtype=trained_dtype(backend, scope.device),
            device=scope.device,
        )
        steps = proof_documents(setting.model, longest=length, steps=TRAINED_STEPS)
        yield from repacked_findings(setting, steps, packings(steps, length), watch)
        covered.append(covered_words(setting, steps, length))
        yield from many_findings(setting, watch)
    uncovered.extend(uncovered_format(trained_dtype(backend, scope.device)))


def trained_dtype(backend: Backend, device: torch.device) -> torch.dtype:
    """Return float64 if the backend supports it, else the widest dtype that it supports."""
    if backend == "varlen":
        return torch.bfloat16
    # The flex kernel has no float64 on GPUs, and autocast computes its products in bfloat16 there.
    return torch.float32 if backend == "flex" and device.type == "cuda" else torch.float64


def repacked_findings(
    setting: ProofSetting,
    steps: ProofSteps,
    ways: Sequence[Packing],
    watch: ProgressCallback = ignore_progress,
    *,
    name: str = "training",
    train: Train | None = None,
) -> tuple[Finding, ...]:
    """Train on all packings in `ways`; return one REPACKED finding for each packing except the first.

    The first packing is the reference. `train` defaults to the trainer of training jobs. If packings disagree
    with the reference, the smallest of them is trained again to find the layer where the difference begins.
    """
    train = train or _our_training()
    results: list[tuple[Packing, Disagreement | None]] = []
    with same_bits(setting.device):
        for done, result in enumerate(disagreements(setting, steps, ways, train=train)):
            results.append(result)
            note = f"{name} {setting.model.blocks} T={ways[0].row_length}"
            watch(
                Progress(stage="leakcheck", item="", done=done + 1, total=len(ways) - 1,
                         unit="packings", note=note)
            )  # fmt: skip
        failed = [(way, found) for way, found in results if found is not None]
        layer = ""
        if failed:
            smallest, found = min(failed, key=lambda result: result[0].positions)
            place = first_layer(setting, steps, ways[0], smallest, found.step, train=train)
            layer = f"; {place} in {smallest}"
    return tuple(
        finding_of(setting, steps, ways[0], way, found, name=name, layer=layer)
        for way, found in results
    )


def many_findings(
    setting: ProofSetting,
    watch: ProgressCallback = ignore_progress,
    *,
    train: Train | None = None,
) -> tuple[Finding, ...]:
    """Return REPACKED findings for one step of more than 1,024 short documents.

    All packings start from equal weights.
    """
    steps = many_documents(setting.model)
    return repacked_findings(
        setting, steps, many_packings(steps), watch, name="many documents", train=train
    )


def _our_training() -> Train:
    # The trainer needs safetensors, which measurements on a bare device don't have.
    from curriculum.leakcheck.our_training import our_training

    return our_training


def finding_of(
    setting: ProofSetting,
    steps: ProofSteps,
    reference: Packing,
    way: Packing,
    found: Disagreement | None,
    *,
    name: str,
    layer: str = "",
) -> Finding:
    """Return the REPACKED finding about the packing `way`; it passed if `found` is None."""
    documents = sum(len(step) for step in steps)
    recompute = ", recompute" if setting.recompute else ""
    return Finding(
        subject=f"{name} {setting.model.blocks}".strip(),
        backend=setting.backend if "A" in setting.model.blocks else "",
        dtype=dtype_name(setting.dtype),
        row_length=reference.row_length,
        mode=f"{len(steps)} steps of {documents} documents{recompute}, {reference} and {way}",
        claim=REPACKED,
        passed=found is None,
        detail="" if found is None else f"{found}{layer}",
    )


def covered_words(setting: ProofSetting, steps: ProofSteps, row_length: int) -> str:
    """Describe the steps and documents that the proof of REPACKED trained on."""
    documents = sum(len(step) for step in steps)
    recompute = "with" if setting.recompute else "without"
    return (
        f"{len(steps)} steps of {documents:,} documents of 1 to {row_length} tokens in rows of "
        f"{MULTIPLE} to {2 * row_length}, {setting.model.vocab_size} ids, "
        f"{dtype_name(setting.dtype)}, {recompute} recomputation"
    )


def _tasks(scope: ProofScope) -> Iterator[_Task]:
    for case in scope.cases:
        for backend in scope.backends if case.attends else scope.backends[:1]:
            for dtype in scope.dtypes:
                for row_length in scope.row_lengths:
                    yield _Task(case=case, backend=backend, dtype=dtype, row_length=row_length)
            if scope.uneven and case == scope.cases[-1]:
                yield _Task(case=case, backend=backend, dtype=torch.float32, row_length=UNEVEN)


def _examined(task: _Task, scope: ProofScope) -> tuple[Finding, ...] | Skipped:
    refused = _refused(task, scope)
    if refused:
        return task.skipped(refused)
    try:
        examined = subject(
            task.case,
            task.backend,
            dtype=task.dtype,
            device=scope.device,
            row_length=task.row_length,
        )
        return tuple(findings(task.case, task.backend, examined))
    except JobError as refusal:
        return task.skipped(f"{refusal.value}: {refusal.cause}")


def _refused(task: _Task, scope: ProofScope) -> str:
    """Return the reason to skip a task for which the backend itself gives none, or ""."""
    flex = task.case.attends and task.backend == "flex"
    if flex and task.row_length % BLOCK:
        return f"a block mask needs a row length that is a multiple of {BLOCK}"
    if flex and scope.device.type == "cuda" and task.dtype == torch.float64:
        return "its kernel has no float64 on GPUs"
    return ""


def _require_some(found: Sequence[Finding], skipped: Sequence[Skipped]) -> None:
    if not found:
        raise JobError(
            "leakcheck",
            skipped[0].backend if skipped else None,
            cause=skipped[0].reason if skipped else "there is nothing to examine",
            cure="Choose another backend, dtype or row length",
        )


def _progress(done: int, total: int, note: str) -> Progress:
    return Progress(stage="leakcheck", item="", done=done, total=total, unit="subjects", note=note)


def environment(device: torch.device) -> tuple[tuple[str, str], ...]:
    """Return pairs that name the versions and the device to which a report applies."""
    return (
        ("torch", torch.__version__),
        ("python", platform.python_version()),
        ("device", device_words(device)),
        ("threads", str(torch.get_num_threads())),
    )


def uncovered_format(dtype: torch.dtype) -> Iterator[str]:
    """Yield a note that the proof doesn't cover float64, unless `dtype` is float64."""
    if dtype != torch.float64:
        yield f"float64: packings were compared within the rounding of {dtype_name(dtype)}"
