"""What a dry run says of tokens, time and price, and how a run's cost is recorded."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from curriculum.pipeline import forecast
from curriculum.pipeline.context import Resources
from curriculum.pipeline.forecast import Forecast, PhaseForecast, Speed, expected, money
from curriculum.pipeline.plan import RunPlan
from flows import settings
from flows.cli import phases


def speed(*, device: str = "cuda", devices: int = 1, seconds_per_token: float = 1e-3) -> Speed:
    return Speed(
        name="templates/demo/syntax",
        run="0123456789abcdef",
        model="tiny",
        device=device,
        devices=devices,
        seconds_per_token=seconds_per_token,
    )


def ahead(tokens: int, phase: str = "syntax") -> PhaseForecast:
    return PhaseForecast(phase=phase, to_make={"runs": 1} if tokens else {}, tokens=tokens, steps=7)


def foreseen(*tokens: int, speed: Speed | None, price: float | None) -> Forecast:
    phases = tuple(ahead(each, f"phase{at}") for at, each in enumerate(tokens))
    return Forecast(phases=phases, model="tiny", speed=speed, price=price)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Console:
    console = Console(record=True, width=160, quiet=False, file=None, force_terminal=False)
    monkeypatch.setattr(phases, "out", console)
    return console


def test_gpu_hours_cost_their_price_whatever_the_number_of_gpus() -> None:
    tokens = 3_600_000
    for devices in (1, 8):
        found = foreseen(tokens, speed=speed(devices=devices), price=2.5)
        assert found.cost == pytest.approx(2.5)
        assert found.seconds == pytest.approx(3600 / devices)


def test_a_cpu_costs_nothing() -> None:
    assert foreseen(1000, speed=speed(device="cpu"), price=2.5).cost == 0.0


def test_without_a_speed_or_a_price_there_is_no_cost() -> None:
    assert foreseen(1000, speed=None, price=2.5).cost is None
    assert foreseen(1000, speed=None, price=2.5).seconds is None
    assert foreseen(1000, speed=speed(), price=None).cost is None


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=6))
def test_phases_add_up_to_the_whole(tokens: list[int]) -> None:
    pace, price = speed(devices=4), 3.0
    whole = foreseen(*tokens, speed=pace, price=price)
    assert whole.tokens == sum(tokens)
    assert whole.cost == pytest.approx(sum(pace.cost(each, price) or 0 for each in tokens))
    assert whole.seconds == pytest.approx(sum(pace.seconds(each) for each in tokens))


def test_what_is_printed_names_tokens_time_price_and_the_run_that_measured(
    printed: Console,
) -> None:
    found = foreseen(7_200_000, 0, speed=speed(devices=2), price=2.5)
    phases.show_forecast(found, until="train")
    said = printed.export_text()
    for part in (
        "7.2M",
        "1 h",
        "5.00",
        "2 GPU hours",
        "tokens/s of templates/demo/syntax, run 0123456789ab, evaluations included; building",
        "at 2.5 for a GPU hour",
    ):
        assert part in said, said


def test_a_missing_price_is_asked_for(printed: Console) -> None:
    phases.show_forecast(foreseen(1000, speed=speed(), price=None), until="train")
    assert "$CURRICULUM_GPU_PRICE" in printed.export_text()


def test_nothing_to_train_is_said(printed: Console) -> None:
    phases.show_forecast(foreseen(0, 0, speed=speed(), price=2.5), until="train")
    assert "Nothing to train: every run is there." in printed.export_text()


def test_an_unmeasured_speed_is_said() -> None:
    assert "how long they take isn't known: no run of tiny" in expected(1000, "tiny", None)


def test_a_time_is_in_its_largest_units_and_not_in_parts_of_an_hour() -> None:
    on_cpu = speed(device="cpu", seconds_per_token=1e-3)
    assert "about 50 s at the 1,000 tokens/s" in expected(50_000, "tiny", on_cpu)


def test_the_speed_is_that_of_the_newest_run_of_the_same_model_and_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        speed(device="cpu", seconds_per_token=1.0),
        replace(speed(device="cpu"), model="60m", seconds_per_token=2.0),
        replace(speed(device="cuda"), model="60m", seconds_per_token=3.0),
    ]
    begun = [SimpleNamespace(path=run, job=None, is_finished=True) for run in runs]
    monkeypatch.setattr(forecast, "attempts_in", lambda store: begun)
    monkeypatch.setattr(forecast, "_speed_of", lambda run, job: run)

    def asked(model: str, device: str) -> Speed | None:
        plan = SimpleNamespace(
            store=SimpleNamespace(load=lambda path: path),
            diet=SimpleNamespace(model=model),
        )
        machine = SimpleNamespace(device=device)
        monkeypatch.setattr(forecast, "machine_of", lambda plan, resources: machine)
        return forecast.last_speed(cast("RunPlan", plan), Resources())

    assert asked("tiny", "cpu") == runs[0]
    assert asked("tiny", "cuda") is None
    assert asked("60m", "cpu") == runs[1]
    assert asked("60m", "cuda") == runs[2]
    assert asked("300m", "cpu") is None


def test_money_is_to_the_cent() -> None:
    assert [money(each) for each in (0.0, 1234.5, None)] == ["0.00", "1,234.50", ""]


@pytest.mark.parametrize("given", ["free", "-1", "0", "nan", "inf"])
def test_what_is_no_price_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURRICULUM_GPU_PRICE", given)
    with pytest.raises(settings.SettingError, match="CURRICULUM_GPU_PRICE"):
        settings.gpu_price()


QUICK = """
import sys
from flows.cli import app
try:
    app(["--help"])
except SystemExit:
    pass
slow = {"numpy", "pyarrow", "polars", "torch", "prefect", "duckdb", "tree_sitter"} & {*sys.modules}
assert not slow, slow
"""


def test_help_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUICK], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


STATUS = """
import sys
from pathlib import Path
from flows.cli import status
status.status(Path(sys.argv[1]), as_json=True)
slow = {"torch", "prefect", "duckdb"} & {*sys.modules}
assert not slow, slow
"""


def test_status_imports_neither_torch_nor_prefect(demo_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STATUS, str(demo_home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"done"' in done.stdout
