"""A library that makes each artefact from the one before, with no orchestrator in sight."""

import os
from pathlib import Path

from curriculum import exposure


def _keep_folders_from_other_users() -> None:
    """Name folders of torch and polars before they name ones themselves, as they do early.

    Their own are folders of /tmp and /var/tmp that whoever comes first owns: torch runs the kernels that lie
    there, and polars deletes what it takes for its own of the past, behind links too. A home can be such a
    folder as well: services and containers set HOME=/tmp. Where no folder of the user's home is safe, nobody
    else can guess the folders' name, and processes that are started from here share it. Nothing is made or
    written here: sandboxed processes come by, too.

    torch keeps precompiled headers and answers of its planner below /tmp whatever its cache is named, and
    compiles what it finds there into each kernel; both are off.
    """
    home = os.environ.get("HOME", "")
    unguessable = f"{os.environ.get('TMPDIR', '/tmp')}/{os.urandom(16).hex()}"
    kernels = _own_folder(home, "torchinductor") or f"{unguessable}/torchinductor"
    spilled = _own_folder(home, "polars-spill") or f"{unguessable}/polars-spill"
    os.environ |= {
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR") or kernels,
        "POLARS_OOC_SPILL_DIR": os.environ.get("POLARS_OOC_SPILL_DIR") or spilled,
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "TORCHINDUCTOR_ENABLE_CACHING_MODULE": "0",
    }


def _own_folder(home: str, name: str) -> str | None:
    """Return a folder for caches in an existing home if this user can make it and no other can change it."""
    folder = Path(home) / ".cache" / name
    if not (folder.is_absolute() and os.access(home, os.W_OK)):
        return None
    real, led_by_others = exposure.led_path(folder)
    there = next(place for place in (real, *real.parents) if os.access(place, os.F_OK))
    is_safe = os.access(there, os.W_OK) and not led_by_others and exposure.exposure(real) is None
    return str(folder) if is_safe else None


_keep_folders_from_other_users()
