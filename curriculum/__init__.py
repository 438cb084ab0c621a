"""Library that builds each artefact from its predecessors, independent of any orchestrator."""

import os
from pathlib import Path

from curriculum import exposure


def _keep_folders_from_other_users() -> None:
    """Set safe cache folders for torch and polars before these libraries choose their own.

    Their default folders in /tmp and /var/tmp belong to the user who creates them first. torch runs kernels
    that it finds there, and polars deletes supposed leftovers there, even behind links. A home can be
    shared as well, since services and containers set HOME=/tmp. If the user's home has no safe folder, the
    folder gets a random name that nobody else can guess; child processes use the same one. Nothing is
    created here, because sandboxed processes import this module, too.

    torch keeps precompiled headers and planner results below /tmp regardless of its cache folder, and
    compiles headers that it finds there into each kernel. Both are turned off.
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
    """Return a cache folder in an existing home; None unless only this user can create and change it."""
    folder = Path(home) / ".cache" / name
    if not (folder.is_absolute() and os.access(home, os.W_OK)):
        return None
    real, led_by_others = exposure.led_path(folder)
    there = next(place for place in (real, *real.parents) if os.access(place, os.F_OK))
    is_safe = os.access(there, os.W_OK) and not led_by_others and exposure.exposure(real) is None
    return str(folder) if is_safe else None


_keep_folders_from_other_users()
