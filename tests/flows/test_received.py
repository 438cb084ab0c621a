"""A workspace from elsewhere: looked at in a sandbox, with the same answers, and otherwise refused."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.inspection.line_selection import InspectOptions, first_lines
from curriculum.sandbox import landlock
from curriculum.sandboxed_process import machine_memory
from curriculum.store import Store, read_mark
from flows.cli import received
from flows.cli.app import exit_code
from flows.settings import trust
from schemas.document import SELECTION_SCHEMA
from schemas.errors import StoreError
from tests.bounded import MEMORY_ENDED, endless, exit_apart
from tests.flows.cli_runner import PROGRAM, curriculum
from tests.flows.every_command import COMMANDS
from tests.flows.hostile_workspace import (
    LINKABLE,
    Canary,
    Sentinel,
    forge_catalog,
    link,
    published,
    tiny_workspace,
)
from tests.flows.tiny_workspace import published as publish

WRONG = 2
_WHEN = re.compile("<time.*?</time>")
SECRET = "the secret of whoever looks"
confined = pytest.mark.skipif(not landlock(), reason="needs Landlock")
LOOKS = (
    "status",
    "status --json",
    "query 'FROM runs' --json",
    "query 'FROM status' --json",
    "query 'SELECT count(*) FROM documents' --json",
    "ls",
    "ls runs --paths",
    "lineage fmt/syntax",
    "inspect rows --list",
    "inspect fmt/syntax",
    "inspect documents --json",
    "report",
    "check runs mixtures",
    "compare fmt/syntax fmt/syntax",
    "diff fmt/syntax fmt/file_graph",
)
"""Commands that only look."""
WORK: dict[str, str] = {
    "ablate": "ablation.yaml",
    "approve": "fmt syntax",
    "build": "templates.demo",
    "dashboard": "--no-open",
    "demo": "",
    "diet check": "templates.demo",
    "export": "fmt/syntax --to {out}",
    "gc": "--yes",
    "generate": "fmt/syntax",
    "import": "{home}/rows",
    "init": "own",
    "leakcheck": "fmt/syntax",
    "merge": "{home}/../another",
    "mix": "templates.demo",
    "run": "templates.demo",
    "serve": "",
    "shell": "",
    "supply": "sample",
    "tokenizer train": "templates.demo",
    "train": "templates.demo",
}
"""Commands that write, train, serve, export or execute, each with its words."""


@pytest.fixture(autouse=True)
def _nothing_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST")
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace as its sender had it, to be copied."""
    home = tmp_path_factory.mktemp("sender") / "home"
    tiny_workspace(home)
    return home


