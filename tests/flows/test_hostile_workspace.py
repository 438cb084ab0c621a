"""A workspace that somebody else sent is data: no command follows its links, or runs what it brought."""

import logging.config
import os
import pickle
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.testing
import yaml
from typer.testing import CliRunner, Result

from curriculum.pipeline.references import checkpoint_of
from curriculum.store import Store, collect_garbage, garbage, inside
from flows import settings
from flows.cli import app
from schemas.errors import StoreError
from tests.flows import every_command
from tests.flows.hostile_workspace import (
    LINKABLE,
    Canary,
    Sentinel,
    forge_catalog,
    larder,
    link,
    logging_yml,
    plant,
    published,
    unlisted,
)

WRONG = 2
ARGUMENTS: dict[str, Callable[[Path], list[str]]] = {
    "what": lambda _: ["fmt/syntax"],
    "specialist": lambda _: ["templates.demo"],
    "phase": lambda _: ["syntax"],
    "before": lambda _: ["templates"],
    "after": lambda _: ["templates.demo"],
    "runs": lambda _: ["fmt/syntax", "fmt/syntax"],
    "sql": lambda _: ["FROM runs"],
    "path": lambda home: [str(home / "rows")],
    "paths": lambda home: [str(home)],
    "sources": lambda home: [str(home.with_name("another"))],
    "to": lambda home: ["--to", str(home.with_name("exported"))],
}
"""How a command is called, by the names of what it must be given."""
ELSEWHERE = {"leakcheck"}
"""It reads and writes a run alone, as its training does."""
SERVERS = {"serve", "dashboard", "shell", "run", "demo"}
"""They start other programs, so they are called only where they are refused before."""
MAKERS = {"build", "mix", "train", "tokenizer train", "supply", "diet check"}
"""They read repositories, which takes its time."""


COMMANDS = {name: each for name, each in every_command.COMMANDS.items() if name not in ELSEWHERE}


def _words(name: str, home: Path) -> list[str]:
    """A command line for a command; one that is new fails here until it is known how it is called."""
    words = name.split()
    for each in COMMANDS[name].params:
        if each.required or each.name == "sql":
            words += ARGUMENTS[str(each.name)](home)
    if name == "gc":
        words.append("--yes")
    if any(each.name == "home" for each in COMMANDS[name].params):
        words += ["--home", str(home)]
    if any(each.name == "workspace" for each in COMMANDS[name].params):
        words.append(str(home))
    return words


def _call(name: str, home: Path) -> Result:
    return _invoke(*_words(name, home))


