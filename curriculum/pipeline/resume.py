"""Resume inside a run with another diet, and exclude rows from mixtures."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from curriculum import frames
from curriculum.mixing.mix import report_of, seen_until
from curriculum.mixing.schedule import read_left_out, select_pack_ids
from curriculum.pipeline.attempts import Attempt, attempts_in, checkpoints
from curriculum.pipeline.references import run_of
from curriculum.pipeline.run_config import ResumeConfig
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import JOB, attempt_number, attempts, is_finished, read_job
from schemas.diet import Diet
from schemas.errors import DietError, JobError, MixtureError
from schemas.job import Job
from schemas.mixture import Continued, RowsTaken
from schemas.run_folders import STEP, number_of
from schemas.specialist import SpecialistRef
from schemas.study import study_mark
from schemas.whole_numbers import whole_number


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumePoint:
    """A complete checkpoint of a run."""

    checkpoint: Path
    job: Job
    step: int

    @staticmethod
    def at(checkpoint: Path) -> "ResumePoint":
        """Return the point for a directory like runs/…/attempt=1/checkpoints/step=N."""
        step = number_of(checkpoint.name, STEP)
        if step is None:
            raise JobError(
                str(checkpoint),
                cause="the folder name isn't that of a checkpoint",
                cure="Name a folder checkpoints/step=N of a run",
            )
        return ResumePoint(
            checkpoint=checkpoint, job=read_job(checkpoint.parents[1] / JOB), step=step
        )


def split_step(text: str) -> tuple[str, int | None]:
    """Split RUN@STEP, the value of --continue. The step is None if @STEP is missing.

    >>> split_step("templates/syntax@40"), split_step("a1b2c3"), split_step("/home/me@host/runs/x")
    (('templates/syntax', 40), ('a1b2c3', None), ('/home/me@host/runs/x', None))

    Raises:
        DietError: if the step isn't a number.
    """
    run, at, step = text.rpartition("@")
    if not at or "/" in step:
        return text, None
    number = whole_number(step)
    if not run or number is None:
        raise DietError(
            "--continue",
            text,
            cause="the value must be RUN or RUN@STEP, where STEP is a number",
            cure=f"Give --continue {run or 'RUN'}@40, or omit @ for the last checkpoint",
        )
    return run, number


def resume_point(store: Store, run: str, step: int | None) -> ResumePoint:
    """Return the checkpoint of a run at `step`, by default the last one. `run` is a path, name or key.

    Raises:
        JobError: if the run is missing or ambiguous, the step has no checkpoint, or the run is an anneal,
        whose learning rate only makes sense from its start.
    """
    kept = dict(checkpoints(run_of(store, run, name="--continue").path))
    if not kept:
        raise JobError(run, cause="the run has no checkpoint", cure="Train it until it saves one")
    if step is not None and step not in kept:
        raise JobError(
            "--continue",
            f"{run}@{step}",
            cause=f"the run has no checkpoint of step {step}",
            cure=f"Available: {', '.join(str(saved) for saved in sorted(kept))}",
        )
    return _outside_a_decay(ResumePoint.at(kept[max(kept) if step is None else step]))


def checkpoint_before(store: Store, run: Attempt, step: int) -> ResumePoint:
    """Return the last checkpoint of a run at or before a step.

    If the attempt `run` is unfinished, its own checkpoints are preferred. Then come those of the highest
    finished attempt, and then those of the other attempts, highest first.

    Raises:
        JobError: if no early enough checkpoint is left, listing all checkpoints; and for an anneal.
    """

    def rank(path: Path) -> tuple[bool, bool, int]:
        is_closed = is_finished(path)
        return path == run.path and not is_closed, is_closed, attempt_number(path)

    kept: set[int] = set()
    for path in sorted(attempts(run.path.parent), key=rank, reverse=True):
        found = dict(checkpoints(path))
        kept |= found.keys()
        if earlier := [number for number in found if number <= step]:
            return _outside_a_decay(ResumePoint.at(found[max(earlier)]))
    listed = ", ".join(str(number) for number in sorted(kept))
    raise JobError(
        "--from-step",
        step,
        cause=f"{run.path.relative_to(store.root)} has no checkpoint at or before this step",
        cure=f"Available: {listed}" if kept else "It has no checkpoint; train the phase again",
    )


def newest_run(store: Store, ref: SpecialistRef, same: Mapping[str, str]) -> Attempt:
    """Return the attempt of a specialist that started last, finished or not.

    If the same command (with the overrides `same`) started that attempt, return the run that it resumed
    instead. So if the command is repeated, it starts from the same checkpoint and continues its own run.

    Raises:
        JobError: if there is no attempt.
    """
    runs = [attempt for attempt in attempts_in(store) if attempt.ref == ref]
    if not runs:
        raise JobError(
            "--from-step", cause="this specialist has no run yet", cure="Remove the option"
        )
    found = runs[-1]
    while found.job.start_from is not None and same.items() <= found.job.overrides.items():
        before = (store.root / found.job.start_from.path).parents[1]
        found = Attempt.at(before)
    return found


def _outside_a_decay(point: ResumePoint) -> ResumePoint:
    """Return a checkpoint, but raise if it is one of an anneal, which can't be resumed inside.

    The learning rate of an anneal only makes sense from its start.
    """
    if point.job.optimizer.schedule == "decay":
        raise JobError(
            point.checkpoint.name,
            point.job.phase,
            cause="an anneal can't be continued from its middle",
            cure="Continue from the phase before it",
        )
    return point


def left_out_before(store: Store, point: ResumePoint) -> tuple[str, ...]:
    """Return the pack_ids that were already excluded from the mixture of a checkpoint's run."""
    return read_left_out(store.load((store.root / point.job.plan).parent).path)


