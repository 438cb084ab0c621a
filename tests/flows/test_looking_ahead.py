"""Commands for planning: supply, diet check, diff of diets, init."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from curriculum.pipeline import Pipeline
from curriculum.pipeline.run_config import MixConfig
from curriculum.supply.sampled_corpus import MIN_COMMITS, MIN_GRAPHS
from flows.settings.trust import is_trusted
from schemas.errors import MixtureError
from tests.curriculum.pipeline.tiny_diet import NAME, edit, write_tiny_diet
from tests.flows.cli_runner import curriculum

FEW = ("--max-commits", "4", "--versions-per-path", "1")
"""Options that make commands fast."""


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the tiny diet, whose check has sampled its corpus."""
    home = tmp_path_factory.mktemp("sampled") / "home"
    write_tiny_diet(home)
    _checked(home)
    return home


@pytest.mark.system
def test_supply_counts_every_family_of_a_diet_and_keeps_nothing_but_its_estimates(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    answer = curriculum("supply", "templates.demo", "--json", home=home)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    totals = {
        (each["family"], each["row_length"], each["repository"])
        for each in found["supply"]
        if each["domain"] == "*" and each["tokens"]
    }
    assert len(totals) >= 3 * 5
    assert {family for family, *_ in totals} >= {"v2_simple", "v3_doxygen", "v4_context_graph"}
    by_domain = sum(each["tokens"] for each in found["supply"] if each["domain"] != "*")
    of_all = sum(each["tokens"] for each in found["supply"] if each["domain"] == "*")
    assert by_domain == pytest.approx(of_all, rel=0.01)
    assert len({each["domain"] for each in found["supply"]}) > 4
    assert [each["repository"] for each in found["sampled"]] == ["lattice", "arena", "ringlog"]
    kept = {each.relative_to(home).parts[0] for each in home.rglob("manifest.json")}
    assert kept == {"estimates"}
    assert is_trusted(home), "the command made the workspace"


@pytest.mark.system
def test_supply_of_a_repository_is_a_table_for_people(tmp_path: Path, sample_clone: Path) -> None:
    answer = curriculum(
        "supply", str(sample_clone), "--phases-file", "phases.demo", home=tmp_path / "home"
    )
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"v3_simple +512 +new +([\d.]+k +){3}\d+ +\d+\.\d%", answer.stdout)
    assert "shortened_share: " in answer.stdout
    assert f"{sample_clone.name} " in answer.stdout
    assert "all commits " in answer.stdout


