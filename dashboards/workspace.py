"""Workspace of the pages: its folder, its server, and the flow runs there that are active or failed.

The run config snapshots that give a flow run its specialist lie in the workspace.
"""

import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from schemas import regular_files
from schemas.specialist import format_reference

if TYPE_CHECKING:
    from curriculum.pipeline.context import Resources


CONFIGS = "configs"
OWN_HOST = "127.0.0.1"
PATIENCE_S = 3.0
MAX_FLOW_RUNS = 200
"""Flow runs that are asked for, the latest."""
FAILED = ("FAILED", "CRASHED")
ACTIVE = ("RUNNING", "PENDING", "SCHEDULED", "PAUSED", "CANCELLING")
TRAINS = ("run", "train")
"""Flows that train what is mixed."""
ALL_PHASES = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The Prefect server of a workspace."""

    address: str
    headers: tuple[tuple[str, str], ...]
    """Headers for requests of programs: the proof that its owner asks."""


Served = Callable[[], Server | None]
"""The server of a workspace; None while it isn't served."""

_shown: list[Path] = []
_served: list[Served] = []
_resources: "list[Resources]" = []


def unserved() -> None:
    """No server: pages of a workspace that nobody serves."""


def show(home: Path, served: Served = unserved, resources: "Resources | None" = None) -> None:
    """Let all pages of this process show a workspace and the flow runs of its server."""
    _shown[:] = [home]
    _served[:] = [served]
    _resources[:] = [resources] if resources else []


def resources() -> "Resources":
    """The resources of this machine whose slots the jobs of the workspace wait for."""
    # Every command reads Server of this module.
    from curriculum.pipeline.context import Resources

    return _resources[0] if _resources else Resources()


def server() -> Server | None:
    """The server of the workspace that is shown; None where it isn't served."""
    return _served[0]() if _served else None


def home() -> Path:
    """The workspace that is shown; a page that is opened on its own shows ./workspace."""
    return _shown[0] if _shown else Path("workspace").absolute()


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowRun:
    """A flow run, with its specialist."""

    name: str
    flow: str
    kind: Literal["active", "failed"]
    state: str
    message: str
    address: str
    """Address of its page."""
    specialist: str
    phase: str
    """One, or `all`."""
    later_phases: bool

    def takes(self, specialist: str | None, phase: str | None) -> bool:
        """Return True where it is active and will train a phase by itself."""
        has_phase = self.later_phases or self.phase in (ALL_PHASES, phase)
        is_same = self.specialist == specialist
        return self.kind == "active" and self.flow in TRAINS and is_same and has_phase


def flow_runs(home: Path) -> list[FlowRun]:
    """The last flow run of each name that failed or is active; none where no server answers."""
    # Every command imports this module for its settings; json_text takes pyarrow along.
    from schemas.json_text import now

    served = server()
    if served is None:
        return []
    request = urllib.request.Request(
        f"{served.address}/api/flow_runs/filter",
        data=json.dumps({"sort": "EXPECTED_START_TIME_DESC", "limit": MAX_FLOW_RUNS}).encode(),
        headers={"Content-Type": "application/json", **dict(served.headers)},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            listed: list[dict[str, Any]] = list(json.loads(answer.read()))
    except (OSError, ValueError):
        return []
    last: dict[str, dict[str, Any]] = {}
    for each in sorted(listed, key=lambda each: str(each["expected_start_time"] or "")):
        if str(each["expected_start_time"] or "") <= now():
            last[each["name"]] = each
    found = (_flow_run(home, served.address, each) for each in last.values())
    return [each for each in found if each is not None]


def _flow_run(home: Path, address: str, answered: dict[str, Any]) -> FlowRun | None:
    """A flow run in a state that matters; of a team's server only those of this workspace."""
    state = answered["state_type"]
    ordered = _specialist(home / CONFIGS / f"{answered['id']}.json")
    is_of_workspace = ordered is not None or OWN_HOST in address
    if state not in (*FAILED, *ACTIVE) or not is_of_workspace:
        return None
    parameters = answered["parameters"]
    asked = str(parameters.get("specialist", "")), (parameters.get("changes") or {}).get("branch")
    return FlowRun(
        name=answered["name"],
        flow=answered["name"].split()[0],
        kind="failed" if state in FAILED else "active",
        state=str(answered["state_name"]).lower(),
        message=str((answered["state"] or {}).get("message") or "its page has the log"),
        address=f"{address}/runs/flow-run/{answered['id']}",
        specialist=ordered or format_reference(asked),
        phase=str(parameters.get("phase", ALL_PHASES)),
        later_phases=bool(parameters.get("later_phases")),
    )


def _specialist(file: Path) -> str | None:
    """The specialist of a run config snapshot; None where there is none yet."""
    # Every command imports this module for its settings; json_text takes pyarrow along.
    from schemas.json_text import parse_json

    try:
        diet = parse_json(regular_files.read(file, follow_links=True))["diet"]
        return format_reference((str(diet["specialist"]), diet["branch"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
