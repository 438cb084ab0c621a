"""`curriculum lineage`: what a step of a run read, down to commits; and which steps read a commit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import Line, number
from curriculum.pipeline.attempts import STEP
from curriculum.store.artefact import KEY_DIGITS
from flows.cli.console import MUTED, out, print_json, table, warn
from flows.cli.lineage_reads import (
    NO_LICENCE,
    LineageQuestions,
    ReadCommit,
    Readers,
    ReadUntil,
    Share,
    StepRead,
    Visit,
    missing_words,
)
from schemas.label_folders import label_of
from schemas.visible import one_line

MOST_CHECKPOINTS = 12
"""Number of checkpoints that are listed; --json gives all."""


def lineage(home: Path, what: str, *, step: int | None, as_json: bool) -> None:
    """Print what a step read; or which steps read something; or all that a model has read."""
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
    licences = sorted({each.licence or NO_LICENCE for each in read.commits})
    documents = sum(len(row.documents) for row in read.rows)
    _print(
        f"step {read.step:,} of {read.steps:,}",
        f"{number(len(read.rows), 'row')}, {number(documents, 'document')}, "
        f"{number(sum(row.tokens for row in read.rows), 'token')}",
        f"{number(len({each.commit for each in read.commits}), 'commit')} of "
        f"{', '.join(sorted({each.repository for each in read.commits})) or 'nowhere'}",
        f"licences: {', '.join(licences) or NO_LICENCE}",
    )
    out.print()
    out.print(table(_row_lines(read)))
    out.print()
    out.print(table(_document_lines(read)))


def _row_lines(read: StepRead) -> Iterator[Line]:
    for row in read.rows:
        yield {
            "position": row.position,
            "row": row.pack_id,
            "family": row.family,
            "objective": row.objective,
            "domain": row.domain,
            "length": row.row_length,
            "tokens": row.tokens,
            "documents": len(row.documents),
            "pass": row.repetition + 1,
        }


def _document_lines(read: StepRead) -> Iterator[Line]:
    unknown = (ReadCommit(repository="", commit="", file="", licence=None),)
    for row in read.rows:
        for document in row.documents:
            for commit in document.commits or unknown:
                yield {
                    "position": row.position,
                    "document": document.document_id[:KEY_DIGITS],
                    "tokens": document.tokens,
                    "commit": commit.commit[:KEY_DIGITS],
                    "file": one_line(commit.file),
                    "licence": one_line(commit.licence or NO_LICENCE),
                }


def _readers(found: Readers) -> None:
    if found.missing:
        warn(
            f"steps that read it from rows that were deleted aren't found: {missing_words(found.missing)}"
        )
    is_id = found.kind in ("commit", "document")
    _title(f"{found.kind} {one_line(found.name[:KEY_DIGITS] if is_id else found.name)}")
    if not found.visits:
        _print("no step of any run has read it")
        return
    runs = {each.run_key for each in found.visits}
    _print(f"read by {number(len(found.visits), 'step')} of {number(len(runs), 'run')}")
    out.print()
    drawn = table(_run_lines(found.visits))
    drawn.columns[-1].justify = "left"  # Spans begin like numbers.
    out.print(drawn)
    listed = found.checkpoints[:MOST_CHECKPOINTS]
    if listed:
        out.print()
        _print(f"{number(len(found.checkpoints), 'checkpoint')} trained on it")
        out.print(table(map(_checkpoint_line, listed)))
    if len(found.checkpoints) > len(listed):
        _print(f"{len(found.checkpoints) - len(listed):,} more: --json shows all")


def _run_lines(visits: Sequence[Visit]) -> Iterator[Line]:
    has_studies = any(each.study for each in visits)
    for (run, key, attempt), of_run in groupby(
        visits, lambda each: (each.run, each.run_key, each.attempt)
    ):
        same = list(of_run)
        yield {
            "run": run,
            "key": key[:KEY_DIGITS],
            "attempt": attempt,
            "rows": sum(each.rows for each in same),
            "tokens": sum(each.tokens for each in same),
            **({"study": same[0].study} if has_studies else {}),
            "steps": spans(each.step for each in same),
        }


def _checkpoint_line(path: str) -> Line:
    """Describe the checkpoint at runs/specialist-…/phase-…/KEY/attempt=1/checkpoints/step=N."""
    parts = path.split("/")
    labels = dict(map(label_of, parts))
    names = [labels[name] for name in ("specialist", "branch", "phase") if name in labels]
    return {
        "run": one_line("/".join(names)),
        "key": parts[-4],
        "attempt": parts[-3].removeprefix("attempt="),
        "step": parts[-1].removeprefix(STEP),
    }


def _until(read: ReadUntil) -> None:
    _title(read.run, read.run_key, mark=read.study)
    tokens = number(sum(each.tokens for each in read.phases), "token")
    _print(f"all that was read until step {read.step:,}: {tokens} in all phases")
    out.print()
    out.print(table(_share_lines(read.phases, ("phase",))))
    out.print()
    out.print(table(_share_lines(read.repositories, ("repository", "licence"))))


def _share_lines(shares: Iterable[Share], names: Sequence[str]) -> Iterator[Line]:
    for each in shares:
        yield {
            **dict(zip(names, map(one_line, each.names), strict=True)),
            "steps": each.steps,
            "rows": each.rows,
            "documents": each.documents,
            "commits": each.commits,
            "tokens": each.tokens,
        }


def spans(steps: Iterable[int]) -> str:
    """Numbers with their neighbours drawn together.

    >>> spans([1, 2, 3, 7, 9, 10])
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
    title = Text.assemble((text, "bold"), (f"{more}{again}", MUTED), (study, "yellow"))
    out.print(title, soft_wrap=True)


def _print(*sentences: str) -> None:
    for each in sentences:
        out.print(Text(each, MUTED), soft_wrap=True)