def continued(store: Store, point: ResumePoint) -> Continued:
    """Return the rows and tokens that a model has read at a checkpoint, including earlier phases."""
    seen, tokens = _seen(store, point)
    return Continued(run=point.job.run_key, step=point.step, tokens=tokens, seen=seen)


def _seen(store: Store, point: ResumePoint) -> tuple[tuple[RowsTaken, ...], int]:
    """Return the rows of all steps up to a checkpoint, and the valid tokens of the checkpoint's phase."""
    mixture = store.load((store.root / point.job.plan).parent)
    report = report_of(mixture)
    slots = point.step * point.job.tokens_per_step // report.slot_length
    seen, tokens = seen_until(mixture, slots=slots)
    if report.continued is not None:
        return (*report.continued.seen, *seen), report.continued.tokens + tokens
    start = point.job.start_from
    before = _seen(store, ResumePoint.at(store.root / start.path))[0] if start is not None else ()
    return (*before, *seen), tokens


OPTION = "--without-rows"
_PACK = re.compile(r"[0-9a-f]{12}-\d{10}")
_DOCUMENT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowExclusions:
    """Rows, documents and repositories to exclude from mixtures."""

    packs: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()
    repositories: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.packs or self.documents or self.repositories)

    def packs_of(self, rows: Sequence[Artefact], documents: Sequence[Artefact]) -> tuple[str, ...]:
        """Return the pack_ids of those rows that are excluded, or contain something that is excluded.

        Rows are excluded as a whole. pack_ids of other phases are ignored.

        Raises:
            MixtureError: for a pack_id of these rows that doesn't exist.
        """
        named = select_pack_ids(self.packs, [artefact.key for artefact in rows])
        built = [artefact for artefact in rows if not artefact.planned]
        if not self or not built:
            return named
        # Rows of one phase may differ in columns, because some have structure.
        all_rows = pl.concat(
            frames.scan(artefact.shards(), ["pack_id", "document_ids"]) for artefact in built
        )
        mine = (
            all_rows.filter(pl.col("pack_id").is_in(named)).select("pack_id").collect()["pack_id"]
        )
        missing = sorted({*named} - {*mine})
        if missing:
            raise MixtureError(
                OPTION,
                missing[0],
                cause="no row has this pack_id",
                cure="Look at the plan: curriculum query",
            )
        return tuple(sorted({*mine, *self._holding(all_rows, documents)}))

    def _holding(self, rows: pl.LazyFrame, documents: Sequence[Artefact]) -> pl.Series:
        """Return the rows that contain an excluded document, or a document of an excluded repository."""
        named_by = [
            artefact
            for artefact in documents
            if artefact.manifest.labels.get("repository") in self.repositories
        ]
        files = [file for artefact in named_by for file in artefact.shards()]
        named = pl.LazyFrame({"document_ids": sorted(self.documents)}, {"document_ids": pl.String})
        theirs = [
            frames.scan(file, ["document_id"]).rename({"document_id": "document_ids"})
            for file in files
        ]
        return (
            rows.explode("document_ids")
            .join(pl.concat([named, *theirs]), on="document_ids", how="semi")
            .select(pl.col("pack_id").unique())
            .collect(engine="streaming")["pack_id"]
        )


