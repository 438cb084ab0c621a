"""A diet with a study, trained on rows and plans of the diet without it, with keys and marks of its own."""

from pathlib import Path

import pytest

from curriculum.pipeline import Pipeline
from curriculum.pipeline.artefact_graph import artefact_graph
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.forecast import forecast
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.references import SpecialistName, checkpoint_of, named
from curriculum.pipeline.run_config import CorpusConfig, RunConfig
from curriculum.store import Artefact
from curriculum.train.dataloader import loader_of
from curriculum.train.export import require_exportable
from curriculum.train.run_directory import JOB, read_job, read_report
from dashboards.pipeline_chart import picture
from dashboards.report.facts import MarkedArtefacts, read
from dashboards.report.page import page
from schemas.errors import JobError
from schemas.specialist import SpecialistRef
from schemas.study import Study
from tests.curriculum.pipeline.tiny_diet import NAME, edit, write_tiny_diet

pytestmark = pytest.mark.system

OFF = Study(document_mask="off")
MARK = "study: document_mask off"
STUDY = "extends: tiny\nbranch: off\nstudy: {document_mask: off}\n"
ALONE = CorpusConfig(workers=1)
REF = SpecialistRef(NAME, "off")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which a study is trained and the diet that it extends is mixed; about 20 s of a core."""
    home = tmp_path_factory.mktemp("study") / "home"
    write_tiny_diet(home)
    (home / "diets" / "tiny.off.yaml").write_text(STUDY)
    Pipeline(home).train("tiny.off", corpus=ALONE)
    Pipeline(home).mix(NAME, corpus=ALONE)
    return home


def run_of(home: Path, phase: str, *, branch: str = "off") -> Path:
    folder = home / "runs" / f"specialist-{NAME}" / f"branch-{branch}" / f"phase-{phase}"
    (path,) = folder.rglob("attempt=1")
    return path


def test_rows_and_plans_are_those_of_the_diet_without_it(home: Path) -> None:
    for stage in ("rows", "mixtures"):
        keys = [each.parent.name for each in (home / stage).rglob("manifest.json")]
        assert len({*keys}) == len(keys), "nothing is made twice"
    mixtures: dict[str, Artefact] = Pipeline(home).mix(NAME, corpus=ALONE)
    for phase, mixture in mixtures.items():
        job = read_job(run_of(home, phase) / JOB)
        assert (job.plan_key, job.plan_content) == (mixture.key, mixture.content)


def test_its_phases_continue_one_another_and_say_what_they_are(home: Path) -> None:
    first, second = (read_job(run_of(home, each) / JOB) for each in ("syntax", "file_graph"))
    assert second.start_from is not None
    assert second.start_from.run_key == first.run_key
    assert first.study == second.study == OFF
    assert read_report(run_of(home, "syntax")).study == OFF
    assert read_report(run_of(home, "syntax")).mean_context is not None


@pytest.mark.parametrize("name", ["tiny/off", "tiny.off", "tiny/off/syntax", "tiny.off/syntax"])
def test_a_branch_is_named_beside_the_diet_that_it_extends(home: Path, name: str) -> None:
    found = named(home, name, {REF, SpecialistRef(NAME)})
    assert found == SpecialistName(ref=REF, phase="syntax" if name.endswith("syntax") else None)
    plain = named(home, "tiny/syntax", {REF, SpecialistRef(NAME)})
    assert plain == SpecialistName(ref=SpecialistRef(NAME), phase="syntax")


def test_the_graph_of_artefacts_and_the_report_show_the_mark(home: Path) -> None:
    graph = artefact_graph(home, REF, Resources())
    (syntax,) = graph.of_phase("syntax", "run")
    assert (syntax.title, syntax.how, syntax.state) == ("attempt 1", MARK, "built")
    drawn = str(picture(graph, lambda each: ""))
    assert f">{MARK}</text>" in drawn
    assert ">built · val_bpb " in drawn
    (other,) = artefact_graph(home, SpecialistRef(NAME), Resources()).of_phase("syntax", "run")
    assert MARK not in f"{other.title} {other.how} {other.why}"
    plan = resolve_plan(RunConfig.of(specialist="tiny.off", workspace=home), dry=True)
    text = page(read(plan, Resources(), MarkedArtefacts.of(plan)))
    # At its head, and at each phase.
    assert text.count(MARK) >= 3


def test_a_dry_run_says_what_its_runs_are_for(home: Path) -> None:
    found = {
        name: forecast(
            resolve_plan(RunConfig.of(specialist=name, workspace=home), dry=True),
            Scope(gates=False),
            Context(),
        )
        for name in ("tiny", "tiny.off")
    }
    said = [line for line in found["tiny.off"].warnings if line.startswith(MARK)]
    assert len(said) == 1
    assert "comparison only" in said[0]
    assert not [line for line in found["tiny"].warnings if "study" in line]


def test_a_phase_of_a_diet_that_is_no_study_any_more_does_not_carry_it_on(
    home: Path, tmp_path: Path
) -> None:
    edit(home, "diets/tiny.off.yaml", "study: {document_mask: off}\n", "")
    try:
        with pytest.raises(JobError, match=f"{MARK};"):
            Pipeline(home).train("tiny.off", phase="file_graph", corpus=ALONE)
    finally:
        (home / "diets" / "tiny.off.yaml").write_text(STUDY)


@pytest.fixture(scope="module")
def chopped(home: Path) -> Path:
    """The workspace with a phase of a diet whose rows are cut, trained; some 10 s of a core."""
    text = "extends: tiny\nbranch: chop\nstudy: {packer: chop}\n"
    (home / "diets" / "tiny.chop.yaml").write_text(text)
    Pipeline(home).train("tiny.chop", phase="syntax", corpus=ALONE)
    return home


def test_rows_that_are_cut_are_trained_on_and_measured_on_the_same_rows(chopped: Path) -> None:
    cut = run_of(chopped, "syntax", branch="chop")
    job, other = read_job(cut / JOB), read_job(run_of(chopped, "syntax") / JOB)
    assert job.study == read_report(cut).study == Study(packer="chop")
    assert all("packer-chop" in each.path for each in job.rows)
    assert not any("packer" in each.path for each in other.rows)
    mine, theirs = (
        [(stratum.rows, stratum.domain) for each in run.evaluations for stratum in each.strata]
        for run in (job, other)
    )
    assert mine == theirs
    assert read_report(cut).tokens.valid > 1000


def test_documents_and_tokens_serve_both_packers(chopped: Path) -> None:
    for stage in ("documents", "tokens", "tokenizers", "selections"):
        labels = [str(each.parent.parent) for each in (chopped / stage).rglob("manifest.json")]
        assert labels
        assert len({*labels}) == len(labels), "each is there once"


def test_the_graph_of_artefacts_names_the_packer_and_the_study(chopped: Path) -> None:
    graph = artefact_graph(chopped, SpecialistRef(NAME, "chop"), Resources())
    assert {(each.how, each.state) for each in graph.of_phase("syntax", "rows")} == {
        ("chop", "built")
    }
    (syntax,) = graph.of_phase("syntax", "run")
    assert syntax.how == "study: packer chop"


def test_its_rows_may_be_trained_on_by_another_loop_and_its_model_stays_here(chopped: Path) -> None:
    cut = run_of(chopped, "syntax", branch="chop")
    job = read_job(cut / JOB)
    batch = next(iter(loader_of(job, chopped)))
    assert int(batch["loss_mask"].sum()) > 0
    with pytest.raises(JobError, match="study: packer chop;"):
        require_exportable(checkpoint_of(chopped, str(cut)))
