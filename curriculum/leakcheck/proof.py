"""The whole proof: all cases, backends and dtypes, then each injected leak; and the proof of a job.

A job is proved as it will train: its model, loader, row lengths, precision and recomputation.
`prove_file` reads a job.json and writes a sealed report.
"""

import dataclasses
import functools
import hashlib
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from curriculum.leakcheck.claims import ROW_LENGTH
from curriculum.leakcheck.decoders import (
    NAMES,
    Case,
    cases,
    check_decoder,
    every_case,
    findings,
    small_model,
    subject,
)
from curriculum.leakcheck.injected import LEAKS, InjectedLeak, try_leak
from curriculum.leakcheck.mutations import MUTATIONS, Mutation
from curriculum.leakcheck.rows import Document, Rows, planned_rows
from curriculum.leakcheck.step import RATE, Setting
from curriculum.leakcheck.step_claims import (
    CPU,
    adversarial_rows,
    own_rows_findings,
    prove_step,
    step_findings,
    step_subject,
)
from curriculum.leakcheck.subject import SHORT_ROW, dtype_name, one_thread
from curriculum.leakcheck.verdicts import device_words, proven_once
from curriculum.model.masks import BLOCK
from curriculum.model.presets import model_spec
from curriculum.store import Store
from curriculum.train.device import prepare, with_backend
from curriculum.train.metrics import log
from curriculum.train.run_directory import read_job, write_text
from curriculum.train.validate import require_fitting
from schemas.errors import JobError
from schemas.job import Backend, Job, ModelSpec
from schemas.leak import Finding, InjectedLeakReport, LeakReport, ProvenJob, Skipped
from schemas.packed_row import ROW_MULTIPLE
from schemas.progress import Progress, ProgressCallback, ignore_progress
from schemas.study import Study, study_mark

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
THREE = tuple(DTYPES.values())[:3]
UNEVEN = 203
"""A row length that no block and no chunk divides."""
STEP_LENGTHS = (4096, 16_384)
"""Rows of the steps that are proven without a job."""
STEP_IDS = 32_768
STEP_BACKENDS: tuple[Backend, ...] = ("documents", "sdpa", "math", "flex", "varlen")
"""Backends in the order in which one is chosen for steps; the first is the fastest on a CPU."""
LONGER = (UNEVEN, ROW_LENGTH, 512, 1000, 1024)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Scope of a proof: models, dtypes, backends."""

    cases: tuple[Case, ...]
    backends: tuple[Backend, ...]
    dtypes: tuple[torch.dtype, ...] = THREE
    row_lengths: tuple[int, ...] = (ROW_LENGTH,)
    uneven: bool = True
    """All together also in rows of UNEVEN tokens, in float32."""
    mutations: bool = True
    model: ModelSpec | None = None
    """Model whose steps are proven; None where only models are."""
    step_lengths: tuple[int, ...] = STEP_LENGTHS
    every_dtype: bool = False
    """Leaks are planted in each dtype that has the precision to show them, not in one only, and into the
    step that trains as well, which takes a CPU a minute."""
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
    """The cases of a preset, of a pattern in tiny sizes, or of all there is.

    Raises:
        JobError: for a name that is no preset and no pattern.
    """
    tiny = model_spec("tiny", 97)
    if model is None:
        return every_case(tiny)
    if model and set(model) <= set("AMCEF"):
        return cases(tiny.model_copy(update={"name": model, "blocks": model}))
    return cases(model_spec(model, 97))


def model_of_steps(model: str | None) -> ModelSpec:
    """The model whose steps are proven: a preset, a pattern in tiny sizes, or all families together.

    Raises:
        JobError: for a name that is no preset and no pattern.
    """
    tiny = model_spec("tiny", STEP_IDS)
    if model is None:
        return tiny.model_copy(update={"blocks": "".join(NAMES)})
    if model and set(model) <= set(NAMES):
        return tiny.model_copy(update={"name": model, "blocks": model})
    return model_spec(model, STEP_IDS)


def device_of(name: str | None) -> torch.device:
    """A device by its name; without one a GPU where there is one.

    Raises:
        JobError: for cuda where there is none.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise JobError(
            "device", name, cause="torch finds no GPU here", cure="Leave --device out, or say cpu"
        )
    return torch.device(name)


