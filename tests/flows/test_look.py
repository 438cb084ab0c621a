"""Looking at a workspace: what `inspect`, `status`, `check`, `query` and `gc` print of a small build."""

import json
import re
import shlex
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from curriculum import catalog
from curriculum.inspection.formats import Line, count, number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.row_view import RowView
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.references import find
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact, Store
from flows import settings
from flows.cli import builds, demo, phases, status, workspace
from flows.cli.console import colour, table
from flows.cli.inspect import command
from flows.cli.inspect.rows import STRIP_WIDTH, strip
from schemas.errors import CurriculumError, StoreError


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the rows and the plan of one phase, from a few commits."""
    home = tmp_path_factory.mktemp("home")
    order = RunConfig.of(
        specialist="templates.demo",
        workspace=home,
        max_commits=6,
        versions_per_path=2,
        workers=1,
        token_budget="16K",
        max_repetition=100.0,
    )
    phases.make(order, Scope(until="mix", phase="syntax"), dry=False)
    return home


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Console:
    """Return a console that records output without colours, 140 columns wide."""
    console = Console(record=True, width=140, color_system=None)
    for module in (command, workspace, status, phases):
        monkeypatch.setattr(module, "out", console)
    return console


def _artefact(home: Path, stage: str, **labels: str) -> Artefact:
    return next(
        each
        for each in Store(home, dry=True).artefacts(stage)
        if labels.items() <= each.manifest.labels.items()
    )


def test_a_row_shows_where_each_of_its_documents_came_from(home: Path, printed: Console) -> None:
    rows = _artefact(home, "rows", split="train", family="v2_doxygen")
    command.show(home, rows.key[:12], InspectOptions(rows=2), as_json=False)
    said = printed.export_text()
    for line in pq.read_table(rows.shards()[0]).slice(0, 2).to_pylist():
        assert line["pack_id"] in said
        assert f"{line['valid_token_count']}/512 tokens" in said
        assert number(line["num_docs"], "document") in said
    assert re.search(r"■ 0 +(lattice|arena|ringlog) +[0-9a-f]{10} +\S+\.\w+ +0 +\d+", said)
    assert "@file" in said, "the text is not decoded"


def test_a_row_is_found_by_its_pack_id(home: Path, printed: Console) -> None:
    rows = _artefact(home, "rows", split="train", family="v3_simple")
    wanted = pq.read_table(rows.shards()[0], columns=["pack_id"])["pack_id"][1].as_py()
    command.show(home, str(rows.path), InspectOptions(pack_id=wanted), as_json=False)
    assert [wanted] == re.findall(r"[0-9a-f]{12}-\d{10}", printed.export_text())


def test_the_full_text_has_no_more_lines_to_show(home: Path, printed: Console) -> None:
    rows = _artefact(home, "rows", split="train", family="v2_doxygen")
    command.show(home, rows.key, InspectOptions(), as_json=False)
    short = printed.export_text()
    command.show(home, rows.key, InspectOptions(full=True), as_json=False)
    full = printed.export_text()
    assert "more lines (--full)" in short
    assert "more lines" not in full
    assert len(full) > len(short)


def test_tokens_that_nothing_predicts_are_dim(home: Path) -> None:
    rows = _artefact(home, "rows", split="train", family="v3_doxygen")
    console = Console(record=True, width=140, force_terminal=True, color_system="truecolor")
    store = Store(home, dry=True)
    for piece in command.look(store, find(store, rows.key), InspectOptions()):
        console.print(piece)
    assert "\x1b[2m<|bos|>" in console.export_text(styles=True)


def test_a_page_of_rows_has_their_documents_and_their_text(home: Path) -> None:
    rows = _artefact(home, "rows", split="train", family="v3_doxygen")
    text = command.as_page(Store(home, dry=True), rows, InspectOptions(rows=2))
    lines = pq.read_table(rows.shards()[0]).slice(0, 2).to_pylist()
    assert all(line["pack_id"] in text for line in lines)
    assert all(name[:12] in text for line in lines for name in line["document_ids"])


@pytest.mark.parametrize("stage", ["documents", "selections", "tokenizers", "tokens", "mixtures"])
def test_every_stage_can_be_looked_at(home: Path, printed: Console, stage: str) -> None:
    artefact = _artefact(home, stage)
    command.show(home, artefact.key[:12], InspectOptions(), as_json=False)
    said = printed.export_text()
    assert said.startswith(stage)
    assert artefact.key[:12] in said
    assert len(said.splitlines()) > 4


@pytest.mark.parametrize("stage", ["rows", "documents", "mixtures", "tokens"])
def test_json_is_json_with_the_manifest(
    home: Path, capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    artefact = _artefact(home, stage)
    command.show(home, artefact.key, InspectOptions(rows=2), as_json=True)
    said = json.loads(capsys.readouterr().out)
    (shown,) = said["artefacts"]
    assert shown["manifest"]["key"] == artefact.key
    planned = shown["manifest"]["report"].get("rows", 0)
    assert len(shown["lines"]) == (min(planned, 12) if stage == "mixtures" else 2)


def test_a_key_that_several_begin_with_is_refused(home: Path) -> None:
    store = Store(home, dry=True)
    keys = [each.key for each in store.artefacts()]
    shared = next(digit for digit in "0123456789abcdef" if sum(key[0] == digit for key in keys) > 1)
    with pytest.raises(StoreError, match="these digits"):
        find(store, shared)


def _row(starts: list[int], valid: int, length: int) -> RowView:
    return RowView(
        pack_id="r-0",
        input_ids=[0] * length,
        loss_mask=[1] * length,
        doc_starts=[*starts, valid] if valid < length else starts,
        valid_token_count=valid,
        loss_token_count=valid,
        document_ids=[f"d{index}" for index in range(len(starts))],
        domain="general",
    )


def test_a_rows_documents_tile_its_valid_tokens() -> None:
    assert _row([0, 3], 5, 8).spans == [(0, 3), (3, 5)]
    assert _row([0], 8, 8).spans == [(0, 8)]


def test_the_strip_is_as_wide_whatever_it_shows() -> None:
    assert len(strip(_row([0, 480], 960, 960))) == STRIP_WIDTH
    assert strip(_row([0, 480], 720, 960)).plain == "█" * 72 + "░" * 24
    tiny = strip(_row([0, 1, 2], 960, 960))
    assert [span.style for span in tiny.spans] == [colour(index) for index in range(3)]


def test_status_counts_what_is_there(home: Path, printed: Console) -> None:
    status.status(home, as_json=False)
    said = printed.export_text()
    assert re.search(r"documents +15 ", said)
    assert re.search(r"mixtures +1 ", said)
    assert "unused" not in said


def test_a_check_reads_everything_and_says_so(home: Path, printed: Console) -> None:
    workspace.check(home, [str(home)])
    said = printed.export_text()
    rows = [*Store(home, dry=True).artefacts("rows")]
    kept = re.findall(r"/rows/\S+: contract verified for \d+ rows? in \d+ files?", said)
    assert len(kept) == len(rows) == 7
    assert f"{len([*Store(home, dry=True).artefacts()])} artefacts verified" in said


def test_a_flipped_byte_is_found_and_named(home: Path, tmp_path: Path) -> None:
    rows = _artefact(home, "rows", split="val")
    file = rows.shards()[0]
    content = file.read_bytes()
    try:
        file.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
        with pytest.raises(StoreError, match=re.escape(str(file))):
            workspace.check(home, [str(rows.path)])
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize(("question", "sql"), demo.QUESTIONS)
def test_the_demos_questions_have_answers(home: Path, question: str, sql: str) -> None:
    answer = catalog.query(home, sql)
    assert answer.rows or "FROM metrics" in sql, question


def test_the_demo_ends_with_commands_that_can_be_pasted(
    home: Path, printed: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "out", printed)
    monkeypatch.setattr(phases, "flow", lambda *_: ())
    demo.demo(home, ())
    said = printed.export_text()
    pasted = re.findall(r"^  curriculum (\w+)(?: (\S.*))?$", said, re.MULTILINE)
    assert [command for command, _ in pasted] == ["query", "query", "query", "inspect", "serve"]
    assert f"  export CURRICULUM_HOME={home}\n" in said
    assert demo.TABLE_NOTE.partition(":")[0] in said
    assert [shlex.split(rest)[0] for _, rest in pasted[:3]] == [sql for _, sql in demo.QUESTIONS]
    found = find(Store(home, dry=True), pasted[3][1])
    assert {each.manifest.stage for each in found.artefacts} == {"rows"}


def test_the_demo_gives_a_shell_without_our_command_the_line_that_finds_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Path(sys.executable).parent
    monkeypatch.setenv("PATH", "/nowhere")
    assert [*demo._exports(settings.home())] == [f'export PATH={ours}:"$PATH"']
    monkeypatch.setenv("PATH", f"/nowhere:{ours}")
    assert [*demo._exports(settings.home())] == []


@pytest.mark.system
def test_gc_removes_what_nothing_refers_to_and_nothing_else(
    tmp_path: Path, printed: Console
) -> None:
    order = RunConfig.of(
        specialist="templates.demo",
        workspace=tmp_path,
        max_commits=2,
        versions_per_path=1,
        workers=1,
    )
    builds.build(order, "syntax", dry=False)
    before = {each.path for each in Store(tmp_path).artefacts()}
    builds.build(order.changed(max_commits=3), "syntax", dry=False)
    kept = {each.path for each in Store(tmp_path).artefacts()} - before
    workspace.gc(tmp_path, sure=True)
    after = {each.path for each in Store(tmp_path).artefacts()}
    assert kept
    assert kept <= after
    assert before - after
    workspace.check(tmp_path, [str(tmp_path)])
    workspace.gc(tmp_path, sure=True)
    assert "Nothing to remove" in printed.export_text()


def test_a_table_puts_numbers_right() -> None:
    console = Console(record=True, width=80, color_system=None)
    lines: list[Line] = [{"name": "a", "n": 12}, {"name": "b", "n": 1234}]
    console.print(table(lines))
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        "name      n",
        "a        12",
        "b     1,234",
    ]


def test_a_column_of_numbers_may_have_gaps() -> None:
    console = Console(record=True, width=80, color_system=None)
    lines: list[Line] = [{"name": "a", "n": ""}, {"name": "b", "n": "1.2k"}, {"name": "c", "n": 7}]
    console.print(table(lines))
    assert console.export_text().splitlines()[3].rstrip() == "c        7"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (percent(0.9954), "99.5%"),
        (count(950), "950"),
        (count(16_100_000), "16.1M"),
        (count(999_999), "1M"),
        (number(1, "file"), "1 file"),
        (number(1200, "file"), "1,200 files"),
    ],
)
def test_numbers_are_short(said: str, meant: str) -> None:
    assert said == meant


def test_mistakes_are_one_kind() -> None:
    assert issubclass(StoreError, CurriculumError)
