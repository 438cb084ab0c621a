"""`curriculum lineage`: find the commits that a training step read, or the steps that read a commit."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import Line, number
from curriculum.store.artefact import KEY_DIGITS
from flows.cli.console import MUTED, out, print_json, print_line, table, warn
from flows.cli.lineage_reads import (
    NO_LICENCE,
    LineageQuestions,
    ReadCommit,
    Readers,
    ReadUntil,
    StepRead,
    missing_words,
)
from schemas.label_folders import label_of
from schemas.run_folders import ATTEMPT, STEP, number_of
from schemas.visible import one_line

MAX_CHECKPOINTS = 12
"""Maximum number of listed checkpoints; --json prints all."""


def lineage(home: Path, what: str, *, step: int | None, as_json: bool) -> None:
    """Print the rows that a step read, the steps that read something, or the training data of a model.

    If `step` is given, `what` is the run of that step. Otherwise `what` is a commit, document, row or file,
    or a run or checkpoint.
    """
    questions = LineageQuestions(home, what)
    for notice in questions.notices:
        warn(notice)
    found = questions.readers_or_read(what) if step is None else questions.read_by(what, step)
    if as_json:
        print_json(asdict(found) | ({"notices": questions.notices} if questions.notices else {}))
    elif isinstance(found, StepRead):
        _step(found)
    elif isinstance(found, Readers):
        _readers(found)
    else:
        _until(found)


def _step(read: StepRead) -> None:
    _title(read.run, read.run_key, read.attempt, mark=read.study)
    licences = sorted({commit.licence or NO_LICENCE for commit in read.commits})
    documents = sum(len(row.documents) for row in read.rows)
    _print(
        f"step {read.step:,} of {read.steps:,}",
        f"{number(len(read.rows), 'row')}, {number(documents, 'document')}, "
        f"{number(sum(row.tokens for row in read.rows), 'token')}",
        f"{number(len({commit.commit for commit in read.commits}), 'commit')} of "
        f"{', '.join(sorted({commit.repository for commit in read.commits})) or 'nowhere'}",
        f"licences: {', '.join(licences) or NO_LICENCE}",
    )
    rows = [
        asdict(row) | {"documents": len(row.documents), "pass": row.repetition + 1}
        for row in read.rows
    ]
    shown = ("position", "pack_id", "family", "objective", "domain", "row_length", "tokens")
    heads = {"pack_id": "row", "row_length": "length"}
    out.print()
    out.print(table(rows, (*shown, "documents", "pass"), heads=heads))
    unknown = (ReadCommit(repository="", path="", commit="", licence=None),)
    documents_of = [
        {"position": row.position, **asdict(document), **asdict(commit)}
        | {"licence": commit.licence or NO_LICENCE}
        for row in read.rows
        for document in row.documents
        for commit in document.commits or unknown
    ]
    names = ("position", "document_id", "tokens", "repository", "commit", "path", "licence")
    out.print()
    out.print(table(documents_of, names, heads={"document_id": "document"}))


def _readers(found: Readers) -> None:
    if found.missing:
        words = missing_words(found.missing)
        warn(f"steps that read it from removed rows can't be found: {words}")
    is_id = found.kind in ("commit", "document")
    _title(f"{found.kind} {one_line(found.name[:KEY_DIGITS] if is_id else found.name)}")
    if not found.visits:
        _print("no training step has read it")
        return
    runs = [
        [*visits]
        for _, visits in groupby(found.visits, lambda visit: (visit.run_key, visit.attempt))
    ]
    keys = {visit.run_key for visit in found.visits}
    _print(f"read by {number(len(found.visits), 'step')} of {number(len(keys), 'run')}")
    lines = [
        {
            "run": visits[0].run,
            "key": visits[0].run_key,
            "attempt": visits[0].attempt,
            "rows": sum(visit.rows for visit in visits),
            "tokens": sum(visit.tokens for visit in visits),
            "study": visits[0].study,
            "steps": number_ranges(visit.step for visit in visits),
        }
        for visits in runs
    ]
    drawn = table(lines)
    drawn.columns[-1].justify = "left"  # Ranges start with a digit, like numbers.
    out.print()
    out.print(drawn)
    if found.checkpoints:
        out.print()
        _print(f"{number(len(found.checkpoints), 'checkpoint')} trained on this data")
        out.print(table(map(_checkpoint_line, found.checkpoints[:MAX_CHECKPOINTS])))
    if len(found.checkpoints) > MAX_CHECKPOINTS:
        _print(f"{len(found.checkpoints) - MAX_CHECKPOINTS:,} more (--json)")


def _checkpoint_line(path: str) -> Line:
    """Return a table line for a checkpoint, parsed from its path.

    The path has the form runs/specialist-…/phase-…/KEY/attempt=1/checkpoints/step=N.
    """
    parts = path.split("/")
    labels = dict(map(label_of, parts))
    names = [labels[name] for name in ("specialist", "branch", "phase") if name in labels]
    attempt, step = number_of(parts[-3], ATTEMPT), number_of(parts[-1], STEP)
    assert attempt is not None, "the view has attempts alone"
    assert step is not None, "the view has checkpoints alone"
    return {"run": "/".join(names), "key": parts[-4], "attempt": attempt, "step": step}


def _until(read: ReadUntil) -> None:
    _title(read.run, read.run_key, mark=read.study)
    tokens = number(sum(phase.tokens for phase in read.phases), "token")
    _print(f"training data up to step {read.step:,}: {tokens} in all phases")
    heads = ("phase",), ("repository", "licence")
    for names, shares in zip(heads, (read.phases, read.repositories), strict=True):
        out.print()
        out.print(table(shares, heads={"names": names}))


def number_ranges(steps: Iterable[int]) -> str:
    """Format numbers in ascending order; consecutive numbers become ranges.

    >>> number_ranges([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    drawn: list[list[int]] = []
    for step in sorted(set(steps)):
        if drawn and step == drawn[-1][1] + 1:
            drawn[-1][1] = step
        else:
            drawn.append([step, step])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in drawn)


def _title(text: str, key: str = "", attempt: int = 1, *, mark: str = "") -> None:
    more = f"   {key[:KEY_DIGITS]}" if key else ""
    again = f", attempt {attempt}" if attempt > 1 else ""
    study = f"   {mark}" if mark else ""
    title = Text.assemble(
        (one_line(text), "bold"), (f"{more}{again}", MUTED), (one_line(study), "yellow")
    )
    out.print(title, soft_wrap=True)


def _print(*sentences: str) -> None:
    for sentence in sentences:
        print_line(sentence, MUTED)
