"""What a search for leaks between documents found: a claim a line."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One claim about one subject, and whether it holds."""

    subject: str
    dtype: str
    claim: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakReport:
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that do not hold."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def passed(self) -> bool:
        """Whether every claim holds, of which there is at least one."""
        return bool(self.findings) and not self.failures

    def table(self) -> str:
        """A line a finding."""
        return "\n".join(
            f"{'ok  ' if each.passed else 'LEAK'}  {each.subject:<12} {each.dtype:<9} {each.claim}"
            + (f"  ({each.detail})" if each.detail else "")
            for each in self.findings
        )
