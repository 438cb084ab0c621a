"""Notices shown next to an answer: missing data, and unknown names in the query."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from curriculum import parquet
from curriculum.catalog.compared_names import ComparedName, compared_names
from curriculum.catalog.snapshot import Snapshot, take
from curriculum.catalog.views import data_read
from schemas.mistakes import nearest
from schemas.specialist import format_reference

_LABEL = re.compile(r"/([a-z_]+)-([^/]+)")
_SPECIALIST = re.compile(r"/specialist-([^/]+)(?:/branch-([^/]+))?/")
_LABELS = ("base", "corpus", "family", "objective", "phase", "repository", "specialist", "split")
"""Columns whose values are labels in artefacts' paths."""
_PATHS = ("mixture", "run")
"""Columns whose values are artefacts' paths."""
_LISTED = 240
"""Maximum total length of the known names in a notice, in characters."""


def notices(root: Path, sql: str = "") -> tuple[str, ...]:
    """Return the notices for a query on the current state of a workspace."""
    return notices_of(take(root), sql)


def notices_of(snapshot: Snapshot, sql: str = "") -> tuple[str, ...]:
    """Return the notices for a query on a snapshot. Each notice has one or more sentences."""
    return (*_unreadable(snapshot), *_unused(snapshot, sql), *_unknown_names(snapshot, sql))


def _unreadable(snapshot: Snapshot) -> Iterator[str]:
    """Yield a notice if a part of the workspace can't be read, since this part is missing from answers."""
    problems = snapshot.tables["problems"]
    if not len(problems):
        return
    first = problems.slice(0, 1).to_pylist()[0]
    listed = f"{first['path']}: {first['problem']}".replace("\n", " ")
    more = len(problems) - 1
    yield (
        "Something of this workspace can't be read, and answers may lack it: "
        f"{listed}{f' (and {more:,} more)' if more else ''}. The view problems lists what."
    )


def _unused(snapshot: Snapshot, sql: str) -> Iterator[str]:
    """Yield a notice for each kind of data that the query reads but that no artefact in use has."""
    read = data_read(sql) if snapshot.unused else ()
    for kind, count in snapshot.unused.items():
        if kind in read:
            yield (
                f"Nothing of {kind} is in use, so answers have none of it, though {count:,} artefacts have "
                "some: the build that made them hasn't ended, or ended with an error. Build again."
            )


def _unknown_names(snapshot: Snapshot, sql: str) -> Iterator[str]:
    """Yield a notice for each unknown name that the query compares with a column of names."""
    for asked in compared_names(sql, (*_LABELS, *_PATHS)):
        known = _names(snapshot, asked.column)
        if not _is_known(asked, known) and not _is_known(
            asked, _table_values(snapshot, asked.column)
        ):
            yield f"Nothing here has the {asked.column} '{asked.text}'{_known_names_hint(asked.text, known)}"


def _is_known(asked: ComparedName, known: Collection[str]) -> bool:
    if not asked.is_pattern:
        return asked.text in known
    like = re.escape(asked.text).replace("%", ".*").replace("_", ".")
    return any(re.fullmatch(like, name, re.IGNORECASE) for name in known)


def _known_names_hint(name: str, known: Collection[str]) -> str:
    """Return the end of a notice: all names in `known`, or those closest to `name` if there are many."""
    listed = sorted(known)
    if not listed:
        return ", nor any other."
    if len(text := ", ".join(listed)) <= _LISTED:
        return f", only {text}."
    likely = nearest(name, listed)
    return f". {likely}" if likely.endswith("?") else f"; there are {len(listed):,} others."


def _names(snapshot: Snapshot, column: str) -> set[str]:
    """Return the values of a column that occur in the paths of artefacts, even of lost artefacts."""
    paths = {*snapshot.paths, *snapshot.marks}
    if column in _PATHS:
        stage = f"{column}s/"
        return {path for path in paths if path.startswith(stage)}
    if column == "specialist":
        found = map(_SPECIALIST.search, paths)
        return {format_reference((match[1], match[2])) for match in found if match}
    return {value for path in paths for name, value in _LABEL.findall(path) if name == column}


def _table_values(snapshot: Snapshot, column: str) -> set[str]:
    """Return the values of a column in a snapshot's tables. Tables have more names than folders do."""
    kept = (
        parquet.read_table(snapshot.home / path, [column])
        for path in snapshot.kept.values()
        if column in parquet.read_schema(snapshot.home / path).names
    )
    memory = (table for table in snapshot.tables.values() if column in table.column_names)
    return {str(value) for table in (*kept, *memory) for value in table[column].to_pylist()}
