"""Delivery of notifications: by POST to a URL, through an apprise service, or to a command.

Notifications never stop a run. A failure becomes a warning, and a target that doesn't respond delays a run
at most by the limits below.
"""

import datetime
import http.client
import logging
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from curriculum.pipeline.plan import RunPlan
from curriculum.store import Store
from schemas.errors import StoreError
from schemas.progress import Event, EventKind

POST_S = 10.0
"""Time limit in seconds for one POST, including the lookup of the name."""
PAUSES_S = (1.0, 3.0)
"""Pauses in seconds between the three attempts to POST."""
SERVICE_S = 30.0
"""Time limit in seconds for all attempts to send to an apprise URL."""
COMMAND_S = 30.0
_WORTH_ANOTHER_TRY = {408, 425, 429}

Log = Callable[[str], None]


def is_url(target: str) -> bool:
    """Return True if a target is a URL; otherwise it is a command."""
    return re.match(r"[a-z][a-z0-9+.-]*://", target, re.IGNORECASE) is not None


def takes_json(target: str) -> bool:
    """Return True for a URL that receives JSON by POST. All other URLs belong to apprise services."""
    return target.lower().startswith(("http://", "https://"))


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSource:
    """Specialist that an event belongs to, if there is no plan."""

    home: Path
    specialist: str
    branch: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _SendError:
    """Reason why an event wasn't sent."""

    why: str
    passes: bool = False
    """True if another attempt may succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Notifier:
    """Target of notifications: a URL that receives JSON, an apprise URL, or a command that reads JSON."""

    target: str | None = None
    """The target; None if no notifications are sent."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the command, without the server's credentials."""

    def notify(
        self,
        whose: RunPlan | EventSource,
        kind: EventKind,
        text: str,
        *,
        phase: str | None = None,
        run: Path | None = None,
        warn: Log,
    ) -> bool:
        """Send an event to the target, and return True if it arrived.

        A failure is reported to `warn`.
        """
        if self.target is None:
            return False
        event = event_of(whose, kind, text, phase=phase, run=run)
        if takes_json(self.target):
            fault = _post(self.target, event.model_dump_json())
        elif is_url(self.target):
            url = self.target
            fault = _within(SERVICE_S, lambda: _notify_services(url, event))
        else:
            fault = _command(self.target, event.model_dump_json(), self.environment)
        if fault is not None:
            warn(
                f"{kind} wasn't sent to {_named(self.target)}: {fault.why}. See $CURRICULUM_NOTIFY."
            )
        return fault is None


