"""The status of phases as a table, current/status.parquet."""

import functools
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.pipeline.attempts import attempt_state
from curriculum.pipeline.context import Resources
from curriculum.pipeline.gates import APPROVALS_FOLDER
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import PhaseStatus, StatusInputs
from curriculum.store import Store
from curriculum.store.inside import WORKSPACE_NAME
from curriculum.whole_files import replace_whole
from schemas import regular_files
from schemas.errors import CurriculumError
from schemas.manifest import MANIFEST_NAME
from schemas.phase_status import DIGEST, STATUS_NAME, STATUS_SCHEMA
from schemas.specialist import format_reference

FOLDER = "current"


def write_status(inputs: StatusInputs, statuses: Iterable[PhaseStatus]) -> None:
    """Write the status of a workspace to current/status.parquet, with the digest of its inputs.

    If catalog.sql doesn't read status.parquet yet, catalog.sql is rewritten. Nothing is written in a folder
    without workspace.json.

    Raises:
        OSError: if the workspace can't be written.
    """
    root = inputs.store.root
    if not (root / WORKSPACE_NAME).is_file():
        return
    table = _table(inputs.store, statuses, _digest(inputs))
    (root / FOLDER).mkdir(exist_ok=True)
    write = functools.partial(pq.write_table, table, write_page_checksum=True)
    replace_whole(root / FOLDER / STATUS_NAME, write)
    script = root / "catalog.sql"
    is_there = regular_files.status(script) is not None
    if not is_there or STATUS_NAME.encode() not in regular_files.read(script):
        # Deferred, because most calls don't need DuckDB.
        from curriculum import catalog

        catalog.publish(root)


def record_status(home: Path, resources: Resources, warn: Callable[[str], None]) -> None:
    """Write the status of a workspace, and catalog.sql. If this fails, only warn."""
    # Deferred, because `status` imports this module and doesn't need DuckDB.
    from curriculum import catalog

    try:
        inputs = StatusInputs.read(Store(home, dry=True), resources)
        write_status(inputs, inputs.phase_statuses())
        # If a command is killed between a mark and its catalog, its repetition marks nothing new.
        catalog.publish(home)
    except (CurriculumError, OSError) as failed:
        warn(f"could not write the status of {home}: {failed}")


def current_status(home: Path, resources: Resources) -> pa.Table | None:
    """Compute the status of a workspace as a table; None if current/status.parquet is up to date.

    Raises:
        CurriculumError: if an artefact doesn't match its manifest.
    """
    inputs = StatusInputs.read(Store(home, dry=True), resources)
    digest = _digest(inputs)
    try:
        metadata = parquet.read_schema(home / FOLDER / STATUS_NAME).metadata or {}
    except (OSError, CurriculumError, pa.ArrowException):
        metadata = {}  # The status is computed again; the catalog reports the fault.
    if metadata.get(DIGEST, b"").decode(errors="replace") == digest:
        return None
    return _table(inputs.store, inputs.phase_statuses(), digest)


def _table(store: Store, statuses: Iterable[PhaseStatus], digest: str) -> pa.Table:
    lines = [
        {
            "specialist": format_reference(status.ref),
            "phase": status.phase,
            "state": status.state,
            "why": status.why,
            "key": status.key or None,
            "attempt": None if status.attempt is None else str(status.attempt),
            "path": status.run.relative_to(store.root).as_posix() if status.run else None,
        }
        for status in statuses
    ]
    # For a list of values, Arrow would import pandas if it is installed.
    table = pl.DataFrame(lines, schema=dict.fromkeys(STATUS_SCHEMA.names, pl.String)).to_arrow()
    return table.cast(STATUS_SCHEMA).replace_schema_metadata({DIGEST: digest})


def _digest(inputs: StatusInputs) -> str:
    """Return a digest of the manifests, marks, approvals, open attempts and plans of a workspace."""
    store, hashed = inputs.store, hashlib.sha256(repr(STATUS_SCHEMA.names).encode())
    for artefact in store.artefacts():
        manifest = artefact.manifest
        hashed.update(repr((str(artefact.path), manifest.key, manifest.content)).encode())
    for pattern in ("current/*.txt", f"{APPROVALS_FOLDER}/*.json"):
        for file in sorted(store.root.glob(pattern)):
            hashed.update(repr((file.name, regular_files.read(file))).encode())
    for attempt in inputs.attempts:
        if not (attempt.path / MANIFEST_NAME).is_file():
            found = attempt_state(store, attempt, inputs.queue)
            hashed.update(repr((str(attempt.path), found.state, found.why)).encode())
    for ref, plan in inputs.plans.items():
        text = str(plan) if isinstance(plan, CurriculumError) else _plan_text(plan)
        hashed.update(repr((tuple(ref), text)).encode())
    return hashed.hexdigest()


def _plan_text(plan: RunPlan) -> str:
    """Return a text of everything that a plan depends on; it is the same in every process."""
    corpus = plan.corpus.model_dump_json()
    specs = [(name, spec.model_dump_json()) for name, spec in plan.specs.items()]
    file = Path(plan.corpus.domains)
    domains = regular_files.read(file, follow_links=True) if file.is_file() else file
    own = (plan.diet.model_dump_json(), corpus, domains, specs, sorted(plan.imported.items()))
    return repr((plan.config.model_dump_json(), plan.overrides, *own))
