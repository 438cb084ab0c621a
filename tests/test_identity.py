"""Keys, contents, file names and checks of a small workspace are the same as in tests/golden/identity.txt.

The golden file contains the output of benchmarks/identity.py; its first line names the first commit. After an
intended change, run `pytest tests/test_identity.py --rewrite`, and list the changes in the commit message.

The keys of artefacts contain the versions of tools. Here they are replaced by a constant in every recipe, so
that another version of git, of a grammar, of the tokenizer or of torch changes no line if its output is the
same. The bytes of Parquet files depend on pyarrow, so contents may change with its version.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.identity import Workspace, commit
from curriculum.corpus.load import SAMPLES

pytestmark = pytest.mark.system
GOLDEN = Path(__file__).parent / "golden" / "identity.txt"
PINNED = "pinned"
COMMAND = f"""
import functools
from importlib.metadata import entry_points
from curriculum.store import Recipe

unpinned = Recipe.__init__

@functools.wraps(unpinned)
def pinned(self, *, tools=None, **given):
    unpinned(self, tools=dict.fromkeys(tools or (), {PINNED!r}), **given)

Recipe.__init__ = pinned
(command,) = entry_points(group="console_scripts", name="curriculum")
command.load()()
"""
CORPUS = f"""
name: small
repositories:
  - name: lattice
    path: {json.dumps(str(SAMPLES / "lattice.bundle"))}
    licence: Apache-2.0
    max_commits: 4
conversations:
  - {{name: talks, path: {json.dumps(str(SAMPLES / "conversations.jsonl"))}, licence: Apache-2.0}}
files: [cpp, c, cmake, make]
history: {{versions_per_path: 1}}
val_fraction: 0.3
"""
DIET = """
specialist: tiny
phases_file: phases.demo
corpus: corpus.yaml
vocab_size: 400
model: tiny
token_budget: 3K
tokens_per_step: 1024
phases:
  - phase: syntax
    portion: 0.4
    servings:
      - {family: v3_doxygen, share: 0.4}
      - {family: v2_simple, objective: doc_to_code, share: 0.3}
      - {family: chat, objective: chat, share: 0.3}
    max_repetition: 20
  - phase: file_graph
    portion: 0.6
    servings:
      - {family: v4_context_graph, row_length: 1024, share: 0.5}
      - {family: v6_enriched, base: v2_simple, row_length: 512, share: 0.5}
    max_repetition: 20
"""
KINDS = {"artefact", "check", "column", "field", "file", "live", "macro", "tensor", "view"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train both phases of the diet and return the workspace; takes about 20 s of a core."""
    folder = tmp_path_factory.mktemp("identity")
    (folder / "corpus.yaml").write_text(CORPUS)
    (folder / "tiny.yaml").write_text(DIET)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "train", "tiny.yaml", "--home", "home", "--workers", "1"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "home"


def test_the_workspace_is_the_same_as_in_the_golden_file(
    home: Path, request: pytest.FixtureRequest
) -> None:
    found = Workspace(root=home, without_runs=True).lines()
    if request.config.getoption("--rewrite"):
        before = GOLDEN.read_text().splitlines() if GOLDEN.exists() else [f"commit: {commit()}"]
        GOLDEN.write_text("".join(f"{line}\n" for line in [before[0], *found]), newline="\n")
    head, *golden = GOLDEN.read_text().splitlines()
    assert head.startswith("commit: ")
    assert found == golden


def test_every_recipe_was_made_with_pinned_tools(home: Path) -> None:
    tools = {
        (name, version)
        for artefact in Workspace(root=home).published
        for name, version in artefact.manifest["tools"].items()
    }
    assert {version for _, version in tools} == {PINNED}
    assert {"git", "tree-sitter", "tokenizers", "torch"} <= {name for name, _ in tools}


def test_every_kind_of_fact_is_there_and_no_verdict_is_an_error() -> None:
    _, *golden = GOLDEN.read_text().splitlines()
    assert {line.partition(" ")[0] for line in golden} == KINDS
    stages = {line.split()[1] for line in golden if line.startswith("artefact ")}
    assert stages == {
        *("documents", "mixtures", "rows", "runs", "selections", "tokenizers", "tokens")
    }
    assert [line for line in golden if "error" in line and line.startswith("check ")] == []


def test_changes_on_disk_are_found(home: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(home, copied)
    before, after = (
        Workspace(root=home, without_runs=True),
        Workspace(root=copied, without_runs=True),
    )
    rows = next(artefact for artefact in after.published if artefact.stage == "rows")
    file = copied / rows.path / "data/part-00000.parquet"
    table = pq.read_table(file)
    pq.write_table(table.rename_columns(["packed_id", *table.column_names[1:]]), file)
    manifest = copied / rows.path / "manifest.json"
    changed = rows.manifest | {"key": "0" * 64}
    changed["made_from"] = changed.pop("inputs")
    manifest.write_text(json.dumps(changed))
    (copied / "workspace.json").rename(copied / "renamed.json")
    with (copied / "catalog.sql").open("a") as opened:
        opened.write("CREATE VIEW one_more AS SELECT 1 AS number;\n")
    after = Workspace(root=copied, without_runs=True)
    new = {*_facts(after)} - {*_facts(before)}
    assert "view one_more(number INTEGER)" in new
    assert "file renamed.json" in new
    assert any(line.startswith("column ") and " packed_id: string" in line for line in new)
    assert any(line.startswith("field ") and line.endswith(" made_from[].content") for line in new)
    assert any(f"key={'0' * 64}" in line for line in new)


def _facts(workspace: Workspace) -> Iterator[str]:
    yield from workspace.artefacts()
    yield from workspace.columns()
    yield from workspace.fields()
    yield from workspace.names()
    yield from workspace.sql()