@pytest.fixture
def home(sent: Path, tmp_path: Path) -> Path:
    """The workspace that was received."""
    return Path(shutil.copytree(sent, tmp_path / "home"))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of whoever looks, outside of the workspace."""
    file = tmp_path / "secret.txt"
    file.write_text(SECRET)
    return file


def call(home: Path, words: str, *, trusted: bool = False) -> CompletedProcess[str]:
    given = {"CURRICULUM_TRUST": str(home)} if trusted else {}
    return curriculum(*shlex.split(words), home=home, cwd=home, variables=given)


def looked_at(home: Path, words: str) -> CompletedProcess[str]:
    """Call a command that looks, in a process of its own: the sandbox needs one without threads."""
    return subprocess.run(
        [PROGRAM, *shlex.split(words)],
        env={**os.environ, "CURRICULUM_HOME": str(home), "NO_COLOR": "1"},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def look_within(home: Path, work: Callable[[Path | None], None], output: Path | None = None) -> int:
    return received.look(home, work, exit_code, output=output)


def _run_on(_: Path | None) -> None:
    while True:
        pass


def test_every_command_is_one_that_looks_or_is_refused() -> None:
    looks = {shlex.split(words)[0] for words in LOOKS}
    assert {*COMMANDS} == looks | {*WORK} | {"trust"}


# What looks


@confined
@pytest.mark.parametrize(
    "words", [LOOKS[0], *(pytest.param(words, marks=pytest.mark.system) for words in LOOKS[1:])]
)
def test_a_look_prints_what_the_owner_sees_and_changes_nothing(home: Path, words: str) -> None:
    before = Sentinel(folder=home).fingerprint()
    looked = looked_at(home, words)
    assert Sentinel(folder=home).fingerprint() == before
    own = call(home, words, trusted=True)
    assert (looked.returncode, looked.stderr) == (own.returncode, own.stderr)
    assert looked.stdout == own.stdout


@confined
@pytest.mark.system
@pytest.mark.timeout(600)
def test_a_copy_of_the_demo_gives_the_answers_of_the_original(
    demo_home: Path, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(demo_home, tmp_path / "home"))
    name = "templates/demo"
    for words in (
        *("status", "status --json", "query 'FROM runs'", "query 'FROM status'", "inspect rows"),
        *(f"inspect {name}/syntax", f"lineage {name}/syntax", f"check {name}/syntax", "report"),
        *(f"compare {name}/syntax {name}/file_graph", "diff templates templates.demo", "ls"),
    ):
        looked, own = looked_at(home, words), call(home, words, trusted=True)
        assert (looked.returncode, looked.stderr) == (0, own.stderr), words
        if words != "report":
            assert looked.stdout == own.stdout, words
            continue
        (mine,), (theirs,) = looked.stdout.splitlines(), own.stdout.splitlines()
        assert not Path(mine).is_relative_to(home)
        assert len({_WHEN.sub("", Path(file).read_text()) for file in (mine, theirs)}) == 1


@confined
@pytest.mark.parametrize("words", ["query 'FROM runs' --out", "inspect documents --html"])
def test_the_output_that_is_named_is_written_and_nothing_beside_it(
    home: Path, tmp_path: Path, words: str
) -> None:
    file = tmp_path / "out" / "answer.csv"
    file.parent.mkdir()
    looked = looked_at(home, f"{words} {file}")
    assert looked.returncode == 0, looked.stderr
    assert file.stat().st_size > 20
    assert [*file.parent.iterdir()] == [file]
    written = file.read_bytes()
    assert call(home, f"{words} {file}", trusted=True).stdout == looked.stdout
    assert file.read_bytes() == written


@confined
def test_a_mistake_in_a_look_is_a_line_and_2(home: Path) -> None:
    for words in ("query 'FROM nowhere'", "inspect nothing", "lineage nothing", "status nobody"):
        looked = looked_at(home, words)
        assert looked.returncode == WRONG
        assert looked.stderr == call(home, words, trusted=True).stderr
        assert "Traceback" not in looked.stderr


def test_what_nothing_foresaw_is_a_mistake_with_its_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def look() -> None:
        raise KeyError("a\nerror: \x1b[31m")

    assert exit_code(look) == WRONG
    first, *calls = capsys.readouterr().err.splitlines()
    assert "KeyError" in first
    assert calls[-1].endswith(" in look")
    assert all(call.startswith("  ") for call in calls)


@confined
@pytest.mark.parametrize("number", ["x", "", "\xb2"])
def test_folders_that_are_no_attempts_or_checkpoints_change_no_answer(
    home: Path, number: str
) -> None:
    words = ("status", "inspect fmt/syntax", "query 'FROM status'")
    before = [call(home, word, trusted=True).stdout for word in words]
    (attempt,) = home.glob("runs/**/attempt=1")
    attempt.with_name(f"attempt={number}").mkdir()
    strange = attempt / "checkpoints" / f"step={number}"
    strange.mkdir()
    (strange / "manifest.json").write_text("{}")
    assert [call(home, word, trusted=True).stdout for word in words] == before
    refused = call(home, f"lineage {shlex.quote(str(strange))}", trusted=True)
    assert (refused.returncode, "Traceback" in refused.stderr) == (WRONG, False)


@pytest.mark.parametrize("lacking", ["repository", "keep"])
def test_a_selection_that_lacks_a_column_is_named(home: Path, lacking: str) -> None:
    table = SELECTION_SCHEMA.empty_table().drop_columns([lacking])
    made = publish(
        home,
        "selections",
        {"corpus": "sample"},
        lambda folder: pq.write_table(table, folder / "selection.parquet"),
    )
    with pytest.raises(StoreError) as refused:
        first_lines(Store(home), made, InspectOptions(), 3)
    assert refused.value.name == str(made.path / "selection.parquet")
    assert lacking in refused.value.cause


@confined
def test_a_damaged_file_is_named_as_in_a_trusted_workspace(home: Path) -> None:
    file = next(home.glob("documents/**/*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    looked = looked_at(home, f"check {home}/documents")
    assert looked.returncode == WRONG
    assert str(file) in looked.stderr
    assert looked.stderr == call(home, f"check {home}/documents", trusted=True).stderr


# What a look can't do, each beside what it does without the sandbox


@confined
def test_a_look_reads_no_file_elsewhere(
    home: Path, secret: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: Path | None) -> None:
        os.write(1, secret.read_bytes())

    assert look_within(home, read) == WRONG
    said = capfd.readouterr()
    assert SECRET not in said.out
    assert "Permission denied" in said.err
    monkeypatch.setenv("CURRICULUM_TRUST", str(home))
    assert look_within(home, read) == 0
    assert SECRET in capfd.readouterr().out


@confined
def test_a_look_writes_nothing_but_its_output(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (home / "workspace.json", home / "new", tmp_path / "new", tmp_path / "out" / "beside")
    (tmp_path / "out").mkdir()

    def write(draft: Path | None) -> None:
        assert draft is not None
        draft.write_text("answer")
        for place in places:
            try:
                place.write_text("changed")
            except OSError:
                continue
        if os.environ.get("CURRICULUM_TRUST"):
            return
        with pytest.raises(OSError, match="denied"):
            os.link(home / "workspace.json", tmp_path / "link")

    before = Sentinel(folder=home).fingerprint()
    assert look_within(home, write, tmp_path / "out" / "answer.txt") == 0
    assert (tmp_path / "out" / "answer.txt").read_text() == "answer"
    assert Sentinel(folder=home).fingerprint() == before
    assert not any(place.exists() for place in places[1:])
    monkeypatch.setenv("CURRICULUM_TRUST", str(home))
    assert look_within(home, write, tmp_path / "out" / "answer.txt") == 0
    assert all(place.read_text() == "changed" for place in places)


@confined
def test_a_look_has_no_sockets_no_secrets_and_starts_no_program(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_KEY", SECRET)
    monkeypatch.setenv("CURRICULUM_NOTIFY", SECRET)

    def attack(_: Path | None) -> None:
        for word, ask in (
            ("socket", lambda: socket.socket().close()),
            ("program", lambda: subprocess.check_output(["/usr/bin/env"])),
        ):
            try:
                ask()
                os.write(1, f"a {word}\n".encode())
            except PermissionError:
                os.write(1, f"no {word}\n".encode())
        os.write(1, str(dict(os.environ)).encode())

    assert look_within(home, attack) == 0
    said = capfd.readouterr().out
    assert "no socket" in said
    assert "no program" in said
    assert SECRET not in said
    monkeypatch.setenv("CURRICULUM_TRUST", str(home))
    assert look_within(home, attack) == 0
    said = capfd.readouterr().out
    assert "a socket" in said
    assert SECRET in said


def test_a_look_takes_half_of_a_machines_memory_at_most() -> None:
    assert 0 < received.MEMORY <= min(16 << 30, machine_memory() // 2)


@confined
def test_a_look_that_crashes_or_takes_too_much_is_an_error_and_no_crash(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="SIGSEGV"):
        look_within(home, lambda _: os.kill(os.getpid(), signal.SIGSEGV))
    monkeypatch.setattr(received, "CPU_SECONDS", 1)
    with pytest.raises(StoreError, match="SIG"):
        look_within(home, _run_on)
    monkeypatch.setattr(received, "MEMORY", 1 << 30)
    assert look_within(home, lambda _: bytearray(2 << 30).clear()) == WRONG


@confined
def test_a_look_that_ended_as_a_signal_came_ends_by_that_signal(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, ended = os.waitpid, list[int]()

    def interrupted(child: int, options: int) -> tuple[int, int]:
        monkeypatch.setattr(os, "waitpid", wait)
        ended.append(wait(child, options)[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "waitpid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        look_within(home, lambda _: None)
    with pytest.raises(ProcessLookupError):
        os.kill(ended[0], signal.SIGKILL)


def test_without_the_sandbox_the_same_looks_end_their_command_or_go_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_TRUST", str(home))
    monkeypatch.setattr(received, "CPU_SECONDS", 1)
    monkeypatch.setattr(received, "MEMORY", 1 << 30)

    def run_on(_: Path | None) -> None:
        signal.setitimer(signal.ITIMER_PROF, 1.5)
        _run_on(None)

    def crash(_: Path | None) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    assert exit_apart(lambda: look_within(home, crash)) == -signal.SIGSEGV
    assert exit_apart(lambda: look_within(home, run_on)) == -signal.SIGPROF
    assert look_within(home, lambda _: bytearray(2 << 30).clear()) == 0


def test_without_landlock_a_look_is_refused_with_a_cure(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "landlock", lambda: 0)
    looked = call(home, "status")
    assert looked.returncode == WRONG
    assert "Landlock" in looked.stderr
    assert f"curriculum trust {home}" in looked.stderr
    assert call(home, "status", trusted=True).returncode == 0


# What the door refuses by name


def test_a_link_to_a_secret_is_refused_by_name_before_anything_is_read(
    home: Path, secret: Path
) -> None:
    file = next(home.glob("documents/**/*.parquet"))
    link(home, file.relative_to(home).as_posix(), secret)
    for words in LOOKS:
        looked = call(home, words)
        assert looked.returncode == WRONG
        assert f"{file}: a link" in looked.stderr
        assert "Traceback" not in looked.stderr
    # The same path leads there for who opens it without the door.
    assert file.read_text() == SECRET


@pytest.mark.parametrize("name", LINKABLE)
def test_a_link_in_place_of_what_lies_at_the_root_is_refused(
    home: Path, secret: Path, name: str
) -> None:
    place = link(home, name, secret)
    refused = call(home, "status")
    assert refused.returncode == WRONG
    assert str(place) in refused.stderr
    assert place.read_text() == SECRET, "the path leads there"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("place", ["manifest.json", "current/marks.txt", "configs/pipe.json"])
def test_a_pipe_is_refused_at_once_and_not_waited_for(home: Path, place: str) -> None:
    file = home / place
    if place == "manifest.json":
        file = next(published(home))
        file.unlink()
    file.parent.mkdir(exist_ok=True)
    os.mkfifo(file)
    for words in ("status", "query 'FROM runs'", "check rows", "report"):
        looked = call(home, words)
        assert looked.returncode == WRONG
        assert f"{file}: a device, a pipe " in looked.stderr


@pytest.mark.timeout(60)
def test_a_pipe_is_refused_by_the_reader_and_would_be_waited_for(home: Path) -> None:
    file = home / "current" / "pipe.txt"
    os.mkfifo(file)
    with pytest.raises(StoreError):
        read_mark(file)
    with endless(seconds=0.5):
        file.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused_by_name(home: Path) -> None:
    file = home / "current" / "zero.txt"
    try:
        os.mknod(file, 0o020644, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this container makes no devices")
    refused = call(home, "status")
    assert refused.returncode == WRONG
    assert f"{file}: a device, a pipe " in refused.stderr
    with pytest.raises(StoreError):
        read_mark(file)
    # Whoever reads it without a bound reads zeros until memory ends.
    assert exit_apart(file.read_bytes, mebibytes=256) == MEMORY_ENDED


# What lies in no workspace


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A workspace that its user trusts."""
    trust.make_trusted(tmp_path / "own")
    return tmp_path / "own"


