"""A library that makes each artefact from the one before, with no orchestrator in sight."""

import os


def _keep_kernels_from_other_users() -> None:
    """Name the folder of torch's kernels before torch names one itself, as it does for the first optimizer.

    torch's own is a folder of /tmp that whoever comes first owns, and what lies in it is run. Where the user
    has no home that can be written, nobody else can guess the folder's name, and processes that are started
    from here share it. Nothing is made or written here: sandboxed processes come by, too.
    """
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return
    home = os.environ.get("HOME", "")
    unguessable = f"{os.environ.get('TMPDIR', '/tmp')}/{os.urandom(16).hex()}"
    place = f"{home}/.cache" if os.access(home, os.W_OK) else unguessable
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{place}/torchinductor"


_keep_kernels_from_other_users()
