"""Lineage from the SQL macros: rows of a step down to commits, steps that read something; origins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from schemas.errors import CurriculumError, StoreError
from schemas.mistakes import nearest_or

NO_LICENCE = "none found"
Kind = Literal["commit", "document", "row", "file"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A commit that a document was made of."""

    repository: str
    commit: str
    file: str
    """File that the document is about: `repository:path`, the path as it was first."""
    licence: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document as it stands in a row; a text that several commits hold was made of each."""

    document_id: str
    tokens: int
    commits: tuple[Commit, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A packed row that a step read."""

    position: int
    """Position in the plan."""
    pack_id: str
    family: str
    objective: str
    domain: str
    row_length: int
    tokens: int
    repetition: int
    """Times that the plan had it before."""
    documents: tuple[Document, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRead:
    """Content of one step of a run: its rows and documents."""

    run: str
    run_key: str
    attempt: int
    step: int
    steps: int
    """Number of steps that the run has taken."""
    rows: tuple[Row, ...]
    study: str = ""
    """The mark of a run that is of a study."""

    @property
    def commits(self) -> list[Commit]:
        """Each commit and file once, in the order of the rows."""
        every = (commit for row in self.rows for each in row.documents for commit in each.commits)
        return list(dict.fromkeys(every))


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """A step of a run that read something."""

    run: str
    path: str
    """Path of the run's directory, relative to the workspace."""
    run_key: str
    attempt: int
    step: int
    rows: int
    documents: int
    tokens: int
    study: str = ""
    """The study that the run is of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRows:
    """Rows that steps have read and whose artefact isn't in the workspace any more."""

    key: str
    """Key of the artefact."""
    family: str
    objective: str
    rows: int
    """Number of times that the steps read one of them."""

    def __str__(self) -> str:
        return f"rows {self.key[:KEY_DIGITS]} ({self.family}, {self.objective})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Readers:
    """Every step that read a commit, document, row or file, and the checkpoints that came after."""

    kind: Kind
    name: str
    visits: tuple[Visit, ...]
    checkpoints: tuple[str, ...]
    """Paths in the workspace, of finished runs."""
    missing: tuple[MissingRows, ...] = ()
    """Deleted rows that runs have read: steps that read it from these aren't among the visits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Tokens that a model read of one phase, or of one repository under one licence."""

    names: tuple[str, ...]
    steps: int
    rows: int
    documents: int
    commits: int
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadUntil:
    """All that a model read until a step of a run, in that run and in those that it continues from."""

    run: str
    run_key: str
    step: int
    phases: tuple[Share, ...]
    repositories: tuple[Share, ...]
    """Shares by repository and licence."""
    study: str = ""
    """The mark of a run that is of a study."""


class LineageError(CurriculumError):
    """Something that no step can have read."""


class LineageCatalog:
    """The catalog of a workspace, for questions of lineage: the SQL macros answer all of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # It brings DuckDB, which nobody needs who asks for origins only.
        from curriculum.catalog import open_catalog

        self.connection = open_catalog(store.root)

    def ask(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Return the lines of an answer, by column."""
        asked = self.connection.execute(sql, list(values))
        columns = [str(column[0]) for column in asked.description or ()]
        return [dict(zip(columns, line, strict=True)) for line in asked.fetchall()]

    def path_of(self, run: Path) -> str:
        """Return the path of an attempt, relative to the workspace."""
        return run.relative_to(self.store.root).as_posix()

    def steps_of(self, run: Path) -> int:
        """Return the number of steps that an attempt has taken."""
        found = self.ask("SELECT steps FROM runs WHERE path = ?", self.path_of(run))
        return (found[0]["steps"] or 0) if found else 0

    def commit(self, digits: str) -> str | None:
        """Return the commit with these first digits, if documents were made of one."""
        return self._id("commit", "document_sources", digits)

    def document(self, digits: str) -> str | None:
        """Return the document whose id has these first digits, if there is one."""
        return self._id("document_id", "documents", digits)

    def _id(self, column: str, view: str, digits: str) -> str | None:
        found = self.ask(
            f'SELECT DISTINCT "{column}" AS id FROM {view} WHERE starts_with("{column}", ?) ORDER BY 1',
            digits,
        )
        if len(found) > 1:
            listed = ", ".join(each["id"] for each in found[:3])
            raise LineageError(
                digits, listed, cause="several ids start with these digits", cure="Give more digits"
            )
        return str(found[0]["id"]) if found else None

    def readers(self, kind: Kind, name: str, sql: str) -> Readers:
        """Return what the macro in `sql` finds of something that exists.

        Raises:
            LineageError: where nothing has that name; what no step has read is no mistake.
        """
        self._require(kind, name)
        marked = self.ask("SELECT path, study FROM runs WHERE study IS NOT NULL")
        studies = {line["path"]: line["study"] for line in marked}
        visits = tuple(
            replace(visit, study=studies.get(visit.path, ""))
            for visit in map(_visit, self.ask(sql, name))
        )
        first: dict[str, int] = {}
        for each in visits:
            first[each.path] = min(each.step, first.get(each.path, each.step))
        after = (
            line["path"]
            for path, step in first.items()
            for line in self.ask("SELECT path FROM checkpoints_after(?, ?)", path, step)
        )
        return Readers(
            kind=kind,
            name=name,
            visits=visits,
            checkpoints=tuple(dict.fromkeys(after)),
            missing=self._missing("TRUE"),
        )

    def consumed(self, run: Path, step: int) -> tuple[Row, ...]:
        """Return the rows that a step of an attempt read; none where nothing in use refers to it."""
        return _rows(self.ask("FROM consumed(?, ?)", self.path_of(run), step))

    def missing_at(self, run: Path, step: int) -> tuple[MissingRows, ...]:
        """Return what isn't there any more of the rows that a step of an attempt read."""
        return self._missing("y.run = ? AND y.back = 0 AND s.step = ?", self.path_of(run), step)

    def missing_until(self, run: Path, step: int) -> tuple[MissingRows, ...]:
        """Return what isn't there any more of the rows that a model read until a step."""
        until = "s.step <= CASE y.back WHEN 0 THEN ? ELSE y.until_step END"
        return self._missing(f"y.run = ? AND {until}", self.path_of(run), step)

    def _missing(self, condition: str, *values: object) -> tuple[MissingRows, ...]:
        """Return what isn't there of the rows that steps `s` read, of a run `y.run` or of those before."""
        lines = self.ask(
            f"""
            SELECT s.rows_key AS key, min(t.family) AS family, min(t.objective) AS objective,
                   count(DISTINCT (s.run, s.position)) AS rows
            FROM ancestry y
            JOIN steps s ON s.run = y.before
            JOIN internal.walks w ON w.run = s.run
            LEFT JOIN strata t ON t.mixture_key = w.mixture_key AND t.stratum = s.stratum
            WHERE s.rows_key NOT IN (SELECT key FROM artefacts WHERE stage = 'rows') AND {condition}
            GROUP BY s.rows_key ORDER BY s.rows_key
            """,
            *values,
        )
        return tuple(MissingRows(**line) for line in lines)

    def read_until(self, run: Path, step: int, *, name: str, run_key: str, study: str) -> ReadUntil:
        """Return all that a model read until a step."""
        values = self.path_of(run), step
        return ReadUntil(
            run=name,
            run_key=run_key,
            step=step,
            phases=self._shares(("phase",), *values),
            repositories=self._shares(("repository", "licence"), *values),
            study=study,
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
        """Raise where nothing has that name; what no step has read is no mistake."""
        if self.ask(f"SELECT 1 FROM internal.{kind}_ids WHERE id = ? LIMIT 1", name):
            return
        usual = "Name a run with --step, a commit, a document's id, a pack_id, or a path in a repository"
        runs = self.ask("SELECT DISTINCT specialist, phase FROM runs ORDER BY ALL")
        names = {
            name: None
            for run in runs
            for name in (run["specialist"], f"{run['specialist']}/{run['phase']}")
        }
        raise LineageError(
            name,
            cause=f"there is no such {kind}"
            if kind != "file"
            else "no run, checkpoint, commit, document, row or file is called so",
            cure=nearest_or(name, names, usual),
        )


def missing_words(missing: Sequence[MissingRows]) -> str:
    """Name what isn't there any more.

    >>> missing_words([MissingRows(key="20ad577cfb9b", family="v3_simple", objective="causal", rows=5)])
    "rows 20ad577cfb9b (v3_simple, causal) aren't in the workspace any more"
    """
    return f"{', '.join(map(str, missing))} aren't in the workspace any more"


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
    return Visit(
        run=f"{line['specialist']}/{line['phase']}",
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


ORIGIN_SCHEMA = pa.schema(
    [
        pa.field(name, pa.string())
        for name in ("document_id", "family", "repository", "commit", "path", "licence", "lineage")
    ]
)
UNKNOWN = "?"
"""Origin that isn't known any more."""
_COLUMNS = ("document_id", "family", "licence", "lineage", "provenance")
Indices = npt.NDArray[np.int64]


def inputs(store: Store, artefact: Artefact, stage: str) -> list[Artefact]:
    """The artefacts of a stage that this one was made from, at any depth."""
    by_key = {each.key: each for each in store.artefacts()}
    waiting = [artefact]
    seen: dict[str, Artefact] = {}
    while waiting:
        for record in waiting.pop().manifest.inputs:
            if record.key in by_key and record.key not in seen:
                seen[record.key] = by_key[record.key]
                waiting.append(by_key[record.key])
    return [each for each in seen.values() if each.manifest.stage == stage]


def tokenizer_artefact(store: Store, artefact: Artefact) -> Artefact:
    """Return the tokenizer that rows or tokens were made with.

    Raises:
        StoreError: naming its folder, where it is gone.
    """
    if found := inputs(store, artefact, "tokenizers"):
        return found[0]
    keys = [record.key for record in artefact.manifest.inputs if record.name == "tokenizer"]
    raise StoreError(
        str(store.root.joinpath("tokenizers", *(key[:KEY_DIGITS] for key in keys))),
        cause=f"it is gone, and {artefact.path.relative_to(store.root)} was made with it",
        cure="Restore it or build again; --json needs no tokenizer",
    )


def origins(documents: Iterable[Artefact], ids: Sequence[str] | None = None) -> pa.Table:
    """A line a document of ORIGIN_SCHEMA, each id once; of all documents, or of some ids.

    A document of several files has the commit and path of its lineage: of the target's largest file.
    """
    files = [file for each in documents for file in parquet.shards_of(each.path)]
    wanted = None if ids is None else [("document_id", "in", pa.array(ids, pa.string()))]
    read = [_origins(_read(file, wanted)) for file in files]
    whole = pa.concat_tables([ORIGIN_SCHEMA.empty_table(), *read])
    return _first_of_each(whole, "document_id")


def _read(file: Any, wanted: list[parquet.Filter] | None) -> pa.Table:
    # Artefacts of earlier versions lack columns.
    there = set(parquet.read_schema(file).names)
    return parquet.read_table(
        file, columns=[name for name in _COLUMNS if name in there], filters=wanted
    )


def _origins(table: pa.Table) -> pa.Table:
    provenance: Any = table["provenance"].combine_chunks()
    flat: Any = provenance.flatten()
    known = {flat.type.field(index).name for index in range(flat.type.num_fields)}
    lineage: Any = table["lineage"] if "lineage" in table.column_names else pa.nulls(len(table))
    own: Any = pc.struct_field(flat, "lineage") if "lineage" in known else pa.nulls(len(flat))
    chosen = flat.take(pa.array(_choose(provenance, own, lineage)))
    columns: dict[str, Any] = {
        "document_id": table["document_id"],
        "family": table["family"],
        **{name: pc.struct_field(chosen, name) for name in ("repository", "commit", "path")},
        "licence": table["licence"],
        "lineage": lineage,
    }
    return pa.table({name: pc.cast(each, pa.string()) for name, each in columns.items()})


def _choose(provenance: Any, own: Any, lineage: Any) -> Indices:
    """Return indices into the flat list: each document's first entry of its lineage, else its last."""
    parents = pc.list_parent_indices(provenance).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = pc.list_value_length(provenance).to_numpy(zero_copy_only=False).astype(np.int64)
    chosen = np.cumsum(counts) - 1
    same: Any = pc.equal(pc.cast(own, pa.string()), pc.cast(lineage, pa.string()).take(parents))
    is_mine = pc.fill_null(same, False)
    mine = np.flatnonzero(is_mine.to_numpy(zero_copy_only=False))
    # Backwards, so that the first of several stays.
    chosen[parents[mine[::-1]]] = mine[::-1]
    assert len(counts) == 0 or counts.min() > 0, "every document came from somewhere"
    return chosen


def _first_of_each(table: pa.Table, name: str) -> pa.Table:
    _, first = np.unique(table[name].to_numpy(zero_copy_only=False).astype(str), return_index=True)
    return table.take(np.sort(first))
