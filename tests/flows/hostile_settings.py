"""Settings and modules that Prefect and Python would take from a folder of somebody else's."""

from pathlib import Path

PAYLOAD = "import pathlib; pathlib.Path({sentinel!r}).touch()\n"
THEIRS = "laid there by the sender\n"
LOGGING = """\
version: 1
disable_existing_loggers: false
formatters: {{run: {{"()": os.system, command: "touch {sentinel}"}}}}
"""
KEPT = (
    "serve.json",
    "serve.lock",
    "server.log",
    "worker-cpu.log",
    "memo_store.toml",
)
MODULES = ("sitecustomize", "prefect", "torch", "flows", "curriculum", "multiprocessing", "uvicorn")


def plant_settings(home: Path, sentinel: Path) -> None:
    """Lay down all that Prefect and Python take from a folder of theirs; links are refused before."""
    folder = home / "prefect"
    folder.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        (folder / name).write_text(THEIRS)
    (folder / "prefect.db").write_bytes(b"a database")
    hostile = folder / "logging.yml"
    hostile.write_text(LOGGING.format(sentinel=sentinel))
    setting = f"PREFECT_LOGGING_SETTINGS_PATH = '{hostile}'\n"
    (folder / "profiles.toml").write_text(f"active = 'x'\n[profiles.x]\n{setting}")
    url = "sqlite+aiosqlite:///elsewhere.db"
    (home / ".env").write_text(
        f"PREFECT_LOGGING_SETTINGS_PATH={hostile}\nPREFECT_SERVER_DATABASE_CONNECTION_URL={url}\n"
    )
    nested = f"settings_path = '{hostile}'\n"
    (home / "prefect.toml").write_text(f"[logging]\n{nested}")
    (home / "pyproject.toml").write_text(f"[tool.prefect.logging]\n{nested}")
    for name in MODULES:
        (home / f"{name}.py").write_text(PAYLOAD.format(sentinel=str(sentinel)))
