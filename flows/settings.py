"""What the environment says, and what we tell Prefect; the environment is read nowhere else in flows."""

import base64
import math
import os
import stat
from pathlib import Path
from typing import TypeVar

import filelock

from schemas.errors import CurriculumError

Number = TypeVar("Number", int, float)

HOST = "127.0.0.1"
PORT = 4200
DASHBOARD_PORT = 4202
"""Beside the server and its reports, as `serve` has it."""
CPU, GPU = "cpu", "gpu"
"""The kinds of work pools."""
WORKING = {
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    # They hear of a cancel at once, but after the death of a server they have to ask.
    "PREFECT_WORKER_CANCELLATION_POLL_SECONDS": "3",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
}
"""Of workers and their runs: how often they ask for work, and how often they say that they live."""
SILENT = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


class SettingError(CurriculumError):
    """A variable of the environment is wrong."""


def home(given: Path | None = None) -> Path:
    """The workspace: what was given, else $CURRICULUM_HOME, else ./workspace."""
    return (given or Path(os.environ.get("CURRICULUM_HOME", "workspace"))).absolute()


def state_folder() -> Path:
    """The folder of what belongs to this user and to no workspace, for the owner only.

    $CURRICULUM_STATE, else curriculum below $XDG_STATE_HOME, else ~/.local/state/curriculum.

    Raises:
        SettingError: where the folder is a link or somebody else's.
    """
    given = os.environ.get("CURRICULUM_STATE")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(given) if given else Path(state) / "curriculum"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    there = folder.lstat()
    if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid():
        raise SettingError(
            "$CURRICULUM_STATE",
            folder,
            cause="it is a link or belongs to another user",
            cure="Name a folder of your own",
        )
    folder.chmod(0o700)
    return folder.absolute()


def notify_target() -> str | None:
    """$CURRICULUM_NOTIFY: a URL that events are posted to, or a command that gets them on its stdin."""
    return os.environ.get("CURRICULUM_NOTIFY") or None


def gpu_price() -> float | None:
    """$CURRICULUM_GPU_PRICE: what an hour of one GPU costs, in whatever money.

    Raises:
        SettingError: for what is no price.
    """
    return _number("CURRICULUM_GPU_PRICE", float, "Give a number such as 2.50, or nothing")


def gpu_slots() -> int:
    """$CURRICULUM_GPU_SLOTS: how many jobs may train on this machine at once; 1 by default.

    Raises:
        SettingError: for what is no such number.
    """
    return _number("CURRICULUM_GPU_SLOTS", int, "Give a whole number from 1 on") or 1


def slots_folder(workspace: Path) -> Path:
    """$CURRICULUM_SLOTS: the folder of this machine's slots, by default the workspace's own.

    Workspaces whose jobs take turns on one machine name the same.
    """
    given = os.environ.get("CURRICULUM_SLOTS")
    return Path(given).absolute() if given else workspace / "slots"


def sbatch_options() -> str | None:
    """$CURRICULUM_SBATCH: with it jobs are handed to Slurm, with these options of sbatch."""
    return os.environ.get("CURRICULUM_SBATCH") or None


def ray_address() -> str | None:
    """$CURRICULUM_RAY_ADDRESS: the Ray cluster whose workers build; auto for the one of this machine."""
    return os.environ.get("CURRICULUM_RAY_ADDRESS") or None


def ray(address: str) -> dict[str, str]:
    """Ray that sends nothing to anyone, and finds a cluster that keeps to 127.0.0.1; before it is imported.

    By itself it takes 127.0.0.1 for this machine's address in the network, and looks there.
    """
    own = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} if address.startswith(f"{HOST}:") else {}
    return {"RAY_USAGE_STATS_ENABLED": "0", **own}


def suffix() -> str:
    """$CURRICULUM_SUFFIX: the end of the names of this workspace's deployments and pools; `serve` sets it."""
    return os.environ.get("CURRICULUM_SUFFIX", "")


def deployment(flow: str) -> str:
    """The full name of a flow's deployment where this process runs: train/train-name."""
    return f"{flow}/{flow}{suffix()}"


def tag(end: str | None = None) -> str:
    """The tag of this workspace's deployments and of the runs that they start."""
    return f"curriculum{suffix() if end is None else end}"


def flow_run() -> str | None:
    """The id of the flow run that a worker started this process for."""
    return os.environ.get("PREFECT__FLOW_RUN_ID")


def team_api() -> str | None:
    """$PREFECT_API_URL: the API of a server that others run. To be asked before `apply`, which names ours."""
    given = os.environ.get("PREFECT_API_URL")
    return given.rstrip("/") if given else None


def credentials() -> dict[str, str]:
    """What a team's server is asked with, where it wants to know who asks: as Prefect's own client does."""
    if given := os.environ.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": f"Basic {base64.b64encode(given.encode()).decode()}"}
    if given := os.environ.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {given}"}
    return {}


def is_shared() -> bool:
    """Whether other workspaces may be in the same database: a team's server, or one that is named.

    To be asked before `apply`, which names our own server.
    """
    names = ("API_URL", "API_DATABASE_CONNECTION_URL", "SERVER_DATABASE_CONNECTION_URL")
    return any(os.environ.get(f"PREFECT_{name}") for name in names)


