"""Estimated training time, from runs of the workspace or from published benchmarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from curriculum.inspection.formats import count, duration, gpu_hours, number
from curriculum.inspection.runs import report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline.attempts import attempts_in
from curriculum.pipeline.context import Resources
from curriculum.pipeline.phase_job import machine_of
from curriculum.pipeline.plan import RunPlan
from curriculum.store.artefact import KEY_DIGITS
from schemas.job import Job, Report
from schemas.specialist import format_reference

HOUR = 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Training work that remains."""

    tokens: int
    """Number of valid tokens."""
    evaluations: int
    runs: int

    def __add__(self, other: "Workload") -> "Workload":
        return Workload(
            tokens=self.tokens + other.tokens,
            evaluations=self.evaluations + other.evaluations,
            runs=self.runs + other.runs,
        )


NO_WORK = Workload(tokens=0, evaluations=0, runs=0)


def workload_of(phase: ResolvedPhase, tokens: int, steps: int) -> Workload:
    """Return the work of training a phase, with the evaluations that a val_bpb gate needs meanwhile."""
    from curriculum.train.job import EVALUATIONS, MIN_BETWEEN_EVALUATIONS

    rule = phase.advance_when
    is_gated = rule is not None and rule.val_bpb is not None
    between = max(steps // EVALUATIONS, MIN_BETWEEN_EVALUATIONS)
    meanwhile = (steps - 1) // between if is_gated else 0
    return Workload(tokens=tokens, evaluations=2 + meanwhile, runs=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """Speed of training, and the time that a run needs outside of its steps."""

    source: str
    """Text that names the source of the figures."""
    model: str
    device: str
    devices: int
    """Number of GPUs that train together; 1 for a CPU."""
    seconds_per_token: float
    """Seconds per valid token, summed over all devices."""
    seconds_per_evaluation: float
    start_seconds: float
    """Seconds that a run takes outside of steps and evaluations, for startup and checks."""

    def gpu_seconds(self, work: Workload) -> float:
        """Return the seconds that steps and evaluations take, summed over all devices."""
        evaluating = work.evaluations * self.seconds_per_evaluation * self.devices
        return work.tokens * self.seconds_per_token + evaluating

    def seconds(self, work: Workload) -> float:
        """Return the seconds from the start of the first run to the end of the last."""
        return self.gpu_seconds(work) / self.devices + work.runs * self.start_seconds

    def cost(self, work: Workload, price: float | None) -> float | None:
        """Return the cost of steps and evaluations, given the price of a GPU hour; 0 on a CPU."""
        if price is None:
            return None
        return self.gpu_seconds(work) / HOUR * price if self.device == "cuda" else 0.0

    def words(self, work: Workload) -> str:
        """Return a text with the training time and the source of the figures."""
        used = f" ({gpu_hours(self.gpu_seconds(work))})" if self.device == "cuda" else ""
        parts = (
            (self.seconds_per_evaluation, "an evaluation"),
            (self.start_seconds, "for the start and the checks of a run"),
        )
        beside = "".join(f", {duration(seconds)} {what}" for seconds, what in parts if seconds)
        return (
            f"{count(work.tokens)} tokens; about {duration(self.seconds(work))}{used} by {self.source}: "
            f"{self.devices / self.seconds_per_token:,.0f} tokens/s in steps{beside}; building comes on top"
        )


def _published(
    model: str, device: str, source: str, rate: float, evaluation: float = 0.0, start: float = 0.0
) -> Speed:
    return Speed(
        source=f"{source} (docs/benchmarks.md)",
        model=model,
        device=device,
        devices=1,
        seconds_per_token=1 / rate,
        seconds_per_evaluation=evaluation,
        start_seconds=start,
    )


PUBLISHED = (
    _published("tiny", "cpu", "the demo on two shared CPU cores", 4_800, 2.6, 12),
    _published("300m", "cuda", "steps on one H200", 26_000),
    _published("attention-300m", "cuda", "steps on one H200", 113_000),
)
"""Speeds in docs/benchmarks.md, for workspaces that have no measured runs."""
MAX_MEASURED = 5
"""Maximum number of runs from which the speed is computed, newest first."""
INTERRUPTED = 600
"""If a run takes more seconds than this outside of steps and evaluations, it was interrupted or waited."""


def last_speed(plan: RunPlan, resources: Resources) -> Speed | None:
    """Return the speed of the newest runs with the plan's model and kind of devices.

    If there is no such run, return the published speed of the model on that device, or None. Speeds of
    other models or devices aren't used.
    """
    model = plan.diet.model
    published = [speed for speed in PUBLISHED if speed.model == model]
    finished = [
        attempt
        for attempt in attempts_in(plan.store)
        if attempt.is_finished and attempt.job.model.name == model
    ]
    # Deferred, because looking for a GPU may import torch.
    if not finished and not published:
        return None
    device = machine_of(plan, resources).device
    read = (
        (attempt.job, report_of(plan.store.load(attempt.path)))
        for attempt in reversed(finished)
        if attempt.job.device == device
    )
    runs = [(job, report) for job, report in read if report.tokens.valid and report.seconds]
    same = [run for run in runs if _devices(run[0]) == _devices(runs[0][0])][:MAX_MEASURED]
    if same:
        return _measured(same)
    return next((speed for speed in published if speed.device == device), None)


def _devices(job: Job) -> int:
    return job.processes if job.device == "cuda" else 1


def _measured(runs: Sequence[tuple[Job, Report]]) -> Speed:
    """Return the mean speed of some runs; the newest run is the first."""
    (job, report), *_ = runs
    devices, reports = _devices(job), [report for _, report in runs]
    starts = [start for start in (_start_seconds(*run) for run in runs) if start is not None]
    evaluations = sum(len({figure.step for figure in report.history}) for report in reports)
    others = f", and {number(len(runs) - 1, 'run')} before it" if len(runs) > 1 else ""
    name = format_reference((job.specialist, job.branch), report.phase)
    return Speed(
        source=f"{name}, run {job.run_key[:KEY_DIGITS]}{others}",
        model=job.model.name,
        device=job.device,
        devices=devices,
        seconds_per_token=devices
        * sum(report.seconds for report in reports)
        / sum(report.tokens.valid for report in reports),
        seconds_per_evaluation=sum(report.evaluation_seconds or 0.0 for report in reports)
        / max(evaluations, 1),
        start_seconds=fmean(starts) if starts else 0.0,
    )


def _start_seconds(job: Job, report: Report) -> float | None:
    """Return the seconds that a run took outside of steps and evaluations; None if it was interrupted."""
    if not (job.begun and report.ended):
        return None
    lasted = datetime.fromisoformat(report.ended) - datetime.fromisoformat(job.begun)
    beside = lasted.total_seconds() - report.seconds - (report.evaluation_seconds or 0.0)
    return beside if 0 <= beside < INTERRUPTED else None


def expected(work: Workload, model: str, speed: Speed | None) -> str:
    """Return a text with the time that some work takes, or one that says that no speed is known."""
    if speed is not None:
        return speed.words(work)
    return (
        f"{count(work.tokens)} tokens; how long they take isn't known: no run of {model} on a device like "
        "this machine's is in this workspace, and docs/benchmarks.md has none"
    )
