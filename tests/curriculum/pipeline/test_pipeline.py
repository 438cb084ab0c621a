"""The pipeline as a library: from a notebook, without Prefect, and importing only what a step needs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from curriculum.pipeline import Groups, Pipeline
from curriculum.pipeline.run_config import BuildConfig, CorpusConfig, MixConfig, RunConfig
from curriculum.store import Store
from schemas.errors import DietError
from tests.error_fields import fields

README = Path(__file__).parents[3] / "README.md"
HEAVY = ("torch", "tree_sitter", "prefect", "duckdb", "polars", "pyarrow", "transformers")
SMALL = Groups(
    corpus=CorpusConfig(max_commits=2, versions_per_path=1, workers=1),
    build=BuildConfig(branch="small"),
    mix=MixConfig(token_budget="20K", max_repetition=100.0),
)


def _loaded_after(code: str) -> set[str]:
    """The heavy packages that a fresh process has imported after some code."""
    ask = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return {*HEAVY} & {*json.loads(done.stdout)}


def test_a_pipeline_imports_nothing_heavy_until_a_step_needs_it(tmp_path: Path) -> None:
    made = "from curriculum.pipeline import Pipeline\nPipeline('w')"
    assert _loaded_after(made) == set()
    assert "polars" in _loaded_after("import curriculum.pipeline.steps"), "the probe sees imports"


def test_building_imports_neither_torch_nor_prefect(tmp_path: Path) -> None:
    code = (
        "from curriculum.pipeline import Pipeline\n"
        "from curriculum.pipeline.run_config import CorpusConfig\n"
        f"pipeline = Pipeline({str(tmp_path / 'home')!r})\n"
        "if __name__ == '__main__':\n"
        "    pipeline.build('templates.demo', phase='syntax',\n"
        "        corpus=CorpusConfig(max_commits=2, versions_per_path=1, workers=1))\n"
    )
    assert not {"torch", "prefect", "transformers"} & _loaded_after(code)


def test_a_second_build_makes_nothing(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    first = pipeline.mix("templates.demo", phase="syntax", **SMALL)
    again = pipeline.mix("templates.demo", phase="syntax", **SMALL)
    assert [each.made for each in first.values()] == [True]
    assert [(each.key, each.made) for each in again.values()] == [(first["syntax"].key, False)]
    labels = first["syntax"].manifest.labels
    assert (labels["specialist"], labels["branch"]) == ("templates", "small")


def test_a_mistake_is_an_error_of_ours_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DietError, match="templtes"):
        Pipeline(tmp_path / "home").build("templtes")
    with pytest.raises(DietError, check=fields(value="phase 'later'")):
        Pipeline(tmp_path / "home").build("templates.demo", phase="later")
    assert not (tmp_path / "home").exists()


def test_a_command_that_nobody_allowed_never_runs(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text("extends: templates.demo\nbranch: theirs\ntrainer: {command: 'touch {job}'}\n")
    with pytest.raises(DietError, match="allowed"):
        Pipeline(tmp_path / "home").train(str(file), phase="syntax")
    assert not Store(tmp_path / "home").root.exists()


def test_the_readmes_example_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert {"syntax"} == {*names["built"]}
    assert names["pipeline"].workspace == tmp_path / "workspace"
    assert names["built"]["syntax"].rows


def test_a_config_comes_back_from_the_record_of_its_job(tmp_path: Path) -> None:
    file = tmp_path / "a diet.yaml"
    file.write_text("")
    config = RunConfig.of(
        specialist=str(file),
        workspace=tmp_path,
        corpus="sample",
        repositories=("/a repository", "/b"),
        max_commits=7,
        workers=3,
        phases_file="phases.demo",
        branch="ux",
        row_length=256,
        configure=True,
        token_budget="500K",
        max_repetition=2.5,
        seed=0,
        continue_run="templates/syntax@12",
        without_rows="fmt,re2",
        log="wandb",
    )
    recorded = config.overrides()
    assert recorded == {
        "diet": str(file),
        "corpus": "sample",
        "repositories": "'/a repository' /b",
        "max_commits": "7",
        "phases_file": "phases.demo",
        "branch": "ux",
        "row_length": "256",
        "configure": "True",
        "token_budget": "500K",
        "max_repetition": "2.5",
        "seed": "0",
        "continue": "templates/syntax@12",
        "without_rows": "fmt,re2",
    }
    again = RunConfig.of_overrides(recorded, specialist=recorded["diet"], workspace=tmp_path)
    # What belongs to one machine isn't recorded.
    assert again == config.changed(workers=None, log=None)
