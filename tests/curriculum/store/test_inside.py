"""What lies inside a workspace: plain files and folders; every way out of it is refused by name."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest

from curriculum.store import Artefact, Recipe, StagingDirectory, Store, inside, read_mark
from curriculum.store.inside import PlainFolders
from curriculum.store.leases import deciding
from curriculum.store.marks import marks_text
from curriculum.train.launch.gpu_slots import Slots
from schemas.errors import CurriculumError, SchemaError, StoreError
from schemas.job import CheckpointRef, RowsSource, TokenizerRef
from schemas.manifest import FileRecord
from tests.sealing import edit


def write(drafts: Any) -> None:
    """A file in a folder, and one beside it."""
    for draft in drafts:
        (draft.path / "below").mkdir()
        (draft.path / "below" / "one.txt").write_text("one")
        (draft.path / "part-00000.parquet").write_text(draft.recipe.key)


def made(home: Path, stage: str = "documents") -> Artefact:
    """A published artefact."""
    recipe = Recipe(stage=stage, labels=(("family", "v2_simple"),), revision=1)
    (artefact,) = Store(home).produce([recipe], write)
    return artefact


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that isn't in the workspace."""
    file = tmp_path / "outside" / "theirs.txt"
    file.parent.mkdir()
    file.write_text("theirs")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace."""
    Store(tmp_path / "home").open()
    return tmp_path / "home"


UNSAFE = ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", ".", "..", "", "a/.."]


@pytest.mark.parametrize("path", UNSAFE)
def test_a_path_in_a_file_of_ours_leads_down(path: str) -> None:
    models: list[Callable[[], object]] = [
        lambda: FileRecord(name=path, sha256="", num_bytes=0),
        lambda: RowsSource(key="", content="", path=path, row_length=8),
        lambda: TokenizerRef(key="", content="", path=path, vocab_size=8),
        lambda: CheckpointRef(run_key="", run_content="", path=path),
    ]
    for model in models:
        with pytest.raises(ValueError, match="doesn't lead down"):
            model()


@pytest.mark.parametrize(
    "forged", [{"labels": {"family": "../../x"}}, {"labels": {"..": "x"}}, {"stage": "../x"}]
)
def test_a_manifest_names_no_other_place(home: Path, forged: dict[str, Any]) -> None:
    artefact = made(home)
    edit(artefact.path / "manifest.json", **forged)
    with pytest.raises(SchemaError, match="should match pattern"):
        Store(home).load(artefact.path)


def test_a_manifest_that_names_a_file_outside_is_refused_before_that_is_read(
    home: Path, outside: Path
) -> None:
    artefact = made(home)
    record = artefact.manifest.files[0].model_dump()
    for name in (str(outside), "../../../../outside/theirs.txt"):
        edit(artefact.path / "manifest.json", files=[{**record, "name": name}])
        with pytest.raises(SchemaError, match="doesn't lead down"):
            Store(home).load(artefact.path)


@pytest.mark.parametrize("line", ["../outside", "/etc", "rows/../../outside"])
def test_a_mark_names_what_lies_in_the_workspace(home: Path, line: str) -> None:
    file = home / "current" / "build.txt"
    file.parent.mkdir()
    file.write_text(marks_text([line]))
    with pytest.raises(StoreError, match="leads out of the workspace") as refused:
        read_mark(file)
    assert refused.value.name == str(file)


def test_each_folder_above_a_path_is_looked_at_and_only_once(
    home: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = PlainFolders(home)
    looked: list[str] = []
    (home / "a" / "b").mkdir(parents=True)
    lstat = os.lstat

    def counted(path: str) -> os.stat_result:
        looked.append(path)
        return lstat(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", counted)
        known.require(home / "a" / "b" / "one")
        known.require(home / "a" / "b" / "two")
    assert looked == [str(home / each) for each in ("a", "a/b", "a/b/one", "a/b/two")]
    shutil.rmtree(home / "a" / "b")
    (home / "a" / "b").symlink_to(outside.parent)
    with pytest.raises(StoreError, match="a link") as refused:
        PlainFolders(home).require(home / "a" / "b" / "theirs.txt")
    assert refused.value.name == str(home / "a" / "b")


@pytest.mark.parametrize("path", ["..", "../outside", "a/../../outside", "../home", "a/.."])
def test_a_path_that_climbs_out_is_no_path_inside(home: Path, path: str) -> None:
    with pytest.raises(StoreError, match="outside of the workspace"):
        PlainFolders(home).require(home / path)
    with pytest.raises(StoreError, match="outside of the workspace"):
        PlainFolders(home).require(home.with_name(f"{home.name}-twin") / "a")


@pytest.mark.parametrize("how", ["symbolic", "dangling", "hard", "pipe"])
def test_a_lock_that_is_a_link_changes_nothing_behind_it(
    home: Path, outside: Path, how: str
) -> None:
    lock = home / ".locks" / f"{made(home).key}.lock"
    lock.unlink()
    makers: dict[str, Callable[[], object]] = {
        "symbolic": lambda: lock.symlink_to(outside),
        "dangling": lambda: lock.symlink_to(outside.with_name("new")),
        "hard": lambda: lock.hardlink_to(outside),
        "pipe": lambda: os.mkfifo(lock),
    }
    makers[how]()
    with pytest.raises(StoreError) as refused, Store(home).lock(made(home).key):
        pass
    assert refused.value.name == str(lock)
    assert outside.read_text() == "theirs"
    assert [each.name for each in outside.parent.iterdir()] == ["theirs.txt"]


def test_locks_of_a_workspace_whose_copy_shares_its_files_still_hold(home: Path) -> None:
    artefact = made(home)
    lock = home / ".locks" / f"{artefact.key}.lock"
    (home / "copy.lock").hardlink_to(lock)
    with Store(home).lock(artefact.key), pytest.raises(filelock.Timeout):
        filelock.FileLock(lock, timeout=0).acquire()


@pytest.mark.parametrize("how", ["symbolic", "dangling", "pipe"])
def test_the_guard_of_gc_and_slots_are_opened_through_no_link(
    home: Path, outside: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    slots = home / "slots"
    slots.mkdir()
    for file in (home / ".locks" / "gc.guard", slots / "host.lock", slots / "host-0.lock"):
        file.unlink(missing_ok=True)
        if how == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to(outside if how == "symbolic" else outside.with_name("new"))
        held = Slots(slots, 1).hold("run", print) if file.parent == slots else deciding(home)
        with pytest.raises(StoreError) as refused, held:
            pass
        assert refused.value.name == str(file)
        file.unlink()
    assert [each.name for each in outside.parent.iterdir()] == ["theirs.txt"]
    assert outside.read_text() == "theirs"


def test_records_of_slots_replace_what_has_another_name(
    home: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    slots = home / "slots"
    slots.mkdir()
    (slots / "host-0.json").hardlink_to(outside)
    with Slots(slots, 1).hold("run", print):
        assert '"run":"run"' in (slots / "host-0.json").read_text()
    assert outside.read_text() == "theirs"


def test_a_log_is_appended_to_and_one_that_has_another_name_is_copied_first(
    home: Path, outside: Path
) -> None:
    log = home / "train.log"
    for _ in range(2):
        with os.fdopen(inside.append(log), "ab") as opened:
            opened.write(b"line\n")
    assert log.read_text() == "line\nline\n"
    log.unlink()
    log.hardlink_to(outside)
    with os.fdopen(inside.append(log), "ab") as opened:
        opened.write(b" and mine")
    assert (log.read_text(), outside.read_text()) == ("theirs and mine", "theirs")
    log.unlink()
    log.symlink_to(outside)
    with pytest.raises(StoreError, match="a link"):
        inside.append(log)
    assert outside.read_text() == "theirs"


def test_removing_takes_a_link_itself_and_never_what_it_leads_to(home: Path, outside: Path) -> None:
    (home / "a").mkdir()
    (home / "a" / "link").symlink_to(outside.parent)
    inside.remove(home, home / "a" / "link")
    (home / "a" / "link").symlink_to(outside.parent)
    inside.remove(home, home / "a")
    inside.remove(home, home / "a")
    assert not (home / "a").exists()
    (home / "b").symlink_to(outside.parent)
    with pytest.raises(StoreError, match="a link") as refused:
        inside.remove(home, home / "b" / "theirs.txt")
    assert refused.value.name == str(home / "b")
    with pytest.raises(StoreError, match="a link"):
        inside.move(home, home / "workspace.json", home / "b" / "workspace.json")
    assert outside.read_text() == "theirs"


@pytest.mark.parametrize("place", ["stage", "shelf", "draft", "drafts"])
def test_nothing_is_published_through_a_link(home: Path, outside: Path, place: str) -> None:
    recipe = Recipe(stage="rows", labels=(("family", "v2_simple"),), revision=1)
    links = {
        "stage": home / "rows",
        "shelf": home / "rows" / "family-v2_simple",
        "draft": home / ".drafts" / recipe.key,
        "drafts": home / ".drafts",
    }
    store = Store(home)
    links[place].parent.mkdir(exist_ok=True)
    links[place].symlink_to(outside.parent)
    if place == "draft":
        assert store.produce([recipe], write)[0].made
    else:
        with pytest.raises(CurriculumError) as refused:
            store.produce([recipe], write)
        assert str(links[place]) in str(refused.value)
    assert [each.name for each in outside.parent.iterdir()] == ["theirs.txt"]


def test_a_link_that_a_producer_leaves_in_its_draft_is_no_file_of_an_artefact(
    home: Path, outside: Path
) -> None:
    def fill(drafts: list[StagingDirectory]) -> None:
        (drafts[0].path / "theirs.txt").symlink_to(outside)

    recipe = Recipe(stage="rows", labels=(), revision=1)
    with pytest.raises(StoreError, match="a link"):
        Store(home).produce([recipe], fill)  # type: ignore[arg-type]
    assert not (home / "rows").exists()


@pytest.mark.parametrize(
    "name", ["more.parquet", "below/more.txt", ".hidden", "x.draft", "manifest.json/x"]
)
def test_a_file_that_a_manifest_does_not_list_is_refused_by_name(home: Path, name: str) -> None:
    artefact = made(home)
    file = artefact.path / name
    if name.startswith("manifest.json"):
        file = artefact.path / "below" / "manifest.json"
    file.write_text("more")
    for read in (lambda: Store(home).load(artefact.path), lambda: [*Store(home).artefacts()]):
        with pytest.raises(StoreError, match="the manifest doesn't list it") as refused:
            read()
        assert refused.value.name == str(file)
    file.unlink()
    assert Store(home).load(artefact.path) == Artefact(
        path=artefact.path, manifest=artefact.manifest
    )
