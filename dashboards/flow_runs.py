"""Flow runs on the server of `curriculum serve`: the active ones, and those that failed and weren't repeated.

The orders that say whose run it is lie in the workspace.
"""

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dashboards import workspace
from schemas import regular_files
from schemas.json_text import now, parse_json

ORDERS = "orders"
OWN_HOST = "127.0.0.1"
PATIENCE_S = 3.0
MOST = 200
"""Flow runs that are asked for, the latest."""
FAILED = ("FAILED", "CRASHED")
ACTIVE = ("RUNNING", "PENDING", "SCHEDULED", "PAUSED", "CANCELLING")
TRAINS = ("run", "train")
"""Flows that train what is mixed."""
ALL_PHASES = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowRun:
    """A flow run, and whose it is."""

    name: str
    flow: str
    kind: Literal["active", "failed"]
    state: str
    message: str
    address: str
    """Address of its page."""
    specialist: str
    branch: str | None
    phase: str
    """One, or `all`."""
    onwards: bool

    def takes(self, specialist: str | None, branch: str | None, phase: str | None) -> bool:
        """Return True where it is active and will train a phase by itself."""
        is_meant = self.onwards or self.phase in (ALL_PHASES, phase)
        same = (self.specialist, self.branch) == (specialist, branch)
        return self.kind == "active" and self.flow in TRAINS and same and is_meant


def flow_runs(home: Path) -> list[FlowRun]:
    """The last flow run of each name that failed or is active; none where no server answers."""
    server = workspace.server()
    if server is None:
        return []
    address = server.address
    try:
        listed = _asked(f"{address}/api/flow_runs/filter", dict(server.headers))
    except (OSError, ValueError):
        return []
    last: dict[str, dict[str, Any]] = {}
    for each in sorted(listed, key=lambda each: str(each["expected_start_time"] or "")):
        if str(each["expected_start_time"] or "") <= now():
            last[each["name"]] = each
    found = [_flow_run(home, address, each) for each in last.values()]
    return [each for each in found if each is not None]


def _asked(url: str, known: dict[str, str]) -> list[dict[str, Any]]:
    body = json.dumps({"sort": "EXPECTED_START_TIME_DESC", "limit": MOST}).encode()
    headers = {"Content-Type": "application/json", **known}
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return list(json.loads(answer.read()))


def _flow_run(home: Path, address: str, told: dict[str, Any]) -> FlowRun | None:
    """A flow run in a state that matters; of a team's server only those of this workspace."""
    kind = told["state_type"]
    given = told["parameters"]
    way = _ordered(home / ORDERS / f"{told['id']}.json")
    if kind not in (*FAILED, *ACTIVE) or (way is None and OWN_HOST not in address):
        return None
    branch = (given.get("changes") or {}).get("branch")
    specialist, branch = way or (str(given.get("specialist", "")), branch)
    return FlowRun(
        name=told["name"],
        flow=told["name"].split()[0],
        kind="failed" if kind in FAILED else "active",
        state=str(told["state_name"]).lower(),
        message=str((told["state"] or {}).get("message") or "its page has the log"),
        address=f"{address}/runs/flow-run/{told['id']}",
        specialist=specialist,
        branch=branch,
        phase=str(given.get("phase", ALL_PHASES)),
        onwards=bool(given.get("onwards")),
    )


def _ordered(file: Path) -> tuple[str, str | None] | None:
    """The specialist and branch of the diet in a frozen order; None where it isn't frozen yet."""
    try:
        diet = parse_json(regular_files.read(file, follow_links=True))["diet"]
        return str(diet["specialist"]), diet["branch"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
