"""Settings of the flows: environment variables that we read, and those that we set for Prefect."""

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from curriculum.exposure import (
    claim,
    exposure_above,
    is_trusted_by_environment,
    keep_others_out,
    led_path,
    own_exposure,
)
from curriculum.whole_files import replace_whole
from flows.settings.proxies import without_blanks
from schemas.errors import CurriculumError

if TYPE_CHECKING:
    # These imports load HTTP and locks, which most commands don't need.
    import filelock

    from dashboards.workspace import Server

Number = TypeVar("Number", int, float)

HOST = "127.0.0.1"
PORT = 4200
PAGES_PORT = PORT + 1
"""Port of reports and dashboards beside `serve` on its default port."""
LOGIN_PATH = "/curriculum/"
"""Path of the login page for Prefect's pages."""
CPU, GPU = "cpu", "gpu"
"""Kinds of work pools."""
NAME_LENGTH, DIGEST_LENGTH = 40, 16
"""Numbers of characters of the two parts in the name of a workspace's folder in the user's state folder."""
SAFE_PATH = "PYTHONSAFEPATH"
"""If set, Python adds neither the current directory nor the script's directory to sys.path."""
NO_MATRICES = {"OPENBLAS_NUM_THREADS": "1"}
"""Variables for short commands; without them OpenBLAS, which numpy loads, starts a busy thread per core."""
_PAGES_PATH = "CURRICULUM_PAGES_PATH"
_SERVER_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
_OURS = (
    "PREFECT_API_AUTH_STRING",
    _SERVER_LOGIN,
    "PREFECT_CLIENT_CUSTOM_HEADERS",
    _PAGES_PATH,
    SAFE_PATH,
)
"""Variables of our own processes that external commands don't inherit."""
_HARMLESS = {
    *("HOME", "PATH", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS"),
    *("CURRICULUM_STATE", "CURRICULUM_GPU_PRICE", "CURRICULUM_GPU_SLOTS", "CURRICULUM_SLOTS"),
    "LINES",
}
_HARMLESS_STEMS = ("LC_", "PYTHON", "OMP_", "OPENBLAS_")
"""Names and prefixes of variables without secrets."""
USER = "curriculum"
"""User name with which programs and pages log in to our own server."""


class SettingError(CurriculumError):
    """An environment variable is invalid."""


def home(given: Path | None = None) -> Path:
    """Return the real path of the workspace: `given`, else $CURRICULUM_HOME, else ./workspace.

    Also sets the umask of this process, so that no other user may write to new files. The umask stays if
    $CURRICULUM_TRUST names the workspace, because users share such a workspace.

    Raises:
        SettingError: as `workspace_path`, and if another user could replace temporary folders.
    """
    found = workspace_path(given)
    if not is_trusted_by_environment(found):
        keep_others_out()
    return found


def workspace_path(given: Path | None = None) -> Path:
    """Return the real path of a workspace as `home` does, but don't change the umask.

    Links are resolved only here, once, so that a link that changes later has no effect.

    Raises:
        SettingError: for a file, for a link that is broken, circular or controlled by another user, and for a
            relative path if the current directory was removed.
    """
    path = given or Path(os.environ.get("CURRICULUM_HOME", "workspace"))
    cause, cure = None, "Give the folder of a workspace, or a new path"
    try:
        place = path.absolute()
    except FileNotFoundError:
        gone = "the current directory was removed"
        raise SettingError(str(path), cause=gone, cure="Change to another directory") from None
    real, led = led_path(place)
    if real.exists():
        cause = None if real.is_dir() else "the path is a file, but a workspace is a folder"
    elif any(folder.is_symlink() and not folder.exists() for folder in (place, *place.parents)):
        cause = "the path is a broken or circular link"
    if cause is None and not is_trusted_by_environment(real):
        cause, cure = led, f"Give the folder itself: {real}"
    if cause is not None:
        raise SettingError(str(place), cause=cause, cure=cure)
    return real


def state_folder() -> Path:
    """Return this user's folder for data outside of workspaces; only the user can access it.

    It is $CURRICULUM_STATE, else curriculum in $XDG_STATE_HOME, else ~/.local/state/curriculum.

    Raises:
        SettingError: if the folder is a link, a file or another user's, or if another user could replace it.
    """
    given = os.environ.get("CURRICULUM_STATE")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = (Path(given) if given else Path(state) / "curriculum").absolute()
    above, led = led_path(folder.parent)
    real = above / folder.name
    claim(real)
    if (cause := led or exposure_above(real)) is not None:
        raise SettingError(
            "$CURRICULUM_STATE",
            folder,
            cause=f"{cause}: other users could change the record of trusted workspaces",
            cure="Choose a folder inside your home folder, or remove other users' access to "
            "the folder and the folders above it (chown, chmod go-w, setfacl -k)",
        )
    return own_folder(real)


def own_folder(folder: Path) -> Path:
    """Create a folder with access for its owner only, unless it exists and nobody else may write to it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    if (cause := own_exposure(folder)) is not None:
        raise SettingError(
            "$CURRICULUM_STATE",
            folder,
            cause=cause,
            cure="Choose a folder of your own, or remove this folder if you don't know its contents",
        )
    folder.chmod(0o700)
    return folder


def notify_target() -> str | None:
    """Return $CURRICULUM_NOTIFY, the target of notifications.

    It is a URL (for HTTP POST or Apprise), or a command that reads events.
    """
    return os.environ.get("CURRICULUM_NOTIFY") or None


def gpu_price() -> float | None:
    """Return $CURRICULUM_GPU_PRICE: the price of one GPU hour, in any currency.

    Raises:
        SettingError: for an invalid price.
    """
    return _number(
        "CURRICULUM_GPU_PRICE", float, "Set a number such as 2.50, or unset the variable"
    )


def gpu_slots() -> int:
    """Return $CURRICULUM_GPU_SLOTS: the number of jobs that may train at once on this machine; default: 1.

    Raises:
        SettingError: for a value that isn't a positive integer.
    """
    return _number("CURRICULUM_GPU_SLOTS", int, "Set a positive integer") or 1


def slots_folder() -> Path | None:
    """Return $CURRICULUM_SLOTS: the folder with this machine's training slots.

    Workspaces that name the same folder take turns at training on this machine. None means that the workspace
    uses a folder of its own.

    Raises:
        SettingError: if another user can rename or remove this user's files in the folder. That user could
            put back an old record and thereby end a run.
    """
    if not (given := os.environ.get("CURRICULUM_SLOTS")):
        return None
    place = Path(given).absolute()
    real, led = led_path(place)
    if (cause := led or exposure_above(real / "record")) is not None:
        cure = "Choose a folder of your own, or a folder of root with the sticky bit (chmod 1777)"
        raise SettingError("$CURRICULUM_SLOTS", place, cause=cause, cure=cure)
    return real


def absolute_paths() -> dict[str, str]:
    """Return the environment variables that contain relative paths, with absolute paths instead.

    Child processes need absolute paths because they run in another directory.

    Raises:
        SettingError: if an argument in $CURRICULUM_NOTIFY is a file of the current directory.
    """
    target = notify_target()
    paths = {"CURRICULUM_SLOTS": slots_folder(), "CURRICULUM_SBATCH": sbatch_template()}
    found = {name: str(path) for name, path in paths.items() if path is not None}
    return found | ({"CURRICULUM_NOTIFY": _absolute_command(target)} if target else {})


def _absolute_command(target: str) -> str:
    """Return `target` with an absolute path of its program; URLs and invalid commands stay unchanged."""
    # --help must be fast, and the modules of runs are slow to import.
    from curriculum.pipeline.notifiers import is_url

    try:
        program, *arguments = [] if is_url(target) else shlex.split(target)
    except ValueError:
        return target
    for argument in arguments:
        if argument and not Path(argument).is_absolute() and Path(argument).is_file():
            raise SettingError(
                "$CURRICULUM_NOTIFY",
                argument,
                cause="the path is relative to the current directory, but the command runs "
                "elsewhere",
                cure=f"Give the absolute path: {Path(argument).absolute()}",
            )
    if "/" in program:
        program = str(Path(program).absolute())
    return shlex.join([program, *arguments])


def sbatch_template() -> Path | None:
    """Return $CURRICULUM_SBATCH: the sbatch script that submits jobs to Slurm."""
    given = os.environ.get("CURRICULUM_SBATCH")
    return Path(given).absolute() if given else None


def ray_address() -> str | None:
    """Return $CURRICULUM_RAY_ADDRESS: host and port of the Ray cluster on which builds run."""
    return os.environ.get("CURRICULUM_RAY_ADDRESS") or None


def ray(address: str) -> dict[str, str]:
    """Return the environment variables of Ray, which must be set before Ray is imported.

    They disable usage statistics and let Ray connect to a cluster at 127.0.0.1. By default Ray replaces
    127.0.0.1 by the network address of the machine, at which it doesn't find the cluster.
    """
    own = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"} if address.startswith(f"{HOST}:") else {}
    return {"RAY_USAGE_STATS_ENABLED": "0", **own}


def suffix() -> str:
    """Return $CURRICULUM_SUFFIX: the suffix of the names of this workspace's deployments and pools.

    `serve` sets the variable.
    """
    return os.environ.get("CURRICULUM_SUFFIX", "")


def deployment(flow: str) -> str:
    """Return the full name of a flow's deployment for this process, such as train/train-name."""
    return f"{flow}/{flow}{suffix()}"


def tag(end: str | None = None) -> str:
    """Return the tag of a workspace's deployments and of their runs.

    `end` is the suffix of the workspace, by default that of this process.
    """
    return f"curriculum{suffix() if end is None else end}"


def flow_run() -> str | None:
    """Return the id of the flow run that this process executes for a worker; None without a worker."""
    return os.environ.get("PREFECT__FLOW_RUN_ID")


def team_api() -> str | None:
    """Return $PREFECT_API_URL, the API of a team's server.

    Call this function before `apply`, which sets the same variable to our own server.
    """
    given = os.environ.get("PREFECT_API_URL")
    return given.rstrip("/") if given else None


def own_api_port() -> int | None:
    """Return the port of this user's own Prefect server; None if this process uses a team's server.

    The environment of the server's child processes contains the port.
    """
    given = os.environ.get("PREFECT_SERVER_API_PORT")
    return int(given) if given else None


def credentials() -> dict[str, str]:
    """Return the authorization headers that Prefect's client would send with this environment."""
    if given := os.environ.get("PREFECT_API_AUTH_STRING"):
        return authorization(given)
    if given := os.environ.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {given}"}
    return {}


def authorization(secret: str) -> dict[str, str]:
    """Return the headers that log in to a server; `secret` is `user:password`."""
    return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}


