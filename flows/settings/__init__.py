"""Settings: the environment, and the variables that we set for Prefect; read nowhere else in flows."""

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import shlex
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from curriculum.exposure import (
    claim,
    deny_others_writing,
    exposure_above,
    is_trusted_by_environment,
    led_path,
    real_path,
)
from curriculum.whole_files import replace_whole
from flows.settings.proxies import without_blanks
from schemas.errors import CurriculumError

if TYPE_CHECKING:
    # Most commands ask no server, and these import HTTP and locks.
    import filelock

    from dashboards.workspace import Server

Number = TypeVar("Number", int, float)

HOST = "127.0.0.1"
PORT = 4200
PAGES_PORT = PORT + 1
"""Port of reports and dashboards where `serve` has its own port."""
LOGIN_PATH = "/curriculum/"
"""Path of the page that logs a browser in to Prefect's pages."""
CPU, GPU = "cpu", "gpu"
"""The kinds of work pools."""
NAME_LENGTH, DIGEST_LENGTH = 40, 16
"""Parts of the name of a workspace's folder in the user's state folder."""
SAFE_PATH = "PYTHONSAFEPATH"
"""Python puts neither the current directory nor a script's on its path where it is set."""
NO_MATRICES = {"OPENBLAS_NUM_THREADS": "1"}
"""For commands that end in a moment: OpenBLAS, which numpy imports, else starts a thread a core, and each
spins for some 50 ms."""
_PAGES_PATH = "CURRICULUM_PAGES_PATH"
_SERVER_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
_OURS = (
    "PREFECT_API_AUTH_STRING",
    _SERVER_LOGIN,
    "PREFECT_CLIENT_CUSTOM_HEADERS",
    _PAGES_PATH,
    SAFE_PATH,
)
"""Variables of our own processes that no command of others gets."""
_HARMLESS = {
    *("HOME", "PATH", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS"),
    *("CURRICULUM_STATE", "CURRICULUM_GPU_PRICE", "CURRICULUM_GPU_SLOTS", "CURRICULUM_SLOTS"),
    "LINES",
}
_HARMLESS_STEMS = ("LC_", "PYTHON", "OMP_", "OPENBLAS_")
"""Variables that hold no secret, and how others of them begin."""
USER = "curriculum"
"""Name by which programs and pages log in to our own server."""


class SettingError(CurriculumError):
    """A variable of the environment is wrong."""


def home(given: Path | None = None) -> Path:
    """Return the real path of the workspace: what was given, else $CURRICULUM_HOME, else ./workspace.

    No other user may write to what this process makes from then on, unless $CURRICULUM_TRUST names the
    workspace: those who share it do.

    Raises:
        SettingError: as `workspace_path`, and where another user could replace temporary folders.
    """
    found = workspace_path(given)
    if not is_trusted_by_environment(found):
        deny_others_writing()
        _require_own_temporary_folders()
    return found


def _require_own_temporary_folders() -> None:
    """Raise where another user could rename what is made in $TMPDIR, as in a folder without sticky bit."""
    folder = real_path(Path(tempfile.gettempdir()))
    if (cause := exposure_above(folder / "made")) is not None:
        raise SettingError(
            "$TMPDIR",
            folder,
            cause=f"{cause}: they could replace the temporary folders of a command",
            cure="Name a folder of your own, or make this one sticky: chmod +t",
        )


def workspace_path(given: Path | None = None) -> Path:
    """Return the real path of a workspace as `home` does, and change nothing about this process.

    Its links are followed here alone: leading them elsewhere later changes nothing.

    Raises:
        SettingError: for a file, for a link that leads nowhere, in a circle or where another user wants, and
            for a relative path in a current directory that was removed.
    """
    path = given or Path(os.environ.get("CURRICULUM_HOME", "workspace"))
    cause, cure = None, "Name the folder of a workspace, or a new one"
    try:
        place = path.absolute()
    except FileNotFoundError:
        gone = "the current directory was removed"
        raise SettingError(str(path), cause=gone, cure="Change to another directory") from None
    real, led = led_path(place)
    if real.exists():
        cause = None if real.is_dir() else "it is a file, and a workspace is a folder"
    elif any(folder.is_symlink() and not folder.exists() for folder in (place, *place.parents)):
        cause = "it is a link that leads nowhere, or in a circle"
    if cause is None and not is_trusted_by_environment(real):
        cause, cure = led, f"Name the folder itself: {real}"
    if cause is not None:
        raise SettingError(str(place), cause=cause, cure=cure)
    return real


def state_folder() -> Path:
    """The folder of what belongs to this user and to no workspace, for the owner only.

    $CURRICULUM_STATE, else curriculum below $XDG_STATE_HOME, else ~/.local/state/curriculum.

    Raises:
        SettingError: where the folder is a link, a file or somebody else's, or lies where another user could
            replace it.
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
            cause=f"{cause}: they could change what you trust",
            cure="Name a folder below one of your own, or make each folder named here yours alone (chown, "
            "chmod go-w, setfacl -k)",
        )
    return _own(real)


def _own(folder: Path) -> Path:
    """Make a folder for its owner only, unless it is there; what lies above is the owner's."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    there = folder.lstat()
    if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid():
        raise SettingError(
            "$CURRICULUM_STATE",
            folder,
            cause="it is a link, a file or belongs to another user",
            cure="Name a folder of your own",
        )
    folder.chmod(0o700)
    return folder


def notify_target() -> str | None:
    """$CURRICULUM_NOTIFY: a URL (posted to, or one of apprise), or a command that reads events."""
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


def slots_folder() -> Path | None:
    """$CURRICULUM_SLOTS: the folder of this machine's slots, by default each workspace's own.

    Workspaces whose jobs take turns on one machine name the same.

    Raises:
        SettingError: where another user can rename or remove the files of this user in the folder: a record
            that is put back would end a run.
    """
    if not (given := os.environ.get("CURRICULUM_SLOTS")):
        return None
    place = Path(given).absolute()
    real, led = led_path(place)
    if (cause := led or exposure_above(real / "record")) is not None:
        cure = "Name a folder of your own, or one of root with the sticky bit (chmod 1777)"
        raise SettingError("$CURRICULUM_SLOTS", place, cause=cause, cure=cure)
    return real


def rooted() -> dict[str, str]:
    """The variables whose relative paths would lead elsewhere where this process's children are.

    Raises:
        SettingError: where $CURRICULUM_NOTIFY names a file of the current directory as an argument.
    """
    target = notify_target()
    paths = {"CURRICULUM_SLOTS": slots_folder(), "CURRICULUM_SBATCH": sbatch_template()}
    found = {name: str(path) for name, path in paths.items() if path is not None}
    return found | ({"CURRICULUM_NOTIFY": _rooted(target)} if target else {})


def _rooted(target: str) -> str:
    """Make a program that is named by a path absolute; a URL stays, and so does what is no command."""
    # Help must be there at once, and what runs need is slow to import.
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
                cause="it is a file of the current directory, where the command won't run",
                cure=f"Give its whole path: {Path(argument).absolute()}",
            )
    if "/" in program:
        program = str(Path(program).absolute())
    return shlex.join([program, *arguments])


