"""Notices beside an answer: what it lacks, and names in its question of which there is nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

from curriculum.catalog.snapshot import Snapshot, take
from schemas.specialist import SpecialistRef, file_stem, spelled

_COMPARED = re.compile(
    r"\bspecialist\b\"?\s*(?:(?:==?|<>|!=|IS\s+(?:NOT\s+)?DISTINCT\s+FROM|(?:NOT\s+)?I?LIKE)\s*(?P<one>'(?:[^']|'')*')"
    r"|(?:NOT\s+)?IN\s*\((?P<some>[^()]*)\))",
    re.IGNORECASE,
)
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_FOLDERS = re.compile(r"/specialist=([^/]+)(?:/branch=([^/]+))?/")


def notices(root: Path, sql: str = "") -> tuple[str, ...]:
    """Return the notices that belong with the answer to a question about a workspace of now."""
    return notices_of(take(root), sql)


def notices_of(snapshot: Snapshot, sql: str = "") -> tuple[str, ...]:
    """Return the notices that belong with the answer to a question, each a sentence or more."""
    return (*_lacking(snapshot), *_unknown_names(snapshot, sql))


def _lacking(snapshot: Snapshot) -> Iterator[str]:
    """Yield a line where something can't be read: no answer has it."""
    problems = snapshot.tables["problems"]
    if not len(problems):
        return
    first = problems.slice(0, 1).to_pylist()[0]
    listed = f"{first['path']}: {first['problem']}".replace("\n", " ")
    more = len(problems) - 1
    yield (
        "Something of this workspace can't be read, and answers lack it: "
        f"{listed}{f' (and {more:,} more)' if more else ''}. The view problems lists what."
    )


def _unknown_names(snapshot: Snapshot, sql: str) -> Iterator[str]:
    """Yield a line for each text that the column specialist is compared with and that names none."""
    asked = [
        name.replace("''", "'")
        for found in _COMPARED.finditer(sql)
        for name in _TEXT.findall(found["one"] or found["some"])
    ]
    if not asked:
        return
    known = _specialists(snapshot)
    for name in dict.fromkeys(asked):
        marked = file_stem(SpecialistRef.parse(name))
        is_marked = any(
            mark.startswith((f"mixtures+{marked}+", f"runs+{marked}+")) for mark in snapshot.marks
        )
        pattern = re.compile(re.escape(name).replace("%", ".*").replace("_", "."), re.IGNORECASE)
        if not (any(map(pattern.fullmatch, known)) or is_marked):
            listed = (
                f"only of {', '.join(sorted(known))}" if known else "nor of any other specialist"
            )
            yield f"Nothing of specialist '{name}' is mixed or trained here, {listed}."


def _specialists(snapshot: Snapshot) -> set[str]:
    """Return the specialists with a mixture or a run, from the folders of those."""
    found = map(_FOLDERS.search, snapshot.paths)
    return {spelled((each[1], each[2])) for each in found if each}
