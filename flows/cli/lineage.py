"""`curriculum lineage`: what a step of a run read, down to commits; and which steps read a commit."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.text import Text

from curriculum import catalog
from curriculum.inspection.formats import Line, number
from curriculum.inspection.lineage import (
    NO_LICENCE,
    Commit,
    LineageCatalog,
    LineageError,
    MissingRows,
    Readers,
    ReadUntil,
    Share,
    StepRead,
    Visit,
    missing_words,
)
from curriculum.mixing.load import diet_names
from curriculum.pipeline.attempts import STEP, Attempt, attempts_in, specialist_of
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.references import is_run, named, run_of, store_of
from curriculum.pipeline.run_config import command
from curriculum.store import Store
from curriculum.store.artefact import KEY_DIGITS
from flows.cli.console import MUTED, out, print_json, table, warn
from schemas.errors import JobError
from schemas.label_folders import label_of
from schemas.study import study_mark
from schemas.visible import one_line

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


MOST_CHECKPOINTS = 12
"""Number of checkpoints that are listed; --json gives all."""


def lineage(home: Path, what: str, *, step: int | None, as_json: bool) -> None:
    """Print what a step read; or which steps read something; or all that a model has read."""
    notices = catalog.notices(home)
    for notice in notices:
        warn(notice)
    found = readers_or_read(home, what) if step is None else read_by(home, what, step)
    if as_json:
        print_json(asdict(found) | ({"notices": notices} if notices else {}))
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
    unknown = (Commit(repository="", commit="", file="", licence=None),)
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
