"""`curriculum lineage`: what a step of a run read, down to commits; and which steps read a commit."""

import re
from pathlib import Path

from curriculum.inspection.lineage import LineageCatalog, LineageError, Readers, ReadUntil, StepRead
from curriculum.pipeline.attempts import STEP, Begun
from curriculum.pipeline.references import is_run, run_of, store_of
from schemas.errors import JobError

SHORTEST = 6
"""Digits of a commit's id that may stand for it."""
_PACK = re.compile(r"[0-9a-f]{12}-\d{10}")
_DOCUMENT = re.compile(r"[0-9a-f]{32}")
_HEX = re.compile(rf"[0-9a-f]{{{SHORTEST},64}}")


def read_by(home: Path, what: str, step: int) -> StepRead:
    """What a step of a run read; the run by path, name or the first digits of its key.

    Raises:
        JobError: for a run that isn't there, and a step that it hasn't taken.
        LineageError: where the plan or the rows of the run aren't there any more.
    """
    store = store_of(home, what)
    begun = run_of(store, what, name="the run")
    catalog = LineageCatalog(store)
    steps = catalog.steps_of(begun.path)
    if not 1 <= step <= steps:
        raise JobError(
            f"--step of {begun.name}",
            step,
            cause=f"it has taken {steps:,} steps" if steps else "it has taken no step yet",
            cure=f"Give one from 1 to {steps}" if steps else "Wait for its first",
        )
    rows = catalog.consumed(begun.path, step)
    if not rows:
        raise LineageError(
            begun.name,
            cause="nothing in use refers to it any more, so its plan isn't looked at",
            cure="Name a run that stands: curriculum status",
        )
    return StepRead(
        run=begun.name,
        run_key=begun.job.run_key,
        attempt=begun.job.attempt,
        step=step,
        steps=steps,
        rows=rows,
    )


def readers_or_read(home: Path, what: str) -> Readers | ReadUntil:
    """The steps that read a commit, document, row or file; of a run or checkpoint all that it read.

    Raises:
        LineageError, StoreError, JobError: for what is none of these, and what several begin with.
    """
    store = store_of(home, what)
    catalog = LineageCatalog(store)
    path = Path(what).absolute()
    if path.is_dir() and path.name.startswith(STEP):
        begun = Begun.at(path.parents[1])
        return _read_until(catalog, begun, int(path.name.removeprefix(STEP)))
    if _PACK.fullmatch(what):
        return catalog.readers("row", what, "FROM consumers_of_row(?)")
    if _DOCUMENT.fullmatch(what):
        return catalog.readers("document", what, "FROM consumers_of_document(?)")
    if _HEX.fullmatch(what) and (commit := catalog.commit(what)):
        return catalog.readers("commit", commit, "FROM consumers(?)")
    if path.is_dir() or is_run(store, what):
        begun = run_of(store, what, name="the run")
        return _read_until(catalog, begun, catalog.steps_of(begun.path))
    return catalog.readers("file", what, "FROM consumers_of_file(?)")


def _read_until(catalog: LineageCatalog, begun: Begun, step: int) -> ReadUntil:
    return catalog.read_until(begun.path, step, name=begun.name, run_key=begun.job.run_key)