def parse_exclusions(text: str | None, repositories: Collection[str]) -> RowExclusions:
    """Return the exclusions in the value of --without-rows: comma-separated words, or a file.

    The file has one exclusion per line; `#` starts a comment.

    Raises:
        DietError: for a word that is neither a pack_id, a document id, nor a repository.
    """
    words = _words(text) if text else []
    packs = frozenset(word for word in words if _PACK.fullmatch(word))
    documents = frozenset(word for word in words if _DOCUMENT.fullmatch(word))
    names = frozenset(words) - packs - documents
    for name in sorted(names - frozenset(repositories)):
        raise DietError(
            OPTION,
            name,
            cause=(
                "the value is neither a pack_id, a document id of 32 digits, a repository nor a "
                "file"
            ),
            cure=f"Repositories: {', '.join(sorted(repositories))}",
        )
    return RowExclusions(packs=packs, documents=documents, repositories=names)


def _words(text: str) -> list[str]:
    file = Path(text)
    if not file.is_file():
        return [word.strip() for word in text.split(",") if word.strip()]
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [line for line in lines if line]


def asked_resume_point(
    store: Store, diet: Diet, asked: ResumeConfig, phases: Sequence[str]
) -> ResumePoint | None:
    """Return the checkpoint that options select, or None. Its run must belong to one of `phases`.

    Raises:
        DietError: for options that contradict each other, or a run of another phase.
        JobError: for a missing run or checkpoint.
    """
    run_name, step = split_step(asked.continue_run) if asked.continue_run else (None, None)
    if step is not None and asked.from_step is not None:
        raise DietError(
            "--continue",
            asked.continue_run,
            cause="--from-step also names a step",
            cure=f"Remove --from-step, or give --continue {run_name}",
        )
    if asked.from_step is not None:
        if run_name is not None:
            run = run_of(store, run_name, name="--continue")
        else:
            given = {"from_step": asked.from_step, "without_rows": asked.without_rows}
            same = {name: str(value) for name, value in given.items() if value is not None}
            run = newest_run(store, SpecialistRef(diet.specialist, diet.branch), same)
        point = checkpoint_before(store, run, asked.from_step)
    elif run_name is not None:
        point = resume_point(store, run_name, step)
    else:
        return None
    if point.job.phase not in phases:
        raise DietError(
            "--continue",
            asked.continue_run or point.job.run_key[:KEY_DIGITS],
            cause=f"the run belongs to phase {point.job.phase}, which the diet doesn't list",
            cure=f"Its phases: {', '.join(phases)}",
        )
    _require_continuable(point, diet)
    return point


def _require_continuable(point: ResumePoint, diet: Diet) -> None:
    """Raise if another diet would continue a study, or if the phase to resume switches its masks."""
    if point.job.study is not None:
        from curriculum.train.job import require_same_study

        require_same_study(point.job, diet)
    if diet.study is not None and not isinstance(diet.study.document_mask, str):
        raise DietError(
            "--from-step or --continue",
            study_mark(diet.study),
            cause="a phase switches its masks at a fixed fraction of all its steps",
            cure="Train the phase from its start",
        )
