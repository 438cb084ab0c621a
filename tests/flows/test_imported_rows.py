"""Rows that were imported under a name serve a diet: alone, beside built ones, and in every report."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from curriculum.catalog import query
from curriculum.inspection.run_tables import run_line
from curriculum.inspection.runs import report_of
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.recorded_config import read_plan, write_snapshot
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact, Store
from curriculum.train.run_directory import read_job
from flows.cli import app
from schemas.errors import DietError

pytestmark = pytest.mark.system

LITTLE = ("--versions-per-path", "1", "--max-commits", "8", "--workers", "1")
HEAD = """
specialist: {specialist}
phases_file: phases.demo
corpus: sample
vocab_size: {vocab_size}
model: tiny
token_budget: 16K
phases:
"""
MAKER = """
  - phase: syntax
    portion: 1
    servings:
      - {family: v3_simple, share: 1}
"""
ALONE = """
  - phase: syntax
    portion: 1
    servings:
      - {imported: my-rows, share: 1}
    max_repetition: 50
"""
BOTH = """
  - phase: syntax
    portion: 0.5
    servings:
      - {imported: my-rows, share: 1}
    max_repetition: 50
  - phase: file_graph
    portion: 0.5
    servings:
      - {imported: my-rows, domains: {"*": 1}, share: 0.4}
      - {family: v2_simple, row_length: 512, share: 0.6}
    max_repetition: 50
"""


def curriculum(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def diet(folder: Path, specialist: str, phases: str, *, vocab_size: int = 700) -> Path:
    file = folder / f"{specialist}.yaml"
    file.write_text(HEAD.format(specialist=specialist, vocab_size=vocab_size) + phases)
    return file


def little(file: Path, home: Path, *, dry: bool = False) -> RunPlan:
    order = RunConfig.of(
        specialist=str(file), workspace=home, versions_per_path=1, max_commits=8, workers=1
    )
    return resolve_plan(order, dry=dry)


def exported(folder: Path, rows: Artefact) -> Path:
    to = folder / rows.key[:12]
    words = [
        "--format",
        "megatron",
        "--to",
        str(to),
        "--home",
        str(Store.containing(rows.path).root),
    ]
    assert curriculum("export", str(rows.path), *words).exit_code == 0
    return to


def taken_in(home: Path, path: Path, *words: str) -> Result:
    done = curriculum("import", str(path), "--format", "megatron", "--home", str(home), *words)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def exported_rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Rows of a workspace as they left it: to train on, and held out."""
    folder = tmp_path_factory.mktemp("made")
    plan = little(diet(folder, "maker", MAKER), folder / "ws")
    (rows,) = build_phase(plan, "syntax", Context()).rows
    assert rows.val is not None
    return exported(folder, rows.train), exported(folder, rows.val)