def deployed(workspace: Path, suffix: str) -> dict[str, str]:
    """What a flow run is told of the workspace that its deployment belongs to."""
    named = {"CURRICULUM_SUFFIX": suffix} if suffix else {}
    return {"CURRICULUM_HOME": str(workspace), **named}


def _number(name: str, kind: type[Number], cure: str) -> Number | None:
    """The positive number that a variable holds; None where it is unset."""
    given = os.environ.get(name)
    if not given:
        return None
    try:
        number = kind(given)
    except ValueError:
        number = kind(-1)
    if not (math.isfinite(number) and number > 0):
        raise SettingError(f"${name}", given, cause="it isn't a positive number", cure=cure)
    return number


def apply(variables: dict[str, str]) -> None:
    """Set variables for this process and its children; before Prefect is imported, which reads them once."""
    os.environ.update(variables)


def environment(variables: dict[str, str]) -> dict[str, str]:
    """The environment of a child process with these variables set."""
    return {**os.environ, **variables}


def wait_passively() -> None:
    """Let threads of tensors sleep while they wait; before torch is imported, which reads this once.

    On cores that others use too, threads that spin make small models forty times slower.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def prefect_folder(workspace: Path) -> Path:
    """Where Prefect keeps its database, its profile and its logs: inside the workspace."""
    return workspace / "prefect"


def pages_folder(workspace: Path) -> Path:
    """Where the server copies its pages to, so that we can say whom they may talk to."""
    return prefect_folder(workspace) / "pages"


def quiet(workspace: Path) -> dict[str, str]:
    """Prefect of one workspace: nothing shared with other workspaces, nothing sent to anyone."""
    return {
        "CURRICULUM_HOME": str(workspace),
        "DO_NOT_TRACK": "1",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PREFECT_HOME": str(prefect_folder(workspace)),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_API_HOST": HOST,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    }


def served(workspace: Path, port: int) -> dict[str, str]:
    """Prefect with a server of its own on a port.

    The page takes the address of the API from PREFECT_API_URL, not from the server's own port, and other
    sites' pages must not reach an API that starts runs.
    """
    origin = f"http://{HOST}:{port}"
    return {
        **quiet(workspace),
        "PREFECT_API_URL": f"{origin}/api",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origin,
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(pages_folder(workspace)),
        **WORKING,
    }


def joined(workspace: Path, api: str) -> dict[str, str]:
    """Prefect for workers and deployments on a team's server."""
    return {**quiet(workspace), "PREFECT_API_URL": api, **WORKING}


def unseen(workspace: Path, port: int) -> dict[str, str]:
    """Prefect with a short-lived server of its own: no pages, and the terminal is left to us."""
    return {
        **served(workspace, port),
        **SILENT,
        # It ends before the last lines would be sent, and Prefect would try for a minute.
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
    }


def attached(workspace: Path, api: str) -> dict[str, str]:
    """Prefect with a server that runs already."""
    return {**quiet(workspace), **SILENT, **WORKING, "PREFECT_API_URL": api}


def known_api(workspace: Path) -> str | None:
    """The API that is there already: a team's by PREFECT_API_URL, or the one of `curriculum serve`."""
    if given := os.environ.get("PREFECT_API_URL"):
        return given
    address = served_at(workspace)
    return f"{address}/api" if address else None


def serve_lock(workspace: Path) -> filelock.FileLock:
    """Held by `curriculum serve` as long as it lives."""
    folder = prefect_folder(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(folder / "serve.lock")


def address_file(workspace: Path) -> Path:
    """Where `curriculum serve` writes its address."""
    return prefect_folder(workspace) / "address.txt"


def shown(workspace: Path, folder: Path) -> dict[str, str]:
    """Pages of one workspace; what marimo keeps for itself lies in a folder of ours."""
    kinds = ("CONFIG", "STATE", "CACHE", "DATA")
    return {
        "CURRICULUM_HOME": str(workspace),
        "CURRICULUM_STATE": str(state_folder()),
        "DO_NOT_TRACK": "1",
        **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in kinds},
    }


def dashboard_file(workspace: Path) -> Path:
    """Where the server of dashboards writes its address, token and all; its owner alone may read it."""
    return prefect_folder(workspace) / "dashboard.txt"


def dashboard_at(workspace: Path) -> str | None:
    """The address of the workspace's dashboards, while it is served and they are shown."""
    return _said(dashboard_file(workspace)) if served_at(workspace) else None


def reports_file(workspace: Path) -> Path:
    """Where the server of reports writes its address."""
    return prefect_folder(workspace) / "reports.txt"


def reports_at(workspace: Path) -> str | None:
    """The address of the workspace's reports, while it is served."""
    return _said(reports_file(workspace)) if served_at(workspace) else None


def served_at(workspace: Path) -> str | None:
    """The address of the server that serves this workspace now, if one does."""
    address = _said(address_file(workspace))
    if address is None:
        return None
    try:
        # Who else asks holds it for a moment.
        serve_lock(workspace).acquire(timeout=0.05, poll_interval=0.01).lock.release()
    except filelock.Timeout:
        return address
    return None


def _said(file: Path) -> str | None:
    """What a file says, unless it isn't there: it may go at any moment."""
    try:
        return file.read_text().strip() or None
    except FileNotFoundError:
        return None
