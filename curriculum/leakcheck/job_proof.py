"""Proof of a job with its own settings: layers, backend, vocabulary, recomputation and optimizer.

`prove_file` reads a job.json and writes a sealed report.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from curriculum.leakcheck.decoders import check_decoder, small_model
from curriculum.leakcheck.kept_verdicts import proven_once
from curriculum.leakcheck.packings import packings, rounded
from curriculum.leakcheck.proof import (
    JOB_STEPS,
    MAX_LENGTH,
    covered_words,
    environment,
    many_findings,
    repacked_findings,
    trained_dtype,
    uncovered_format,
)
from curriculum.leakcheck.proof_documents import planned_documents, proof_documents
from curriculum.leakcheck.repacked import RATES, ProofSetting
from curriculum.leakcheck.subject import one_thread
from curriculum.model.decoder import Decoder
from curriculum.store import Store
from curriculum.train.device import prepare, with_backend
from curriculum.train.run_directory import read_job
from curriculum.train.validate import require_fitting
from curriculum.whole_files import write_whole
from schemas.errors import JobError
from schemas.job import Job
from schemas.leak import Finding, LeakReport, ProvenJob
from schemas.progress import ProgressCallback, ignore_progress
from schemas.study import Study, study_mark

OWN_POSITIONS = 1024
"""Total number of tokens that the proof takes from the first documents of the job's plan."""


OWN_LENGTH = 512
"""Maximum number of tokens that the proof takes from each document of the plan."""


LARGE = 5_000_000
"""Number of weights above which the proof on the plan's documents uses a small model instead of the job's."""


@one_thread()
def prove_job(
    job: Job,
    workspace: Path,
    device: torch.device,
    watch: ProgressCallback = ignore_progress,
    *,
    anew: bool = False,
) -> LeakReport:
    """Prove the claims for a small model with the layers and sizes of a job.

    Results that don't depend on the rows are cached for all jobs of the workspace with the same layers, row
    lengths and settings. Results on the plan's own documents are cached per plan and starting weights.
    `anew` ignores the cache.

    Raises:
        CurriculumError: if the plan or the rows can't be read.
    """
    job = with_backend(job, device)
    longest = job.slot_length
    length = min(longest, MAX_LENGTH)
    setting = _setting(job, device)
    steps = proof_documents(setting.model, longest=length, steps=JOB_STEPS)
    start = "fresh weights" if job.start_from is None else job.start_from.run_content
    proofs: dict[str, Callable[[], tuple[Finding, ...]]] = {
        "decoder": lambda: check_decoder(job.model, job.kernel, device=device).findings,
        f"rows of {length}": lambda: repacked_findings(
            setting, steps, packings(steps, length), watch
        ),
        "many documents": lambda: many_findings(setting, watch),
        f"plan {job.plan_content} from {start}": lambda: _job_documents(
            job, workspace, setting, watch
        ),
    }
    found = [
        proven_once(workspace, what, setting, prove, anew=anew) for what, prove in proofs.items()
    ]
    return LeakReport(
        findings=tuple(itertools.chain.from_iterable(found)),
        covered=(covered_words(setting, steps, length),),
        uncovered=(*_uncovered(job, length), *uncovered_format(setting.dtype)),
        environment=environment(device),
    )


def _setting(job: Job, device: torch.device) -> ProofSetting:
    """Return the setting of a job's proof.

    Only the proof on the plan's documents uses the job's rope_base.
    """
    return ProofSetting(
        model=small_model(job.model),
        backend=job.kernel,
        recompute=job.recompute,
        dtype=trained_dtype(job.kernel, device),
        device=device,
        optimizer=job.optimizer.model_copy(update=RATES),
    )


def _job_documents(
    job: Job, workspace: Path, setting: ProofSetting, watch: ProgressCallback
) -> tuple[Finding, ...]:
    """Prove REPACKED in one step on the first documents of the job's plan, from the job's starting weights.

    A small model with fresh weights replaces a large model.
    """
    documents = planned_documents(job, workspace, longest=OWN_LENGTH, positions=OWN_POSITIONS)
    start = None if job.start_from is None else workspace / job.start_from.path
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in Decoder(job.model, "math").parameters())
    if weights <= LARGE:
        setting = replace(setting, model=job.model, start=start, seed=job.seed)
    setting = replace(setting, rope_base=job.rope_base)
    longest = max(map(len, documents))
    ways = packings((documents,), rounded(longest))[:2]
    return repacked_findings(setting, (documents,), ways, watch, name="plan")


def _uncovered(job: Job, length: int) -> Iterator[str]:
    if any(source.row_length > 2 * length for source in job.rows):
        yield f"rows of more than {2 * length} tokens: the proof trains on shorter ones"
    if job.processes > 1:
        yield f"{job.processes} processes that share the model: one trained alone"
    if job.context_parallel > 1:
        yield f"{job.context_parallel} processes that share each row: one computed whole rows"
    if job.workers:
        yield f"{job.workers} processes that load rows: the proof loaded rows itself"


def prove_file(path: Path, report: Path, watch: ProgressCallback) -> LeakReport:
    """Prove the job in a file, and write the sealed report to another file.

    Raises:
        CurriculumError: if the job can't be read, or its parts don't fit together.
    """
    proven = proven_file(path, watch)
    sealed = ProvenJob(
        job=hashlib.sha256(path.read_bytes()).hexdigest(), result=proven.result, report=proven
    )
    write_whole(report, sealed.model_dump_json(indent=1))
    return proven


def proven_file(path: Path, watch: ProgressCallback, *, anew: bool = False) -> LeakReport:
    """Return the proof of the job in a file; see `prove_job`.

    Raises:
        JobError: if the job has another trainer, which must prove its own steps, or is a study whose
            documents influence each other by design.
        CurriculumError: if the job can't be read, or its parts don't fit together.
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
        raise _not_provable(path, job.study)
    store = Store.containing(path)
    device = prepare(job)
    require_fitting(job, store.root)
    return prove_job(job, store.root, device, watch, anew=anew)


def _not_provable(path: Path, study: Study) -> JobError:
    """Return the error for a study whose documents influence each other by design."""
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
