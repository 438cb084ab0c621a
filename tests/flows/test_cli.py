"""The command line as people mistake it: what it says, with which code, and what it leaves behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from curriculum.pipeline.run_config import GROUPS, USED_GROUPS, option
from curriculum.store import Store
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

COMMANDS = (
    "build",
    "mix",
    "train",
    "run",
    "demo",
    "tokenizer",
    "tokenizer train",
    "init",
    "supply",
    "diet",
    "diet check",
    "status",
    "inspect",
    "compare",
    "diff",
    "query",
    "generate",
    "leakcheck",
    "check",
    "export",
    "serve",
    "gc",
)
HELD = Path(__file__).parents[1] / "curriculum" / "train" / "held"
"""Holds processes where they say something."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(tmp_path: Path, command: str) -> None:
    answer = curriculum(*command.split(), "--help", home=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "Usage:" in answer.stdout
    listed = re.findall(r"│ +(--[a-z-]+) +(?:-h)? *(?:<[^>]+>)? *(\S?)", answer.stdout)
    assert listed
    assert all(words for _, words in listed), "an option without a word of help"


@pytest.mark.parametrize("command", [*USED_GROUPS])
def test_a_command_offers_the_settings_of_the_groups_that_it_uses(
    tmp_path: Path, command: str
) -> None:
    answer = curriculum(*command.split(), "--help-all", home=tmp_path)
    for group, kind in GROUPS:
        for field in kind.model_fields:
            listed = re.search(rf"{option(field)}\b(?!-)", answer.stdout) is not None
            # `--phase` and `--from-phase` are the commands' own.
            assert listed == (group in USED_GROUPS[command]), field


def test_working_without_prefect_never_imports_it(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom flows import cli\n"
        "for command in ('build', 'mix', 'train'):\n"
        "    sys.argv = ['curriculum', command, 'templates.demo', '--explain']\n"
        "    try:\n        cli.main()\n    except SystemExit as end:\n"
        "        print(command, end.code, 'prefect' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "CURRICULUM_HOME": str(tmp_path / "home")},
        check=False,
    )
    ended = [line for line in answer.stdout.splitlines() if line.endswith(("True", "False"))]
    assert ended == ["build 0 False", "mix 0 False", "train 0 False"], answer.stderr
    assert "to make" in answer.stdout


def _is_a_mistake(answer: subprocess.CompletedProcess[str], home: Path) -> str:
    """Return the message of an answer after asserting that it reports a mistake."""
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.startswith("error: ")
    assert "Traceback" not in answer.stderr
    assert not list(home.rglob("*")), "something was written"
    return answer.stderr


@pytest.mark.parametrize("command", [*USED_GROUPS])
def test_a_fault_in_a_diet_names_file_line_and_field(tmp_path: Path, command: str) -> None:
    diet = tmp_path / "mine.yaml"
    diet.write_text(
        "specialist: mine\ncorpus: sample\nmodel: tiny\ntoken_budget: 1M\nphases:\n"
        "  - phase: syntax\n    portion: 1\n    servings:\n"
        "      - {family: v3_simple, shares: 1}\n"
    )
    home = tmp_path / "home"
    said = _is_a_mistake(curriculum(*command.split(), str(diet), home=home), home)
    assert f"{diet}:9" in said
    assert "servings.0.shares" in said
    assert "'share'" in said


def test_an_unknown_specialist_names_the_likely_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = _is_a_mistake(curriculum("build", "template", home=home), home)
    assert "'templates'" in said


def test_an_unknown_corpus_names_the_likely_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    answer = curriculum("build", "templates.demo", "--corpus", "sampel", home=home)
    assert "'sample'" in _is_a_mistake(answer, home)


def test_an_unknown_phase_names_those_there_are(tmp_path: Path) -> None:
    answer = curriculum("train", "templates.demo", "--phase", "sintax", home=tmp_path / "home")
    assert answer.returncode == 2
    assert "syntax" in answer.stderr


def test_a_wrong_budget_names_the_option(tmp_path: Path) -> None:
    home = tmp_path / "home"
    answer = curriculum("mix", "templates.demo", "--token-budget", "lots", home=home)
    assert "--token-budget" in _is_a_mistake(answer, home)


@pytest.mark.parametrize("what", ["nowhere", "0123abc"])
def test_inspecting_what_isnt_there_says_so(tmp_path: Path, what: str) -> None:
    home = tmp_path / "home"
    assert what in _is_a_mistake(curriculum("inspect", what, home=home), home)


def test_checking_what_isnt_there_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = _is_a_mistake(curriculum("check", str(tmp_path / "nowhere"), home=home), home)
    assert "not a path" in said


def test_a_check_takes_names_and_keys_beside_paths(tmp_path: Path) -> None:
    home = tmp_path / "home"
    larder = TinyWorkspace(home)
    run(home, job(larder.syntax, home, run_key="1" * 64), [figure(2.0, 0.1)])
    ran = next(Store(home, dry=True).artefacts("runs"))
    both = curriculum("check", "fmt/syntax", home=home)
    assert both.returncode == 0, both.stderr
    checked = [line.split(": ")[0] for line in both.stdout.splitlines()]
    assert checked == [str(larder.syntax.path), str(ran.path)]
    for name, path in (
        (larder.file_graph.key[:12], larder.file_graph.path),
        ("mixtures", home / "mixtures"),
    ):
        done = curriculum("check", name, home=home)
        assert done.returncode == 0, done.stderr
        assert f"{path}: " in done.stdout
    (ran.path / "report.json").write_text("{}")
    damaged = curriculum("check", "fmt/syntax", home=home)
    assert damaged.returncode == 2
    assert "report.json" in damaged.stderr


def test_looking_at_an_empty_workspace_writes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "curriculum demo" in curriculum("status", home=home).stdout
    assert curriculum("query", "FROM runs", home=home).returncode == 0
    assert not home.exists()


def test_a_dry_build_writes_nothing_and_says_what_it_would_make(tmp_path: Path) -> None:
    home = tmp_path / "home"
    answer = curriculum("mix", "templates.demo", "--explain", "--phase", "syntax", home=home)
    assert answer.returncode == 0, answer.stderr
    assert "rows: 7 artefacts " in answer.stdout
    assert "phase-syntax  first version" in answer.stdout
    assert not list(home.glob("*/*/**/manifest.json"))


INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from flows.cli import main; main()"
)
"""A shell starts background jobs with SIGINT ignored, and so would be what a test starts there."""