@one_thread()
def prove(scope: Scope, watch: ProgressCallback = ignore_progress) -> LeakReport:
    """Examine all that the scope names; what a backend refuses is reported as skipped.

    Raises:
        JobError: where nothing is left to examine.
    """
    tasks, planted_tasks = list(_tasks(scope)), list(_planting(scope))
    step_leaks = _step_leaks(scope)
    total = len(tasks) + len(planted_tasks) + len(step_leaks)
    found: list[Finding] = []
    planted: list[InjectedLeakReport] = []
    skipped: list[Skipped] = []
    for done, task in enumerate(tasks):
        watch(_progress(done, total, str(task)))
        result = _examined(task, scope)
        found.extend(result if isinstance(result, tuple) else ())
        skipped.extend([result] if isinstance(result, Skipped) else ())
    for done, (mutation, task) in enumerate(planted_tasks, start=len(tasks)):
        watch(_progress(done, total, f"planting: {mutation.leak}"))
        tried = _tried(mutation, task, scope)
        planted.extend([tried] if isinstance(tried, InjectedLeakReport) else ())
        skipped.extend([tried] if isinstance(tried, Skipped) else ())
    for done, leak in enumerate(step_leaks, start=len(tasks) + len(planted_tasks)):
        watch(_progress(done, total, f"planting: {leak.words}"))
        planted.append(try_leak(leak))
    watch(_progress(total, total, ""))
    _require_some(found, skipped)
    covered: list[str] = []
    uncovered: list[str] = []
    if scope.model is not None:
        found += _steps(scope.model, scope, covered, uncovered, watch)
    return LeakReport(
        findings=tuple(found),
        planted=tuple(planted),
        skipped=tuple(skipped),
        covered=tuple(covered),
        uncovered=tuple(uncovered),
        environment=environment(scope.device),
    )


def _steps(
    model: ModelSpec,
    scope: Scope,
    covered: list[str],
    uncovered: list[str],
    watch: ProgressCallback,
) -> Iterator[Finding]:
    """Steps of training in each row length and dtype, every other one with recomputed blocks."""
    backend = next(each for each in STEP_BACKENDS if each in scope.backends)
    dtypes = [each for each in (torch.float32, torch.bfloat16) if each in scope.dtypes]
    rows = [each for each in scope.step_lengths if each % ROW_MULTIPLE == 0]
    if len(scope.backends) > 1 and "A" in model.blocks:
        others = ", ".join(each for each in scope.backends if each != backend)
        uncovered.append(f"steps by the backends {others}: those by {backend} were examined")
    if not dtypes:
        uncovered.append("steps: they are examined in float32 and bfloat16")
    if len(rows) < len(scope.step_lengths):
        uncovered.append(f"steps in rows of other lengths than multiples of {ROW_MULTIPLE}")
    number = 0
    for row_length in rows:
        for dtype in dtypes:
            recompute = number % 2 == 1
            yield from prove_step(
                model, backend=backend, row_length=row_length, dtype=dtype,
                recompute=recompute, device=scope.device, watch=watch,
            )  # fmt: skip
            with_it = "with" if recompute else "without"
            covered.append(
                f"steps over rows of {row_length} tokens of {model.vocab_size} ids in "
                f"{dtype_name(dtype)}, {with_it} recomputation"
            )
            number += 1
    if number < 2:
        uncovered.append("steps with recomputation: one row length and dtype has none")


def _tasks(scope: Scope) -> Iterator[_Task]:
    for case in scope.cases:
        for backend in scope.backends if case.attends else scope.backends[:1]:
            for dtype in scope.dtypes:
                for row_length in scope.row_lengths:
                    yield _Task(case=case, backend=backend, dtype=dtype, row_length=row_length)
            if scope.uneven and case == scope.cases[-1]:
                yield _Task(case=case, backend=backend, dtype=torch.float32, row_length=UNEVEN)


def _planting(scope: Scope) -> Iterator[tuple[Mutation, _Task]]:
    """Leaks of the families in scope; one of attention for each backend asked for."""
    for mutation in MUTATIONS if scope.mutations else ():
        case = next((each for each in scope.cases if each.name == mutation.case), None)
        if case is None or (mutation.of_backend and mutation.backend not in scope.backends):
            continue
        others = mutation.dtypes if scope.every_dtype else ()
        for dtype in dict.fromkeys((mutation.dtype, *others)):
            yield (
                mutation,
                _Task(case=case, backend=mutation.backend, dtype=dtype, row_length=ROW_LENGTH),
            )


