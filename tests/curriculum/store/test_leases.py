"""Leases keep the artefacts that live processes name, and no others."""

import datetime
import json
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from curriculum.store import (
    Artefact,
    Recipe,
    StagingDirectory,
    Store,
    collect_garbage,
    garbage,
    leases,
)
from curriculum.store.owners import HeldFile, this_process
from schemas.errors import StoreError
from schemas.manifest import Lease

PATIENCE_S = 60.0
NOW = datetime.datetime.now(datetime.UTC)
UNKNOWN_PID = 2**22 + 1
HOUR = datetime.timedelta(hours=1)


def recipe(number: int, *made_of: Artefact) -> Recipe:
    return Recipe(
        stage="documents",
        labels=(("family", "v2_simple"),),
        revision=1,
        config={"number": number},
        inputs=tuple(each.as_input(str(at)) for at, each in enumerate(made_of)),
    )


def write(drafts: Sequence[StagingDirectory]) -> None:
    for draft in drafts:
        (draft.path / "part-00000.parquet").write_text("x" * 100)


def collected(home: Path) -> None:
    """A gc of its own beside whoever uses the workspace."""
    beside = Store(home)
    collect_garbage(beside, garbage(beside))


def lease(home: Path, keys: Sequence[str], beat: datetime.datetime = NOW, **owner: object) -> Path:
    """A lease as another process wrote it that is gone, as far as its lock tells."""
    file = home / "leases" / f"{uuid.uuid4().hex}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(written(keys, beat, **owner))
    return file


def written(keys: Sequence[str], beat: datetime.datetime = NOW, **owner: object) -> str:
    """The text of a lease."""
    values = {**this_process().model_dump(), **owner, "begun": NOW, "heartbeat": beat, "keys": keys}
    return Lease.model_validate(values).model_dump_json()


