"""Catalog queries of `curriculum lineage`: the rows that a step read, and the steps that read a commit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from curriculum import catalog
from curriculum.inspection.formats import number
from curriculum.mixing.diet_files import diet_names
from curriculum.pipeline.attempts import Attempt, attempts_in, specialist_of
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.references import is_run, named, run_of, store_of
from curriculum.pipeline.run_config import command
from curriculum.store.artefact import KEY_DIGITS
from schemas.errors import CurriculumError, JobError
from schemas.mistakes import nearest_or
from schemas.run_folders import STEP, number_of
from schemas.spdx import LicenceKind, licence_kind
from schemas.study import study_mark

SHORTEST = 6
"""Minimum number of leading digits that identify a commit or document."""
NO_LICENCE = "none found"
Kind = Literal["commit", "document", "row", "file"]
_PACK = re.compile(r"[0-9a-f]{12}-\d{10}")
_DOCUMENT = re.compile(r"[0-9a-f]{32}")
_HEX = re.compile(rf"[0-9a-f]{{{SHORTEST},64}}")
_ROWS = """
    SELECT position, pack_id, family, objective, domain, row_length, valid_tokens AS tokens, repetition,
           list({'document_id': document_id, 'tokens': tokens, 'commits': commits} ORDER BY doc)
               AS documents
    FROM (
        SELECT position, pack_id, family, objective, domain, row_length, valid_tokens, repetition,
               doc, document_id, tokens, coalesce(
                   list({'repository': repository, 'path': path, 'commit': "commit", 'licence': licence}
                        ORDER BY "commit") FILTER ("commit" IS NOT NULL), []) AS commits
        FROM consumed(?, ?) GROUP BY ALL
    ) GROUP BY ALL ORDER BY position
"""
_VISITS = """
    SELECT v.specialist || '/' || v.phase AS run, v.run AS path, v.run_key, v.attempt, v.step, v.rows,
           v.documents, v.tokens, coalesce(r.study, '') AS study
    FROM consumers(?) v LEFT JOIN attempts r ON r.path = v.run
    ORDER BY v.specialist, v.phase, v.run_key, v.attempt, v.step
"""
_MISSING = """
    SELECT s.rows_key AS key, coalesce(min(t.family), '?') AS family,
           coalesce(min(t.objective), '?') AS objective,
           count(DISTINCT (s.run, s.position)) AS rows
    FROM ancestry y
    JOIN steps s ON s.run = y.before
    JOIN internal.walks w ON w.run = s.run
    LEFT JOIN strata t ON t.mixture_key = w.mixture_key AND t.stratum = s.stratum
    WHERE s.rows_key NOT IN (SELECT key FROM artefacts WHERE stage = 'rows') AND {condition}
    GROUP BY s.rows_key ORDER BY s.rows_key
