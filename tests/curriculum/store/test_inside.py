"""Files of a workspace: names that lead down, locks, removal; and what the door refuses by name."""

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest

from curriculum.store import Artefact, Recipe, Store, inside
from curriculum.train.launch.gpu_slots import Slots
from schemas.errors import SchemaError, StoreError
from schemas.job import CheckpointRef, RowsSource, TokenizerRef
from schemas.label_folders import label_folder
from schemas.manifest import FileRecord
from tests.bounded import endless
from tests.sealing import edit


def write(drafts: Any) -> None:
    """A file in a folder, and one beside it."""
    for draft in drafts:
        (draft.path / "below").mkdir()
        (draft.path / "below" / "one.txt").write_text("one")
        (draft.path / "part-00000.parquet").write_text(draft.recipe.key)


def published(home: Path, stage: str = "documents") -> Artefact:
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
        with pytest.raises(ValueError, match="relative path"):
            model()


@pytest.mark.parametrize(
    "forged",
    [{"labels": {"family": "../../x"}}, {"labels": {"../x": "x"}}, {"stage": "../x"}],
)
def test_a_manifest_names_no_other_place(home: Path, forged: dict[str, Any]) -> None:
    artefact = published(home)
    edit(artefact.path / "manifest.json", **forged)
    with pytest.raises(SchemaError, match="pattern"):
        Store(home).load(artefact.path)
    stage, labels = forged.get("stage", "documents"), forged.get("labels", {})
    place = home / stage / Path(*(label_folder(*label) for label in labels.items()))
    assert ".." in place.parts, "the same words lead elsewhere by themselves"


def test_a_manifest_that_names_a_file_outside_is_refused_before_that_is_read(
    home: Path, outside: Path
) -> None:
    artefact = published(home)
    record = artefact.manifest.files[0].model_dump()
    for name in (str(outside), "../../../../outside/theirs.txt"):
        edit(artefact.path / "manifest.json", files=[{**record, "name": name}])
        with pytest.raises(SchemaError, match="relative path"):
            Store(home).load(artefact.path)
        assert (artefact.path / name).read_text() == "theirs", "the name leads there by itself"


def test_locks_of_a_workspace_whose_copy_shares_its_files_still_hold(home: Path) -> None:
    artefact = published(home)
    lock = home / ".locks" / f"{artefact.key}.lock"
    (home / "copy.lock").hardlink_to(lock)
    with Store(home).lock(artefact.key), pytest.raises(filelock.Timeout):
        filelock.FileLock(lock, timeout=0).acquire()


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


@pytest.mark.parametrize("make", [lambda place: place.symlink_to("theirs"), os.mkfifo, Path.mkdir])
def test_a_log_is_a_regular_file(home: Path, make: Callable[[Path], None]) -> None:
    make(home / "train.log")
    with pytest.raises(StoreError) as refused:
        inside.append(home / "train.log")
    assert refused.value.name == str(home / "train.log")
    assert not (home / "theirs").exists()


def test_a_log_that_is_opened_plainly_leads_elsewhere_or_waits(home: Path) -> None:
    """The control of the test above."""
    (home / "linked.log").symlink_to("theirs")
    with (home / "linked.log").open("a") as log:
        log.write("line")
    assert (home / "theirs").read_text() == "line"
    os.mkfifo(home / "pipe.log")
    with endless(seconds=0.3):
        (home / "pipe.log").open("a")


def test_removing_takes_a_link_itself_and_never_what_it_leads_to(home: Path, outside: Path) -> None:
    (home / "a").mkdir()
    (home / "a" / "link").symlink_to(outside.parent)
    inside.remove(home / "a" / "link")
    (home / "a" / "link").symlink_to(outside.parent)
    inside.remove(home / "a")
    inside.remove(home / "a")
    assert not (home / "a").exists()
    assert outside.read_text() == "theirs"


def _link(place: Path) -> None:
    place.symlink_to(place.parents[2] / "outside" / "theirs.txt")


def _folder_link(place: Path) -> None:
    place.symlink_to(place.parents[2] / "outside", target_is_directory=True)


def _socket(place: Path) -> None:
    with contextlib.chdir(place.parent), socket.socket(socket.AF_UNIX) as opened:
        opened.bind(place.name)  # An address has a hundred characters at most.


def _no_text(place: Path) -> None:
    place.with_name(os.fsdecode(b"\xff")).touch()


def _two_lines(place: Path) -> None:
    place.with_name("a\nTrusted: b").mkdir()


def _reordered(place: Path) -> None:
    place.with_name("a\u202eb").touch()


def _folders(place: Path, number: int) -> Path:
    deepest = place.joinpath(*["a-"] * number)
    deepest.mkdir(parents=True)
    return deepest


@pytest.mark.parametrize(
    "make", [_link, _folder_link, os.mkfifo, _socket, _no_text, _two_lines, _reordered]
)
@pytest.mark.parametrize("folder", ["current", "documents", "repositories", "any"])
def test_what_is_no_plain_file_or_folder_is_found_wherever_it_lies(
    home: Path, outside: Path, folder: str, make: Callable[[Path], None]
) -> None:
    published(home)
    (home / folder).mkdir(exist_ok=True)
    inside.require_plain(home)
    make(home / folder / "odd")
    with pytest.raises(StoreError) as refused:
        inside.require_plain(home)
    assert Path(refused.value.name).parent == home / folder


@pytest.mark.parametrize("name", ["two\nlines", "esc\x1b[31m", os.fsdecode(b"\xff\xfe")])
def test_a_workspace_whose_own_name_cannot_be_shown_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    with pytest.raises(StoreError) as refused:
        inside.require_plain(root)
    assert "\n" not in str(refused.value)


def test_a_clone_may_hold_links_as_git_allows(home: Path, outside: Path) -> None:
    (home / "repositories" / "a").mkdir(parents=True)
    (home / "repositories" / "a" / "link").symlink_to(outside)
    (home / "repositories" / "a" / "two\nlines").touch()
    inside.require_plain(home)


@pytest.mark.parametrize("folder", ["rows", "repositories", "any"])
def test_folders_that_are_nested_too_deep_are_refused(home: Path, folder: str) -> None:
    published(home)
    deepest = _folders(home / folder, inside.MAX_DEPTH - 1)
    (deepest / "file").touch()
    inside.require_plain(home)
    (deepest / "a-").mkdir()
    with pytest.raises(StoreError) as refused:
        inside.require_plain(home)
    assert refused.value.name == str(deepest)
    assert str(inside.MAX_DEPTH) in str(refused.value.value)