def _invoke(*words: str) -> Result:
    # Typer makes its commands anew for each call otherwise, which takes longer than most calls.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", lambda _: every_command.GROUP)
        return CliRunner().invoke(app, words)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace and what lies outside of it, to be copied."""
    folder = tmp_path_factory.mktemp("ready")
    larder(folder / "home")
    Sentinel.beside(folder / "outside", folder / "home")
    return folder


@pytest.fixture
def home(ready: Path, tmp_path: Path) -> Path:
    """A workspace to plant things in."""
    return Path(shutil.copytree(ready / "home", tmp_path / "home"))


@pytest.fixture
def sentinel(ready: Path, tmp_path: Path) -> Iterator[Sentinel]:
    """What lies outside; it is after the test as it was."""
    outside = Sentinel(folder=Path(shutil.copytree(ready / "outside", tmp_path / "outside")))
    before = outside.fingerprint()
    yield outside
    assert outside.fingerprint() == before


def test_every_command_that_has_a_workspace_is_told_which_or_gets_a_path_in_it() -> None:
    without = {
        name
        for name, each in COMMANDS.items()
        if not any(one.name == "home" for one in each.params)
    }
    assert without == {"trust"}
    assert {"serve", "gc", "merge", "query", "tokenizer train"} <= COMMANDS.keys()


@pytest.mark.parametrize("name", LINKABLE)
def test_a_link_at_the_root_is_refused_by_every_command(
    home: Path, sentinel: Sentinel, name: str
) -> None:
    place = link(home, name, sentinel.folder / name)
    assert place.exists(), "the link leads somewhere"
    for command in COMMANDS:
        refused = _call(command, home)
        assert refused.exit_code == WRONG, (command, refused.output, refused.exception)
        assert f"{place}: a link; it may lead out of the workspace" in refused.output, command


def test_a_workspace_of_links_is_refused_by_every_command_and_nothing_in_it_is_executed(
    home: Path, sentinel: Sentinel, tmp_path: Path
) -> None:
    canary = Canary(file=tmp_path / "canary")
    plant(home, canary)
    unlisted(home, canary)
    for name in LINKABLE:
        if name != "prefect":
            link(home, name, sentinel.folder / name)
    for command in COMMANDS:
        refused = _call(command, home)
        assert refused.exit_code == WRONG, (command, refused.output)
        assert "a link; it may lead out" in refused.output, command
    assert not canary.sings


def test_what_is_planted_would_be_executed_by_who_reads_it(tmp_path: Path) -> None:
    pickled, configured = Canary(file=tmp_path / "one"), Canary(file=tmp_path / "two")
    pickle.loads(pickle.dumps(pickled))
    logging.config.dictConfig(yaml.safe_load(logging_yml(configured)))
    logging._handlers["planted"].close()  # type: ignore[attr-defined]
    assert pickled.sings
    assert configured.sings


def test_nothing_that_was_planted_is_executed_by_a_command(home: Path, tmp_path: Path) -> None:
    canary = Canary(file=tmp_path / "canary")
    plant(home, canary)
    for command in COMMANDS.keys() - SERVERS - MAKERS:
        assert _call(command, home).exit_code in (0, WRONG), command
    assert not canary.sings


def test_a_write_through_a_link_would_be_seen(home: Path, ready: Path, tmp_path: Path) -> None:
    outside = Sentinel(folder=Path(shutil.copytree(ready / "outside", tmp_path / "theirs")))
    before = outside.fingerprint()
    place = link(home, "approvals", outside.folder / "approvals")
    (place / "mine.json").write_text("{}")
    assert outside.fingerprint() != before


BELOW = (
    "current/mixtures+fmt+syntax.txt",
    "current/more.txt",
    "approvals/0.json",
    "leases/0.json",
    "slots/host.lock",
    "reports/rows",
    "reports/fmt.html",
    "catalog/seen.parquet",
    "orders/fmt.json",
    "gates/0.json",
    "diets/fmt.yaml",
    "corpora/fmt.yaml",
    "prefect/server.log",
    "told/0",
    "repositories/alpha",
)


@pytest.mark.parametrize("name", BELOW)
def test_a_link_in_a_small_folder_is_refused(home: Path, sentinel: Sentinel, name: str) -> None:
    place = link(home, name, sentinel.folder / "workspace.json")
    for command in ("gc", "status", "query", "serve", "report"):
        refused = _call(command, home)
        assert refused.exit_code == WRONG, refused.output
        assert str(place) in refused.output


@pytest.mark.parametrize("stage", ["rows", "documents", "mixtures", "runs"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_a_link_on_the_way_to_an_artefact_or_in_it_is_refused_and_gc_goes_through_none(
    home: Path, sentinel: Sentinel, stage: str, depth: int
) -> None:
    manifest = next(each for each in published(home) if each.relative_to(home).parts[0] == stage)
    steps = manifest.relative_to(home).parts
    if depth >= len(steps):
        pytest.skip("it doesn't lie so deep")
    name = "/".join(steps[: depth + 1])
    place = link(home, name, sentinel.folder / name)
    assert place.exists()
    for command in ("gc", "status"):
        refused = _call(command, home)
        assert refused.exit_code == WRONG, refused.output
        assert str(place) in refused.output
    with pytest.raises(StoreError, match="a link"):
        Store(home).load(manifest.parent)


@pytest.mark.parametrize("kind", ["pipe", "socket", "file", "folder", "loop", "nowhere"])
@pytest.mark.parametrize(
    "name", ["workspace.json", "README.md", "current", "leases", "rows", ".locks", "current/a.txt"]
)
@pytest.mark.timeout(60)
def test_what_is_neither_file_nor_folder_is_refused_at_once(
    home: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = link(home, name, home / "nowhere")
    makers: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(place),
        "socket": lambda: _socket(place, monkeypatch),
        "file": place.touch,
        "folder": place.mkdir,
        "loop": lambda: place.symlink_to(place),
        "nowhere": lambda: place.symlink_to(home / "nowhere"),
    }
    place.unlink()
    makers[kind]()
    is_file = "." in place.name and name != ".locks"
    if kind == ("file" if is_file else "folder"):
        return
    looking = () if (name, kind) == ("current/a.txt", "folder") else ("check",)
    for command in ("status", "gc", *looking):
        refused = _call(command, home)
        assert refused.exit_code == WRONG, (refused.output, refused.exception)
        assert str(place) in refused.output


def _socket(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An address has a hundred letters at most.
    monkeypatch.chdir(place.parent)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(place.name)


@pytest.mark.timeout(60)
def test_a_pipe_in_an_artefact_or_an_open_run_is_not_waited_for(home: Path) -> None:
    rows, run = (next(home.glob(f"{stage}/**/manifest.json")) for stage in ("rows", "runs"))
    rows.unlink()
    os.mkfifo(rows)
    with pytest.raises(StoreError, match="a device, a pipe or a socket"):
        Store(home).load(rows.parent)
    shutil.rmtree(rows.parent)
    run.unlink()
    (run.parent / "job.json").unlink()
    os.mkfifo(run.parent / "job.json")
    refused = _call("status", home)
    assert refused.exit_code == WRONG
    assert str(run.parent / "job.json") in refused.output


def test_gc_removes_nothing_through_a_link_that_came_after_the_workspace_was_opened(
    home: Path, sentinel: Sentinel, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "current" / "mixtures+fmt+syntax.txt").unlink()
    (home / "current" / "mixtures+fmt+file_graph.txt").unlink()
    (home / "current" / "runs+fmt+syntax.txt").unlink()
    store = Store(home)
    dead = garbage(store)
    assert len(dead) > 4
    monkeypatch.setitem(collect_garbage.__globals__, "garbage", lambda _: dead)
    for name in ("rows", "documents", "mixtures", "runs"):
        link(home, name, sentinel.folder / name)
    with pytest.raises(StoreError, match="a link"):
        collect_garbage(store, dead)


@pytest.mark.parametrize("folder", [".drafts", ".trash", "leases"])
def test_gc_leaves_what_it_cannot_have_made_and_names_it(
    home: Path, sentinel: Sentinel, folder: str
) -> None:
    mine, key = home / folder / "my notes", home / folder / ("a" * 64)
    mine.mkdir(parents=True)
    (mine / "thesis.txt").write_text("years of work")
    if folder == ".drafts":
        key.symlink_to(sentinel.folder, target_is_directory=True)
    cleaned = _call("gc", home)
    assert cleaned.exit_code == 0, cleaned.output
    assert f"{mine} is kept" in cleaned.output
    assert (mine / "thesis.txt").read_text() == "years of work"
    assert not key.is_symlink(), "the draft of a key goes, whatever it leads to"


@pytest.mark.parametrize("name", ["rows/0123456789ab", "mixtures/my own=rows/KEY", "notes/KEY"])
def test_an_artefact_that_lies_where_no_build_puts_it_is_left_by_gc(home: Path, name: str) -> None:
    there = next(home.glob("rows/**/manifest.json")).parent
    moved = home / name.replace("KEY", there.name)
    shutil.copytree(there, moved)
    cleaned = _call("gc", home)
    assert f"{moved} is kept" in cleaned.output
    assert moved.is_dir()


def test_a_file_that_no_manifest_lists_is_refused_by_name(home: Path, tmp_path: Path) -> None:
    canary = Canary(file=tmp_path / "canary")
    planted = unlisted(home, canary)
    assert len(planted) > 10
    for file in planted:
        for other in planted:
            other.rename(other.with_name(f"{other.name}.aside"))
        shutil.move(f"{file}.aside", file)
        aside = {
            other: other.with_name(f"{other.name}.aside") for other in planted if other != file
        }
        kept = {other: place.read_bytes() for other, place in aside.items()}
        for place in aside.values():
            place.unlink()
        said = _call("check", home)
        assert said.exit_code == WRONG, said.output
        assert f"{file}: the manifest doesn't list it" in said.output
        for other, content in kept.items():
            other.write_bytes(content)
    assert not canary.sings


def test_a_file_in_a_checkpoint_that_the_run_does_not_list_is_refused_before_weights_are_read(
    home: Path, tmp_path: Path
) -> None:
    checkpoint = checkpoint_of(home, "fmt/syntax")
    (checkpoint / "optimizer.pt").write_bytes(pickle.dumps(Canary(file=tmp_path / "canary")))
    for what in ("fmt/syntax", str(checkpoint)):
        for words in (["sample", what], ["export", what, "--to", str(tmp_path / "to")]):
            refused = _invoke(*words, "--home", str(home))
            assert refused.exit_code == WRONG
            assert f"{checkpoint / 'optimizer.pt'}: the manifest doesn't list it" in refused.output


def test_a_workspace_that_others_sent_is_not_merged_where_it_leads_elsewhere(
    home: Path, sentinel: Sentinel, tmp_path: Path
) -> None:
    link(home, "rows", sentinel.folder / "rows")
    mine = tmp_path / "mine"
    refused = _invoke("merge", str(home), "--home", str(mine))
    assert refused.exit_code == WRONG
    assert f"{home / 'rows'}: a link" in refused.output
    assert not (mine / "rows").exists()


def test_a_workspace_may_lie_behind_a_link_of_its_user(home: Path, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(tmp_path)
    (tmp_path / "mine").symlink_to(home)
    for named in (
        tmp_path / "mine",
        tmp_path / "short" / "home",
        tmp_path / "mine" / ".." / "mine",
    ):
        for words in (["status"], ["gc", "--yes"], ["query", "FROM runs"]):
            done = _invoke(*words, "--home", str(named))
            assert done.exit_code == 0, (words, done.output, done.exception)
        assert _invoke("check", str(named / "documents")).exit_code == 0


def test_a_path_with_dots_in_it_is_looked_at_where_it_leads(home: Path) -> None:
    done = _invoke("check", str(home / "rows" / ".." / "documents"))
    assert done.exit_code == 0, done.output
    other = Store(home)
    with pytest.raises(StoreError, match="outside of the workspace"):
        other.load(home / "rows" / ".." / ".." / "outside")


def test_opening_costs_little(home: Path) -> None:
    calls = 0
    listed = os.scandir

    def counted(path: str | Path) -> object:
        nonlocal calls
        calls += 1
        return listed(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", counted)
        inside.require_plain(home)
    small = [each for each in home.rglob("*") if each.relative_to(home).parts[0] in inside.SMALL]
    assert calls == 1 + sum(each.is_dir() for each in small), "no artefact is looked at"


def test_a_forged_catalog_is_there_for_who_answers_questions(
    home: Path, sentinel: Sentinel
) -> None:
    forge_catalog(home, sentinel.folder / "workspace.json")
    answered = _call("query", home)
    assert answered.exit_code in (0, WRONG)


def test_the_workspace_is_refused_wherever_it_is_named(home: Path, sentinel: Sentinel) -> None:
    place = link(home, "leases", sentinel.folder / "leases")
    for opened in (settings.home, Store):
        with pytest.raises(StoreError, match="a link") as refused:
            opened(home)
        assert refused.value.name == str(place)