def test_what_a_process_found_or_made_stays_with_all_its_inputs_until_it_ends(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    base, stray = store.produce([recipe(1), recipe(2)], write)
    with store.leased():
        (top,) = Store(tmp_path).produce([recipe(3, base)], write)
        with store.leased():
            assert Store(tmp_path).find(recipe(3, base)) is not None
        collected(tmp_path)
        assert {each.key for each in store.artefacts()} == {base.key, top.key}
        (file,) = tmp_path.glob("leases/*")
        assert stray.key not in json.loads(file.read_text())["keys"]
    assert [*tmp_path.glob("leases/*")] == []
    collected(tmp_path)
    assert [*store.artefacts()] == []


def test_inputs_of_what_is_being_made_stay_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (base,) = store.produce([recipe(1)], write)

    def make(drafts: Sequence[StagingDirectory]) -> None:
        collected(tmp_path)
        write(drafts)

    store.produce([recipe(2, base)], make)
    assert store.find(recipe(1)) is not None


def test_a_lease_ends_with_an_error_as_well(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail(_: Sequence[StagingDirectory]) -> None:
        assert len([*tmp_path.glob("leases/*.json")]) == 1
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.produce([recipe(1)], fail)
    assert [*tmp_path.glob("leases/*")] == []


def test_looking_and_a_dry_store_write_no_lease(tmp_path: Path) -> None:
    (made,) = Store(tmp_path).produce([recipe(1)], write)
    dry = Store(tmp_path, dry=True)
    with dry.leased():
        assert dry.produce([recipe(1)], write)[0].content == made.content
        assert [*Store(tmp_path).artefacts()]
    with Store(tmp_path / "none").leased():
        assert [*(tmp_path / "leases").iterdir()] == []
    assert not (tmp_path / "none").exists()


def test_the_lease_of_a_process_that_is_gone_keeps_nothing_and_is_removed(tmp_path: Path) -> None:
    """Also where its pid was given to another process since: to this one."""
    store = Store(tmp_path)
    (made,) = store.produce([recipe(1)], write)
    file = lease(tmp_path, [made.key])
    (half := file.with_name(f".{file.name}.draft")).write_text("{")
    collected(tmp_path)
    assert [*store.artefacts()] == []
    assert not file.exists()
    assert not half.exists()


@pytest.mark.parametrize("host", [None, "elsewhere"])
def test_a_lease_counts_while_its_file_is_locked_whatever_pid_and_host_it_names(
    tmp_path: Path, host: str | None
) -> None:
    """The build runs in a container with its own PID namespace, with the same host name or another one."""
    store = Store(tmp_path)
    (made,) = store.produce([recipe(1)], write)
    (folder := tmp_path / "leases").mkdir(exist_ok=True)
    held = HeldFile(folder / f"{uuid.uuid4().hex}.json")
    owner = {"pid": UNKNOWN_PID, **({"host": host} if host else {})}
    for _ in range(2):
        held.write(written([made.key], NOW - 48 * HOUR, **owner))
        collected(tmp_path)
        assert [artefact.key for artefact in store.artefacts()] == [made.key]
    held.release()
    collected(tmp_path)
    assert [*store.artefacts()] == []


def test_the_next_command_removes_what_killed_ones_left(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.leased():
        (made,) = store.produce([recipe(1)], write)
        (mine,) = tmp_path.glob("leases/*")
        file, away = lease(tmp_path, [made.key]), lease(tmp_path, [made.key], host="elsewhere")
        (half := file.with_name(f".{file.name}.draft")).write_text("{")
        (strange := file.with_name("notes.json")).write_text("no lease")
        (broken := file.with_name(f"{uuid.uuid4().hex}.json")).write_text("no lease either")
        subprocess.run([sys.executable, "-c", LOOK, str(tmp_path)], check=True)
        assert {*tmp_path.glob("leases/*")} == {mine, away, strange, broken}
        assert not half.exists()


LOOK = """
import sys
from pathlib import Path
from curriculum.store import Store
with Store(Path(sys.argv[1])).leased():
    pass
"""
BUILD = """
import sys
from pathlib import Path
from curriculum.store import Store
from tests.curriculum.store.test_leases import recipe, write
store = Store(Path(sys.argv[1]))
with store.leased():
    store.produce([recipe(1)], write)
    print("made", flush=True)
    sys.stdin.read()
"""
GC = """
import sys
from pathlib import Path
from tests.curriculum.store.test_leases import collected
collected(Path(sys.argv[1]))
"""
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def has_namespaces() -> bool:
    """Return True where this user may begin a PID namespace."""
    if shutil.which(NAMESPACE[0]) is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="needs the right to begin a PID namespace")
@pytest.mark.parametrize("inside", ["build", "gc"])
def test_gc_keeps_what_a_build_in_another_pid_namespace_uses(tmp_path: Path, inside: str) -> None:
    python = [sys.executable, "-c"]
    build = [*(NAMESPACE if inside == "build" else []), *python, BUILD, str(tmp_path)]
    gc = [*(NAMESPACE if inside == "gc" else []), *python, GC, str(tmp_path)]
    with subprocess.Popen(build, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as building:
        assert building.stdout is not None
        assert building.stdout.readline() == b"made\n"
        subprocess.run(gc, check=True)
        assert Store(tmp_path).find(recipe(1)) is not None
        building.kill()
    for _ in range(int(PATIENCE_S / 0.1)):
        subprocess.run(gc, check=True)
        if Store(tmp_path).find(recipe(1)) is None:
            break
    assert Store(tmp_path).find(recipe(1)) is None
    assert [*tmp_path.glob("leases/*")] == []


def test_of_another_host_a_lease_counts_for_a_day_after_its_last_heartbeat(tmp_path: Path) -> None:
    store = Store(tmp_path)
    young, old = store.produce([recipe(1), recipe(2)], write)
    lease(tmp_path, [young.key], beat=NOW - 23 * HOUR, host="elsewhere", pid=1)
    lease(tmp_path, [old.key], beat=NOW - 25 * HOUR, host="elsewhere", pid=1)
    collected(tmp_path)
    assert [each.key for each in store.artefacts()] == [young.key]


def test_the_heartbeat_inside_the_file_counts_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    store = Store(tmp_path)
    with store.leased():
        store.produce([recipe(1)], write)
        (file,) = tmp_path.glob("leases/*.json")
        first = Lease.model_validate_json(file.read_text())
        waiting = threading.Event()
        for _ in range(int(PATIENCE_S / 0.01)):
            waiting.wait(0.01)
            now = Lease.model_validate_json(file.read_text())
            if now.heartbeat > first.heartbeat:
                break
        assert now.heartbeat > first.heartbeat
        assert (now.keys, now.begun) == (first.keys, first.begun)


def test_a_lease_that_cannot_be_read_stops_gc_before_it_removes_anything(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (made,) = store.produce([recipe(1)], write)
    lease(tmp_path, [made.key]).write_text('{"keys": [')
    with pytest.raises(StoreError, match="leases/"):
        collect_garbage(store, [made])
    assert store.find(recipe(1)) is not None


def test_gc_waits_for_a_lookup_and_then_finds_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (made,) = store.produce([recipe(1)], write)
    dead = garbage(store)
    gc = threading.Thread(target=lambda: collect_garbage(Store(tmp_path), dead))
    with store.leased():
        with leases.lease_keys(tmp_path, [made.key]):
            gc.start()
            gc.join(0.5)
            assert gc.is_alive()
        gc.join(PATIENCE_S)
        assert not gc.is_alive()
        assert store.find(recipe(1)) is not None


def test_a_lookup_waits_for_gc_and_then_makes_anew_what_it_took(tmp_path: Path) -> None:
    store, found = Store(tmp_path), list[bool]()
    (made,) = store.produce([recipe(1)], write)
    build = threading.Thread(
        target=lambda: found.extend(each.made for each in store.produce([recipe(1)], write))
    )
    with leases.deciding(tmp_path):
        build.start()
        build.join(0.5)
        assert build.is_alive()
        made.path.rename(tmp_path / ".taken")
    build.join(PATIENCE_S)
    assert found == [True]


def test_what_is_planned_needs_not_stand_and_what_was_taken_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (made,) = store.produce([recipe(1)], write)
    (planned,) = Store(tmp_path, dry=True).produce([recipe(2)], write)
    with store.leased():
        assert store.keep([made, planned])
        made.path.rename(tmp_path / ".taken")
        assert not store.keep([made, planned])
