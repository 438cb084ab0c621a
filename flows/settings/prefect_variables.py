"""Variables that Prefect is started with: by a server of one's own, beside it, or on a team's."""

import contextlib
import importlib.util
from pathlib import Path

from flows import settings

WORKING = {
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    # They get a cancellation at once, but after the death of a server they have to poll.
    "PREFECT_WORKER_CANCELLATION_POLL_SECONDS": "3",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
}
"""The seconds after which workers ask for work, and report that they live."""
SILENT = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


def quiet(workspace: Path) -> dict[str, str]:
    """Prefect of one workspace: nothing shared with other workspaces, nothing sent to anyone.

    Files that it takes settings from are named: by itself it looks for them in the current directory too.
    """
    folder = settings.prefect_folder(workspace)
    return {
        "CURRICULUM_HOME": str(workspace),
        "CURRICULUM_STATE": str(settings.state_folder()),
        "DO_NOT_TRACK": "1",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PREFECT_HOME": str(folder),
        "PREFECT_LOGGING_SETTINGS_PATH": str(_packaged("logging/logging.yml")),
        "PREFECT_PROFILES_PATH": str(folder / "profiles.toml"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_API_HOST": settings.HOST,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    }


def _packaged(name: str) -> Path:
    """Find a file of the installed Prefect, which isn't imported for it."""
    found = importlib.util.find_spec("prefect")
    assert found is not None, "it is a dependency"
    assert found.origin is not None
    return Path(found.origin).parent / name


def served(workspace: Path, port: int, secret: str) -> dict[str, str]:
    """Prefect with a server of its own on a port, which asks programs and pages for a secret.

    The page takes the address of the API from PREFECT_API_URL, not from the server's own port.
    """
    origin = f"http://{settings.HOST}:{port}"
    return {
        **quiet(workspace),
        **admitted(secret),
        "PREFECT_API_URL": f"{origin}/api",
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origin,
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(settings.pages_folder(workspace)),
        **WORKING,
    }


def admitted(secret: str) -> dict[str, str]:
    """Prefect's programs that log in to a server by its secret."""
    return {"PREFECT_API_AUTH_STRING": secret}


def joined(workspace: Path, api: str) -> dict[str, str]:
    """Prefect for workers and deployments on a team's server; its secret is in the environment."""
    return {**quiet(workspace), "PREFECT_API_URL": api, **WORKING}


def unseen(workspace: Path, port: int, secret: str) -> dict[str, str]:
    """Prefect with a short-lived server of its own: no pages, and the terminal is left to us."""
    return {
        **served(workspace, port, secret),
        **SILENT,
        # It ends before the last lines would be sent, and Prefect would try for a minute.
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
    }


def attached(workspace: Path, api: str) -> dict[str, str]:
    """Prefect with a server that runs already: a team's, or that of `curriculum serve`."""
    known = {} if settings.team_api() else admitted(settings.served_secret(workspace))
    return {**quiet(workspace), **known, **SILENT, **WORKING, "PREFECT_API_URL": api}


def unset(workspace: Path) -> contextlib.AbstractContextManager[None]:
    """Be where no file changes Prefect's settings, while it is imported and reads them.

    By itself it takes some from .env, prefect.toml and pyproject.toml in the current directory.
    """
    return contextlib.chdir(settings.prefect_folder(workspace))
