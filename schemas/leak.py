"""Report of a search for leaks between documents: a claim a line, and the tests of the search itself."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from schemas.json_text import Sealed

Result = Literal["leaks", "not all covered", "covered"]
"""leaks: something was seen, and a gate stays closed. not all covered: nothing was seen, but not everything
that trains was examined; the gate opens. covered: nothing was seen, and everything was examined."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One claim about one subject, and whether it holds."""

    subject: str
    dtype: str
    claim: str
    passed: bool
    backend: str = ""
    """Backend of its attention; empty where it has none."""
    row_length: int = 0
    """0 where rows have none."""
    mode: str = ""
    """Mode and amount of the computed steps; empty for claims about a model alone."""
    detail: str = ""

    @property
    def place(self) -> str:
        """Row length and mode of a step, as words in front of its claim; empty of a model alone."""
        return f"T={self.row_length} {self.mode}: " if self.mode else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedLeakReport:
    """A leak that was planted into a subject, the claims that must fail of it, and those that failed."""

    leak: str
    subject: str
    dtype: str
    expected: tuple[str, ...]
    red: tuple[str, ...]
    backend: str = ""

    @property
    def blind(self) -> tuple[str, ...]:
        """Claims that must fail and hold all the same: what the proof doesn't see."""
        return tuple(claim for claim in self.expected if claim not in self.red)

    @property
    def beyond(self) -> tuple[str, ...]:
        """Claims that fail though the leak has nothing to do with them."""
        return tuple(claim for claim in self.red if claim not in self.expected)

    @property
    def passed(self) -> bool:
        """Return True if exactly the claims failed that must."""
        return bool(self.expected) and not self.blind and not self.beyond


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """Claim that could not be examined here, and why."""

    subject: str
    reason: str
    backend: str = ""
    dtype: str = ""
    row_length: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakReport:
    """All findings, the leaks that were planted, and what was left out."""

    findings: tuple[Finding, ...]
    planted: tuple[InjectedLeakReport, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    covered: tuple[str, ...] = ()
    """Coverage beyond a model alone: row lengths, layouts, modes."""
    uncovered: tuple[str, ...] = ()
    """Parts that train, or would on another machine, and were not examined; `skipped` is in addition."""
    environment: tuple[tuple[str, str], ...] = ()
    """Names and versions: torch, python, device and others."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that do not hold."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def unproven(self) -> tuple[InjectedLeakReport, ...]:
        """The planted leaks that didn't turn exactly their claims red."""
        return tuple(each for each in self.planted if not each.passed)

    @property
    def passed(self) -> bool:
        """Return True if there are claims, every one holds, and every planted leak was seen."""
        return bool(self.findings) and not self.failures and not self.unproven

    @property
    def result(self) -> Result:
        """Result of the proof: leaks that were seen, else the extent of what was examined."""
        if not self.passed:
            return "leaks"
        return "not all covered" if self.uncovered or self.skipped else "covered"

    def table(self) -> str:
        """A line a finding."""
        return "\n".join(
            f"{'ok  ' if finding.passed else 'LEAK'}  {finding.subject:<12} {finding.backend:<9} "
            f"{finding.dtype:<9} {finding.place}{finding.claim}"
            + (f"  ({finding.detail})" if finding.detail else "")
            for finding in self.findings
        )

    def json_text(self) -> str:
        """All of it, and the verdict, as JSON that ends in a newline."""
        everything = {
            "passed": self.passed,
            "result": self.result,
            "covered": self.covered,
            "uncovered": self.uncovered,
            "environment": dict(self.environment),
            "findings": [asdict(finding) for finding in self.findings],
            "planted": [
                asdict(each) | {"passed": each.passed, "blind": each.blind, "beyond": each.beyond}
                for each in self.planted
            ],
            "skipped": [asdict(each) for each in self.skipped],
        }
        return json.dumps(everything, indent=1, ensure_ascii=False) + "\n"


class ProvenJob(Sealed):
    """The report of a job's proof, as the process that proves it writes it for the one that trains."""

    job: str
    """sha256 of the bytes of its job.json."""
    result: Result
    report: LeakReport