def test_the_help_of_a_share_gives_the_commits_that_are_read_at_least() -> None:
    for words in (("supply",), ("diet", "check")):
        said = " ".join(curriculum(*words, "--help").stdout.replace("│", " ").split())
        assert f"at least {MIN_COMMITS} commits ({MIN_GRAPHS} for v4" in said


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("templtes", "no corpus, diet or repository has this name"),
        ("nowhere.yaml", "no corpus, diet or repository has this name"),
        ("broken.yaml", "repositories is missing"),
    ],
)
def test_supply_of_nothing_ends_in_a_line(tmp_path: Path, what: str, said: str) -> None:
    (tmp_path / "broken.yaml").write_text("name: x\n")
    answer = curriculum("supply", what, home=tmp_path / "home", cwd=tmp_path)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_supply_ends_at_once_when_it_is_interrupted(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from flows.cli import main; main()"
    )
    words = ["supply", "sample", "--workers", "2", "--home", str(tmp_path / "home")]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with (
        log.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 240
            while "commits: 0/3" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(180) == 130, log.read_text()
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()
    assert list(scratch.glob("curriculum-supply-*")) == []
    assert tempfile.gettempdir() != str(scratch)


@pytest.mark.system
def test_a_diet_that_can_be_served_is_told_with_what_there_is(tmp_path: Path) -> None:
    words = ("diet", "check", "templates.demo", "--token-budget", "60K", *FEW)
    answer = curriculum(*words, home=tmp_path / "home")
    assert answer.returncode == 0, answer.stderr
    assert "estimate" in answer.stdout
    assert re.search(r"token_budget +valid_tokens +scored_tokens +distinct_tokens", answer.stdout)
    assert "(docs/benchmarks.md)" in answer.stdout


@pytest.mark.system
def test_a_diet_that_asks_too_much_ends_with_2_and_a_cure(tmp_path: Path) -> None:
    words = ("diet", "check", "templates.demo", "--token-budget", "100M", "--json", *FEW)
    answer = curriculum(*words, home=tmp_path / "home")
    assert answer.returncode == 2
    found = json.loads(answer.stdout)
    assert any(each["is_short"] and each["source"] != "rows" for each in found["servings"])
    assert found["hours"] > 0
    assert "docs/benchmarks.md" in found["speed"]["source"]
    assert any("raise max_repetition" in each for each in found["faults"])
    assert not found["fits"]
    assert 0 < found["largest_token_budget"] < 100_000_000


def test_a_check_ends_with_a_verdict_whose_budget_fits(sampled: Path) -> None:
    verdict = _checked(sampled).splitlines()[-1]
    assert verdict.startswith("✓ tiny ")
    assert verdict.endswith(": syntax, file_graph")
    words = ("diet", "check", NAME, "--home", str(sampled))
    refused = curriculum(*words, "--token-budget", "900M")
    assert refused.returncode == 2, refused.stderr
    verdict = refused.stdout.splitlines()[-1]
    assert verdict.startswith("✗ tiny: ")
    assert " 900M; " in verdict
    option, budget = verdict.split()[-2:]
    assert curriculum(*words, option, budget).returncode == 0
    above = f"{int(budget.removesuffix('K')) * 1.01:.0f}K"
    assert curriculum(*words, option, above).returncode == 2


def _checked(home: Path) -> str:
    done = curriculum("diet", "check", NAME, "--home", str(home))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_budget_below_a_step_is_refused_alike_by_check_dry_run_and_run(tmp_path: Path) -> None:
    write_tiny_diet(tmp_path)
    at = ("--home", str(tmp_path))
    built = curriculum("build", NAME, "--workers", "1", *at)
    assert built.returncode == 0, built.stderr
    below = (NAME, "--token-budget", "900", *at)
    checked = curriculum("diet", "check", *below)
    verdict = checked.stdout.splitlines()[-1]
    assert verdict.startswith("✗ tiny: ")
    assert " 900; " in verdict
    smallest = verdict.split()[-1]
    found = re.search(
        r"^\S+/diets/tiny.yaml:10: phase syntax: 450 tokens; one step takes .*$",
        checked.stderr,
        re.MULTILINE,
    )
    assert found is not None, checked.stderr
    assert f"token_budget to {int(smallest):,}, " in found[0]
    for words in (("run", "--dry-run"), ("train", "--dry-run"), ("run",), ("train",)):
        refused = curriculum(words[0], *below, *words[1:])
        assert (refused.returncode, found[0] in refused.stderr) == (2, True), refused.stderr
    assert not list(tmp_path.glob("runs/**/job.json")), "nothing was trained"
    fits = (NAME, "--token-budget", smallest, *at)
    for words in (("diet", "check"), ("run",)):
        dry = ("--dry-run",) if words[0] == "run" else ()
        assert curriculum(*words, *fits, *dry).returncode == 0
        less = (NAME, "--token-budget", str(int(smallest) - 1), *at)
        assert curriculum(*words, *less, *dry).returncode == 2


@pytest.mark.parametrize(
    "words",
    [("run", "--dry-run"), ("mix", "--dry-run"), ("run",), ("train",), ("mix",)],
    ids=" ".join,
)
def test_a_budget_without_a_step_is_refused_before_anything_is_built(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    write_tiny_diet(tmp_path)
    command, *options = words
    at = (command, NAME, "--home", str(tmp_path), *options, "--token-budget")
    refused = curriculum(*at, "900")
    assert (refused.returncode, "phase syntax: 450 tokens; " in refused.stderr) == (2, True)
    assert "Raise token_budget to 2,048" in refused.stderr
    assert not (tmp_path / "documents").exists()
    if options:
        assert curriculum(*at, "2048").returncode == 0


def test_a_budget_without_a_step_is_refused_where_rows_are_only_estimated(tmp_path: Path) -> None:
    write_tiny_diet(tmp_path)
    at = ("--home", str(tmp_path))
    assert curriculum("diet", "check", NAME, *at).returncode == 0
    for words in (("run", "--dry-run"), ("train",)):
        refused = curriculum(words[0], NAME, *words[1:], "--token-budget", "300", *at)
        assert (refused.returncode, "phase syntax: 150 tokens" in refused.stderr) == (2, True)
    assert not (tmp_path / "rows").exists()


def test_the_library_refuses_a_budget_without_a_step_before_anything_is_built(
    tmp_path: Path,
) -> None:
    write_tiny_diet(tmp_path)
    pipeline, few = Pipeline(tmp_path), MixConfig(token_budget="900")
    for take in (pipeline.mix, pipeline.train):
        with pytest.raises(MixtureError, match="450 tokens"):
            take(NAME, mix=few)
    assert not (tmp_path / "documents").exists()


def test_a_dry_run_says_what_is_short_by_what_is_known_and_samples_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiny_diet(tmp_path)
    at = ("--home", str(tmp_path))
    dry = ("run", NAME, "--dry-run", "--token-budget", "900M", *at)
    with monkeypatch.context() as patched:
        patched.setattr(
            "curriculum.supply.ratios.sample_corpus",
            lambda *_, **__: pytest.fail("a dry run samples the corpus"),
        )
        unknown = curriculum(*dry)
        assert unknown.returncode == 0, unknown.stderr
        said = "syntax, file_graph: the supply of v2_simple causal at 512, "
        assert said in unknown.stderr
        asking = re.search(r"estimate it with `curriculum (diet check .*)`", unknown.stderr)
        assert asking is not None
    assert curriculum(*asking[1].split(), *at).returncode == 2
    known = curriculum(*dry)
    assert known.returncode == 0, known.stderr
    assert "is unknown" not in known.stderr
    short = (
        r"syntax: by the estimate, v2_simple causal at 512: 270,000,000 tokens requested, about "
        r"[\d,]+ available"
    )
    assert re.search(short, known.stderr), known.stderr
    assert "will be refused" in known.stderr
    edit(
        tmp_path,
        "diets/tiny.yaml",
        "max_repetition: 100\n",
        "max_repetition: 100\n    on_shortage: renormalise\n",
    )
    less = curriculum(*dry[:4], "3000K", *at)
    assert less.returncode == 0, less.stderr
    assert re.search(r"v3_simple causal at 512.* 0\.4 becomes 0\.\d+,", less.stderr)
    assert "refused" not in less.stderr


def test_shares_that_shrink_are_said_alike_by_check_and_dry_run(
    sampled: Path, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(sampled, tmp_path / "home"))
    edit(
        home,
        "diets/tiny.yaml",
        "share: 0.4}]\n    max_repetition: 100\n",
        "share: 0.4}]\n    max_repetition: 100\n    on_shortage: renormalise\n",
    )
    asked = (NAME, "--token-budget", "3000K", "--home", str(home))
    checked = curriculum("diet", "check", *asked)
    assert checked.returncode == 0, checked.stderr
    said = re.search(r"^syntax: .*share of 0\.4 becomes 0\.\d+.*$", checked.stderr, re.MULTILINE)
    assert said is not None, checked.stderr
    assert said[0] in curriculum("run", *asked, "--dry-run").stderr
    verdict = checked.stdout.splitlines()[-1]
    assert "shares in syntax" in verdict
    assert "repetition" in verdict
    found = json.loads(curriculum("diet", "check", *asked, "--json").stdout)
    assert said[0] in found["warnings"]
    assert found["is_estimate"]
    assert found["token_budgets"][-1]["repetition"] > found["max_token_repetition"]
    largest = found["largest_within_max_token_repetition"]
    within = json.loads(
        curriculum(
            "diet", "check", NAME, "--token-budget", f"{largest}", "--home", str(home), "--json"
        ).stdout
    )
    assert within["token_budgets"][-1]["repetition"] <= found["max_token_repetition"]


def test_a_phase_that_asks_too_much_is_refused_with_the_line_of_its_serving(
    sampled: Path,
) -> None:
    diet, asked = (
        sampled / "diets/tiny.yaml",
        (NAME, "--token-budget", "12M", "--home", str(sampled)),
    )
    lines = diet.read_text().splitlines()
    at = {name: lines.index(f"  - phase: {name}") + 3 for name in ("syntax", "file_graph")}
    checked = curriculum("diet", "check", *asked)
    assert checked.returncode == 2
    for name, line in at.items():
        assert f"{diet}:{line}: phase {name}: " in checked.stderr
    dry = curriculum("run", *asked, "--dry-run")
    assert f"{diet}:{at['syntax']}: phase syntax: " in dry.stderr
    assert "Nothing to train" not in dry.stdout, "phases that can't be served aren't trained"


def test_a_refused_phase_is_left_out_of_the_total_by_name(sampled: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(sampled, tmp_path / "home"))
    limit = "servings: [{family: v2_simple, share: 1}]\n    max_repetition: "
    gate = "\n    advance_when: {val_bpb: {stops_improving_by: 0.002, over_evaluations: 3}}"
    edit(home, "diets/tiny.yaml", f"{limit}100", f"{limit}1{gate}")
    dry = curriculum("run", NAME, "--token-budget", "400K", "--dry-run", "--home", str(home))
    assert dry.returncode == 0, dry.stderr
    said = " ".join(dry.stdout.split())
    assert "without file_graph: 200k tokens; " in said
    assert "refused" in said
    assert "its gate may end it earlier" not in said, "it isn't trained"


def test_an_edited_diet_is_checked_without_sampling_again_and_alike(
    sampled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = Path(shutil.copytree(sampled, tmp_path / "home"))
    before = _checked(edited)
    edit(edited, "diets/tiny.yaml", "share: 0.6}", "share: 0.7}")
    edit(edited, "diets/tiny.yaml", "share: 0.4}", "share: 0.3}")
    edit(edited, "diets/tiny.yaml", "token_budget: 4K", "token_budget: 5K")
    with monkeypatch.context() as patched:
        patched.setattr(
            "curriculum.supply.ratios.sample_corpus",
            lambda *_, **__: pytest.fail("the corpus is sampled again"),
        )
        cached = _checked(edited)
    assert cached != before
    removed = curriculum("gc", "--yes", "--home", str(edited))
    assert removed.returncode == 0, removed.stderr
    assert not list(edited.rglob("manifest.json"))
    assert _checked(edited) == cached


@pytest.mark.system
def test_estimates_arent_taken_for_those_of_another_corpus(sampled: Path, tmp_path: Path) -> None:
    shutil.copytree(sampled, tmp_path, dirs_exist_ok=True)
    kept = set(tmp_path.glob("estimates/**/manifest.json"))
    edit(tmp_path, "corpora/small.yaml", "max_commits: 6", "max_commits: 3")
    _checked(tmp_path)
    more = set(tmp_path.glob("estimates/**/manifest.json"))
    assert len(more) == 2 * len(kept) > 0


def test_a_diet_that_contradicts_itself_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "specialist: x\ncorpus: sample\nmodel: tiny\ntoken_budget: 1M\nphases:\n"
        "  - {phase: syntax, portion: 0.5, servings: [{family: v3_simple, share: 0.5}]}\n"
    )
    answer = curriculum("diet", "check", "mine.yaml", home=tmp_path / "home", cwd=tmp_path)
    assert answer.returncode == 2
    assert "syntax sum to 0.5" in answer.stderr
    assert answer.stdout == ""
    assert not (tmp_path / "home").exists()


def test_a_workspace_with_rows_and_runs_tells_rows_and_hours(demo_home: Path) -> None:
    before = sorted(demo_home.rglob("manifest.json"))
    answer = curriculum("diet", "check", "templates.demo", "--json", home=demo_home)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert all(each["source"] == "rows" for each in found["servings"])
    assert found["hours"] > 0
    assert found["speed"]["model"] == "tiny"
    assert sorted(demo_home.rglob("manifest.json")) == before


def test_two_diets_are_compared_in_tokens(tmp_path: Path) -> None:
    answer = curriculum("diff", "templates", "testing", "--json", home=tmp_path)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert {"phase", "family", "objective", "domains", "tokens_before", "tokens_change"} <= set(
        found["servings"][0]
    )
    assert any(each["objective"] == "fim" for each in found["servings"])
    assert any("testing" in each["domains"] for each in found["servings"])
    table = curriculum("diff", "templates", "testing", home=tmp_path).stdout
    assert re.search(r"^syntax +[\d.]+[MG] +[\d.]+% +[\d.]+[MG]", table, flags=re.MULTILINE)
    assert "−" in table
    assert "No difference" in curriculum("diff", "testing", "testing", home=tmp_path).stdout


def test_a_diet_in_a_file_outside_of_any_workspace_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "mine.yaml"
    file.parent.mkdir()
    file.write_text("extends: templates\nbranch: mine\ntoken_budget: 5B\n")
    for sides in ((str(file), "templates"), ("templates", str(file)), (str(file), str(file))):
        answer = curriculum("diff", *sides, home=tmp_path / "home")
        assert answer.returncode == 0, answer.stderr
        assert ("5000000000" in answer.stdout) == (sides[0] != sides[1])


def test_a_name_that_is_no_diet_is_not_compared(tmp_path: Path) -> None:
    answer = curriculum("diff", "templates", "tessting", home=tmp_path)
    assert answer.returncode == 2
    assert "Did you mean 'testing'" in answer.stderr


@pytest.mark.system
def test_what_init_prints_runs_as_it_is_printed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    answer = curriculum("init", "my-diet", home=home, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    commands = [
        shlex.split(line, comments=True)[1:]
        for line in answer.stdout.splitlines()
        if line.startswith("curriculum ")
    ]
    assert [words[0] for words in commands] == ["supply", "diet", "build", "run"]
    for words in commands[:3]:
        few = FEW if words[0] == "build" else ()
        done = curriculum(*words, *few, home=home, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    again = curriculum("init", "my-diet", home=home, cwd=tmp_path)
    assert again.returncode == 2
    assert "nothing is overwritten" in again.stderr


def test_what_init_wrote_is_listed_by_name_at_once(tmp_path: Path) -> None:
    home = tmp_path / "my lab"
    answer = curriculum("init", "parsers", "--home", str(home))
    assert answer.returncode == 0, answer.stderr
    assert "curriculum run parsers --home '" in answer.stdout
    listed = json.loads(curriculum("ls", "--json", home=home).stdout)
    for kind in ("diets", "corpora"):
        assert "parsers" in {each["name"] for each in listed[kind]}
    assert is_trusted(home)
    more = curriculum("init", "lexers", "--home", str(home))
    assert more.returncode == 0, more.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../up", "a name has letters"),
        ("templates", "the package has"),
        ("sample", "the package has"),
    ],
)
def test_a_name_that_init_cannot_take_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str, said: str
) -> None:
    answer = curriculum("init", name, home=tmp_path / "home")
    assert answer.returncode == 2
    assert said in answer.stderr
    assert not (tmp_path / "home").exists()
