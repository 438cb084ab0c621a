"""Search of `curriculum lineage`: the rows of a step or run, and the readers of a commit."""

import re
from collections.abc import Sequence
from pathlib import Path

from curriculum.inspection.formats import number
from curriculum.inspection.lineage import (
    LineageCatalog,
    LineageError,
    MissingRows,
    Readers,
    ReadUntil,
    StepRead,
    missing_words,
)
from curriculum.mixing.load import diet_names
from curriculum.pipeline.attempts import STEP, Attempt, attempts_in, specialist_of
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.references import is_run, named, run_of, store_of
from curriculum.pipeline.run_config import command
from curriculum.store import Store
from schemas.errors import JobError
from schemas.study import study_mark

SHORTEST = 6
"""Digits of a commit's or document's id that may stand for it."""


_PACK = re.compile(r"[0-9a-f]{12}-\d{10}")


_DOCUMENT = re.compile(r"[0-9a-f]{32}")


_HEX = re.compile(rf"[0-9a-f]{{{SHORTEST},64}}")


def read_by(home: Path, what: str, step: int) -> StepRead:
    """Return the rows of a step of a run; the run by path, name or the first digits of its key.

    Raises:
        JobError: for a run that isn't there, and a step that it hasn't taken.
        LineageError: where the plan of the run, or rows that the step read, aren't there any more.
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
    _require_plan(store, begun)
    _require_whole(store, begun, f"step {step:,}", catalog.missing_at(begun.path, step))
    rows = catalog.consumed(begun.path, step)
    if not rows:
        raise LineageError(
            begun.name,
            cause="nothing refers to it any more, so its plan isn't read",
            cure="Name a current run: curriculum status",
        )
    return StepRead(
        run=begun.name,
        run_key=begun.job.run_key,
        attempt=begun.job.attempt,
        step=step,
        steps=steps,
        rows=rows,
        study=study_mark(begun.job.study),
    )


def readers_or_read(home: Path, what: str) -> Readers | ReadUntil:
    """The steps that read a commit, document, row or file; of a run or checkpoint all that it read.

    Raises:
        LineageError, StoreError, JobError: for what is none of these, and what several begin with.
        LineageError: for a run some of whose rows aren't there any more.
    """
    store = store_of(home, what)
    catalog = LineageCatalog(store)
    path = Path(what).absolute()
    if path.is_dir() and path.name.startswith(STEP):
        begun = Attempt.at(path.parents[1])
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
    if _HEX.fullmatch(what) and (document := catalog.document(what)):
        return catalog.readers("document", document, "FROM consumers_of_document(?)")
    if _is_untrained(store, what):
        raise LineageError(
            what,
            cause="nothing of this specialist is trained yet",
            cure=f"Train it first: curriculum run {what.split('/')[0]}",
        )
    return catalog.readers("file", what, "FROM consumers_of_file(?)")


def _is_untrained(store: Store, what: str) -> bool:
    """Return True for the name of a diet, or of a specialist that is mixed at most."""
    mixtures = [*store.artefacts("mixtures")]
    meant = named(store.root, what, {specialist_of(mixture) for mixture in mixtures})
    is_mixed = meant is not None and any(map(meant.has, mixtures))
    return is_mixed or what in diet_names(store.root)


def _require_plan(store: Store, begun: Attempt) -> None:
    """Raise where the mixture of a run is gone: it alone says which rows a step read."""
    plan = store.root / begun.job.plan
    if plan.is_file():
        return
    raise LineageError(
        begun.name,
        str(plan),
        cause="the plan of its steps isn't there any more",
        cure=f"Mix it again: {command('mix', newest_plan(store, begun.ref, attempts_in(store)).config)}",
    )


def _require_whole(store: Store, begun: Attempt, what: str, missing: Sequence[MissingRows]) -> None:
    """Raise where rows that were read are gone: the others would look like all that was read."""
    if not missing:
        return
    raise LineageError(
        begun.name,
        what,
        cause=f"{number(sum(each.rows for each in missing), 'row')} that it read can't be shown: "
        f"{missing_words(missing)}",
        cure=f"Build them again: {_build_of(store, begun)}",
    )


def _build_of(store: Store, begun: Attempt) -> str:
    """Return the command that builds what a run read."""
    return command("build", newest_plan(store, begun.ref, attempts_in(store)).config)


def _read_until(catalog: LineageCatalog, begun: Attempt, step: int) -> ReadUntil:
    _require_plan(catalog.store, begun)
    missing = catalog.missing_until(begun.path, step)
    _require_whole(catalog.store, begun, f"all until step {step:,}", missing)
    mark = study_mark(begun.job.study)
    return catalog.read_until(
        begun.path, step, name=begun.name, run_key=begun.job.run_key, study=mark
    )
