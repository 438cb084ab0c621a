"""Environment variables that configure Prefect for our own server, its clients, or a team's server."""

import contextlib
import importlib.util
from pathlib import Path

from flows import settings

WORKING = {
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    # Workers get a cancellation at once, but have to poll after the death of a server.
    "PREFECT_WORKER_CANCELLATION_POLL_SECONDS": "3",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
}
"""Seconds between a worker's polls for runs, and between its heartbeats."""
SILENT = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


def isolated(workspace: Path) -> dict[str, str]:
    """Return variables that isolate Prefect: it shares nothing with other workspaces and reports nothing.

    All settings files are named, since Prefect would otherwise look for them in the current directory too.
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
    """Return the path of a file of the installed Prefect; Prefect itself isn't imported."""
    found = importlib.util.find_spec("prefect")
    assert found is not None, "it is a dependency"
    assert found.origin is not None
    return Path(found.origin).parent / name


def own_server(workspace: Path, port: int, secret: str) -> dict[str, str]:
    """Return variables for a Prefect server of our own at `port`, which requires a login.

    Prefect's pages find the API at PREFECT_API_URL, so that variable must contain the port too.
    """
    origin = f"http://{settings.HOST}:{port}"
    return {
        **isolated(workspace),
        **login(secret),
        "PREFECT_API_URL": f"{origin}/api",
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origin,
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(settings.pages_folder(workspace)),
        **WORKING,
    }


def login(secret: str) -> dict[str, str]:
    """Return variables with which Prefect clients log in to a server; `secret` is `user:password`."""
    return {"PREFECT_API_AUTH_STRING": secret}


def team_server(workspace: Path, api: str) -> dict[str, str]:
    """Return variables for workers and deployments on a team's server.

    The secret of the team's server isn't among them, since the environment contains it already.
    """
    return {**isolated(workspace), "PREFECT_API_URL": api, **WORKING}


def temporary_server(workspace: Path, port: int, secret: str) -> dict[str, str]:
    """Return variables for a temporary Prefect server without pages and terminal output."""
    return {
        **own_server(workspace, port, secret),
        **SILENT,
        # The server ends before the last log lines are sent, and Prefect would retry for a minute.
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
    }


def running_server(workspace: Path, api: str) -> dict[str, str]:
    """Return variables for clients of a running server: a team's server, or that of `curriculum serve`."""
    known = {} if settings.team_api() else login(settings.served_secret(workspace))
    return {**isolated(workspace), **known, **SILENT, **WORKING, "PREFECT_API_URL": api}


def without_settings_files(workspace: Path) -> contextlib.AbstractContextManager[None]:
    """Change to a folder without settings files for the block, in which Prefect is imported.

    Prefect reads its settings when it is imported, also from .env, prefect.toml and pyproject.toml in the
    current directory.
    """
    return contextlib.chdir(settings.prefect_folder(workspace))
