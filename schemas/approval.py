"""What a person said of a finished run that its diet doesn't let pass without one."""

from schemas.json_text import Sealed


class Approval(Sealed):
    """approvals/<run key12>-<attempt>.json: it holds for these weights, not for another attempt."""

    run_key: str
    attempt: int
    content: str
    """Of the run: what was looked at."""
    specialist: str
    branch: str | None = None
    phase: str
    who: str
    when: str
    """ISO 8601, UTC."""
    comment: str = ""
