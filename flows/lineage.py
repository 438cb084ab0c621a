"""`curriculum lineage`: what a step of a run read, down to commits; and which steps read a commit."""

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from curriculum.catalog import open_catalog
from curriculum.pipeline.references import STEP, Begun, begun_in, run_of
from curriculum.store import Store
from flows.look.find import store_of
from flows.readings import (
    Commit,
    Document,
    Kind,
    Readers,
    ReadUntil,
    Row,
    Share,
    StepRead,
    Visit,
)
from schemas.errors import CurriculumError, JobError, StoreError

NO_LICENCE = "none found"
SHORTEST = 6
"""Digits of a commit's id that may stand for it."""
_PACK = re.compile(r"[0-9a-f]{12}-\d{10}")
_DOCUMENT = re.compile(r"[0-9a-f]{32}")
_HEX = re.compile(rf"[0-9a-f]{{{SHORTEST},64}}")


class LineageError(CurriculumError):
    """Something that no step can have read."""


def read_by(home: Path, what: str, step: int) -> StepRead:
    """What a step of a run read; the run by path, name or the first digits of its key.

    Raises:
        JobError: for a run that isn't there, and a step that it hasn't taken.
        LineageError: where the plan or the rows of the run aren't there any more.
    """
    store = store_of(home, what)
    begun = run_of(store, what, name="the run")
    catalog = _Catalog(store)
    steps = catalog.steps_of(begun)
    if not 1 <= step <= steps:
        raise JobError(
            f"--step of {begun.name}",
            step,
            cause=f"it has taken {steps:,} steps" if steps else "it has taken no step yet",
            cure=f"Give one from 1 to {steps}" if steps else "Wait for its first",
        )
    lines = catalog.ask("FROM consumed(?, ?)", catalog.path_of(begun), step)
    if not lines:
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
        rows=_rows(lines),
    )


def readers_or_read(home: Path, what: str) -> Readers | ReadUntil:
    """The steps that read a commit, document, row or file; of a run or checkpoint all that it read.

    Raises:
        LineageError, StoreError, JobError: for what is none of these, and what several begin with.
    """
    store = store_of(home, what)
    catalog = _Catalog(store)
    path = Path(what).absolute()
    if path.is_dir() and path.name.startswith(STEP):
        begun = Begun.at(path.parents[1])
        return catalog.read_until(begun, int(path.name.removeprefix(STEP)))
    if _PACK.fullmatch(what):
        return catalog.readers("row", what, "FROM consumers_of_row(?)")
    if _DOCUMENT.fullmatch(what):
        return catalog.readers("document", what, "FROM consumers_of_document(?)")
    if _HEX.fullmatch(what) and (commit := catalog.commit(what)):
        return catalog.readers("commit", commit, "FROM consumers(?)")
    if path.is_dir() or _is_a_run(store, what):
        begun = run_of(store, what, name="the run")
        return catalog.read_until(begun, catalog.steps_of(begun))
    return catalog.readers("file", what, "FROM consumers_of_file(?)")


