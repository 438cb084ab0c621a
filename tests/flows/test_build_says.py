"""Output of `curriculum build` about rows, and about a corpus without rows."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from curriculum.inspection.losses import require_documents
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase
from curriculum.pipeline.wanted_rows import wanted_of
from curriculum.stages import RowSet
from curriculum.store import Store
from flows.cli import builds, carried_out
from schemas.errors import CorpusError

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A workspace with the rows of one phase, from a few commits, and what building it printed."""
    home = tmp_path_factory.mktemp("home")
    console = Console(record=True, width=200, color_system=None)
    with pytest.MonkeyPatch.context() as patch:
        for module in (builds, carried_out):
            patch.setattr(module, "out", console)
        builds.build(order(home), "syntax", dry=False)
    return home, console.export_text()


@pytest.fixture
def home(first: tuple[Path, str]) -> Path:
    """The workspace of the first build."""
    return first[0]


def order(home: Path) -> RunConfig:
    return RunConfig.of(
        specialist="templates.demo", workspace=home, max_commits=6, versions_per_path=2, workers=1
    )


def test_building_again_says_in_one_line_that_there_is_nothing_to_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        builds.build(order(home), "syntax", dry=False)
        printed = capsys.readouterr()
        assert printed.out == "Nothing to do: everything is up to date.\n"
        assert not printed.err


def test_the_table_says_what_domains_cost_and_what_packing_saves(first: tuple[Path, str]) -> None:
    home, printed = first
    said = printed.splitlines()
    at = next(n for n, line in enumerate(said) if line.startswith("rows ") and "yield" in line)
    rows = next(
        each
        for each in Store(home, dry=True).artefacts("rows")
        if each.manifest.labels["family"] == "v3_doxygen"
        and each.manifest.labels["split"] == "train"
    )
    table = pq.read_table(
        rows.shards(), columns=["num_docs", "valid_token_count"], partitioning=None
    )
    documents, tokens = (int(table[name].to_numpy().sum()) for name in table.column_names)
    packed = f"{100 * tokens / (len(table) * 512):.1f}%"
    line = next(each for each in said[at:] if each.startswith("v3_doxygen causal 512"))
    assert packed in line

    def under(heading: str) -> float:
        return float(line[said[at].index(heading) :].split()[0].removesuffix("%"))

    assert float(packed[:-1]) <= under("if mixed") <= 100
    assert under("padded") == round(100 * tokens / (documents * 512), 1)
    assert under("lower bound") == round(100 * tokens / (-(-tokens // 512) * 512), 1)
    assert under("padded") <= under("first fit in order") <= under("lower bound")
    reasons = next(each for each in said[at:] if each.startswith("v3_doxygen causal 512: "))
    assert f"{100 - float(packed[:-1]):.1f}%" in reasons
    assert f"({documents / len(table):.1f} documents a row)" in reasons


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a repository of three commits, each of a file too small to be read."""
    folder = tmp_path_factory.mktemp("tiny")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for number in range(3):
        (folder / f"f{number}.cpp").write_text(f"int f{number}();\n")
        subprocess.run(["git", "add", "."], cwd=folder, check=True)
        subprocess.run(["git", *author, "commit", "-qm", "Add"], cwd=folder, check=True)
    return str(folder)


@pytest.mark.parametrize("sample", [None, 2])
def test_a_corpus_that_leaves_no_document_is_refused_with_the_largest_reason(
    sample: int | None, small_files: str, tmp_path: Path
) -> None:
    wanted = RunConfig.of(
        specialist="templates.demo",
        workspace=tmp_path / "home",
        repositories=(small_files,),
        workers=1,
    )
    with pytest.raises(CorpusError) as refused:
        builds.build(wanted, "syntax", dry=False) if sample is None else builds.sample(
            wanted, "syntax", sample
        )
    for said in ("no document", "'too small': 3 of 3", "min_bytes"):
        assert said in str(refused.value)
    assert sample or "v3_doxygen" in str(refused.value)


def test_only_a_phase_that_renormalises_does_without_a_family(home: Path) -> None:
    """The test removes one of three families of the demo's phase."""
    plan = resolve_plan(order(home), dry=True)
    built = build_phase(plan, "syntax", Context())
    wanted = [each[0] for each in wanted_of(plan.phase("syntax"))]
    require_documents(built, wanted, all_of_them=True)
    lacking = tuple(without_documents(each, "v2_doxygen") for each in built.rows)
    empty = replace(built, rows=lacking)
    require_documents(empty, wanted, all_of_them=False)
    with pytest.raises(CorpusError, match="v2_doxygen;"):
        require_documents(empty, wanted, all_of_them=True)


def without_documents(rows: RowSet, family: str) -> RowSet:
    """The rows as they are; of one family, as if none of its documents had come that far."""
    if rows.wanted.family != family:
        return rows
    report: dict[str, Any] = {**rows.train.manifest.report, "encode": {"documents": {}}}
    manifest = rows.train.manifest.model_copy(update={"report": report})
    return replace(rows, train=replace(rows.train, manifest=manifest))
