"""Permissions of worker processes that parse text of repositories: the sandbox of a build."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from curriculum.sandbox import SYSTEM_CODE, Sandbox, code_paths, landlock
from curriculum.stages.documents import Repository
from curriculum.store import Store
from schemas.corpus import CorpusSpec
from schemas.regular_files import expanded

MAX_SHARD_BYTES = 1 << 40
"""Maximum size in bytes of a file that a worker writes."""
_OPEN = (".drafts", ".locks", ".trash", "leases")
"""Folders of a workspace that a process needs to write to when it publishes artefacts."""
_ZONES = "/usr/share/zoneinfo"


def worker_rights(
    store: Store, corpus: CorpusSpec, repositories: Iterable[Repository], folders: Sequence[str]
) -> Sandbox | None:
    """Return the sandbox of a build's workers; None if the kernel can't sandbox them.

    Workers may read code, the workspace, the repositories and the conversations. They may write artefacts
    of the stages `folders`, but neither diets nor runs. They may start git and other system programs, which
    stay in the sandbox.
    """
    if not landlock():
        return None
    read = [*code_paths(), _ZONES, str(store.root)]
    for repository in repositories:
        layout = repository.source.layout
        places = (repository.source.path,) if layout is None else (layout.head, layout.common)
        read += map(str, places)
    read += [str(expanded(source.path)) for source in corpus.conversations]
    return Sandbox(
        read=tuple(read),
        write=tuple(str(store.root / name) for name in (*_OPEN, *folders)),
        run=(
            *SYSTEM_CODE,
            "/usr/libexec",
            *os.get_exec_path(),
            str(Path(sys.executable).resolve()),
        ),
        file_bytes=MAX_SHARD_BYTES,
    )
