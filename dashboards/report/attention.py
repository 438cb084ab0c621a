"""Phases of a specialist that need attention: stopped or outdated runs, and warnings about their mixtures."""

from collections.abc import Iterator
from dataclasses import dataclass

from curriculum.pipeline.status import State
from dashboards.report import phases
from dashboards.report.facts import Facts, PhaseFacts

URGENT: tuple[State, ...] = ("failed", "interrupted", "holds", "stale")
"""States of a phase that need attention, by urgency."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionEntry:
    """An entry of the list: a phase, or all phases with the same warning, and the reason for attention."""

    phases: tuple[str, ...]
    state: str
    """State of the phase, or `warning`."""
    why: str


def attention_entries(facts: Facts) -> list[AttentionEntry]:
    """Return the phases that need attention, the most urgent one first, then the warnings about mixtures."""
    stopped = [
        AttentionEntry(phases=(phase.name,), state=state, why=phases.state_note(phase))
        for state in URGENT
        for phase in facts.phases
        if phase.status.state == state
    ]
    waiting = [
        AttentionEntry(phases=(phase.name,), state="waiting", why=phases.state_note(phase))
        for phase in facts.phases
        if phase.status.state == "waiting" and phase.report is not None
    ]
    named: dict[str, list[str]] = {}
    for phase in facts.phases:
        for warning in _warnings(phase):
            named.setdefault(warning, []).append(phase.name)
    return [
        *stopped,
        *waiting,
        *(
            AttentionEntry(phases=tuple(names), state="warning", why=warning)
            for warning, names in named.items()
        ),
    ]


def _warnings(phase: PhaseFacts) -> Iterator[str]:
    if phase.mixture is not None:
        yield from phases.mixture_warnings(phase.mixture)
