"""Rows leave for other tools and come from them, from the command line, and serve a mixture again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from curriculum.catalog import query
from curriculum.mixing.mix import mix, report_of
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact, Store
from curriculum.train.dataloader import PlannedRows
from flows.cli import app
from flows.cli.exports import data_of

KEPT = ("workspace.json", "current", "rows", "mixtures", "tokens", "tokenizers", "documents")


def curriculum(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def home(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's data, to write into."""
    to = tmp_path_factory.mktemp("data") / "ws"
    to.mkdir()
    for name in KEPT:
        if (demo_home / name).is_dir():
            shutil.copytree(demo_home / name, to / name)
        else:
            shutil.copy(demo_home / name, to / name)
    return to


def live_rows(home: Path, family: str) -> Artefact:
    return next(
        each
        for each in Store(home).artefacts("rows")
        if (each.manifest.labels["family"], each.manifest.labels["split"]) == (family, "train")
        and "imported" not in each.manifest.labels
    )


def test_a_mixture_leaves_in_the_order_in_which_the_trainer_reads_it(
    home: Path, tmp_path: Path
) -> None:
    to = tmp_path / "out"
    words = ["templates/demo/syntax", "--format", "flat", "--to", str(to), "--home", str(home)]
    done = curriculum("export", *words)
    assert done.exit_code == 0, done.output
    assert "tokens.bin" in done.stdout
    store, mixture = data_of(home, "templates/demo/syntax")
    wanted = {each.key for each in mixture.manifest.inputs}
    folders = {each.key: each.path for each in store.artefacts("rows") if each.key in wanted}
    planned = PlannedRows(mixture.path / "plan.parquet", folders)
    ids = np.memmap(to / "tokens.bin", dtype=np.uint16, mode="r")
    mask = np.memmap(to / "loss_mask.bin", dtype=np.uint8, mode="r")
    at, rows = 0, json.loads((to / "export.json").read_text())["rows"]
    assert rows == pq.read_metadata(mixture.path / "plan.parquet").num_rows
    for position in range(rows):
        row = planned[position]
        valid = row.valid_token_count
        assert ids[at : at + valid].tolist() == row.input_ids[:valid].tolist()
        assert mask[at : at + valid].tolist() == row.loss_mask[:valid].tolist()
        at += valid
    assert at == len(ids) > 30_000


def test_a_plan_holds_the_rows_that_a_run_to_the_end_of_its_budget_reads(demo_home: Path) -> None:
    sql = """
        SELECT r.phase, p.rows, p.tokens, p.steps,
               (SELECT count(*) FROM mixture_rows m WHERE m.mixture = p.path) AS planned_rows,
               (SELECT sum(s.drawn) FROM strata s WHERE s.path = p.path) AS drawn_rows,
               count(*) AS read_rows, sum(s.valid_tokens) AS read_tokens, max(s.step) AS read_steps
        FROM runs r JOIN mixtures p ON p.key = r.plan_key JOIN steps s ON s.run = r.path
        WHERE r.stopped = 'budget' AND p.current
        GROUP BY ALL
    """
    lines = query(demo_home, sql).rows
    assert len(lines) == 5
    for _, rows, tokens, steps, planned, drawn, read, read_tokens, read_steps in lines:
        assert rows == planned == drawn == read
        assert (tokens, steps) == (read_tokens, read_steps)


def test_rows_that_left_come_back_and_are_mixed_like_those_they_were(
    home: Path, tmp_path: Path
) -> None:
    plan = resolve_plan(RunConfig.of(specialist="templates.demo", workspace=home))
    phase = plan.phase("syntax")
    before = [live_rows(home, serving.family) for serving in phase.servings]
    for rows in before:
        to = tmp_path / rows.key[:12]
        words = ["--format", "megatron", "--to", str(to), "--home", str(home)]
        assert curriculum("export", str(rows.path), *words).exit_code == 0
        done = curriculum("import", str(to), "--format", "megatron", "--home", str(home))
        assert done.exit_code == 0, done.output
        assert "imported-megatron" in done.stdout
    store = Store(home)
    there = [each for each in store.artefacts("rows") if "imported" in each.manifest.labels]
    after = [
        next(each for each in there if each.manifest.labels["family"] == serving.family)
        for serving in phase.servings
    ]
    step = 8 * phase.slot_length
    mixtures = [
        mix(store, plan.diet, phase, [[each] for each in rows], tokens_per_step=step)
        for rows in (before, after)
    ]
    one, other = (report_of(mixture) for mixture in mixtures)
    assert one.tokens == pytest.approx(other.tokens, rel=0.05)
    assert [each.rows_tokens for each in one.strata] == [each.rows_tokens for each in other.strata]
    live = {
        line for file in (home / "current").glob("import-*") for line in file.read_text().split()
    }
    assert {each.path.relative_to(home).as_posix() for each in after} <= live
    checked = curriculum("check", *(str(each.path) for each in after))
    assert checked.exit_code == 0, checked.output


def test_tokens_of_documents_leave_and_are_packed_when_they_come(
    home: Path, tmp_path: Path
) -> None:
    tokens = next(Store(home).artefacts("tokens"))
    to = tmp_path / "out"
    words = ["--format", "megatron", "--to", str(to), "--home", str(home)]
    assert curriculum("export", tokens.key[:12], *words).exit_code == 0
    assert (to / "tokens.bin").read_bytes() == (tokens.path / "tokens.bin").read_bytes()
    words = ["--format", "megatron", "--home", str(home), "--row-length", "512"]
    done = curriculum("import", str(to), *words)
    assert done.exit_code == 2
    assert "--family" in done.stderr
    done = curriculum("import", str(to), "--family", "mine", *words)
    assert done.exit_code == 0, done.output
    assert "rows/family-mine/imported-megatron" in done.stdout
    assert "already imported" in curriculum("import", str(to), "--family", "mine", *words).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["export", "nobody", "--format", "flat", "--to", "x"],
            "no rows, mixture or tokens have this name",
        ),
        (["export", "rows", "--format", "flat", "--to", "x"], "data sets match"),
        (["import", "nowhere.parquet"], "nowhere.parquet"),
        (["import", "rows", "--format", "parkett"], "Did you mean 'parquet'?"),
        (["import", "rows", "--split", "test"], "--split: test"),
        (["import", "rows", "--tokenizer", "ffff"], "--tokenizer: ffff"),
        (["import", "rows"], "--tokenizer"),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(home)
    done = curriculum(*words, "--home", str(home))
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