def server_login() -> str:
    """Return the `user:password` that this Prefect server requires."""
    return os.environ[_SERVER_LOGIN]


def pages_path_variable(path: str) -> dict[str, str]:
    """Return the environment variable that gives the server of reports and dashboards its path prefix."""
    return {_PAGES_PATH: path}


def pages_path() -> str:
    """Return this server's path prefix, which `pages_path_variable` sets."""
    return os.environ[_PAGES_PATH]


def is_shared() -> bool:
    """Return True if other workspaces may use the same Prefect database.

    That is so for a team's server and for a database that the user has configured. Call this function before
    `apply`, which configures our own server.
    """
    names = ("API_URL", "API_DATABASE_CONNECTION_URL", "SERVER_DATABASE_CONNECTION_URL")
    return any(os.environ.get(f"PREFECT_{name}") for name in names)


def flow_run_variables(workspace: Path, suffix: str) -> dict[str, str]:
    """Return the variables of a flow run's process; they name its workspace and mark it as trusted."""
    named = {"CURRICULUM_SUFFIX": suffix} if suffix else {}
    return {"CURRICULUM_HOME": str(workspace), "CURRICULUM_TRUST": str(workspace), **named}


def _number(name: str, kind: type[Number], cure: str) -> Number | None:
    """Return the positive number in the environment variable `name`; None if the variable isn't set."""
    given = os.environ.get(name)
    if not given:
        return None
    try:
        number = kind(given)
    except ValueError:
        number = kind(-1)
    if not (math.isfinite(number) and number > 0):
        raise SettingError(f"${name}", given, cause="not a positive number", cure=cure)
    return number


