"""Curves of a run that trains: from metrics and heartbeat as they are written, and redrawn by themselves."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, expect

from curriculum.inspection import step_metrics
from curriculum.inspection.open_runs import training_curves
from curriculum.pipeline.context import Resources
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.report import HeartbeatWriter
from curriculum.train.run_directory import read_job
from curriculum.whole_files import replace_whole
from dashboards import palette, training_panel
from dashboards.training_view import TOKENS, TrainingView
from schemas.job import METRICS_SCHEMA, Figure, Heartbeat
from schemas.json_text import now
from tests.dashboards.conftest import Watched, dashboard_of
from tests.dashboards.looking import PATIENCE_MS, open_page, words
from tests.dashboards.test_pipeline import CONTRAST, SCHEMES, SIZES
from tests.factories import figure, training
from tests.flows.tiny_workspace import TinyWorkspace, job, run

STEPS = 400
STEP_VIEW, UNSMOOTHED = TrainingView(), TrainingView(axis=TOKENS, loss_weight=0.0)


def _figures(*steps: int) -> tuple[Figure, ...]:
    return tuple(
        figure(4.0 - step / STEPS + (phase == "anchor") / 10, phase=phase, step=step)
        for step in steps
        for phase in ("syntax", "anchor")
    )


def _beat(folder: Path, step: int, *figures: Figure) -> None:
    beat = Heartbeat(
        step=step, steps=STEPS, valid_tokens=step, tokens_per_second=160.0, figures=figures, at=now()
    )  # fmt: skip
    replace_whole(folder / "heartbeat.json", lambda draft: draft.write_text(beat.model_dump_json()))


def _part(folder: Path, first: int, last: int, *, loss: float | None = None) -> None:
    lines = [
        {
            **{field.name: 1 for field in METRICS_SCHEMA},
            "step": step,
            "loss": 5.0 - step / 100 if loss is None else loss,
        }
        for step in range(first, last + 1)
    ]
    table = pa.Table.from_pylist(lines, schema=METRICS_SCHEMA)
    file = folder / "metrics" / f"{first:010d}.parquet"
    replace_whole(file, lambda draft: pq.write_table(table, draft))


@contextlib.contextmanager
def _begin(home: Path) -> Iterator[Path]:
    """The directory of a run that this process owns, without a step."""
    larder = TinyWorkspace(home)
    folder = run(home, job(larder.syntax, home, run_key="1", steps=STEPS), [], closed=False)
    for part in (folder / "metrics").iterdir():
        part.unlink()
    with training(folder):
        yield folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with _begin(tmp_path / "workspace") as folder:
        yield folder


def _said(folder: Path, view: TrainingView = STEP_VIEW) -> str:
    home = next(each for each in folder.parents if (each / "workspace.json").is_file())
    return " ".join(training_panel.panel(home, Resources(), view).split())


def test_before_its_first_step_a_run_has_no_curves(folder: Path) -> None:
    found = training_curves(folder)
    assert (found.points, found.phase, found.fixed, found.heartbeat) == ((), (), {}, None)
    assert "The first steps appear within ten seconds" in _said(folder)


def test_curves_grow_with_the_parts_and_the_heartbeat(folder: Path) -> None:
    _part(folder, 1, 40)
    _beat(folder, 44, *_figures(0, 40))
    assert len(training_curves(folder).points) == 40
    _part(folder, 41, 90)
    _beat(folder, 91, *_figures(0, 40, 80))
    found = training_curves(folder)
    assert [found.points[0].steps, found.points[-1].steps] == [1, 90]
    assert [each.step for each in found.fixed["anchor"]] == [0, 40, 80]
    said = _said(folder)
    assert "step 91 of 400" in said
    assert f"about {round(309 * 16 / 160)} s left" in said, "16 positions a step, 160 a second"
    assert "syntax 3.800 at step 80; anchor 3.900 at step 80" in said


def test_a_part_that_a_resumed_run_writes_again_replaces_the_first(folder: Path) -> None:
    _part(folder, 1, 10, loss=3.0)
    assert {point.loss for point in training_curves(folder).points} == {3.0}
    _part(folder, 1, 10, loss=2.0)
    assert {point.loss for point in training_curves(folder).points} == {2.0}
    kept = training_curves(folder)
    step_metrics._part.cache_clear()
    assert training_curves(folder) == kept, "as without what was kept"


def test_a_long_run_has_means_at_so_many_points_at_most(folder: Path) -> None:
    for first in range(1, 1001, 100):
        _part(folder, first, first + 99)
    points = training_curves(folder, points=90).points
    assert len(points) == 84
    assert points[0].steps == points[0].tokens == 12
    assert points[0].loss == pytest.approx(sum(5.0 - step / 100 for step in range(1, 13)) / 12)
    assert points[-1].steps == points[-1].tokens == 1000


def test_the_reader_chooses_the_axis_and_the_smoothing(folder: Path) -> None:
    _part(folder, 1, 40)
    _beat(folder, 40, *_figures(0, 40))
    said = _said(folder, TrainingView(axis=TOKENS, loss_weight=0.5))
    assert "training loss by tokens: 4.600 at step 40" in said
    assert ">training tokens<" in said
    assert ">steps<" not in said
    raw, line = re.findall(r'<polyline(?: class="raw")? points="([^"]*)"', said)[:2]
    assert raw != line
    off = re.findall(r'<polyline(?: class="raw")? points="([^"]*)"', _said(folder, UNSMOOTHED))
    assert off[0] == off[1] == raw


def test_a_damaged_part_of_the_metrics_is_said(folder: Path) -> None:
    (folder / "metrics" / "0000000001.parquet").write_bytes(b"PAR1")
    assert "0000000001.parquet" in _said(folder)
    assert "<svg" not in _said(folder)


def test_a_run_that_no_process_owns_isnt_training(folder: Path) -> None:
    (folder / "state.json").unlink()
    _part(folder, 1, 10)
    assert "No run is training." in _said(folder)


def test_the_trainers_heartbeat_has_the_means_of_all_evaluations(folder: Path) -> None:
    means = _figures(0, 100)
    stratum = figure(3.0, step=100, family="v2_simple", domain="general")
    writer = HeartbeatWriter(read_job(folder / "job.json"), folder)
    state = CheckpointState(step=101, figures=(*means, stratum))
    writer.step(state, positions=16, seconds=1.0)
    found = training_curves(folder)
    assert [*found.phase, *found.fixed["anchor"]] == sorted(
        means, key=lambda each: each.set, reverse=True
    )
    assert found.heartbeat is not None
    assert found.heartbeat.step == 101


# In a browser


@pytest.fixture(scope="module")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with _begin(tmp_path_factory.mktemp("training") / "lab") as folder:
        _part(folder, 1, 120)
        _beat(folder, 120, *_figures(0, 100))
        yield folder


@pytest.fixture(scope="module")
def looked(
    browser: Browser, open_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """A window on the page of runs, and the server behind it."""
    home = next(each for each in open_run.parents if (each / "workspace.json").is_file())
    with dashboard_of(home, tmp_path_factory.mktemp("said") / "said.txt") as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE_MS)
        looked = Watched(context)
        open_page(looked.page, address, "runs")
        expect(looked.page.locator("#training .live")).to_be_visible(timeout=PATIENCE_MS)
        yield looked
        looked.expect_calm(address)
        context.close()


@pytest.fixture
def page(looked: Watched) -> Page:
    return looked.page


pytestmark = [pytest.mark.timeout(600)]


@pytest.mark.browser
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_curves_are_legible(page: Page, shots: Path, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    texts = page.locator("#training .plot text:visible")
    sizes = texts.evaluate_all(
        "all => all.map(each => parseFloat(getComputedStyle(each).fontSize)"
        " * (each.getScreenCTM()?.a ?? 1))"
    )
    assert min(sizes) >= 11
    for side in ("left", "right", "below"):
        assert page.locator(f"#training svg.{side}").first.evaluate(CONTRAST) >= 4.5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    names = page.locator("#training svg[role=img]").evaluate_all(
        "all => all.map(each => each.getAttribute('aria-label'))"
    )
    assert names[0].startswith("training loss by steps: ")
    assert names[1].startswith("val_bpb by steps: syntax ")
    page.locator("#training").screenshot(path=shots / f"training-{width}-{scheme}.png")


CONTROL_CONTRAST = """(control) => {
  const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
  const style = getComputedStyle(control), tones = [style.color, style.backgroundColor].map(light);
  return (Math.max(...tones) + .05) / (Math.min(...tones) + .05);
}"""
"""Contrast of the text of a control with its background."""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_refresh_control_is_legible_and_in_the_colours_of_the_page(
    page: Page, scheme: str
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    ground = palette.GROUND["ground"]
    tone = ground.dark if scheme == "dark" else ground.light
    wanted = f"rgb({', '.join(str(int(tone[at : at + 2], 16)) for at in (1, 3, 5))})"
    for kind in ("select", "button"):
        control = page.locator(f"#again {kind}").first
        assert control.evaluate("one => getComputedStyle(one).backgroundColor") == wanted
        assert control.evaluate(CONTROL_CONTRAST) >= 4.5


@pytest.mark.browser
def test_the_curves_are_drawn_anew_by_themselves(page: Page, open_run: Path) -> None:
    assert "step 120 of 400" in words(page, "#training")
    _part(open_run, 121, 200)
    _beat(open_run, 200, *_figures(0, 100, 200))
    expect(page.locator("#training")).to_contain_text("step 200 of 400", timeout=PATIENCE_MS)
    points = page.locator("#training .own polyline.raw").first.get_attribute("points")
    assert points
    assert len(points.split()) == 200
    evaluations = page.locator("#training .anchor polyline:not(.raw)").get_attribute("points")
    assert evaluations
    assert len(evaluations.split()) == 3
    # The end of the run closes the panel.
    (open_run / "state.json").unlink()
    expect(page.locator("#training")).to_contain_text("No run is training", timeout=PATIENCE_MS)