def _step_leaks(scope: Scope) -> tuple[InjectedLeak, ...]:
    """Leaks of the step, of the families, backends and inputs in scope, where the proof is a full one."""
    if not scope.mutations or not scope.every_dtype:
        return ()
    specs = [case.spec for case in scope.cases]
    letters = {letter for spec in specs for letter in spec.blocks}
    streams = max(spec.streams for spec in specs)
    structure = any(spec.structure for spec in specs)
    return tuple(
        leak
        for leak in LEAKS
        if set(leak.needs.blocks) <= letters
        and ("A" not in leak.needs.blocks or leak.needs.backend in scope.backends)
        and (leak.needs.streams == 1 or streams > 1)
        and (structure or not leak.needs.structure)
    )


def _examined(task: _Task, scope: Scope) -> tuple[Finding, ...] | Skipped:
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


def _refused(task: _Task, scope: Scope) -> str:
    """Return the reason to skip a task, beyond what backends refuse themselves."""
    flex = task.case.attends and task.backend == "flex"
    if flex and task.row_length % BLOCK:
        return f"a block mask needs a row length that is a multiple of {BLOCK}"
    if flex and scope.device.type == "cuda" and task.dtype == torch.float64:
        return "its kernel has no float64 on GPUs"
    return ""


def _tried(mutation: Mutation, task: _Task, scope: Scope) -> InjectedLeakReport | Skipped:
    with mutation.plant():
        found = _examined(task, scope)
    if isinstance(found, Skipped):
        return found
    return InjectedLeakReport(
        leak=mutation.leak,
        subject=task.case.name,
        backend=task.backend if task.case.attends else "",
        dtype=dtype_name(task.dtype),
        expected=tuple(sorted(mutation.red)),
        red=tuple(sorted(finding.claim for finding in found if not finding.passed)),
    )


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
    """Return the versions and the device that a report holds for."""
    return (
        ("torch", torch.__version__),
        ("python", platform.python_version()),
        ("device", device_words(device)),
        ("threads", str(torch.get_num_threads())),
    )


REAL_ROWS = 2
"""Rows of the plan in a step of short rows; of long rows there is one."""


def prove_job(
    job: Job,
    workspace: Path,
    device: torch.device,
    watch: ProgressCallback = ignore_progress,
    *,
    anew: bool = False,
) -> LeakReport:
    """The claims about a small model with the layers and sizes of a job, about its steps, and its own rows.

    What doesn't depend on the rows is proven once for all jobs of the workspace with these layers, row
    lengths and settings, unless `anew` is true. Rates of learning are no part of them: they scale what a
    step changes.

    Raises:
        CurriculumError: where plan and rows can't be read.
    """
    job = with_backend(job, device)
    lengths = sorted({rows.row_length for rows in job.rows})
    alone = Setting(
        model=job.model,
        backend=job.kernel,
        recompute=False,
        dtype=torch.float32,
        device=device,
        row_length=ROW_LENGTH,
    )
    decoder = functools.partial(check_decoder, job.model, job.kernel, device=device)
    found = list(proven_once(workspace, "decoder", alone, decoder, anew=anew).findings)
    for done, row_length in enumerate(lengths):
        watch(
            Progress(stage="leakcheck", item="", done=done, total=len(lengths), unit="row lengths",
                     note=expected(job, row_length))
        )  # fmt: skip
        setting = _setting(job, row_length, device)
        prove = functools.partial(_adversarial, setting, watch)
        found += proven_once(workspace, "steps", setting, prove, anew=anew).findings
        found += _own_rows(job, workspace, setting)
    return LeakReport(
        findings=tuple(found),
        covered=tuple(
            f"rows of {each} tokens, {job.model.vocab_size} ids, "
            f"{'recomputed blocks' if job.recompute else 'blocks without recomputation'}"
            for each in lengths
        ),
        uncovered=tuple(_uncovered(job)),
        environment=environment(device),
    )


def _setting(job: Job, row_length: int, device: torch.device) -> Setting:
    rates = {name: getattr(RATE, name) for name in ("learning_rate", "warmup_steps", "schedule")}
    return Setting(
        model=small_model(job.model),
        backend=job.kernel,
        recompute=job.recompute,
        dtype=torch.float32,
        device=device,
        row_length=row_length,
        rope_base=job.rope_base,
        optimizer=job.optimizer.model_copy(update=rates),
    )