def apply(variables: dict[str, str]) -> None:
    """Set environment variables for this process and its children.

    Call this function before Prefect is imported, because Prefect reads the variables then.
    """
    os.environ.update(variables)


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment of a child process with additional variables."""
    return {**os.environ, **variables}


def external_environment() -> dict[str, str]:
    """Return the environment for external commands, from which the credentials of our server are removed."""
    given = {name: value for name, value in os.environ.items() if name not in _OURS}
    return without_blanks(given)


def leave_no_secrets(scratch: str) -> None:
    """Remove all environment variables that reading a workspace doesn't need, and set TMPDIR to `scratch`.

    The other variables may contain secrets.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _HARMLESS or name.startswith(_HARMLESS_STEMS)
    }
    os.environ.clear()
    os.environ.update(kept | {"TMPDIR": scratch})


def wait_passively() -> None:
    """Make OpenMP threads sleep while they wait; call this function before torch is imported.

    By default they spin, which slows small models down by a factor of 40 if other processes use the same
    cores.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def prefect_folder(workspace: Path) -> Path:
    """Create the folder for Prefect's database, settings and logs of a workspace, and return its path.

    The folder is in the user's state folder, not in the workspace. Prefect runs the schedules in its
    database, and a workspace may come from somebody else.

    Raises:
        StoreError: if the workspace doesn't exist or its workspace.json can't be read.
    """
    return _folder_for(workspace, "prefect")


def reports_folder(workspace: Path) -> Path:
    """Create the folder for reports of a read-only workspace in the user's state folder, and return its path.

    Raises:
        StoreError: if the workspace doesn't exist or its workspace.json can't be read.
    """
    return _folder_for(workspace, "reports")


def _folder_for(workspace: Path, kind: str) -> Path:
    """Create a folder for a workspace in the user's state folder, and return its path.

    A copied or moved workspace gets another folder than the original.
    """
    from curriculum.store import Store

    # The sender chose the uuid, and paths are reused, so the name contains both.
    identity = os.fsencode(workspace) + b"\0" + Store(workspace).workspace().uuid.encode()
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", workspace.name)[:NAME_LENGTH]
    digest = hashlib.sha256(identity).hexdigest()[:DIGEST_LENGTH]
    return own_folder(own_folder(state_folder() / kind) / f"{name}-{digest}")


def pages_folder(workspace: Path) -> Path:
    """Return the folder for our copy of Prefect's pages, which restricts the requests of the pages."""
    return prefect_folder(workspace) / "pages"