@confined
def test_a_folder_in_no_workspace_is_looked_at_in_the_sandbox(
    own: Path,
    tmp_path: Path,
    secret: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.txt").write_text("theirs")

    def read(_: Path | None) -> None:
        os.write(1, (folder / "a.txt").read_bytes())
        os.write(1, secret.read_bytes())

    assert received.look(own, read, exit_code, outside=[folder]) == WRONG
    said = capfd.readouterr()
    assert "theirs" in said.out
    assert SECRET not in said.out
    assert "Permission denied" in said.err
    monkeypatch.setenv("CURRICULUM_TRUST", str(tmp_path))
    assert received.look(own, read, exit_code, named=[folder], outside=[folder]) == 0
    assert SECRET in capfd.readouterr().out


@confined
@pytest.mark.timeout(60)
@pytest.mark.parametrize("named", ["folder", "pipe"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda file: file.symlink_to("/dev/zero")])
def test_a_pipe_or_a_link_in_no_workspace_is_refused_at_once(
    own: Path, tmp_path: Path, named: str, make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    file = folder / "x.parquet"
    make(file)
    checked = looked_at(own, f"check {folder if named == 'folder' else file}")
    assert checked.returncode == WRONG
    assert str(file) in checked.stderr
    # Whoever reads it waits for the pipe, or reads zeros until memory ends.
    if file.is_fifo():
        with endless(seconds=0.5):
            file.read_bytes()
    else:
        assert exit_apart(file.read_bytes, mebibytes=256) == MEMORY_ENDED


@confined
def test_rows_in_no_workspace_are_checked_with_the_same_answer(
    own: Path, home: Path, tmp_path: Path
) -> None:
    file = next(home.glob("rows/**/*.parquet"))
    folder = tmp_path / "rows"
    folder.mkdir()
    shutil.copy(file, folder)
    checked = looked_at(own, f"check {folder}")
    assert file.name in checked.stderr, "these rows of a test are none"
    trusted = curriculum(
        "check", str(folder), home=own, variables={"CURRICULUM_TRUST": str(tmp_path)}
    )
    assert (checked.returncode, checked.stderr) == (trusted.returncode, trusted.stderr)


# Forged contents


@confined
def test_tables_that_name_a_file_elsewhere_lead_to_nothing(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"text": [SECRET], "repository": [SECRET]}), secret)
    forge_catalog(home, secret)
    for words in ("query 'FROM internal.data' --json", "query 'FROM document_texts' --json"):
        looked = looked_at(home, words)
        assert SECRET not in looked.stdout
        assert "Traceback" not in looked.stderr
    (kept,) = (home / "catalog").glob("*/data.parquet")
    (name, *_) = pq.read_table(kept)["file"].unique().to_pylist()
    answer = duckdb.execute(f"SELECT text FROM '{home}/{name}'").fetchall()
    assert answer == [(SECRET,)], "the path leads there without the sandbox"


