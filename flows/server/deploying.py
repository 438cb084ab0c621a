"""The deployments as `serve` sees them: made by a process of their own, again when a choice is added."""

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.train.processes import dying_with_parent
from flows import settings
from flows.server.children import ServeError

FOLDERS = ("diets", "corpora", "phases")
"""Folders of a workspace whose files are choices in the forms."""
BRANCHES = "*/specialist=*/branch=*"
"""Folders of a workspace whose branches are choices in the forms."""
PATIENCE_S = 300.0

State = tuple[tuple[str, str], ...]
"""Paths, and the digests of what the files hold."""


@dataclass(kw_only=True, slots=True)
class Choices:
    """The files that forms choose from, and whether they changed since they were last looked at."""

    workspace: Path
    deployed: State = ()
    seen: State = ()

    def settled(self) -> bool:
        """Return True if they changed and then stayed as they are for the time between two calls."""
        before, self.seen = self.seen, self._look()
        if self.seen == self.deployed or self.seen != before:
            return False
        self.deployed = self.seen
        return True

    def take(self) -> None:
        """Remember them as they are: the deployments that are made next know them."""
        self.seen = self.deployed = self._look()

    def _look(self) -> State:
        found = [(str(each), "") for each in sorted(self.workspace.glob(BRANCHES))]
        for folder in FOLDERS:
            for file in sorted((self.workspace / folder).glob("*.y*ml")):
                # An editor that saves may have taken it away for a moment.
                with contextlib.suppress(FileNotFoundError):
                    found.append((str(file), hashlib.sha256(file.read_bytes()).hexdigest()))
        return tuple(found)


def deploy(workspace: Path, *, shared: bool, idle: Sequence[str] = ()) -> str:
    """Make or renew the deployments; the end of their names.

    Raises:
        ServeError: with the last words of the process, whose output is in the log.
    """
    log = settings.prefect_folder(workspace) / "deployments.log"
    flags = [*(["--shared"] if shared else []), *(["--idle", *idle] if idle else [])]
    try:
        with log.open("wb") as errors:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "flows.deployments", *flags],
                cwd=log.parent,
                env=settings.environment({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                timeout=PATIENCE_S,
                text=True,
                check=True,
                preexec_fn=dying_with_parent(),
            )
    except subprocess.SubprocessError as failed:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise ServeError(
            "deployments",
            str(failed).rpartition("' ")[2],
            cause="".join(last) or "it said nothing",
            cure=f"Its log is {log}",
        ) from None
    return done.stdout.splitlines()[-1] if done.stdout.strip() else ""
