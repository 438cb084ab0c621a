"""The page of ablations: what a workspace holds, in words and pictures, and nothing of it as markup."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.pipeline.attempts import mark_current
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from dashboards.ablation_facts import AblationFacts, ablations
from dashboards.ablation_page import page, page_of, scale_of, write_ablation
from dashboards.charts import forest
from dashboards.charts.forest import Effect
from schemas.ablation import ABLATION_SCHEMA, ARMS_NAME, ARMS_SCHEMA, CLAIMS_NAME
from schemas.errors import StoreError
from schemas.reports import AblationReport
from tests.dashboards.pages_server import PATH, pages_server
from tests.flows.html_text import Read

EVIL = "</svg><script>alert(1)</script> \u202e.yad"
SEEDS = (1, 2, 3, 4, 5)
CLAIMS = (
    ("phases in order beat a flat mix on unseen repositories", "flat", "confirmed", 0.031, 0.02),
    ("a flat mix isn't worse", "flat", "contradicted", -0.034, 0.015),
    (EVIL, "sparse", "too small to tell", 0.008, 0.03),
    ("it makes no difference", "sparse", "not seen", 0.001, 0.004),
    ("another order of rows lowers val_bpb", "null", "not seen", -0.002, 0.005),
    ("a quarter of the tokens raises val_bpb", "control", "confirmed", 0.43, 0.07),
)
"""Claim, arm, verdict, difference, half of its interval."""


def claim_line(claim: str, arm: str, verdict: str, mean: float, half: float) -> dict[str, object]:
    return {
        "ablation": "medium",
        "claim": claim,
        "arm": arm,
        "against": "base",
        "set": "unseen",
        "view": "file",
        "direction": "lower" if mean < 0 else "higher",
        "delta": 0.01,
        "verdict": verdict,
        "seeds": len(SEEDS),
        "difference": mean,
        "low": mean - half,
        "high": mean + half,
        "p": 0.01,
        "holm_p": 0.02,
        "p_within": 0.5,
        "seeds_needed": 14 if verdict == "too small to tell" else None,
        "low_documents": mean - half / 2,
        "high_documents": mean + half / 2,
        "documents": 23,
        "lineages": 20,
        "equal_tokens": 61_000 if arm == "sparse" else None,
        "equal_difference": 0.5 if arm == "sparse" else None,
        "equal_low": 0.25 if arm == "sparse" else None,
        "equal_high": 0.75 if arm == "sparse" else None,
    }


def arm_line(arm: str, seed: int, name: str) -> dict[str, object]:
    positions = 60_000 if arm == "control" else 240_000
    return {
        "ablation": "medium",
        "arm": arm,
        "seed": seed,
        "set": name,
        "view": "file",
        "val_bpb": 3.0 + seed / 100,
        "steps": positions // 4_000,
        "positions": positions,
        "scored": positions // (2 if arm in ("base", "null", "control", "flat") else 4),
        "distinct": 50_000,
        "run": "runs/a",
    }


def judged(
    home: Path,
    name: str = "medium",
    *,
    why: str = EVIL,
    spoilt: dict[str, object] | None = None,
    sparse: str = "sparse",
) -> Artefact:
    """An ablation of a workspace as `curriculum ablate` leaves it."""
    store = Store(home)
    recipe = Recipe(
        stage="ablations", labels=(("ablation", name),), revision=1, config={"why": why}
    )
    claims = [{**claim_line(*claim), **(spoilt or {})} for claim in CLAIMS]
    arms = [
        arm_line(arm, seed, held)
        for arm in ("base", "null", "control", "flat", sparse)
        for seed in SEEDS
        for held in ("anchor", "unseen")
    ]

    def write(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        pq.write_table(
            pa.Table.from_pylist(claims, schema=ABLATION_SCHEMA), draft.path / CLAIMS_NAME
        )
        pq.write_table(pa.Table.from_pylist(arms, schema=ARMS_SCHEMA), draft.path / ARMS_NAME)
        draft.record(
            AblationReport(
                is_sound=True,
                why=why,
                corpus="sample",
                model="tiny",
                weights=1_760_000,
                row_lengths=(512, 1024),
            )
        )

    (made,) = store.produce([recipe], write)
    mark_current(store, f"ablation-{name}", [made])
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    judged(tmp_path / "ws")
    return tmp_path / "ws"


def facts(home: Path) -> AblationFacts:
    (found,), lost = ablations(home)
    assert lost == []
    return found


def test_a_page_says_what_was_asked_measured_and_found(home: Path) -> None:
    words = " ".join(Read(page(home)).said.split())
    for said in (
        "1.76M weights",
        "240,000 row positions",
        "rows of 512 and 1,024 tokens",
        "corpus sample",
        "5 seeds: 1, 2, 3, 4, 5",
        "The order of arms may change with scale",
        "+0.0310 (+0.0110 to +0.0510)",
        "contradicted",
        "14 seeds needed",
    ):
        assert said in words


def test_null_and_control_are_the_last_lines_of_the_plot(home: Path) -> None:
    spread = facts(home)
    assert [line.arm for line in spread.claims][-2:] == ["null", "control"]
    assert not any(line.is_own for line in spread.claims[:-2])


def test_a_control_beyond_the_axis_is_pointed_to_and_moves_no_claim(home: Path) -> None:
    scale = scale_of(facts(home))
    assert scale.high < 0.1
    assert "\N{BLACK RIGHT-POINTING TRIANGLE}" in page(home)


def test_a_claim_of_unequal_arms_says_the_difference_at_equally_many_distinct_tokens(
    home: Path,
) -> None:
    words = " ".join(Read(page(home)).said.split())
    claims = [line for line in facts(home).claims if line.arm == "sparse"]
    assert len(claims) == 2
    said = "at 61,000 distinct tokens of each arm: +0.5000 (+0.2500 to +0.7500)"
    assert words.count(said) == len(claims)


def test_foreign_text_is_shown_and_is_no_markup(home: Path) -> None:
    text = page(home)
    assert "<script" not in text
    assert text.count("</svg>") == text.count("<svg")
    assert "\u202e" not in text
    assert r"\u202e" in text
    assert "&lt;script&gt;alert(1)" in text


def test_names_of_arms_and_sets_are_shown_and_are_no_markup(tmp_path: Path) -> None:
    judged(tmp_path, sparse=EVIL, spoilt={"arm": EVIL, "against": EVIL, "set": EVIL})
    text = page(tmp_path)
    assert text.count(r"&lt;/svg&gt;&lt;script&gt;alert(1)&lt;/script&gt; \u202e.yad") > 20
    assert "<script" not in text
    assert text.count("</svg>") == text.count("<svg")
    assert "\u202e" not in text


def test_a_page_is_bound_to_itself_and_runs_no_script(home: Path) -> None:
    text = page(home)
    assert "script-src 'none'" in text
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")


def test_an_ablation_is_written_as_a_file_of_its_own(home: Path) -> None:
    other = judged(home, "other", why="another question")
    file = write_ablation(home, other)
    assert file == home / "reports" / "ablations" / "other.html"
    assert "another question" in file.read_text()
    assert "medium" not in file.read_text()


def test_the_newest_ablation_comes_first(home: Path) -> None:
    judged(home, "aaa")
    found, _ = ablations(home)
    assert [each.created for each in found] == sorted(
        (each.created for each in found), reverse=True
    )
    assert {each.name for each in found} == {"aaa", "medium"}


@pytest.mark.parametrize(
    "spoilt", [{"difference": float("nan")}, {"verdict": "surely"}, {"direction": "up"}]
)
def test_an_ablation_that_cannot_be_read_is_named_and_others_are_shown(
    home: Path, spoilt: dict[str, object]
) -> None:
    made = judged(home, "odd", spoilt=spoilt)
    found, (lost,) = ablations(home)
    assert [each.name for each in found] == ["medium"]
    assert str(made.path) in lost
    assert str(made.path) in page(home)
    with pytest.raises(StoreError):
        write_ablation(home, made)


def test_a_workspace_without_ablations_says_how_to_begin_one(tmp_path: Path) -> None:
    assert "curriculum ablate" in page(tmp_path / "none")


def test_few_seeds_and_failed_controls_are_told(home: Path) -> None:
    found = facts(home)
    assert found.notices == []
    failed = [replace(line, verdict="not seen") for line in found.claims if line.arm == "control"]
    assert len(replace(found, claims=(*found.claims[:-1], *failed)).notices) == 1


def test_the_server_shows_it_below_its_path_and_the_overview_leads_to_it(home: Path) -> None:
    with pages_server(home) as server:
        shown = server.ask(f"/{PATH}/ablations/")
        assert shown.status == 200
        assert "medium" in shown.body
        assert "default-src 'none'" in shown.headers["content-security-policy"]
        assert server.ask(f"/{PATH}/ablations/medium").status == 404
        assert "medium" not in server.ask("/ablations/").body


FIGURES = st.floats(-10, 10)


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES), min_size=1, max_size=5))
def test_a_scale_has_all_its_effects(drawn: list[tuple[float, float, float]]) -> None:
    effects = [
        Effect(
            mean=mean,
            low=min(mean, low),
            high=max(mean, high),
            low_below=mean,
            high_below=mean,
            delta=0.01,
            claimed=None,
            label="",
        )
        for mean, low, high in drawn
    ]
    scale = forest.scale_of(effects)
    for effect in effects:
        assert scale.low <= effect.low <= effect.high <= scale.high
        drawn_lane = str(forest.effect_lane(effect, scale))
        assert "\N{BLACK RIGHT-POINTING TRIANGLE}" not in drawn_lane
        assert "\N{BLACK LEFT-POINTING TRIANGLE}" not in drawn_lane
    assert scale.low < 0 < scale.high


def test_the_page_of_an_ablation_is_that_of_its_file(home: Path) -> None:
    assert page_of(facts(home)) == page(home)