@confined
def test_sql_of_the_sender_is_run_by_no_command(home: Path, tmp_path: Path) -> None:
    canary = Canary(file=tmp_path / "canary")
    (home / "catalog.sql").write_text(f".shell touch {canary.file}\n")
    for words in ("query 'FROM runs'", "shell", "status"):
        assert looked_at(home, words).returncode == (WRONG if words == "shell" else 0)
    assert not canary.sings
    program = str(Path(sys.executable).with_name("duckdb"))
    control = [program, "-init", "catalog.sql", "-c", "SELECT 1"]
    subprocess.run(control, cwd=home, check=True, capture_output=True)
    assert canary.sings


# What works with a workspace


@pytest.mark.parametrize("name", WORK)
def test_what_writes_or_executes_is_refused_until_the_workspace_is_trusted(
    home: Path, tmp_path: Path, name: str
) -> None:
    before = Sentinel(folder=home).fingerprint()
    words = WORK[name].format(home=home, out=tmp_path / "out")
    refused = call(home, f"{name} {words}")
    assert refused.returncode == WRONG
    assert f"curriculum trust {home}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert Sentinel(folder=home).fingerprint() == before
    assert not (tmp_path / "out").exists()


def test_a_trusted_workspace_is_worked_with(home: Path) -> None:
    assert call(home, "gc --yes").returncode == WRONG
    trusting = curriculum("trust", str(home))
    assert trusting.returncode == 0, trusting.stderr
    assert call(home, "gc --yes").returncode == 0
    assert call(home, "init own").returncode == 0
    curriculum("trust", "--forget", str(home))
    assert call(home, "gc --yes").returncode == WRONG


