"""Report of the leak check: findings about claims, and tests that the check itself detects leaks."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from schemas.json_text import Sealed

Result = Literal["leaks", "not all covered", "covered"]
"""Result of the leak check.

leaks: a leak was found, and the gate stays closed. not all covered: no leak was found, but not everything
that trains was examined; the gate opens. covered: no leak was found, and everything was examined.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The result of examining one claim for one subject: whether the claim is true."""

    subject: str
    dtype: str
    claim: str
    passed: bool
    backend: str = ""
    """Attention backend. Empty if the subject has no attention."""
    row_length: int = 0
    """Tokens per row; 0 without rows."""
    mode: str = ""
    """Mode and number of the steps that were computed. Empty for claims about a model alone."""
    detail: str = ""

    @property
    def place(self) -> str:
        """Row length and mode of the step, to write before the claim; empty for a model alone."""
        return f"T={self.row_length} {self.mode}: " if self.mode else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedLeakReport:
    """Test of the check with a leak that was put into a subject on purpose.

    It has the claims that must fail because of the leak, and the claims that failed.
    """

    leak: str
    subject: str
    dtype: str
    expected: tuple[str, ...]
    red: tuple[str, ...]
    backend: str = ""

    @property
    def blind(self) -> tuple[str, ...]:
        """Claims that had to fail, but didn't: the check doesn't detect this leak."""
        return tuple(claim for claim in self.expected if claim not in self.red)

    @property
    def beyond(self) -> tuple[str, ...]:
        """Claims that failed, although the leak doesn't concern them."""
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
    """All findings, the tests with injected leaks, and the skipped claims."""

    findings: tuple[Finding, ...]
    planted: tuple[InjectedLeakReport, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    covered: tuple[str, ...] = ()
    """Row lengths, layouts and modes that were examined, beyond the model alone."""
    uncovered: tuple[str, ...] = ()
    """Parts of training, on this or another machine, that were not examined, in addition to `skipped`."""
    environment: tuple[tuple[str, str], ...] = ()
    """Names and versions of torch, python, device and others."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings whose claim is false."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def unproven(self) -> tuple[InjectedLeakReport, ...]:
        """Tests whose injected leak made other claims fail than expected."""
        return tuple(leak for leak in self.planted if not leak.passed)

    @property
    def passed(self) -> bool:
        """True if there are findings, all are true, and every injected leak was detected."""
        return bool(self.findings) and not self.failures and not self.unproven

    @property
    def result(self) -> Result:
        """Result of the check: leaks were found, or how much was examined."""
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
    """Result of the leak check of a job. The checking process writes it for the training process."""

    job: str
    """sha256 of the bytes of job.json."""
    result: Result
    report: LeakReport