def known_api(workspace: Path) -> str | None:
    """Return the address of a running Prefect API (a team's, or that of `curriculum serve`), or None."""
    if given := os.environ.get("PREFECT_API_URL"):
        return given
    address = served_at(workspace)
    return f"{address}/api" if address else None


def serve_lock(workspace: Path) -> "filelock.FileLock":
    """Return the lock that `curriculum serve` holds while it runs."""
    import filelock

    return filelock.FileLock(prefect_folder(workspace) / "serve.lock")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedAddresses:
    """Addresses of a running `curriculum serve`, and the login for programs of the user who started it."""

    address: str
    """Address of Prefect's server: the team's, or our own."""
    secret: str
    """`user:password` of our own server; empty for a team's."""
    pages: str
    """Address of reports and dashboards, without the secret path."""
    login: str
    """Address that logs a browser in."""

    def write(self, workspace: Path) -> None:
        """Write the addresses to a file that only its owner can read; the file is replaced atomically."""
        write_secret(served_file(workspace), json.dumps(asdict(self), indent=1))


def write_secret(file: Path, text: str) -> None:
    """Write a file atomically, readable for its owner only."""

    def write(draft: Path) -> None:
        draft.touch(mode=0o600)
        draft.write_text(text)

    replace_whole(file, write)


def served_file(workspace: Path) -> Path:
    """Return the file with the addresses and logins of `curriculum serve`."""
    return prefect_folder(workspace) / "serve.json"


def pages_variables(workspace: Path, folder: Path) -> dict[str, str]:
    """Return the variables for the server of a workspace's pages; marimo's own files go to `folder`."""
    kinds = ("CONFIG", "STATE", "CACHE", "DATA")
    return {
        "CURRICULUM_HOME": str(workspace),
        "CURRICULUM_STATE": str(state_folder()),
        "DO_NOT_TRACK": "1",
        **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in kinds},
    }


def pages_at(workspace: Path) -> str:
    """Return the address of the workspace's pages; the default address if no server serves them."""
    found = served(workspace)
    return found.pages if found else f"http://{HOST}:{PAGES_PORT}"


def reports_at(workspace: Path) -> str:
    """Return the address of the workspace's reports; the default address if no server serves them."""
    return f"{pages_at(workspace)}/reports"


def served_at(workspace: Path) -> str | None:
    """Return the address of the Prefect server that serves this workspace, or None."""
    found = served(workspace)
    return found.address if found else None


def served_secret(workspace: Path) -> str:
    """Return the `user:password` of the Prefect server that serves this workspace; empty without a server."""
    found = served(workspace)
    return found.secret if found else ""


def server_of(workspace: Path) -> "Server | None":
    """Return the Prefect server that serves this workspace, with its login headers; None without a server.

    If it is a team's server, the headers come from the environment. They are included only if the address is
    that of $PREFECT_API_URL.
    """
    from dashboards.workspace import Server

    found = served(workspace)
    if found is None:
        return None
    known = {}
    if found.secret:
        known = authorization(found.secret)
    elif team_api() == f"{found.address}/api":
        known = credentials()
    return Server(address=found.address, headers=tuple(known.items()))


def served(workspace: Path) -> ServedAddresses | None:
    """Return the addresses of this workspace's running `curriculum serve`, or None."""
    if not (workspace / "workspace.json").is_file():
        return None
    try:
        # The file may be removed at any moment.
        found = ServedAddresses(**json.loads(served_file(workspace).read_text()))
    except FileNotFoundError:
        return None
    import filelock

    try:
        # Another process that checks the lock holds it for a moment.
        serve_lock(workspace).acquire(timeout=0.05, poll_interval=0.01).lock.release()
    except filelock.Timeout:
        return found
    return None
