"""Evaluation of a finished run's last checkpoint on held-out rows that the run didn't use."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from curriculum.model.backend_choice import choose
from curriculum.store import Store
from curriculum.train.device import capabilities, enough_memory, needs_of, prepare
from curriculum.train.evaluation import Evaluated, HeldOut, batch_nll, read_token_bytes
from curriculum.train.run_directory import JOB, read_job, read_report
from curriculum.train.sample import trained_model
from schemas.job import DeviceName, Evaluation


def measure(
    run: Path, groups: Sequence[Sequence[Evaluation]], workspace: Path, device_name: DeviceName
) -> list[Evaluated]:
    """Evaluate a run's last checkpoint on each group of evaluations; return figures and documents.

    They are those that the run itself would get: the code is that of evaluations during training, with the
    run's threads and backend. Document masks are on, even if the run was trained without them. Threads and
    determinism are set for the whole process.

    Raises:
        JobError: for a damaged checkpoint or one of another trainer, and for a loss that isn't finite.
        JobMemoryError: if memory runs out.
    """
    evaluations = tuple(evaluation for group in groups for evaluation in group)
    job = read_job(run / JOB).model_copy(
        update={"device": device_name, "context_parallel": 1, "evaluations": evaluations}
    )
    with enough_memory(job, f"measuring {run}"):
        device = prepare(job)
        backend = choose(job.backend, capabilities(device), needs_of(job)).backend
        report = read_report(run)
        # The run may be part of a bundle that was trained elsewhere.
        root = Store.containing(run).root
        model = trained_model(root / report.checkpoint, device, backend)
        return [
            HeldOut(
                nll=partial(batch_nll, model),
                job=job.model_copy(update={"evaluations": tuple(group)}),
                workspace=workspace,
                token_bytes=read_token_bytes(workspace / job.tokenizer.path),
                stop=lambda: False,
            ).evaluate(report.steps)
            for group in groups
        ]
