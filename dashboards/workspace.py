"""Workspace that the pages show: its folder, its Prefect server, and its active or failed flow runs.

The configs that flow runs record in the workspace say which specialist a flow run belongs to.
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
"""Maximum number of flow runs that are requested from the server; the latest ones."""
FAILED = ("FAILED", "CRASHED")
ACTIVE = ("RUNNING", "PENDING", "SCHEDULED", "PAUSED", "CANCELLING")
TRAINS = ("run", "train")
"""Flows that train phases."""
ALL_PHASES = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """Prefect server of a workspace, with the headers that log in."""

    address: str
    headers: tuple[tuple[str, str], ...]
    """Headers that authenticate requests of programs."""


Served = Callable[[], Server | None]
"""Function that returns the server of a workspace, or None while it is not served."""

_shown: list[Path] = []
_served: list[Served] = []
_resources: "list[Resources]" = []


def unserved() -> None:
    """Return None, for a workspace without a server."""


def show(home: Path, served: Served = unserved, resources: "Resources | None" = None) -> None:
    """Set the workspace, server and resources that all pages of this process show."""
    _shown[:] = [home]
    _served[:] = [served]
    _resources[:] = [resources] if resources else []


def resources() -> "Resources":
    """Return the resources of this machine, for whose slots the jobs of the workspace wait."""
    # Every command imports this module for `Server`; the import below is slow.
    from curriculum.pipeline.context import Resources

    return _resources[0] if _resources else Resources()


def server() -> Server | None:
    """Return the Prefect server of the workspace that the pages show; None without a server."""
    return _served[0]() if _served else None


def home() -> Path:
    """Return the workspace that the pages show; it is ./workspace if a page was started on its own."""
    return _shown[0] if _shown else Path("workspace").absolute()


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowRun:
    """A flow run of the workspace, with its specialist and phase."""

    name: str
    flow: str
    kind: Literal["active", "failed"]
    state: str
    message: str
    address: str
    """Address of the flow run's page."""
    specialist: str
    phase: str
    """Phase name, or `all`."""
    later_phases: bool

    def takes(self, specialist: str | None, phase: str | None) -> bool:
        """Return True if the flow run is active and will train a phase of a specialist."""
        has_phase = self.later_phases or self.phase in (ALL_PHASES, phase)
        is_same = self.specialist == specialist
        return self.kind == "active" and self.flow in TRAINS and is_same and has_phase


def flow_runs(home: Path) -> list[FlowRun]:
    """Return the flow runs that are active or failed; of flow runs with the same name only the latest counts.

    The list is empty if no server answers.
    """
    # Every command imports this module for its settings; json_text imports pyarrow, which is slow.
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
    for listed_run in sorted(
        listed, key=lambda listed_run: str(listed_run["expected_start_time"] or "")
    ):
        if str(listed_run["expected_start_time"] or "") <= now():
            last[listed_run["name"]] = listed_run
    found = (_flow_run(home, served.address, flow_run) for flow_run in last.values())
    return [flow_run for flow_run in found if flow_run is not None]


def _flow_run(home: Path, address: str, answered: dict[str, Any]) -> FlowRun | None:
    """Return a flow run from a server's answer; None unless it is of this workspace and active or failed."""
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
    """Return the specialist in a recorded config, given by its file; None if the file doesn't exist yet."""
    # Every command imports this module for its settings; json_text imports pyarrow, which is slow.
    from schemas.json_text import parse_json

    try:
        diet = parse_json(regular_files.read(file, follow_links=True))["diet"]
        return format_reference((str(diet["specialist"]), diet["branch"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