def test_what_takes_the_place_of_a_trusted_workspace_is_not_trusted(home: Path, sent: Path) -> None:
    trust.trust(home)
    assert call(home, "gc --yes").returncode == 0
    shutil.rmtree(home)
    shutil.copytree(sent, home)
    assert call(home, "gc --yes").returncode == WRONG


def test_a_path_in_another_workspace_opens_the_door_of_that_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    trust.make_trusted(own)
    diet = home / "diets" / "theirs.yaml"
    diet.parent.mkdir()
    diet.write_text("specialist: theirs\n")
    for words in (
        f"train {diet}",
        f"export {home}/runs --to {tmp_path}/out",
        f"generate {home}/runs",
    ):
        refused = curriculum(*shlex.split(words), home=own)
        assert refused.returncode == WRONG
        assert f"curriculum trust {home}" in refused.stderr
    if landlock():
        looked = looked_at(own, f"check {home}/documents")
        assert looked.returncode == 0, looked.stderr
    monkeypatch.setattr(received, "landlock", lambda: 0)
    assert curriculum("check", str(home / "documents"), home=own).returncode == WRONG


def test_a_link_out_of_a_workspace_opens_the_door_of_that_one(home: Path, tmp_path: Path) -> None:
    """Behind the link no workspace is found, and commands open the one before it."""
    for name in ("runs", "documents"):
        (home / name).rename(tmp_path / name)
        (home / name).symlink_to(tmp_path / name)
    (tmp_path / "kept" / "photos").mkdir(parents=True)
    (home / "leakchecks").symlink_to(tmp_path / "kept")
    own = tmp_path / "own"
    trust.make_trusted(own)
    job = next((home / "runs").rglob("job.json"))
    for words in (f"leakcheck {job}", f"generate {job.parent}", f"check {home}/documents"):
        refused = curriculum(*shlex.split(words), home=own)
        assert refused.returncode == WRONG
        assert str(home) in refused.stderr
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["photos"]
    # The same files are worked with where no workspace that was sent is before them.
    assert Store.root_of(tmp_path / "runs") is None


def test_a_home_folder_that_the_shell_left_in_a_word_is_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    (home / "corpora").mkdir()
    (home / "corpora" / "theirs.yaml").write_text("name: theirs\n")
    refused = curriculum("supply", "~/home/corpora/theirs.yaml", home=tmp_path / "new")
    assert refused.returncode == WRONG
    assert f"curriculum trust {home}" in refused.stderr


def test_trust_is_refused_for_a_workspace_that_leads_elsewhere(home: Path, secret: Path) -> None:
    place = link(home, "diets/mine.yaml", secret)
    refused = curriculum("trust", str(home))
    assert refused.returncode == WRONG
    assert f"{place}: a link" in refused.stderr
    assert SECRET not in refused.stdout + refused.stderr
    assert not trust.is_trusted(home)
    place.unlink()
    assert curriculum("trust", str(home)).returncode == 0


def test_a_workspace_may_lie_behind_a_link_of_its_user(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").symlink_to(home)
    if landlock():
        assert looked_at(tmp_path / "mine", "status").returncode == 0
    trust.trust(home)
    assert curriculum("gc", "--yes", "--home", str(tmp_path / "mine")).returncode == 0
