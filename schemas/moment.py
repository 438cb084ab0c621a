"""Moments as files hold them: ISO 8601 in UTC with microseconds; their order is that of their text."""

import datetime


def now() -> str:
    """The present moment.

    >>> len(now()), now()[-6:]
    (32, '+00:00')
    """
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def seconds_from(moment: str) -> float:
    """Seconds between a moment and the present, without a sign: clocks may differ, or be set back.

    >>> seconds_from(now()) < 60
    True
    """
    then = datetime.datetime.fromisoformat(moment)
    return abs((datetime.datetime.now(datetime.UTC) - then).total_seconds())
