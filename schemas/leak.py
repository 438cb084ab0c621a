"""Report of the leak check: one finding per claim, and the tests of the check itself."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from schemas.json_text import Sealed

Result = Literal["leaks", "not all covered", "covered"]
"""leaks: a leak was found, and the gate stays closed. not all covered: no leak was found, but not
everything that trains was examined; the gate opens. covered: no leak was found, and everything was
examined."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One claim about one subject, and whether it is true."""

    subject: str
    dtype: str
    claim: str
    passed: bool
    backend: str = ""
    """Attention backend; empty if the subject has no attention."""
    row_length: int = 0
    """Tokens per row; 0 without rows."""
    mode: str = ""
    """Mode and number of the computed steps; empty for claims about a model alone."""
    detail: str = ""

    @property
    def place(self) -> str:
        """Row length and mode of a step, as a prefix of the claim; empty for a model alone."""
        return f"T={self.row_length} {self.mode}: " if self.mode else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedLeakReport:
    """An injected leak in a subject: the claims that must fail because of it, and the claims that failed."""

    leak: str
    subject: str
    dtype: str
    expected: tuple[str, ...]
    red: tuple[str, ...]
    backend: str = ""

    @property
    def blind(self) -> tuple[str, ...]:
        """Claims that must fail but hold: leaks that the check doesn't detect."""
        return tuple(claim for claim in self.expected if claim not in self.red)

    @property
    def beyond(self) -> tuple[str, ...]:
        """Claims that fail although they are unrelated to the leak."""
        return tuple(claim for claim in self.red if claim not in self.expected)

    @property
    def passed(self) -> bool:
        """True if exactly the expected claims failed."""
        return bool(self.expected) and not self.blind and not self.beyond


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A claim that couldn't be examined on this machine, and the reason."""

    subject: str
    reason: str
    backend: str = ""
    dtype: str = ""
    row_length: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakReport:
    """All findings, the injected leaks, and the skipped claims."""

    findings: tuple[Finding, ...]
    planted: tuple[InjectedLeakReport, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    covered: tuple[str, ...] = ()
    """Coverage beyond a model alone: row lengths, layouts, modes."""
    uncovered: tuple[str, ...] = ()
    """Training components, of this or another machine, that were not examined, in addition to `skipped`."""
    environment: tuple[tuple[str, str], ...] = ()
    """Names and versions of torch, python, device and others."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings that are false."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def unproven(self) -> tuple[InjectedLeakReport, ...]:
        """Injected leaks for which not exactly the expected claims failed."""
        return tuple(leak for leak in self.planted if not leak.passed)

    @property
    def passed(self) -> bool:
        """True if there are claims, all hold, and every injected leak was detected."""
        return bool(self.findings) and not self.failures and not self.unproven

    @property
    def result(self) -> Result:
        """Result of the check: leaks, or the extent of the coverage."""
        if not self.passed:
            return "leaks"
        return "not all covered" if self.uncovered or self.skipped else "covered"

    def table(self) -> str:
        """Return a text table with one line per finding."""
        return "\n".join(
            f"{'ok  ' if finding.passed else 'LEAK'}  {finding.subject:<12} {finding.backend:<9} "
            f"{finding.dtype:<9} {finding.place}{finding.claim}"
            + (f"  ({finding.detail})" if finding.detail else "")
            for finding in self.findings
        )

    def json_text(self) -> str:
        """Return the whole report as JSON text with a final newline."""
        everything = {
            "passed": self.passed,
            "result": self.result,
            "covered": self.covered,
            "uncovered": self.uncovered,
            "environment": dict(self.environment),
            "findings": [asdict(finding) for finding in self.findings],
            "planted": [
                asdict(leak) | {"passed": leak.passed, "blind": leak.blind, "beyond": leak.beyond}
                for leak in self.planted
            ],
            "skipped": [asdict(skipped) for skipped in self.skipped],
        }
        return json.dumps(everything, indent=1, ensure_ascii=False) + "\n"


class ProvenJob(Sealed):
    """Leak check of a job, written by the checking process for the training process."""

    job: str
    """sha256 of the bytes of job.json."""
    result: Result
    report: LeakReport