def sbatch_template() -> Path | None:
    """$CURRICULUM_SBATCH: the script for sbatch with which jobs are handed to Slurm."""
    given = os.environ.get("CURRICULUM_SBATCH")
    return Path(given).absolute() if given else None


def ray_address() -> str | None:
    """$CURRICULUM_RAY_ADDRESS: host and port of the Ray cluster whose workers build."""
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


def own_api_port() -> int | None:
    """The port of this user's own Prefect server, in the processes that it started; None of a team's."""
    given = os.environ.get("PREFECT_SERVER_API_PORT")
    return int(given) if given else None


def credentials() -> dict[str, str]:
    """The headers that a server wants of a program, as Prefect's own client sends them."""
    if given := os.environ.get("PREFECT_API_AUTH_STRING"):
        return authorization(given)
    if given := os.environ.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {given}"}
    return {}


def authorization(secret: str) -> dict[str, str]:
    """The headers of a program that logs in by `user:password`."""
    return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}


def server_login() -> str:
    """Return the `user:password` that the server of runs, which this process is, asks for."""
    return os.environ[_SERVER_LOGIN]


def at_path(path: str) -> dict[str, str]:
    """Return the variables of the server of reports and dashboards: the path below which they are shown."""
    return {_PAGES_PATH: path}


def pages_path() -> str:
    """The path of the server that this process is; `at_path` names it."""
    return os.environ[_PAGES_PATH]


def is_shared() -> bool:
    """Return True if other workspaces may be in the same database: a team's server, or one that is named.

    To be asked before `apply`, which names our own server.
    """
    names = ("API_URL", "API_DATABASE_CONNECTION_URL", "SERVER_DATABASE_CONNECTION_URL")
    return any(os.environ.get(f"PREFECT_{name}") for name in names)


def deployed(workspace: Path, suffix: str) -> dict[str, str]:
    """Return the variables of a flow run: the workspace that its deployment belongs to, and its trust."""
    named = {"CURRICULUM_SUFFIX": suffix} if suffix else {}
    return {"CURRICULUM_HOME": str(workspace), "CURRICULUM_TRUST": str(workspace), **named}


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


def outside() -> dict[str, str]:
    """The environment of a command that others wrote: without what lets a program into the server."""
    given = {name: value for name, value in os.environ.items() if name not in _OURS}
    return without_blanks(given)