@pytest.fixture(scope="module")
def trained(
    exported_rows: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Another workspace that trained on them, alone and then beside its own; and its diet."""
    folder = tmp_path_factory.mktemp("eater")
    home = folder / "ws"
    output = taken_in(home, exported_rows[0], "--name", "my-rows").stdout
    assert "{imported: my-rows, share: …}" in output
    taken_in(home, exported_rows[1], "--name", "my-rows")
    file = diet(folder, "eater", BOTH)
    done = curriculum("train", str(file), "--home", str(home), *LITTLE)
    assert done.exit_code == 0, done.output
    return home, file


def imported(home: Path, split: str = "train") -> Artefact:
    return next(
        each
        for each in Store(home).artefacts("rows")
        if "imported" in each.manifest.labels and each.manifest.labels["split"] == split
    )


def run_of(home: Path, phase: str) -> Artefact:
    labelled = (each for each in Store(home).artefacts("runs"))
    return next(each for each in labelled if each.manifest.labels["phase"] == phase)


def test_they_are_mixed_alone_and_beside_built_rows(trained: tuple[Path, Path]) -> None:
    home, file = trained
    mixtures = {each.manifest.labels["phase"]: each for each in Store(home).artefacts("mixtures")}
    rows = imported(home)
    alone, both = (mixtures[name] for name in ("syntax", "file_graph"))
    assert [each.key for each in alone.manifest.inputs] == [rows.key]
    assert (rows.key, rows.content) in [(each.key, each.content) for each in both.manifest.inputs]
    assert set(pq.read_table(alone.path / "plan.parquet")["rows_key"].to_pylist()) == {rows.key}
    report = mixture_report_of(both)
    assert {each.imported for each in report.strata} == {"my-rows", ""}
    shares = sum(each.tokens for each in report.strata if each.imported) / report.tokens
    assert shares == pytest.approx(0.4, abs=0.06)
    phase = little(file, home).phase("syntax").servings[0]
    assert (phase.family, phase.objective, phase.row_length) == ("v3_simple", "causal", 512)


def test_what_was_imported_to_measure_them_does(trained: tuple[Path, Path]) -> None:
    home, _ = trained
    job = read_job(run_of(home, "file_graph").path / "job.json")
    measured = next(each for each in job.evaluations if each.phase == "file_graph")
    strata = {each.family: each.rows.key for each in measured.strata}
    assert strata.keys() == {"my-rows", "v2_simple"}
    assert strata["my-rows"] == imported(home, "val").key
    report = report_of(run_of(home, "syntax"))
    before, after = (
        next(each.val_bpb for each in figures if (each.phase, each.family) == ("syntax", "*"))
        for figures in (report.before, report.after)
    )
    assert after < before


def test_everything_that_is_looked_at_shows_them(trained: tuple[Path, Path]) -> None:
    home, file = trained
    place = ("--home", str(home))
    page = (home / "reports" / "eater.html").read_text()
    assert "my-rows" in page
    assert f"rows/{imported(home).key[:12]}.html" in page
    for words, message in (
        (("inspect", str(imported(home).path)), "document"),
        (("inspect", "eater/file_graph"), "v2_simple"),
        (("lineage", "eater/file_graph", "--step", "1"), ""),
        (("status",), "eater"),
        (("compare", "eater/syntax", "eater/file_graph"), "my-rows"),
        (("inspect", "eater/syntax"), "my-rows"),
        (("mix", str(file), *LITTLE), "Nothing to do"),
        (("mix", str(file), "--explain", *LITTLE), "Nothing to do"),
        (("build", str(file), *LITTLE), "Nothing to do"),
        (("diet", "check", str(file), *LITTLE), "my-rows: v3_simple causal at 512"),
        (("diff", str(file), "templates.demo"), "my-rows: v3_simple"),
        (("check", str(imported(home).path)), ""),
    ):
        more = () if words[0] == "check" else place
        done = curriculum(*words, *more)
        assert done.exit_code == 0, (words, done.output)
        assert message in done.stdout, (words, done.output)
    for name in ("rows", "mixture_rows", "documents", "strata", "lineage", "figures"):
        query(home, f"SELECT * FROM {name} LIMIT 5")
    sql = "SELECT DISTINCT family FROM rows JOIN mixture_rows USING (rows_key, pack_id)"
    assert {row[0] for row in query(home, sql).rows} == {"v3_simple", "v2_simple"}


def test_a_mixture_of_both_leaves_for_other_tools(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    home, _ = trained
    words = ["--format", "flat", "--to", str(tmp_path / "out"), "--home", str(home)]
    done = curriculum("export", "eater/file_graph", *words)
    assert done.exit_code == 0, done.output


def test_the_key_of_a_mixture_changes_with_the_rows_of_a_name(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    home, file = trained
    again = tmp_path / "ws"
    shutil.copytree(home, again)
    plan = little(file, again, dry=True)
    built = build_phase(plan, "syntax", Context())
    assert not mix_phase(plan, "syntax", built, Context()).planned
    other = diet(tmp_path, "maker", MAKER.replace("v3_simple", "v2_simple"))
    (rows,) = build_phase(little(other, tmp_path / "other"), "syntax", Context()).rows
    before = imported(again).key[:12]
    output = taken_in(again, exported(tmp_path, rows.train), "--name", "my-rows").stdout
    assert f"instead of {before}" in output
    plan = little(file, again, dry=True)
    assert plan.phases[0].servings[0].family == "v2_simple"
    built = build_phase(plan, "syntax", Context())
    assert mix_phase(plan, "syntax", built, Context()).planned


def test_an_order_that_was_laid_down_goes_by_the_rows_that_it_saw(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    home, file = trained
    again = tmp_path / "ws"
    shutil.copytree(home, again)
    plan = little(file, again)
    write_snapshot(plan, "one")
    (again / "current" / "import-my-rows-train.txt").unlink()
    with pytest.raises(DietError, match="imported rows"):
        little(file, again)
    assert read_plan(Store(again), "one").phases == plan.phases


def test_without_anything_held_out_they_are_trained_on_and_it_is_said(
    exported_rows: tuple[Path, Path], tmp_path: Path
) -> None:
    home = tmp_path / "ws"
    taken_in(home, exported_rows[0])
    key = imported(home).key[:8]
    file = diet(tmp_path, "blind", ALONE.replace("my-rows", f'"{key}"'))
    done = curriculum("train", str(file), "--home", str(home), *LITTLE)
    assert done.exit_code == 0, done.output
    assert f"{key}: no rows of split val" in done.stderr
    run = run_of(home, "syntax")
    assert {each.set for each in report_of(run).after} == {"anchor"}
    assert run_line(report_of(run))["val_bpb"] == ""
    sql = "SELECT phase_bpb_after, anchor_bpb_after > 0 FROM runs"
    assert query(home, sql).rows == [(None, True)]
    assert (home / "reports" / "blind.html").is_file()
    gated = ALONE.replace("my-rows", f'"{key}"') + (
        "    advance_when: {val_bpb: {stops_improving_by: 0.01}}\n"
    )
    with pytest.raises(DietError, match="split val"):
        little(diet(tmp_path, "gated", gated), home)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        (ALONE.replace("my-rows", "my-row"), "Did you mean 'my-rows'?"),
        (ALONE.replace("my-rows", "ffffff"), "no imported rows have that name"),
        (
            ALONE.replace("share: 1", "row_length: 1024, share: 1"),
            "row_length = 1024; the rows imported as my-rows have row_length 512",
        ),
        (
            ALONE.replace("share: 1", "objective: fim, share: 1"),
            "have objective causal. Leave objective out",
        ),
        (
            ALONE.replace("share: 1", "repositories: [arena], share: 1"),
            "imported rows are used unchanged. Remove repositories",
        ),
        (
            ALONE.replace("share: 1", "domains: {nowhere: 2}, share: 1"),
            "domains.nowhere; no imported row has that domain",
        ),
        (
            ALONE.replace(
                "      - {imported: my-rows, share: 1}",
                "      - {imported: my-rows, share: 0.5}\n"
                "      - {family: v2_simple, row_length: 640, share: 0.5}",
            ),
            "a slot of 640 tokens can't be filled with whole rows of 512. Serve my-rows in another",
        ),
        (
            ALONE.replace(
                "      - {imported: my-rows, share: 1}",
                "      - {imported: my-rows, share: 0.5}\n      - {imported: my-rows, share: 0.5}",
            ),
            "it reads the same rows as",
        ),
    ],
)
def test_what_a_diet_says_of_them_and_is_not_so_is_told(
    trained: tuple[Path, Path], tmp_path: Path, phases: str, message: str
) -> None:
    home, _ = trained
    with pytest.raises(DietError) as caught:
        little(diet(tmp_path, "wrong", phases), home, dry=True)
    assert message in str(caught.value)


def test_rows_of_another_tokenizer_are_refused_before_anything_is_packed(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    home, _ = trained
    again = tmp_path / "ws"
    shutil.copytree(home, again)
    before = {each.key for each in Store(again).artefacts("rows")}
    plan = little(diet(tmp_path, "other", ALONE, vocab_size=500), again)
    with pytest.raises(DietError, match="tokenizer: ") as caught:
        build_phase(plan, "syntax", Context())
    assert {each.key for each in Store(again).artefacts("rows")} == before
    file = Path(str(caught.value.cure).partition("tokenizer: ")[2].partition(" in the diet")[0])
    assert file.is_file()
    cured = diet(tmp_path, "cured", ALONE)
    cured.write_text(f"tokenizer: {file}\n{cured.read_text()}")
    assert build_phase(little(cured, again), "syntax", Context()).rows[0].train.key in before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../rows", "a name may only have letters"),
        ("abcdef12", "digits of a key"),
        ("v3_simple", "the name of a family"),
    ],
)
def test_a_name_that_could_be_something_else_is_refused(
    exported_rows: tuple[Path, Path], tmp_path: Path, name: str, message: str
) -> None:
    words = [
        "import",
        str(exported_rows[0]),
        "--format",
        "megatron",
        "--home",
        str(tmp_path / "ws"),
    ]
    done = curriculum(*words, "--name", name)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "ws").exists()


def test_a_check_of_a_diet_names_what_is_imported(trained: tuple[Path, Path]) -> None:
    home, file = trained
    done = curriculum("diet", "check", str(file), "--json", "--home", str(home), *LITTLE)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {each["source"] for each in found["servings"]} == {"rows"}
    assert {each["imported"] for each in found["servings"]} == {"my-rows", None}