"""
_SHARES = """
    SELECT {names} AS names, count(DISTINCT (run, step)) AS steps, count(DISTINCT (run, position)) AS rows,
           count(DISTINCT document_id) AS documents, count(DISTINCT "commit") AS commits,
           sum(tokens) FILTER (WHERE is_first)::BIGINT AS tokens
    FROM (
        SELECT *, row_number() OVER (PARTITION BY run, position, doc, {names} ORDER BY "commit") = 1
            AS is_first
        FROM consumed_until(?, ?)
    ) GROUP BY 1 ORDER BY {order}, 1
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadCommit:
    """Commit from which a document of a row was made."""

    repository: str
    path: str
    """Path that the main file of the document had at the commit."""
    commit: str
    licence: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadDocument:
    """Document in a row that a step read, with the commits from which it was made."""

    document_id: str
    tokens: int
    commits: tuple[ReadCommit, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadRow:
    """Packed row that a step read.

    `position` is its position in the plan, `repetition` the number of times that it was read before.
    """

    position: int
    pack_id: str
    family: str
    objective: str
    domain: str
    row_length: int
    tokens: int
    repetition: int
    documents: tuple[ReadDocument, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRead:
    """Rows that one training step read; `steps` is the number of steps of the whole run."""

    run: str
    run_key: str
    attempt: int
    step: int
    steps: int
    rows: tuple[ReadRow, ...]
    study: str = ""

    @property
    def commits(self) -> list[ReadCommit]:
        """Return the commits of all rows in row order; each pair of commit and file appears once."""
        documents = (document for row in self.rows for document in row.documents)
        return list(dict.fromkeys(commit for document in documents for commit in document.commits))


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """Training step that read something; `path` is the folder of its run, relative to the workspace."""

    run: str
    path: str
    run_key: str
    attempt: int
    step: int
    rows: int
    documents: int
    tokens: int
    study: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRows:
    """Rows artefact that was removed from the workspace; `rows` is the number of its rows that steps read."""

    key: str
    family: str
    objective: str
    rows: int

    def __str__(self) -> str:
        return f"rows {self.key[:KEY_DIGITS]} ({self.family}, {self.objective})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Readers:
    """Steps that read a commit, document, row or file, and checkpoints of finished runs after these steps.

    Rows in `missing` artefacts can't be searched. Steps that read the commit or document in such rows are not
    among the visits.
    """

    kind: Kind
    name: str
    visits: tuple[Visit, ...]
    checkpoints: tuple[str, ...]
    missing: tuple[MissingRows, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Tokens that a model read in one phase, or from one repository under one licence."""

    names: tuple[str, ...]
    steps: int
    rows: int
    documents: int
    commits: int
    tokens: int
    kind: LicenceKind | None = None
    """Kind of the licence, such as copyleft; None for a phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadUntil:
    """Training data of a run up to a step, including the data of the runs that it continues."""

    run: str
    run_key: str
    step: int
    phases: tuple[Share, ...]
    repositories: tuple[Share, ...]
    """Shares by repository and licence."""
    study: str = ""
    """Mark of the study to which the run belongs, if any."""


class LineageError(CurriculumError):
    """The lineage of something can't be determined."""


Found = TypeVar("Found")


class LineageQuestions:
    """Questions about lineage, answered by the catalog of a workspace.

    It is the workspace that contains the path `what`, or else `home`.
    """

    def __init__(self, home: Path, what: str) -> None:
        self.store = store_of(home, what)
        snapshot = catalog.take(self.store.root)
        self.notices = catalog.notices_of(snapshot)
        self._connection = catalog.connect(snapshot)

    def read_by(self, what: str, step: int) -> StepRead:
        """Return the rows that training step `step` of the run `what` read.

        `what` is the run's path, its name or the first digits of its key.

        Raises:
            JobError: if the run doesn't exist or has fewer steps.
            LineageError: if the run's plan or rows of the step were removed.
        """
        run = run_of(self.store, what, name="the run")
        path, steps = self._path(run), self._steps(run)
        if not 1 <= step <= steps:
            raise JobError(
                f"--step of {run.name}",
                step,
                cause=f"the run has {steps:,} steps"
                if steps
                else "the run has not finished a step yet",
                cure=f"Give a step from 1 to {steps}" if steps else "Wait for its first step",
            )
        of_step = "y.run = ? AND y.back = 0 AND s.step = ?"
        self._require_rows(run, f"step {step:,}", of_step, path, step)
        rows = self._ask(ReadRow, _ROWS, path, step)
        if not rows:
            raise LineageError(
                run.name,
                cause="the run was replaced, so its plan isn't available",
                cure="Name a current run: curriculum status",
            )
        return StepRead(
            run=run.name,
            run_key=run.job.run_key,
            attempt=run.job.attempt,
            step=step,
            steps=steps,
            rows=rows,
            study=study_mark(run.job.study),
        )

    def readers_or_read(self, what: str) -> Readers | ReadUntil:
        """Return the steps that read a commit, document, row or file, or the training data of a model.

        The model is named by a run or a checkpoint.

        Raises:
            LineageError, StoreError, JobError: if the name is unknown or ambiguous.
            LineageError: if some rows of a run were removed.
        """
        path, is_digits = Path(what).absolute(), _HEX.fullmatch(what) is not None
        if path.is_dir() and (step := number_of(path.name, STEP)) is not None:
            return self._until(Attempt.at(path.parents[1]), step)
        if _PACK.fullmatch(what):
            return self._readers("row", what)
        if _DOCUMENT.fullmatch(what):
            return self._readers("document", what)
        if is_digits and (commit := self._id("commit", what)):
            return self._readers("commit", commit)
        if path.is_dir() or is_run(self.store, what):
            run = run_of(self.store, what, name="the run")
            return self._until(run, self._steps(run))
        if is_digits and (document := self._id("document", what)):
            return self._readers("document", document)
        mixtures = [*self.store.artefacts("mixtures")]
        meant = named(self.store.root, what, {specialist_of(mixture) for mixture in mixtures})
        is_mixed = meant is not None and any(map(meant.has, mixtures))
        if is_mixed or what in diet_names(self.store.root):
            raise LineageError(
                what,
                cause="no phase of this specialist is trained yet",
                cure=f"Train it first: curriculum run {what.split('/')[0]}",
            )
        return self._readers("file", what)

    def _ask(self, line: type[Found], sql: str, *values: object) -> tuple[Found, ...]:
        return tuple(catalog.lines(self._connection, line, sql, *values))

    def _path(self, run: Attempt) -> str:
        return run.path.relative_to(self.store.root).as_posix()

    def _texts(self, sql: str, *values: object) -> list[str]:
        """Return the values in the first column of a query's result."""
        return [str(value) for value, *_ in self._connection.execute(sql, values).fetchall()]

    def _steps(self, run: Attempt) -> int:
        found = self._texts(
            "SELECT coalesce(steps, 0) FROM attempts WHERE path = ?", self._path(run)
        )
        return int(found[0]) if found else 0

    def _id(self, kind: Kind, digits: str) -> str | None:
        """Return the only id of a kind that starts with `digits`, or None if there is none."""
        sql = (
            "SELECT DISTINCT id FROM internal.ids WHERE kind = ? AND starts_with(id, ?) ORDER BY id"
        )
        found = self._texts(f"{sql} LIMIT 4", kind, digits)
        if len(found) > 1:
            cause, cure = "several ids start with these digits", "Give more digits"
            raise LineageError(digits, ", ".join(found[:3]), cause=cause, cure=cure)
        return found[0] if found else None

    def _readers(self, kind: Kind, name: str) -> Readers:
        """Return the steps that read the thing with this name; no steps if it exists but was never read."""
        self._require_known(kind, name)
        visits = self._ask(Visit, _VISITS, name)
        first = {visit.path: visit.step for visit in reversed(visits)}
        after = (
            path
            for run in dict.fromkeys(visit.path for visit in visits)
            for path in self._texts("SELECT path FROM checkpoints_after(?, ?)", run, first[run])
        )
        return Readers(
            kind=kind,
            name=name,
            visits=visits,
            checkpoints=tuple(dict.fromkeys(after)),
            missing=self._missing("TRUE"),
        )

    def _until(self, run: Attempt, step: int) -> ReadUntil:
        path = self._path(run)
        until = "y.run = ? AND s.step <= CASE y.back WHEN 0 THEN ? ELSE y.until_step END"
        self._require_rows(run, f"all until step {step:,}", until, path, step)
        phase = "[coalesce(phase, 'unknown')]"
        licence = f"[coalesce(repository, 'unknown'), coalesce(licence, '{NO_LICENCE}')]"
        phases, repositories = (
            self._ask(Share, _SHARES.format(names=names, order=order), path, step)
            for names, order in ((phase, "max(back) DESC"), (licence, "tokens DESC"))
        )
        return ReadUntil(
            run=run.name,
            run_key=run.job.run_key,
            step=step,
            phases=phases,
            repositories=tuple(
                replace(share, kind=licence_kind(None if licence == NO_LICENCE else licence))
                for share in repositories
                for licence in share.names[-1:]
            ),
            study=study_mark(run.job.study),
        )

    def _missing(self, condition: str, *values: object) -> tuple[MissingRows, ...]:
        """Return the rows artefacts that steps read and that were removed.

        `condition` is a SQL condition on the steps `s` and the runs `y`.
        """
        return self._ask(MissingRows, _MISSING.format(condition=condition), *values)

    def _require_known(self, kind: Kind, name: str) -> None:
        """Raise if the catalog has nothing of this kind and name."""
        if self._texts("SELECT id FROM internal.ids WHERE kind = ? AND id = ? LIMIT 1", kind, name):
            return
        usual = (
            "Give a run with --step, a commit, a document id, a pack_id, or a path in a repository"
        )
        names = """SELECT DISTINCT unnest([specialist, specialist || '/' || phase]), specialist, phase
            FROM attempts ORDER BY 2, 3, 1"""
        raise LineageError(
            name,
            cause=f"unknown {kind}"
            if kind != "file"
            else "no run, checkpoint, commit, document, row or file has this name",
            cure=nearest_or(name, dict.fromkeys(self._texts(names)), usual),
        )

    def _require_rows(self, run: Attempt, what: str, condition: str, *values: object) -> None:
        """Raise if the plan or rows of a run were removed, since the other rows would look complete."""
        plan = self.store.root / run.job.plan
        is_there = plan.is_file()
        missing = self._missing(condition, *values) if is_there else ()
        if is_there and not missing:
            return
        config = newest_plan(self.store, run.ref, attempts_in(self.store)).config
        if not is_there:
            raise LineageError(
                run.name,
                str(plan),
                cause="the plan of the run was removed",
                cure=f"Mix it again: {command('mix', config)}",
            )
        count = number(sum(deleted.rows for deleted in missing), "row")
        raise LineageError(
            run.name,
            what,
            cause=f"{count} that the run read can't be shown: {missing_words(missing)}",
            cure=f"Build the rows again: {command('build', config)}",
        )


def missing_words(missing: Sequence[MissingRows]) -> str:
    """Describe the removed rows.

    >>> missing_words([MissingRows(key="20ad577cfb9b", family="v3_simple", objective="causal", rows=5)])
    "rows 20ad577cfb9b (v3_simple, causal) aren't in the workspace any more"
    """
    return f"{', '.join(map(str, missing))} aren't in the workspace any more"