def event_of(
    whose: RunPlan | EventSource, kind: EventKind, text: str, *, phase: str | None, run: Path | None
) -> Event:
    """Return the event as it is sent."""
    if isinstance(whose, RunPlan):
        diet = whose.diet
        whose = EventSource(home=whose.store.root, specialist=diet.specialist, branch=diet.branch)
    inside = run is not None and run.is_relative_to(whose.home)
    return Event(
        event=kind,
        text=text,
        workspace=_workspace(whose.home),
        specialist=whose.specialist,
        branch=whose.branch,
        phase=phase,
        run=None if run is None else (run.relative_to(whose.home) if inside else run).as_posix(),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _workspace(home: Path) -> str:
    """Return the workspace's name, or its folder's name if it can't be read."""
    try:
        return Store(home, dry=True).workspace().name
    except (OSError, StoreError):
        return home.name


def _named(target: str) -> str:
    """Return the name of a target without secrets: the host of a URL, or the first word of a command.

    Of an apprise URL, only the scheme is shown, because many services have a token in place of the host.
    """
    try:
        if is_url(target) and not takes_json(target):
            return f"{target.partition('://')[0].lower()}://…"
        if is_url(target):
            url = urlsplit(target)
            return f"{url.scheme}://{url.hostname or '?'}" + (f":{url.port}" if url.port else "")
        return Path(shlex.split(target)[0]).name
    except (ValueError, IndexError):
        return "its target"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects, because a redirected POST would become a GET without a body."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that a redirect is an error."""


def _post(url: str, body: str) -> _SendError | None:
    """POST `body` to a URL with up to three attempts; a refusal by the server ends the attempts."""
    for pause in (*PAUSES_S, None):
        fault = _within(POST_S, lambda: _post_once(url, body))
        if fault is None or not fault.passes or pause is None:
            return fault
        time.sleep(pause)
    raise AssertionError("the last try returns")


def _within(seconds: float, send: Callable[[], _SendError | None]) -> _SendError | None:
    """Call `send` in a thread, with a limit for the total time.

    The timeout of a socket would only limit each read.
    """
    results: list[_SendError | None] = []

    def run() -> None:
        try:
            results.append(send())
        except Exception as failed:
            # Only the error type is shown, because the message may contain a token.
            results.append(_SendError(why=f"sending it failed with {type(failed).__name__}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else _SendError(why=f"no answer within {seconds:g} s", passes=True)


def _post_once(url: str, body: str) -> _SendError | None:
    headers = {"Content-Type": "application/json", "User-Agent": "curriculum"}
    try:
        request = urllib.request.Request(url, body.encode(), headers, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=POST_S):
            return None
    except urllib.error.HTTPError as answer:
        with answer:
            if 300 <= answer.code < 400:
                why = f"it redirects to another address ({answer.code}); use that one"
                return _SendError(why=why)
            passes = answer.code >= 500 or answer.code in _WORTH_ANOTHER_TRY
            return _SendError(
                why=f"it answers {answer.code} {answer.reason}".rstrip(), passes=passes
            )
    except urllib.error.URLError as failed:
        return _SendError(why=str(failed.reason), passes=True)
    except (ValueError, http.client.InvalidURL):
        # The messages of these errors may contain a password.
        return _SendError(why="it isn't a URL that can be posted to")
    except (OSError, http.client.HTTPException) as failed:
        return _SendError(why=str(failed) or type(failed).__name__, passes=True)


def _notify_services(url: str, event: Event) -> _SendError | None:
    """Send an event by apprise, with three attempts per service and without redirects."""
    # Deferred, because apprise loads about a hundred services.
    import apprise

    # Log messages may contain a token.
    logging.getLogger(apprise.LOGGER_NAME).setLevel(logging.CRITICAL + 1)
    services = apprise.Apprise(
        asset=apprise.AppriseAsset(
            app_id="curriculum",
            app_desc="curriculum",
            app_url="",
            image_url_mask="",
            image_url_logo="",
            storage_mode="memory",
            default_service_retry=len(PAUSES_S),
            default_service_wait=PAUSES_S[0],
        )
    )
    if not services.add(url):
        return _SendError(why="it isn't a URL that apprise can send to")
    for service in services:
        # Redirects stay off even if the URL enables them, because the target may be inside this network.
        service.redirects = False
    kinds = {
        "done": "success",
        "gate_waiting": "info",
        "gate_not_met": "warning",
        "stalled": "warning",
    }
    fields = event.model_dump(exclude={"event", "text"}, exclude_none=True)
    arrived = services.notify(
        title=f"{event.specialist}: {event.event.replace('_', ' ')}",
        body="\n".join([event.text, "", *(f"{name}: {value}" for name, value in fields.items())]),
        body_format=apprise.NotifyFormat.TEXT,
        notify_type=kinds.get(event.event, "failure"),
    )
    words = "it wasn't delivered; `apprise -v -b test URL` says why"
    return None if arrived else _SendError(why=words)


def _command(command: str, body: str, environment: Mapping[str, str]) -> _SendError | None:
    """Run the command once without a shell, with the event on stdin; its output is captured."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as told:
        given.write(body.encode() + b"\n")
        given.seek(0)
        try:
            process = subprocess.Popen(
                shlex.split(command),
                stdin=given,
                stdout=told,
                stderr=told,
                env=dict(environment),
                start_new_session=True,
            )
        except (ValueError, IndexError) as failed:
            return _SendError(why=f"it is not a valid command ({failed})")
        except OSError as failed:
            return _SendError(why=f"it can't be started ({failed.strerror})")
        try:
            code = process.wait(COMMAND_S)
        except subprocess.TimeoutExpired:
            return _SendError(why=f"it didn't end within {COMMAND_S:g} s and was killed")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        told.seek(0)
        last = told.read().decode(errors="replace").strip().splitlines()[-1:]
    return _SendError(why=": ".join([f"it ended with {code}", *last])) if code else None