def _interrupt(words: list[str], home: Path, when: Callable[[str], bool]) -> tuple[int, str]:
    """Start a command, press Ctrl-C when its output says so; the exit code and all that it said."""
    log = home.parent / "log.txt"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *words, "--home", str(home)],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 360
            while not when(log.read_text()):
                assert process.poll() is None, f"it ended by itself: {log.read_text()}"
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            return process.wait(180), log.read_text()
        finally:
            process.kill()


def test_an_interruption_ends_with_130_and_a_word_on_how_to_go_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code, said = _interrupt(["build", "templates.demo"], home, lambda said: "documents: " in said)
    assert code == 130, said
    assert "run the same command again" in said
    assert "Traceback" not in said


@pytest.mark.system
def test_an_interrupted_run_leaves_nothing_running_and_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its first trainer waits for its stop: the run can't be over before it is interrupted.
    monkeypatch.setenv("PYTHONPATH", str(HELD), prepend=os.pathsep)
    monkeypatch.setenv("HOLD_AT", "step 1/")
    monkeypatch.setenv("HOLD_IN", "/phase-syntax/")
    home = tmp_path / "home"
    words = ["run", "templates.demo", "--max-commits", "4", "--token-budget", "60K"]
    words += ["--versions-per-path", "1", "--max-repetition", "100", "--workers", "1"]
    code, said = _interrupt(words, home, lambda said: "train syntax: 0/" in said)
    assert code == 130, said
    assert "Traceback" not in said
    processes = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    left = [words for words in processes if any(str(home) in word for word in words)]
    assert left == []
    monkeypatch.delenv("HOLD_AT")
    assert "interrupted" in curriculum("status", home=home).stdout


@pytest.mark.parametrize("words", [("inspect", "\udcff\udcfe"), ("query", "SELECT '\udcff'")])
def test_a_word_that_is_not_utf8_is_refused_before_the_command(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = curriculum(*words, home=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "\\xff" in done.stderr


def test_the_name_of_a_missing_workspace_is_one_line(tmp_path: Path) -> None:
    done = curriculum("status", home=tmp_path / "ws\nerror: forged")
    assert [line for line in done.stdout.splitlines() if line.startswith("error: ")] == []