def _adversarial(setting: Setting, watch: ProgressCallback) -> LeakReport:
    subject = step_subject(setting, *adversarial_rows(setting))
    return LeakReport(findings=tuple(step_findings(subject, watch)))


def _own_rows(job: Job, workspace: Path, setting: Setting) -> Iterator[Finding]:
    """The claim about scored documents on the plan's first rows, beside two adversarial ones."""
    rows, muted = adversarial_rows(setting)
    rows = dataclasses.replace(rows, rows=rows.rows[:2])
    count = REAL_ROWS if setting.row_length <= SHORT_ROW else 1
    real = planned_rows(job, workspace, rows, count)
    name = f"rows {setting.model.blocks}"
    subject = step_subject(setting, _beside(rows, real), muted, name=name)
    none_muted = dataclasses.replace(subject.muted_rows, rows=())
    yield from own_rows_findings(dataclasses.replace(subject, muted_rows=none_muted))


def _beside(rows: Rows, real: tuple[tuple[Document, ...], ...]) -> Rows:
    """Rows of the plan among the adversarial ones, so that micro-batches hold both."""
    found = list(rows.rows)
    for at, row in enumerate(real):
        found.insert(at * (len(found) + 1) // len(real) + 1, row)
    return dataclasses.replace(rows, rows=tuple(found))


def expected(job: Job, row_length: int) -> str:
    """The row length, and where its proof takes longer than a minute on a CPU, about how long."""
    words, attends = f"T={row_length}", "A" in job.model.blocks
    # Biases of structure take the square of a row, at some cost for each pair.
    long = LONG // 2 if job.model.structure and attends else LONG
    if job.device == "cuda" or row_length <= long:
        return words
    minutes = (row_length / long) ** (2 if attends else 1)
    return f"{words}, about {max(round(minutes), 1)} min"


LONG = 16_384
"""Rows up to so many tokens are proven within a minute of a CPU."""


def _uncovered(job: Job) -> Iterator[str]:
    if job.processes > 1:
        yield f"{job.processes} processes that share the model: one computed its step alone"
    if job.context_parallel > 1:
        yield f"{job.context_parallel} processes that share each row: one computed whole rows"
    if job.workers:
        yield f"{job.workers} processes that load rows: the proof loaded them itself"


def prove_file(path: Path, report: Path) -> bool:
    """Prove the job in a file as it will train, write the report, and return whether no leak was seen.

    Raises:
        CurriculumError: for a job that can't be read, or whose parts don't fit together.
    """
    proven = proven_file(path, _log)
    log(proven.table())
    for words in proven.uncovered:
        log(f"leakcheck  not covered: {words}")
    sealed = ProvenJob(
        job=hashlib.sha256(path.read_bytes()).hexdigest(), result=proven.result, report=proven
    )
    write_text(report, sealed.model_dump_json(indent=1))
    return proven.passed


def proven_file(path: Path, watch: ProgressCallback, *, anew: bool = False) -> LeakReport:
    """The report of the job in a file; see `prove_job`.

    Raises:
        JobError: for a job of another trainer, whose steps only that trainer can prove, and for one of a
            study, whose documents influence one another by design.
        CurriculumError: for a job that can't be read, or whose parts don't fit together.
    """
    job = read_job(path)
    if job.trainer is not None:
        raise JobError(
            str(path),
            f"trainer = {job.trainer!r}",
            cause="its steps are computed by that command, which leakcheck doesn't examine",
            cure="Let the trainer's own report say that it passed",
        )
    if job.study is not None and job.study.acts_in_training:
        raise _by_design(path, job.study)
    store = Store.containing(path)
    device = prepare(job)
    require_fitting(job, store.root)
    return prove_job(job, store.root, device, watch, anew=anew)


def _by_design(path: Path, study: Study) -> JobError:
    """The refusal of a study, which is no finding of a leak."""
    masked = study.is_always_masked
    return JobError(
        str(path),
        study_mark(study) if masked else "mask off",
        cause="in this run positions count on over documents, so what is before a document in its row "
        "influences it by design"
        if masked
        else "document_mask is off in this run, so documents influence each other by design",
        cure="Check a run without a study",
    )


def _log(progress: Progress) -> None:
    log(f"leakcheck  {progress.note}: {progress.done} of {progress.total} {progress.unit}")
