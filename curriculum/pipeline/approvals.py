"""Approvals of runs whose gates ask for one: approvals/<run key12>-<attempt>.json."""

import datetime
import os
import pwd
from pathlib import Path

from curriculum.inspection.runs import report_of
from curriculum.store import Artefact, Store
from curriculum.store.recipe import KEY_DIGITS
from curriculum.train.run_directory import write_text
from schemas.errors import StoreError
from schemas.json_text import read_json
from schemas.phase_status import Approval

APPROVALS_FOLDER = "approvals"


def find_approval(store: Store, run: Artefact) -> Approval | None:
    """The approval of a finished run: of these weights, so not of another attempt or what was there before.

    Raises:
        StoreError: for a file that is no approval.
    """
    file = approval_file(store, run)
    if not file.is_file():
        return None
    said = read_approval(file)
    same = (said.run_key, said.attempt, said.content)
    return said if same == (run.key, report_of(run).attempt, run.content) else None


def read_approval(file: Path) -> Approval:
    """The approval in a file.

    Raises:
        StoreError: for a file that is none.
    """
    return read_json(
        Approval,
        file,
        error=StoreError,
        cause="it is no approval",
        cure="Delete it, look at the run, and approve again",
    )


def write_approval(store: Store, run: Artefact, *, who: str, comment: str = "") -> Approval:
    """Approve a finished run; what was said of it before is replaced."""
    report = report_of(run)
    said = Approval(
        run_key=run.key,
        attempt=report.attempt,
        content=run.content,
        specialist=run.manifest.labels["specialist"],
        branch=run.manifest.labels.get("branch"),
        phase=report.phase,
        who=who,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        comment=comment,
    )
    file = approval_file(store, run)
    file.parent.mkdir(exist_ok=True)
    write_text(file, said.model_dump_json(indent=1))
    return said


def approval_file(store: Store, run: Artefact) -> Path:
    """Return the file of a run's approval, be it there or not."""
    return store.root / APPROVALS_FOLDER / f"{run.key[:KEY_DIGITS]}-{report_of(run).attempt}.json"


def approval_ticket(store: Store, run: Artefact) -> str:
    """Return an id of a run that waits for approval, unique among all workspaces of a server."""
    attempt = report_of(run).attempt
    return f"{store.workspace().uuid}-{run.key[:KEY_DIGITS]}-{attempt}-{run.content[:KEY_DIGITS]}"


def user_name() -> str:
    """Return the name of the user of this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
