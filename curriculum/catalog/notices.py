"""Notices beside an answer: what it lacks, and names in its question of which there is nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

from curriculum.catalog.snapshot import Snapshot, take
from schemas.specialist import spelled

_QUOTED = r"'(?:[^']|'')*'"
_EQUALS = r"\s*(?:==?|<>|!=|IS\s+(?:NOT\s+)?DISTINCT\s+FROM)\s*"
_COMPARED = re.compile(
    rf"(?P<before>{_QUOTED}){_EQUALS}(?:\w+\.)?\"?specialist\b"
    rf"|\bspecialist\b\"?(?:{_EQUALS}(?P<after>{_QUOTED})|\s*(?:NOT\s+)?IN\s*\((?P<some>[^()]*)\)"
    rf"|\s*(?:NOT\s+)?I?LIKE\s*(?P<like>{_QUOTED}))",
    re.IGNORECASE,
)
_FOLDERS = re.compile(r"/specialist-([^/]+)(?:/branch-([^/]+))?/")


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
    asked = {
        text[1:-1].replace("''", "'"): _pattern(text[1:-1]) if found["like"] else None
        for found in _COMPARED.finditer(sql)
        for text in re.findall(_QUOTED, found[found.lastgroup or 0])
    }
    if not asked:
        return
    known = _specialists(snapshot)
    for name, pattern in asked.items():
        if not (any(map(pattern.fullmatch, known)) if pattern else name in known):
            listed = (
                f"only of {', '.join(sorted(known))}" if known else "nor of any other specialist"
            )
            yield f"Nothing of specialist '{name}' is mixed or trained here, {listed}."


def _pattern(like: str) -> re.Pattern[str]:
    """Return the pattern of names that are LIKE a text."""
    return re.compile(re.escape(like).replace("%", ".*").replace("_", "."), re.IGNORECASE)


def _specialists(snapshot: Snapshot) -> set[str]:
    """Return the specialists with a mixture or a run, there or lost, from the folders of those."""
    found = map(_FOLDERS.search, (*snapshot.paths, *snapshot.marks))
    return {spelled((each[1], each[2])) for each in found if each}