class _Catalog:
    """A workspace's catalog, asked in questions with parameters."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.connection = open_catalog(store.root)

    def ask(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """The lines of an answer, by column."""
        asked = self.connection.execute(sql, list(values))
        columns = [str(column[0]) for column in asked.description or ()]
        return [dict(zip(columns, line, strict=True)) for line in asked.fetchall()]

    def path_of(self, begun: Begun) -> str:
        """Where an attempt lies in the workspace."""
        return begun.path.relative_to(self.store.root).as_posix()

    def steps_of(self, begun: Begun) -> int:
        """The steps that an attempt has taken."""
        found = self.ask("SELECT steps FROM runs WHERE path = ?", self.path_of(begun))
        return (found[0]["steps"] or 0) if found else 0

    def commit(self, digits: str) -> str | None:
        """The commit that begins so, if documents were made of one."""
        found = self.ask(
            'SELECT DISTINCT "commit" FROM document_sources WHERE starts_with("commit", ?) ORDER BY 1',
            digits,
        )
        if len(found) > 1:
            listed = ", ".join(each["commit"] for each in found[:3])
            raise LineageError(digits, listed, cause="several commits begin so", cure="Give more")
        return found[0]["commit"] if found else None

    def readers(self, kind: Kind, name: str, sql: str) -> Readers:
        """What the macro in `sql` finds, of something that there is."""
        visits = tuple(_visit(line) for line in self.ask(sql, name))
        if not visits:
            self._require(kind, name)
        first: dict[str, int] = {}
        for each in visits:
            first[each.path] = min(each.step, first.get(each.path, each.step))
        after = (
            line["path"]
            for path, step in first.items()
            for line in self.ask("SELECT path FROM checkpoints_after(?, ?)", path, step)
        )
        return Readers(kind=kind, name=name, visits=visits, checkpoints=tuple(dict.fromkeys(after)))

    def read_until(self, begun: Begun, step: int) -> ReadUntil:
        """All that a model read until a step."""
        values = self.path_of(begun), step
        return ReadUntil(
            run=begun.name,
            run_key=begun.job.run_key,
            step=step,
            phases=self._shares(("phase",), *values),
            repositories=self._shares(("repository", "licence"), *values),
        )

    def _shares(self, names: Sequence[str], run: str, step: int) -> tuple[Share, ...]:
        listed = ", ".join(names)
        lines = self.ask(
            f"""
            SELECT {listed}, count(DISTINCT (run, step)) AS steps,
                   count(DISTINCT (run, position)) AS rows,
                   count(DISTINCT document_id) AS documents,
                   count(DISTINCT "commit") AS commits, max(back) AS back,
                   sum(tokens) FILTER (WHERE is_first)::BIGINT AS tokens
            FROM (
                SELECT *, row_number() OVER (
                    PARTITION BY run, position, doc, {listed} ORDER BY "commit") = 1 AS is_first
                FROM consumed_until(?, ?)
            )
            GROUP BY {listed}
            ORDER BY {"back DESC" if names == ("phase",) else "tokens DESC"}, {listed}
            """,
            run,
            step,
        )
        counts = ("steps", "rows", "documents", "commits", "tokens")
        return tuple(
            Share(
                names=tuple(line[name] or _unknown(name) for name in names),
                **{name: line[name] for name in counts},
            )
            for line in lines
        )

    def _require(self, kind: Kind, name: str) -> None:
        """Let pass what there is, though no step read it."""
        questions: dict[Kind, str] = {
            "commit": 'SELECT 1 FROM document_sources WHERE starts_with("commit", ?) LIMIT 1',
            "document": "SELECT 1 FROM documents WHERE document_id = ? LIMIT 1",
            "row": "SELECT 1 FROM rows WHERE pack_id = ? LIMIT 1",
            "file": "SELECT 1 FROM document_sources "
            "WHERE ? IN (path, repository || ':' || path, lineage) LIMIT 1",
        }
        if self.ask(questions[kind], name):
            return
        raise LineageError(
            name,
            cause=f"there is no such {kind}"
            if kind != "file"
            else "no run, checkpoint, commit, document, row or file is called so",
            cure="Name a run with --step, a commit, a document's id, a pack_id, or a path in a repository",
        )


def _rows(lines: Sequence[dict[str, Any]]) -> tuple[Row, ...]:
    """Lines by position, document and commit become rows."""
    rows = []
    for _, of_row in groupby(lines, key=lambda line: line["position"]):
        same = list(of_row)
        first = same[0]
        rows.append(
            Row(
                position=first["position"],
                pack_id=first["pack_id"],
                family=first["family"],
                objective=first["objective"],
                domain=first["domain"],
                row_length=first["row_length"],
                tokens=first["valid_tokens"],
                repetition=first["repetition"],
                documents=tuple(
                    _document(list(each)) for _, each in groupby(same, lambda line: line["doc"])
                ),
            )
        )
    return tuple(rows)


def _document(lines: Sequence[dict[str, Any]]) -> Document:
    return Document(
        document_id=lines[0]["document_id"],
        tokens=lines[0]["tokens"],
        commits=tuple(
            Commit(
                repository=line["repository"],
                commit=line["commit"],
                file=line["file"],
                licence=line["licence"],
            )
            for line in lines
            if line["commit"] is not None
        ),
    )


def _visit(line: dict[str, Any]) -> Visit:
    way = (line["specialist"], line["branch"], line["phase"])
    return Visit(
        run="/".join(name for name in way if name),
        path=line["run"],
        run_key=line["run_key"],
        attempt=line["attempt"],
        step=line["step"],
        rows=line["rows"],
        documents=line["documents"],
        tokens=line["tokens"],
    )


def _unknown(name: str) -> str:
    return NO_LICENCE if name == "licence" else "unknown"


def _is_a_run(store: Store, what: str) -> bool:
    """Whether a run is called so, or its key begins so."""
    try:
        run_of(store, what, name="the run")
    except (JobError, StoreError):
        names = {name for each in begun_in(store) for name in each.names}
        return what in names or any(each.job.run_key.startswith(what) for each in begun_in(store))
    return True
