"""A diet that changes in the middle of a run, and branches that part where their diets do."""

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from curriculum.inspection.runs import report_of
from curriculum.mixing.diet_files import DIETS
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import Scope, selected
from curriculum.pipeline.phase_training import train_phase
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.resume import continued, resume_point, split_step
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact, Store
from curriculum.train import restore
from curriculum.train.device import with_backend
from curriculum.train.evaluation import Evaluator, read_token_bytes
from curriculum.train.optimizer import new_train_state
from curriculum.train.run_directory import read_job
from schemas.errors import DietError, JobError
from schemas.job import Figure, Job

DEMO = (DIETS / "templates.demo.yaml").read_text()


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    """A workspace of one's own, as the demo left it."""
    copy = tmp_path / "workspace"
    shutil.copytree(demo_home, copy, ignore=shutil.ignore_patterns("prefect", ".locks"))
    return copy


def run_of(home: Path, phase: str) -> Artefact:
    store = Store(home, dry=True)
    return next(each for each in store.artefacts("runs") if each.manifest.labels["phase"] == phase)


def checkpoints(run: Artefact) -> list[int]:
    found = (run.path / "checkpoints").glob("step=*")
    return sorted(int(each.name.partition("=")[2]) for each in found)


def evaluated(run: Artefact, step: int, home: Path) -> tuple[Figure, ...]:
    """Evaluate a run's checkpoint in this process, on the run's own validation rows."""
    job = with_backend(read_job(run.path / "job.json"), torch.device("cpu"))
    state = new_train_state(job, torch.device("cpu"))
    restore.resume(run.path / "checkpoints" / f"step={step}", state)
    token_bytes = read_token_bytes(home / job.tokenizer.path)
    evaluator = Evaluator(
        train_state=state, job=job, workspace=home, token_bytes=token_bytes, stop=lambda: False
    )
    return evaluator.evaluate(step).figures


def anchor_bpb(figures: Iterable[Figure]) -> float:
    """The mean over the anchor's strata."""
    (found,) = [each for each in figures if (each.set, each.family) == ("anchor", "*")]
    return found.val_bpb


@pytest.mark.system
def test_a_changed_diet_goes_on_from_a_checkpoint_and_sees_no_row_twice(
    home: Path, tmp_path: Path
) -> None:
    before = run_of(home, "syntax")
    step = checkpoints(before)[0]
    assert 0 < step < report_of(before).steps
    changed = tmp_path / "changed.yaml"
    changed.write_text(
        DEMO.replace("v3_doxygen, share: 0.6", "v3_doxygen, share: 0.3").replace(
            "v3_simple, share: 0.2", "v3_simple, share: 0.5"
        )
    )
    order = RunConfig.of(
        specialist=str(changed),
        workspace=home,
        continue_run=f"{before.key[:12]}@{step}",
        workers=1,
    )
    plan = resolve_plan(order)
    built = build_phase(plan, "syntax", Context())
    mixture = mix_phase(plan, "syntax", built, Context())
    run = train_phase(plan, "syntax", built, mixture, retrain=False, context=Context())
    job = Job.model_validate_json((run.path / "job.json").read_text())
    assert job.start_from
    assert job.start_from.path.endswith(f"attempt=1/checkpoints/step={step}")
    assert job.optimizer.warmup_steps == 0
    told, first = mixture_report_of(mixture), report_of(run)
    assert told.continued
    assert told.budget == plan.phase("syntax").tokens - told.continued.tokens
    assert anchor_bpb(first.before) == pytest.approx(
        anchor_bpb(evaluated(before, step, home)), abs=1e-6
    )
    current = plan.current("runs", plan.phase("syntax"))
    assert current
    assert current.path == run.path


def test_a_walk_that_goes_on_begins_with_the_phase_of_the_run(demo_home: Path) -> None:
    run = run_of(demo_home, "file_graph")
    order = RunConfig.of(
        specialist="templates.demo", workspace=demo_home, continue_run=str(run.path)
    )
    plan = resolve_plan(order, dry=True)
    assert list(selected(plan, Scope())) == [
        "file_graph",
        "repository_graph",
        "structure",
        "anneal",
    ]
    assert plan.resume
    assert plan.resume.step == checkpoints(run)[-1]
    found = continued(plan.store, plan.resume)
    syntax = mixture_report_of(
        next(
            each
            for each in plan.store.artefacts("mixtures")
            if each.manifest.labels["phase"] == "syntax"
        )
    )
    keys = {each.rows_key for stratum in syntax.strata for each in stratum.rows_taken}
    assert keys < {each.rows_key for each in found.seen}
    assert found.tokens < sum(each.rows for each in found.seen) * 1024


@pytest.mark.parametrize(
    ("run", "step", "said"),
    [
        ("syntax", 3, r"@3; the run has no checkpoint of step 3\. Available: \d+, \d+"),
        ("anneal", None, "an anneal can't be continued from its middle"),
        ("no such", None, "no run of that name, path or key. Available: templates/demo/anneal"),
        ("runs", None, "several runs match"),
    ],
)
def test_what_cannot_be_gone_on_from_is_said_with_what_can(
    demo_home: Path, run: str, step: int | None, said: str
) -> None:
    name = {"no such": "zzz", "runs": str(demo_home / "runs")}.get(run)
    with pytest.raises(JobError, match=said):
        resume_point(Store(demo_home, dry=True), name or run_of(demo_home, run).key, step)


def test_a_step_that_is_no_number_and_a_phase_that_is_not_listed_are_refused(
    demo_home: Path, tmp_path: Path
) -> None:
    for text in ("@3", "templates/syntax@", "templates/syntax@last"):
        with pytest.raises(DietError, match=r"RUN@STEP"):
            split_step(text)
    diet = tmp_path / "short.yaml"
    diet.write_text(
        "extends: templates.demo\nbranch: short\nphases: [{phase: syntax, portion: 0.9}]\n"
    )
    key = run_of(demo_home, "structure").key
    with pytest.raises(DietError, match="phase structure"):
        resolve_plan(RunConfig.of(specialist=str(diet), workspace=demo_home, continue_run=key))


def outcomes(home: Path, diet: Path) -> dict[str, Counter[str]]:
    """Return the outcomes of a dry run for the mixtures and runs of each phase."""
    plan = resolve_plan(RunConfig.of(specialist=str(diet), workspace=home), dry=True)
    found: dict[str, Counter[str]] = {}
    for phase in plan.phases:
        built = build_phase(plan, phase.name, Context())
        del plan.store.steps[:]
        mixture = mix_phase(plan, phase.name, built, Context())
        run = train_phase(plan, phase.name, built, mixture, retrain=False, context=Context())
        found[phase.name] = Counter(
            "planned" if each.planned else "there" for each in (mixture, run)
        )
    return found


def test_a_branch_trains_only_from_where_its_diet_parts(demo_home: Path, tmp_path: Path) -> None:
    diet = tmp_path / "wide.yaml"
    diet.write_text(
        "extends: templates.demo\nbranch: wide\nphases:\n  - {phase: syntax}\n"
        "  - {phase: file_graph}\n  - {phase: repository_graph, portion: 0.3}\n"
    )
    assert outcomes(demo_home, diet) == {
        "syntax": {"there": 2},
        "file_graph": {"there": 2},
        "repository_graph": {"planned": 2},
        "anneal": {"planned": 2},
    }
