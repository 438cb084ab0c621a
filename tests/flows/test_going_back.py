"""Back to an earlier step, without the rows that did harm, and on."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.pipeline.attempts import Attempt, checkpoints
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.references import run_of
from curriculum.pipeline.resume import (
    RowExclusions,
    checkpoint_before,
    newest_run,
    parse_exclusions,
)
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact, Store
from flows.cli import app
from schemas.errors import DietError, JobError, MixtureError
from schemas.job import Job
from schemas.specialist import SpecialistRef
from tests.error_fields import fields
from tests.sealing import sealed

DEMO = SpecialistRef("templates", "demo")


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    """A workspace of one's own, as the demo left it."""
    copy = tmp_path / "workspace"
    shutil.copytree(demo_home, copy, ignore=shutil.ignore_patterns("prefect", ".locks"))
    return copy


def curriculum(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def syntax_of(home: Path) -> Attempt:
    return run_of(Store(home, dry=True), "templates/demo/syntax", name="it")


def plan_of(home: Path, run: Path) -> pl.DataFrame:
    return pl.read_parquet(home / json.loads((run / "job.json").read_text())["plan"])


def mixture_at(store: Store, run: Path) -> Artefact:
    return store.load((store.root / json.loads((run / "job.json").read_text())["plan"]).parent)


def test_a_run_goes_back_leaves_rows_out_and_goes_on_and_the_command_can_be_given_again(
    home: Path,
) -> None:
    before = syntax_of(home)
    steps = sorted(step for step, _ in checkpoints(before.path))
    plan = plan_of(home, before.path)
    ahead = plan.filter(pl.col("slot") * 512 >= steps[0] * before.job.tokens_per_step)
    gone = sorted(ahead["pack_id"].unique().sort()[:3])
    words = ["train", "templates.demo", "--phase", "syntax", "--home", str(home)]
    words += ["--continue", "templates/demo/syntax", "--from-step", str(steps[0] + 1)]
    words += ["--without-rows", ",".join(gone)]
    done = curriculum(*words)
    assert done.exit_code == 0, done.output
    assert (
        f"continues from runs/specialist-templates/branch-demo/phase-syntax/{before.path.parent.name}"
        in done.stdout
    )
    assert f"step={steps[0]}" in done.stdout
    assert f"excluded: {', '.join(gone)}" in done.stderr
    begun = [Attempt.at(each) for each in (home / "runs").rglob("phase-syntax/*/attempt=1")]
    after = max(begun, key=lambda each: each.order).path
    job = Job.model_validate_json((after / "job.json").read_text())
    assert after != before.path
    assert job.start_from
    assert job.start_from.path.endswith(f"checkpoints/step={steps[0]}")
    assert job.overrides["without_rows"] == ",".join(gone)
    now = plan_of(home, after)
    assert now.height > 10
    assert not now["pack_id"].is_in(gone).any()
    told = mixture_report_of(mixture_at(Store(home, dry=True), after)).left_out
    assert told
    assert list(told.first) == gone


def test_the_command_that_went_back_finds_the_run_that_it_began(home: Path) -> None:
    """Not the one it made itself: given again after an interruption, it must go on, not back again."""
    store, first = Store(home, dry=True), syntax_of(home)
    step, checkpoint = min(checkpoints(first.path))
    same = {"from_step": str(step), "without_rows": "lattice"}
    begun = first.path.parents[1] / ("f" * 12) / "attempt=1"
    begun.mkdir(parents=True)
    start = {
        "run_key": first.job.run_key,
        "run_content": "0" * 64,
        "path": checkpoint.relative_to(home).as_posix(),
    }
    job = json.loads((first.path / "job.json").read_text())
    later = {"ordinal": 99, "start_from": start, "overrides": same}
    (begun / "job.json").write_text(sealed(job | later))
    assert newest_run(store, DEMO, same).path == first.path
    assert newest_run(store, DEMO, same | {"from_step": "7"}).path == begun


def test_the_nearest_checkpoint_at_or_before_a_step_is_taken(demo_home: Path) -> None:
    store, run = Store(demo_home, dry=True), syntax_of(demo_home)
    low, high = sorted(step for step, _ in checkpoints(run.path))
    found = [checkpoint_before(store, run, step).step for step in (low, high - 1, high, high + 99)]
    assert found == [low, low, high, high]
    with pytest.raises(JobError, match=rf"Available: {low}, {high}"):
        checkpoint_before(store, run, low - 1)


def test_an_earlier_attempt_is_gone_back_to_where_it_alone_keeps_the_step(home: Path) -> None:
    run = syntax_of(home)
    again = run.path.with_name("attempt=2")
    shutil.copytree(run.path, again)
    low, high = sorted(step for step, _ in checkpoints(run.path))
    shutil.rmtree(again / "checkpoints" / f"step={low}")
    store = Store(home, dry=True)
    assert checkpoint_before(store, run, low).checkpoint.is_relative_to(run.path)
    assert checkpoint_before(store, run, high).checkpoint.is_relative_to(again)


def test_a_decay_and_a_specialist_that_never_began_are_refused(demo_home: Path) -> None:
    store = Store(demo_home, dry=True)
    anneal = run_of(store, "templates/demo/anneal", name="it")
    with pytest.raises(JobError, match="anneal"):
        checkpoint_before(store, anneal, 10**6)
    with pytest.raises(JobError, check=fields(name="--from-step")):
        newest_run(store, SpecialistRef("nobody"), {})


def test_the_last_run_is_meant_and_another_phase_is_refused(demo_home: Path) -> None:
    """The demo ended in its anneal."""
    words = ["train", "templates.demo", "--home", str(demo_home), "--explain", "--phase", "syntax"]
    done = curriculum(*words, "--from-step", "9")
    assert done.exit_code == 2
    assert "an anneal" in done.stderr or "before this step" in done.stderr
    done = curriculum(*words, "--continue", "templates/demo/structure", "--from-step", "99")
    assert done.exit_code == 2
    assert "phase structure" in done.stderr
    assert "--continue templates/demo/syntax" in done.stderr
    done = curriculum(*words, "--from-step", "9", "--continue", "templates/demo/syntax@9")
    assert done.exit_code == 2
    assert "--from-step also" in done.stderr


def test_rows_documents_and_repositories_are_told_by_their_form(tmp_path: Path) -> None:
    pack, document = "a" * 12 + "-0000000004", "b" * 32
    expected = RowExclusions(
        packs=frozenset({pack}), documents=frozenset({document}), repositories=frozenset({"fmt"})
    )
    assert parse_exclusions(f"{pack}, {document},fmt", ["fmt", "re2"]) == expected
    file = tmp_path / "bad.txt"
    file.write_text(f"{pack}  # the loss was nan\n\n{document}\nfmt\n")
    assert parse_exclusions(str(file), ["fmt"]) == expected
    assert not parse_exclusions(None, ["fmt"])
    with pytest.raises(DietError, match=r"zmt; .*: fmt, re2"):
        parse_exclusions("zmt", ["fmt", "re2"])


def test_rows_that_hold_a_document_or_a_repository_are_left_out_whole(home: Path) -> None:
    order = RunConfig.of(specialist="templates.demo", workspace=home, workers=1)
    plan = resolve_plan(order)
    built = build_phase(plan, "syntax", Context())
    before = mix_phase(plan, "syntax", built, Context())
    rows = [each.train for each in built.rows]
    held = pl.concat(
        pl.read_parquet(each.shards(), columns=["pack_id", "document_ids"]) for each in rows
    )
    document = held["document_ids"][0][0]
    theirs = held.filter(pl.col("document_ids").list.contains(document))["pack_id"]
    found = RowExclusions(documents=frozenset({document})).packs_of(rows, built.documents)
    assert list(found) == sorted(theirs.unique())
    without = resolve_plan(
        RunConfig.of(specialist="templates.demo", workspace=home, workers=1, without_rows="arena")
    )
    mixture = mix_phase(without, "syntax", built, Context())
    assert mixture.key != before.key
    ids = pl.concat(
        pl.read_parquet(each.shards(), columns=["document_id"])
        for each in built.documents
        if each.manifest.labels["repository"] == "arena"
    )["document_id"]
    left = pl.read_parquet(mixture.path / "plan.parquet").join(held.unique("pack_id"), on="pack_id")
    assert left.height > 20
    assert not left.explode("document_ids")["document_ids"].is_in(ids.implode()).any()


def test_a_row_that_is_not_there_is_told(demo_home: Path) -> None:
    store = Store(demo_home, dry=True)
    rows = [each for each in store.artefacts("rows") if each.manifest.labels["split"] == "train"]
    pack = f"{rows[0].key[:12]}-9999999999"
    with pytest.raises(MixtureError, match=f"{pack};"):
        RowExclusions(packs=frozenset({pack})).packs_of(rows, [])
    assert RowExclusions(packs=frozenset({"0" * 12 + "-0000000001"})).packs_of(rows, []) == ()
