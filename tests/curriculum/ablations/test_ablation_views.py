"""Claims on views: other formats of the held-out rows, measured once by each arm's last checkpoint."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from curriculum import parquet
from curriculum.ablations.ablate import Outcome
from curriculum.ablations.ablation_views import ViewSets, build_views, view_specs
from curriculum.ablations.arms import Arm
from curriculum.ablations.evidence import ViewEvidence
from curriculum.ablations.measurements import DOCUMENTS_NAME, measure_views
from curriculum.ablations.planned_arms import PlannedArm, plan_of_arm
from curriculum.pipeline.context import Context
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact, Store
from curriculum.train import document_sums
from curriculum.train.run_directory import JOB, read_job
from schemas.ablation import ARMS_NAME, CLAIMS_NAME, VIEWS, AblationSpec, Claim
from schemas.errors import JobError
from schemas.objectives import FIXED_SETS
from tests.curriculum.ablations.conftest import DIET, UNMASKED, run, written_ablation

pytestmark = pytest.mark.system
WORSE = {"arm": "unmasked", "direction": "higher"}
CLAIMS = [
    {"claim": "worse on files", **WORSE},
    {"claim": "worse at middles", "view": "fim", **WORSE},
    {"claim": "worse at bodies", "view": "doc_to_code", **WORSE},
]


@pytest.fixture(scope="module")
def viewed(first: tuple[Outcome, Artefact], home: Path) -> tuple[Outcome, Artefact]:
    """The same arms, which are trained already, with claims on two more views."""
    assert first
    outcome, made, _ = run(written_ablation(home, "viewed", CLAIMS, unmasked=UNMASKED), home / "ws")
    return outcome, made


def planned(folder: Path, workspace: Path, *families: str) -> PlannedArm:
    """Write a diet that serves some families in as many phases, and return it as the base arm."""
    names = {"v2_simple": "syntax", "v4_context_graph": "file_graph"}
    phases = [
        {
            "phase": names[family],
            "portion": 1 / len(families),
            "servings": [{"family": family, "share": 1.0}],
        }
        for family in families
    ]
    file = folder / "planned.yaml"
    file.write_text(yaml.safe_dump({**DIET, "phases": phases}))
    config = RunConfig.of(specialist=str(file), workspace=workspace)
    arm = Arm(name="base", seed=1, config=config)
    return PlannedArm(arm=arm, plan=plan_of_arm(arm), number=1, total=1)


def claimed(*claims: Claim) -> AblationSpec:
    return AblationSpec(
        name="claimed", diet="./diet.yaml", arms={"other": {}}, seeds=(1, 2), claims=claims
    )


def test_a_claim_on_another_view_trains_nothing_and_measures_all_arms_in_it(
    viewed: tuple[Outcome, Artefact],
) -> None:
    outcome, made = viewed
    assert not any(each.made for arm in outcome.arms for each in arm.runs)
    lines = parquet.read_table(made.path / ARMS_NAME).to_pylist()
    views = ("file", "fim", "doc_to_code")
    assert {(line["arm"], line["seed"], line["view"]) for line in lines} == {
        (arm, seed, view)
        for arm in ("base", "null", "control", "unmasked")
        for seed in (1, 2)
        for view in views
    }
    found = {(line["arm"], line["seed"], line["view"]): line["val_bpb"] for line in lines}
    assert len({found["base", 1, view] for view in views}) == 3
    claims = parquet.read_table(made.path / CLAIMS_NAME).to_pylist()
    assert [line["view"] for line in claims] == [*views, "file", "file"]
    for line in claims[:3]:
        differences = [
            found["unmasked", seed, line["view"]] - found["base", seed, line["view"]]
            for seed in (1, 2)
        ]
        assert line["difference"] == pytest.approx(sum(differences) / 2)
        assert line["low_documents"] <= line["difference"] <= line["high_documents"]


def test_a_second_call_measures_nothing_and_what_it_finds_is_what_measuring_gives(
    viewed: tuple[Outcome, Artefact], home: Path
) -> None:
    _, made = viewed
    store = Store(home / "ws")
    before = {each.path: each.manifest for each in store.artefacts("measurements")}
    assert len(before) == 8 * 2
    _, again, _ = run(home / "viewed.yaml", home / "ws")
    assert again.key == made.key
    assert {each.path: each.manifest for each in store.artefacts("measurements")} == before
    lost = next(iter(before))
    shutil.rmtree(lost)
    _, fresh, _ = run(home / "viewed.yaml", home / "ws")
    assert store.load(lost).content == before[lost].content
    assert fresh.key == made.key


def test_files_measured_anew_give_what_the_run_measured_to_the_bit(
    viewed: tuple[Outcome, Artefact], home: Path
) -> None:
    outcome, _ = viewed
    store = Store(home / "ws")
    arms = [each for each in outcome.arms if each.seed == 1 and each.arm in ("base", "unmasked")]
    sets: list[ViewSets] = [
        {
            "file": tuple(
                each for each in read_job(arm.path / JOB).evaluations if each.set in FIXED_SETS
            )
        }
        for arm in arms
    ]
    found = measure_views(store, [arm.runs[-1] for arm in arms], sets, Context())
    for arm, some, made in zip(arms, sets, found, strict=True):
        anew = ViewEvidence.of_measurement(made["file"], some, "file")
        assert anew.val_bpb == arm.views["file"].val_bpb
        own = document_sums.read(arm.path, arm.report.steps)
        assert own is not None
        for evaluation in some["file"]:
            mine = document_sums.filter_evaluation(own, evaluation)
            assert pq.read_table(made["file"].path / DOCUMENTS_NAME).equals(mine)


def test_targets_are_measured_with_full_and_with_cropped_context(
    viewed: tuple[Outcome, Artefact], home: Path, tmp_path: Path
) -> None:
    outcome, _ = viewed
    arm = planned(tmp_path, home / "ws", "v2_simple", "v4_context_graph")
    spec = claimed(
        Claim(claim="full", arm="other", view="target"),
        Claim(claim="cropped", arm="other", view="target_cropped"),
    )
    lengths = {view: each.row_length for view, each in view_specs(arm.plan, VIEWS).items()}
    assert (lengths["target"], lengths["target_cropped"], lengths["fim"]) == (1024, 512, 512)
    (sets,) = build_views(spec, [arm], Context())
    base = outcome.arms[0]
    (made,) = measure_views(Store(home / "ws"), [base.runs[-1]], [sets], Context())
    full, cropped = (
        {
            line["document_id"]: line
            for line in pq.read_table(made[view].path / DOCUMENTS_NAME).to_pylist()
        }
        for view in ("target", "target_cropped")
    )
    assert {line["objective"] for line in (*full.values(), *cropped.values())} == {"target"}
    assert {line["row_length"] for line in full.values()} == {1024}
    assert {line["row_length"] for line in cropped.values()} == {512}
    common = full.keys() & cropped.keys()
    sizes = [sum(some[name]["bytes"] for name in common) for some in (full, cropped)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02), "targets alone are scored"
    assert any(full[name]["nats"] != cropped[name]["nats"] for name in common)


@pytest.mark.parametrize(
    ("families", "claim"),
    [
        (("v2_simple",), Claim(claim="cropped", arm="other", view="target_cropped")),
        (("v2_simple",), Claim(claim="later", arm="other", set="later", view="fim")),
        (("v2_simple",), Claim(claim="unseen", arm="other", set="unseen")),
        (
            ("v2_simple", "v4_context_graph"),
            Claim(claim="strange", arm="other", set="unseen", view="target"),
        ),
    ],
)
def test_a_claim_without_rows_is_refused_before_anything_is_trained(
    families: tuple[str, ...], claim: Claim, home: Path, tmp_path: Path
) -> None:
    arm = planned(tmp_path, home / "ws", *families)
    with pytest.raises(JobError) as refused:
        build_views(claimed(claim), [arm], Context())
    assert refused.value.value == f"set {claim.set} in the view {claim.view}"
    assert "file: anchor" in refused.value.cure