def leave_no_secrets(scratch: str) -> None:
    """Clear the environment of this process but for what looking at a workspace needs."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _HARMLESS or name.startswith(_HARMLESS_STEMS)
    }
    os.environ.clear()
    os.environ.update(kept | {"TMPDIR": scratch})


def wait_passively() -> None:
    """Let threads of tensors sleep while they wait; before torch is imported, which reads this once.

    On cores that others use too, threads that spin make small models forty times slower.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def prefect_folder(workspace: Path) -> Path:
    """Make the folder of Prefect's database, settings and logs, for one workspace of one user.

    It lies outside of the workspace, which may come from somebody else: Prefect runs what its database has
    scheduled.

    Raises:
        StoreError: where there is no workspace, or its workspace.json can't be read.
    """
    return _folder_for(workspace, "prefect")


def reports_folder(workspace: Path) -> Path:
    """Make the folder of a user's reports of a workspace that can't be written.

    Raises:
        StoreError: where there is no workspace, or its workspace.json can't be read.
    """
    return _folder_for(workspace, "reports")


def _folder_for(workspace: Path, kind: str) -> Path:
    """Make a folder of a user for a workspace; one that was copied or moved has a folder of its own."""
    from curriculum.store import Store

    # Its sender chose the uuid, and a path may be used again: both belong to its name.
    identity = os.fsencode(workspace) + b"\0" + Store(workspace).workspace().uuid.encode()
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", workspace.name)[:NAME_LENGTH]
    digest = hashlib.sha256(identity).hexdigest()[:DIGEST_LENGTH]
    return _own(_own(state_folder() / kind) / f"{name}-{digest}")


def pages_folder(workspace: Path) -> Path:
    """The folder to which the server copies its pages, so that we can name the addresses they may ask."""
    return prefect_folder(workspace) / "pages"


def known_api(workspace: Path) -> str | None:
    """The API that is there already: a team's by PREFECT_API_URL, or the one of `curriculum serve`."""
    if given := os.environ.get("PREFECT_API_URL"):
        return given
    address = served_at(workspace)
    return f"{address}/api" if address else None


def serve_lock(workspace: Path) -> "filelock.FileLock":
    """Held by `curriculum serve` as long as it lives."""
    import filelock

    return filelock.FileLock(prefect_folder(workspace) / "serve.lock")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedAddresses:
    """Addresses of a running `curriculum serve`, and what its owner's programs log in by."""

    address: str
    """Prefect's server: the team's, or our own."""
    secret: str
    """`user:password` of our own server; empty for a team's."""
    pages: str
    """Reports and dashboards, without the path that lets a browser in."""
    login: str
    """Address that logs a browser in."""

    def write(self, workspace: Path) -> None:
        """Write all of it or nothing, for the owner only."""
        write_secret(served_file(workspace), json.dumps(asdict(self), indent=1))


def write_secret(file: Path, text: str) -> None:
    """Write a whole file or nothing, for its owner only."""

    def write(draft: Path) -> None:
        draft.touch(mode=0o600)
        draft.write_text(text)

    replace_whole(file, write)


def served_file(workspace: Path) -> Path:
    """The file of the addresses of `curriculum serve`, and of what browsers and programs log in by."""
    return prefect_folder(workspace) / "serve.json"


def shown(workspace: Path, folder: Path) -> dict[str, str]:
    """Pages of one workspace; what marimo keeps for itself lies in a folder of ours."""
    kinds = ("CONFIG", "STATE", "CACHE", "DATA")
    return {
        "CURRICULUM_HOME": str(workspace),
        "CURRICULUM_STATE": str(state_folder()),
        "DO_NOT_TRACK": "1",
        **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in kinds},
    }


def pages_at(workspace: Path) -> str:
    """The address of the workspace's pages; where it isn't served, that by default."""
    found = served(workspace)
    return found.pages if found else f"http://{HOST}:{PAGES_PORT}"


def reports_at(workspace: Path) -> str:
    """The address of the workspace's reports; where it isn't served, that by default."""
    return f"{pages_at(workspace)}/reports"


def served_at(workspace: Path) -> str | None:
    """The address of the Prefect server that serves this workspace now, if one does."""
    found = served(workspace)
    return found.address if found else None


def served_secret(workspace: Path) -> str:
    """The `user:password` of programs for the server that serves this workspace; empty where none does."""
    found = served(workspace)
    return found.secret if found else ""


def server_of(workspace: Path) -> "Server | None":
    """The server that serves this workspace now, if one does, and what it wants of a program.

    A team's gets the credentials of the environment, which are sent to no other address than that of
    $PREFECT_API_URL.
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
    """Return the addresses of the `curriculum serve` of this workspace; None where none runs now."""
    if not (workspace / "workspace.json").is_file():
        return None
    try:
        # The file may be removed at any moment.
        found = ServedAddresses(**json.loads(served_file(workspace).read_text()))
    except FileNotFoundError:
        return None
    import filelock

    try:
        # Who else asks holds it for a moment.
        serve_lock(workspace).acquire(timeout=0.05, poll_interval=0.01).lock.release()
    except filelock.Timeout:
        return found
    return None
