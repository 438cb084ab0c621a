"""Detection of flow runs whose process was killed and that Prefect marked as Crashed, with notifications.

`python -m flows.server.crash_detection API WORKSPACE POOL…` polls the server while the workers run. It is a
separate process, so that a slow target of notifications blocks nothing else. An automation of Prefect would
not do: it can't run a command, doesn't retry a notification, and stores the target in the database.
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
from schemas.visible import one_line

EVERY_S = 30.0
ANSWER_S = 30.0
LOOKS = 3
"""Number of polls that must find a crash before it is reported.

A process that is still alive reports its crash itself, sooner than that.
"""
PAGE = 200
"""Maximum number of runs per response of the server."""
START = datetime.timedelta(minutes=10)
"""Time before the first poll in which crashes are searched too.

Abandoned runs are marked as crashed while this process starts.
"""
LONGEST = datetime.timedelta(days=7)
"""Age after which a crash isn't reported any more."""

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
    """Crashed flow run, and the facts that its notification contains."""

    mark: str
    """Identifier of this crash; a run that is retried may crash again, with another mark."""
    title: str
    specialist: str
    why: str
    when: datetime.datetime
    """Time of the crash, by the server's clock."""


@dataclass(kw_only=True, slots=True)
class CrashWatch:
    """Watch for crashed flow runs of a workspace.

    A notification is sent after LOOKS polls in a row have found the same crash.
    """

    workspace: Path
    ask: Callable[[datetime.datetime], list[Crash]]
    """Function that returns the crashes since a time."""
    send: Send
    """Function that sends the notification of a crash and returns True if it has arrived, now or earlier.

    After False, the notification is sent again at the next poll.
    """
    found: Counter[str] = field(default_factory=Counter)
    sent: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Poll once, and send the notifications that are due.

        A file of the workspace records the time up to which all notifications were sent, so that a restart of
        this process loses none.

        Raises:
            OSError, HTTPException, ValidationError: if the server doesn't answer correctly.
        """
        start = sent_until(self.workspace)
        crashes = sorted(self.ask(start), key=lambda crash: crash.when)
        self.found = Counter({crash.mark: self.found[crash.mark] + 1 for crash in crashes})
        due = [crash for crash in crashes if self.found[crash.mark] >= LOOKS]
        self.sent |= {crash.mark for crash in itertools.takewhile(self._is_sent, due)}
        left = [crash for crash in crashes if crash.mark not in self.sent]
        until = [*left[:1], *crashes[-1:]]
        if until or not _file(self.workspace).is_file():
            write_whole(_file(self.workspace), (until[0].when if until else start).isoformat())

    def _is_sent(self, crash: Crash) -> bool:
        return crash.mark in self.sent or self.send(crash)


def sent_until(workspace: Path) -> datetime.datetime:
    """Return the recorded time up to which notifications of all crashes were sent.

    Without a record, it is a time shortly before now.
    """
    now = datetime.datetime.now(datetime.UTC)
    try:
        kept = datetime.datetime.fromisoformat(_file(workspace).read_text())
    except (FileNotFoundError, ValueError):
        return now - START
    return max(kept.astimezone(datetime.UTC), now - LONGEST)


def _file(workspace: Path) -> Path:
    return settings.prefect_folder(workspace) / "crashes-told.txt"


def crashes_since(api: str, pools: Iterable[str], when: datetime.datetime) -> list[Crash]:
    """Return the flow runs of `pools` that crashed at time `when` or later, according to the server's API."""
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
        why=run.state.message or "no reason given",
        when=run.end_time,
    )


def crash_sender(workspace: Path, say: Log) -> Send:
    """Return the function that sends a notification of a crash.

    It sends none if the crashed process sent one itself before it ended.
    """

    def send(crash: Crash) -> bool:
        # This import reads diets and is needed only after a crash.
        from curriculum.pipeline import notifications
        from flows.settings.contexts import context_of

        whose = notifications.whose(workspace, crash.specialist)
        return notifications.broken_down(
            whose, crash.title, crash.why, mark=crash.mark, context=context_of(warn=say)
        )

    return send


def watch(api: str, workspace: Path, pools: list[str], say: Log) -> None:
    """Poll forever. If polling fails, log the failure once and poll again."""
    logged = ""

    def complain(line: str) -> None:
        nonlocal logged
        if line != logged:
            logged = line
            say(line)

    crash_watch = CrashWatch(
        workspace=workspace,
        ask=lambda when: crashes_since(api, pools, when),
        send=crash_sender(workspace, complain),
    )
    while True:
        try:
            crash_watch.look()
        except (OSError, http.client.HTTPException, ValidationError) as failed:
            complain(f"Could not query the server for crashed runs: {failed}")
        time.sleep(EVERY_S)


def main() -> None:
    """Run the module's command."""
    api, workspace, *pools = sys.argv[1:]

    def print_words(words: str) -> None:
        sys.stdout.write(f"{one_line(words)}\n")
        sys.stdout.flush()

    try:
        watch(api, Path(workspace), pools, print_words)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
