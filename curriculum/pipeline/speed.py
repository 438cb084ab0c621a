"""Speed of the last training here, and from it the time and cost of tokens."""

from dataclasses import dataclass

from curriculum.inspection.formats import count
from curriculum.inspection.runs import report_of
from curriculum.store import Artefact, Store
from curriculum.store.recipe import KEY_DIGITS
from curriculum.train.run_directory import JOB, read_job

CPU_HOURS, GPU_HOURS = "hours on this CPU", "GPU hours"
MINUTE, HOUR = 60, 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """Speed of the newest run of a model."""

    run: str
    model: str
    device: str
    devices: int
    """GPUs that trained together; 1 for a CPU."""
    seconds_per_token: float
    """Seconds of one device for a valid token."""

    def device_hours(self, tokens: int) -> float:
        """Hours of one device for so many valid tokens."""
        return tokens * self.seconds_per_token / HOUR

    def seconds(self, tokens: int) -> float:
        """Seconds until so many valid tokens are trained on, with as many devices as that run had."""
        return tokens * self.seconds_per_token / self.devices

    def cost(self, tokens: int, price: float | None) -> float | None:
        """Cost of so many valid tokens at a price of a GPU hour; a CPU costs nothing."""
        if price is None:
            return None
        return self.device_hours(tokens) * price if self.device == "cuda" else 0.0

    def words(self, tokens: int, model: str) -> str:
        """Describe the time of so many tokens, and the run that it is derived from."""
        where = GPU_HOURS if self.device == "cuda" else CPU_HOURS
        other = f", which trained {self.model}, not {model}" if self.model != model else ""
        return (
            f"{count(tokens)} tokens; about {self.device_hours(tokens):,.2g} {where} at the "
            f"{1 / self.seconds_per_token:,.0f} tokens/s of run {self.run[:KEY_DIGITS]}{other}"
        )


def last_speed(store: Store, model: str) -> Speed | None:
    """Return the speed of a model's newest run, else of the newest of any; None where none was measured."""
    runs = sorted(store.artefacts("runs"), key=lambda run: run.manifest.created, reverse=True)
    speeds = [each for each in map(_speed_of, runs) if each is not None]
    ours = [each for each in speeds if each.model == model]
    return next(iter([*ours, *speeds]), None)


def expected(tokens: int, model: str, speed: Speed | None) -> str:
    """Describe the time of so many tokens by the last measured speed, or that none was measured."""
    if speed is not None:
        return speed.words(tokens, model)
    return f"{count(tokens)} tokens; no run here has measured a speed, so GPU hours are unknown"


def duration(seconds: float) -> str:
    """Seconds in words that are read at a glance.

    >>> duration(0.4), duration(95), duration(7_300), duration(200_000)
    ('1 s', '1.6 min', '2.0 h', '2.3 days')
    """
    for unit, size in (("days", 24 * HOUR), ("h", HOUR), ("min", MINUTE)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(1, round(seconds))} s"


def money(cost: float | None) -> str:
    """A price to the cent; empty where there is none.

    >>> money(1234.5), money(0.0), money(None)
    ('1,234.50', '0.00', '')
    """
    return "" if cost is None else f"{cost:,.2f}"


def _speed_of(run: Artefact) -> Speed | None:
    report = report_of(run)
    if not report.tokens.valid or not report.seconds:
        return None
    job = read_job(run.path / JOB)
    return Speed(
        run=run.key,
        model=job.model.name,
        device=job.device,
        devices=job.processes if job.device == "cuda" else 1,
        seconds_per_token=(report.gpu_seconds or report.seconds) / report.tokens.valid,
    )
