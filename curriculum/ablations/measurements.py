"""Measurements of each arm's last checkpoint in the views that the claims name, published as artefacts.

One process makes all missing measurements one after another. Therefore, torch is imported only once, and its
threads and memory are freed at the end.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from curriculum.ablations.ablation_views import ViewSets
from curriculum.pipeline.context import Context
from curriculum.published_files import leaving_whole_files
from curriculum.store import Artefact, Input, Recipe, StagingDirectory, Store
from curriculum.train.launch.gpu_slots import Machine
from curriculum.train.process_environment import restrict_visible_gpus, wait_passively
from curriculum.train.run_directory import torch_build
from curriculum.workers import WorkerPool
from schemas.ablation import View
from schemas.job import DeviceName, Evaluation
from schemas.progress import Progress
from schemas.reports import MeasurementReport

REVISION = 1
"""Version of measurements. Increase it when the same checkpoint and rows lead to other figures."""
DOCUMENTS_NAME = "documents.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measuring:
    """Finished run, and the sets on which it is to be measured."""

    run: Artefact
    sets: ViewSets
    root: Path
    """Root of the workspace."""
    device: DeviceName
    slot: tuple[int, int] | None = None
    """Pair of the number of the slot that the process has acquired, and the total number of slots."""

    def recipe(self, view: View) -> Recipe:
        """Return the recipe of the measurement of a view."""
        evaluations = self.sets[view]
        without_rows = {"strata": {"__all__": {"rows", "positions"}}}
        return Recipe(
            stage="measurements",
            labels=(("view", view),),
            revision=REVISION,
            config={
                "evaluations": [
                    evaluation.model_dump(mode="json", exclude=without_rows)
                    for evaluation in evaluations
                ]
            },
            inputs=(self.run.as_input("run"), *_inputs(evaluations)),
            tools={"torch": torch_build().version},
        )

    @property
    def recipes(self) -> dict[View, Recipe]:
        """Recipes of all views."""
        return {view: self.recipe(view) for view in self.sets}


def _inputs(evaluations: Sequence[Evaluation]) -> list[Input]:
    return [
        Input(
            name=f"evaluation {evaluation.set} {number}",
            key=stratum.rows.key,
            content=stratum.rows.content,
        )
        for evaluation in evaluations
        for number, stratum in enumerate(evaluation.strata)
    ]


def measure_views(
    store: Store, runs: Sequence[Artefact], sets: Sequence[ViewSets], context: Context
) -> list[dict[View, Artefact]]:
    """Return the measurements of each run in its views. Make those that are missing.

    Raises:
        JobError, JobMemoryError: as `measure` does.
        WorkerError: if the measuring process is killed repeatedly.
    """
    device = Machine.local().device
    asked = [
        Measuring(run=run, sets=some, root=store.root, device=device)
        for run, some in zip(runs, sets, strict=True)
    ]
    with store.leased():
        store.use(recipe for task in asked for recipe in task.recipes.values())
        missing = [
            task
            for task in asked
            if any(store.find(recipe) is None for recipe in task.recipes.values())
        ]
        if missing:
            _measure_missing(missing, context)
        dry = Store(store.root, dry=True)
        return [
            dict(
                zip(task.recipes, dry.produce([*task.recipes.values()], _make_nothing), strict=True)
            )
            for task in asked
        ]


def _measure_missing(missing: Sequence[Measuring], context: Context) -> None:
    """Measure the runs in `missing` in one process, which occupies a slot of this machine."""
    root, total = missing[0].root, len(missing)
    done = 0

    def report(words: str) -> None:
        context.watch(_progress("", done, total, words))

    slots = context.resources.slots_of(root)
    with slots.hold(str(root / "measurements"), report) as slot:
        tasks = [replace(task, slot=(slot.number, slot.of)) for task in missing]
        results = WorkerPool(size=1).map(measure_run, tasks, name=_title, tell=report)
        report("")
        with closing(results):
            for done, (number, _) in enumerate(results, 1):
                context.watch(_progress(_title(missing[number]), done, total, ""))


def _title(task: Measuring) -> str:
    labels = task.run.manifest.labels
    return labels.get("branch", labels["specialist"])


def _progress(item: str, done: int, total: int, note: str) -> Progress:
    return Progress(stage="measure", item=item, done=done, total=total, unit="runs", note=note)


def measure_run(task: Measuring) -> bool:
    """Make the missing measurements of one run. A worker process calls this function."""
    wait_passively()
    if task.slot is not None:
        restrict_visible_gpus(*task.slot)
    with leaving_whole_files():
        Store(task.root).produce([*task.recipes.values()], partial(_write, task))
    return True


def _write(task: Measuring, drafts: Sequence[StagingDirectory]) -> None:
    # Imported late, because torch takes seconds to import, and only the measuring process needs it.
    from curriculum.train.run_measurement import measure

    views = {recipe.key: view for view, recipe in task.recipes.items()}
    groups = [task.sets[views[draft.recipe.key]] for draft in drafts]
    for draft, found in zip(
        drafts, measure(task.run.path, groups, task.root, task.device), strict=True
    ):
        pq.write_table(found.documents, draft.path / DOCUMENTS_NAME, compression="zstd")
        means = {figure.set: figure.val_bpb for figure in found.figures if figure.family == "*"}
        draft.record(MeasurementReport(val_bpb=means))


def _make_nothing(_: Sequence[StagingDirectory]) -> None:
    raise AssertionError("a dry store makes nothing")
