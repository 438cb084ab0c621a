"""Detection of flow runs that became Crashed after their own process ended, and a notification of each.

`python -m flows.server.crash_detection API WORKSPACE POOL…` polls the server beside the workers. It is a
process of its own, so that a notification target that hangs holds nothing else up. An automation of Prefect's
isn't enough: it runs no command, sends once whatever becomes of it, and keeps the target in the database.
"""

import datetime
import http.client
import itertools
import json
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from curriculum.whole_files import write_whole
from flows import settings
from flows.settings.form_subjects import form_subject

EVERY_S = 30.0
ANSWER_S = 30.0
LOOKS = 3
"""Number of looks that must find a run before it is reported: a living process has reported it by then."""
PAGE = 200
"""Runs in an answer; a server gives no more at once."""
START = datetime.timedelta(minutes=10)
"""Before the first look of all: what starts beside this one marks what the last end left behind."""
LONGEST = datetime.timedelta(days=7)
"""Age of a crash that is no news any more."""

Log = Callable[[str], None]
Send = Callable[["Crash"], bool]


class _State(BaseModel):
    id: str
    message: str | None = None


class _Run(BaseModel):
    id: str
    name: str
    parameters: dict[str, JsonValue]
    end_time: datetime.datetime
    state: _State


_ANSWER = TypeAdapter(list[_Run])


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """A flow run that is Crashed."""

    mark: str
    """Mark of this crash: a run that is retried may crash again."""
    title: str
    specialist: str
    why: str
    when: datetime.datetime
    """Time by the server's clock."""


@dataclass(kw_only=True, slots=True)
class CrashWatch:
    """Looks for crashes of a workspace's pools, and has each sent once it was found often enough."""

    workspace: Path
    ask: Callable[[datetime.datetime], list[Crash]]
    """Function that returns the crashes since a time."""
    send: Send
    """Send an event; True if it arrived, now or earlier. One that didn't is sent after the next look."""
    found: Counter[str] = field(default_factory=Counter)
    sent: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Ask once, and send what is due.

        The workspace remembers until when all crashes were sent, so that none is lost between two processes.

        Raises:
            OSError, HTTPException, ValidationError: where the server doesn't answer as it should.
        """
        start = since(self.workspace)
        crashes = sorted(self.ask(start), key=lambda each: each.when)
        self.found = Counter({each.mark: self.found[each.mark] + 1 for each in crashes})
        due = [each for each in crashes if self.found[each.mark] >= LOOKS]
        self.sent |= {each.mark for each in itertools.takewhile(self._is_sent, due)}
        left = [crash for crash in crashes if crash.mark not in self.sent]
        until = [*left[:1], *crashes[-1:]]
        if until or not _file(self.workspace).is_file():
            write_whole(_file(self.workspace), (until[0].when if until else start).isoformat())

    def _is_sent(self, crash: Crash) -> bool:
        return crash.mark in self.sent or self.send(crash)


def since(workspace: Path) -> datetime.datetime:
    """Return until when all crashes were sent; where nobody ever looked, shortly before now."""
    now = datetime.datetime.now(datetime.UTC)
    try:
        kept = datetime.datetime.fromisoformat(_file(workspace).read_text())
    except (FileNotFoundError, ValueError):
        return now - START
    return max(kept.astimezone(datetime.UTC), now - LONGEST)


def _file(workspace: Path) -> Path:
    return settings.prefect_folder(workspace) / "crashes-told.txt"


def asked(api: str, pools: Iterable[str], when: datetime.datetime) -> list[Crash]:
    """Return the runs of some pools that crashed at a time or after it, by a server's records."""
    runs: list[_Run] = []
    wanted: dict[str, JsonValue] = {
        "flow_runs": {
            "state": {"type": {"any_": ["CRASHED"]}},
            "end_time": {"after_": when.isoformat()},
        },
        "work_pools": {"name": {"any_": [*pools]}},
        "sort": "END_TIME_DESC",
        "limit": PAGE,
    }
    while True:
        page = _page(api, wanted | {"offset": len(runs)})
        runs += page
        if len(page) < PAGE:
            return [_crash(run) for run in runs]


def _page(api: str, wanted: dict[str, JsonValue]) -> list[_Run]:
    headers = {"Content-Type": "application/json", **settings.credentials()}
    request = urllib.request.Request(
        f"{api}/flow_runs/filter", json.dumps(wanted).encode(), headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        return _ANSWER.validate_json(answer.read())


def _crash(run: _Run) -> Crash:
    return Crash(
        mark=f"{run.id}-{run.state.id}",
        title=run.name,
        specialist=form_subject(run.parameters),
        why=run.state.message or "it doesn't say why",
        when=run.end_time,
    )


def sender(workspace: Path, say: Log) -> Send:
    """Return the function that notifies of a crash, unless the crashed process did."""

    def send(crash: Crash) -> bool:
        # It brings what reads diets, which nobody needs while nothing crashes.
        from curriculum.pipeline import notifications
        from flows.settings.contexts import context_of

        whose = notifications.whose(workspace, crash.specialist)
        return notifications.broken_down(
            whose, crash.title, crash.why, mark=crash.mark, context=context_of(warn=say)
        )

    return send


def watch(api: str, workspace: Path, pools: list[str], say: Log) -> None:
    """Look again and again; what fails is logged once, and tried again."""
    logged = ""

    def complain(line: str) -> None:
        nonlocal logged
        if line != logged:
            logged = line
            say(line)

    crash_watch = CrashWatch(
        workspace=workspace,
        ask=lambda when: asked(api, pools, when),
        send=sender(workspace, complain),
    )
    while True:
        try:
            crash_watch.look()
        except (OSError, http.client.HTTPException, ValidationError) as failed:
            complain(f"Crashed runs couldn't be looked for: {failed}")
        time.sleep(EVERY_S)


def main() -> None:
    """Run the module's command."""
    api, workspace, *pools = sys.argv[1:]

    def print_words(words: str) -> None:
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()

    try:
        watch(api, Path(workspace), pools, print_words)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
