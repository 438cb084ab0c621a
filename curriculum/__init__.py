"""A library that makes each artefact from the one before, with no orchestrator in sight."""

import os


def _keep_folders_from_other_users() -> None:
    """Name folders of torch and polars before they name ones themselves, as they do early.

    Their own are folders of /tmp and /var/tmp that whoever comes first owns: torch runs the kernels that lie
    there, and polars deletes what it takes for its own of the past, behind links too. Where the user has no
    home that can be written, nobody else can guess the folders' name, and processes that are started from
    here share it. Nothing is made or written here: sandboxed processes come by, too.
    """
    home = os.environ.get("HOME", "")
    unguessable = f"{os.environ.get('TMPDIR', '/tmp')}/{os.urandom(16).hex()}"
    place = f"{home}/.cache" if os.access(home, os.W_OK) else unguessable
    kernels = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"{place}/torchinductor"
    spilled = os.environ.get("POLARS_OOC_SPILL_DIR") or f"{place}/polars-spill"
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": kernels, "POLARS_OOC_SPILL_DIR": spilled}


_keep_folders_from_other_users()
