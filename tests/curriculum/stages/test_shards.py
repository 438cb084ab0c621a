"""Shards of a build, in one workspace or in several that are merged, leave what one build leaves."""

import errno
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from curriculum.published_files import sha256_of
from curriculum.sandbox import landlock
from curriculum.stages import Built, Shard, Workers
from curriculum.stages.merge import MAX_MANIFEST_BYTES, _copy_blocks, merge
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.errors import DietError, StoreError
from schemas.json_text import digest
from schemas.manifest import MANIFEST_NAME, FileRecord
from tests.error_fields import fields

confined = pytest.mark.skipif(not landlock(), reason="needs Landlock")
Make = Callable[..., Built]
SHARDS = tuple(Shard(index=index, number=3) for index in range(3))
ROUNDS = 3
"""Documents; what sees the whole corpus, and tokens; rows."""


def contents(built: Built) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return content and file digests by key."""
    return {
        each.key: (each.content, tuple(record.sha256 for record in each.manifest.files))
        for each in built.artefacts()
    }


def shard(root: Path, make_tiny: Make, which: Shard) -> Built:
    return make_tiny(Store(root), workers=Workers(shard=which))


@given(st.integers(1, 40), st.integers(0, 200))
def test_each_task_belongs_to_exactly_one_shard(number: int, at: int) -> None:
    shards = [Shard.parse(f"{index}/{number}") for index in range(1, number + 1)]
    assert sum(each.owns(at) for each in shards) == 1


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "3", "1/0", "a/b", "1/3/2", "-1/3", "", "１/3", "1/ 3"]
)
def test_what_is_no_shard_is_refused_by_name(text: str) -> None:
    with pytest.raises(DietError, match="--shard"):
        Shard.parse(text)


def test_three_shards_one_after_another_leave_what_one_build_leaves(
    tmp_path: Path, make_tiny: Make, tiny: Built
) -> None:
    rounds = [[shard(tmp_path, make_tiny, each) for each in SHARDS] for _ in range(ROUNDS)]
    for built in rounds[-1]:
        assert not built.missing
        assert contents(built) == contents(tiny)
    first, second, _ = rounds[0]
    assert {each.manifest.labels["repository"] for each in files(first)} == {"lattice"}
    assert len({each.manifest.labels["repository"] for each in files(second)}) == 2
    assert first.missing
    assert first.kept[0].planned
    assert first.selection.waits


def files(built: Built) -> list[Artefact]:
    """The documents that stand."""
    return [each for each in built.documents if not each.planned]


def test_a_shard_that_is_alone_goes_as_far_as_nothing_of_others_is_missing(
    tmp_path: Path, make_tiny: Make
) -> None:
    once = shard(tmp_path, make_tiny, SHARDS[1])
    again = shard(tmp_path, make_tiny, SHARDS[1])
    assert [each for each in again.artefacts() if each.made and not each.planned] == []
    assert {each.manifest.stage for each in once.artefacts() if not each.planned} == {"documents"}
    assert {each.manifest.stage for each in once.missing} >= {"documents", "selections", "rows"}
    assert not (tmp_path / "selections").exists()


def test_a_plain_build_finishes_what_shards_began(
    tmp_path: Path, make_tiny: Make, tiny: Built
) -> None:
    before = {each.key for each in files(shard(tmp_path, make_tiny, SHARDS[0]))}
    finished = make_tiny(Store(tmp_path))
    assert contents(finished) == contents(tiny)
    assert before
    assert not before & {each.key for each in finished.artefacts() if each.made}


UNTIL_DONE = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from conftest import tiny_build
from curriculum.stages import Shard, Workers
from curriculum.store import Store
if __name__ == "__main__":
    workers = Workers(shard=Shard.parse(sys.argv[1]))
    while tiny_build(Store(Path({root!r})), workers=workers).missing:
        pass
"""


@pytest.mark.system
def test_three_shards_at_the_same_time_leave_what_one_build_leaves(
    tmp_path: Path, make_tiny: Make, tiny: Built
) -> None:
    script, root = tmp_path / "script.py", tmp_path / "home"
    script.write_text(UNTIL_DONE.format(folder=str(Path(__file__).parent), root=str(root)))
    running = [subprocess.Popen([sys.executable, str(script), f"{each}/3"]) for each in (1, 2, 3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    found = make_tiny(Store(root))
    assert contents(found) == contents(tiny)
    assert [each for each in found.artefacts() if each.made] == []


def test_shards_in_workspaces_of_their_own_are_merged_into_what_one_build_leaves(
    tmp_path: Path, make_tiny: Make, tiny: Built
) -> None:
    homes = [tmp_path / str(each.index) for each in SHARDS]
    for home, each in zip(homes, SHARDS, strict=True):
        assert shard(home, make_tiny, each).missing
    store = Store(tmp_path / "merged")
    merged = [each for home in homes for each in merge(store, home, own=True)]
    assert all(each.made for each in merged)
    finished = make_tiny(store)
    assert contents(finished) == contents(tiny)
    assert {each.key for each in finished.documents} == {each.key for each in merged}
    assert not any(each.made for each in finished.documents)
    for taken in merged:
        store.verify(taken)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, make_tiny: Make) -> Path:
    """A workspace with the documents of one repository, which no test may change."""
    home = tmp_path_factory.mktemp("small")
    shard(home, make_tiny, SHARDS[2])
    return home


def test_merging_ones_own_workspace_links_files_and_says_the_second_time_that_they_are_there(
    tmp_path: Path, small: Path
) -> None:
    store = Store(tmp_path)
    first, second = (list(merge(store, small, own=True)) for _ in range(2))
    assert first
    assert [each.made for each in first] == [True] * len(first)
    assert [each.made for each in second] == [False] * len(first)
    source = {each.key: each for each in Store(small).artefacts()}
    for each in first:
        for ours, theirs in zip(each.shards(), source[each.key].shards(), strict=True):
            assert ours.samefile(theirs)
        assert each.manifest.report == source[each.key].manifest.report


def test_merging_copies_where_no_link_can_be_made(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    store = Store(tmp_path)
    merged = list(merge(store, small, own=True))
    source = {each.key: each for each in Store(small).artefacts()}
    assert merged
    for each in merged:
        store.verify(each)
        assert each.content == source[each.key].content
        assert not each.shards()[0].samefile(source[each.key].shards()[0])


def damaged(small: Path, home: Path) -> Artefact:
    """A copy of a workspace, and the artefact of it that a test damages."""
    for each in merge_copies(small, home):
        return each
    raise AssertionError


@confined
def test_another_users_workspace_is_copied_and_each_parquet_file_decoded_once(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Path] = []
    monkeypatch.setitem(merge.__globals__, "decode_foreign", decoded.extend)
    merged = list(merge(Store(tmp_path), small))
    source = {each.key: each for each in Store(small).artefacts()}
    names = [each.name for artefact in merged for each in artefact.files()]
    assert [each.name for each in decoded] == names
    for each in merged:
        assert not each.shards()[0].samefile(source[each.key].shards()[0])
    list(merge(Store(tmp_path), small))
    assert len(decoded) == len(names), "what is there isn't decoded again"


@confined
@pytest.mark.parametrize("above", [0, 1], ids=["file", "folder"])
def test_a_link_that_is_swapped_into_another_users_workspace_after_the_check_is_not_followed(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch, above: int
) -> None:
    """The link's target has the digest of the manifest, so no other check refuses it."""
    theirs = tmp_path / "theirs"
    shutil.copytree(small, theirs)
    file = next(each for artefact in Store(theirs).artefacts() for each in artefact.shards())
    place = (file, *file.parents)[above]
    check = merge.__globals__["require_plain"]

    def raced(source: Path) -> None:
        check(source)
        place.rename(tmp_path / "private")
        place.symlink_to(tmp_path / "private")

    monkeypatch.setitem(merge.__globals__, "require_plain", raced)
    with pytest.raises(StoreError) as refused:
        list(merge(Store(tmp_path / "to"), theirs))
    assert refused.value.name == str(file)
    assert list(Store(tmp_path / "to").artefacts()) == []
    assert list(merge(Store(tmp_path / "followed"), theirs, own=True)), "the link leads to files"
    place.unlink()
    (tmp_path / "private").rename(place)
    monkeypatch.setitem(merge.__globals__, "require_plain", check)
    assert list(merge(Store(tmp_path / "to"), theirs))


@confined
def test_a_forged_file_that_only_its_own_reader_takes_is_not_published(tmp_path: Path) -> None:
    """Its sender sealed it: size, digest and manifest agree, and it is no Parquet file."""
    recipe = Recipe(stage="documents", labels=(("family", "v2_simple"),), revision=1)

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "part-00000.parquet").write_bytes(b"PAR1" + bytes(64) + b"PAR1")

    Store(tmp_path / "from").produce([recipe], fill)
    with pytest.raises(StoreError, match=r"part-00000\.parquet"):
        list(merge(Store(tmp_path / "to"), tmp_path / "from"))
    assert list(Store(tmp_path / "to").artefacts()) == []
    assert len(list(merge(Store(tmp_path / "to"), tmp_path / "from", own=True))) == 1


def forge(artefact: Artefact, *, name: str, in_content: bool = True) -> None:
    """List another file in the manifest of an artefact, sealed as its sender would."""
    (artefact.path / name).write_text("{}")
    listed = FileRecord(
        name=name,
        sha256=sha256_of(artefact.path / name),
        num_bytes=2,
        in_content=in_content,
    )
    files = (*artefact.manifest.files, listed)
    pairs = sorted((each.name, each.sha256) for each in files if each.in_content)
    content = digest([list(pair) for pair in pairs])
    manifest = artefact.manifest.model_copy(update={"files": files, "content": content})
    (artefact.path / MANIFEST_NAME).unlink()
    (artefact.path / MANIFEST_NAME).write_text(manifest.model_dump_json())


@confined
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("name", "in_content", "is_taken"),
    [
        ("other.json", True, True),
        ("twice.json", True, False),
        ("data/manifest.json", True, False),
        ("other.draft", True, False),
        ("data.draft/other", True, False),
        ("data/part-00001.bin", True, False),
        ("data/part-00001.pq", True, False),
        ("data/part-1.parquet", True, False),
        ("other.json", False, False),
    ],
)
def test_a_manifest_that_no_build_writes_is_refused_before_anything_is_copied(
    tmp_path: Path, name: str, *, in_content: bool, is_taken: bool, own: bool
) -> None:
    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "data").mkdir()
        (drafts[0].path / "data.draft").mkdir()
        (drafts[0].path / "text.json").write_text("{}")

    store, other = Store(tmp_path / "to"), Store(tmp_path / "from")
    recipes = (
        Recipe(stage="documents", labels=(("family", family),), revision=1, config={"of": family})
        for family in ("a", "z")
    )
    _, (forged,) = (other.produce([recipe], fill) for recipe in recipes)
    forge(forged, name=name, in_content=in_content)
    if name == "twice.json":
        forge(other.load(forged.path), name=name)
    if is_taken:
        assert len(list(merge(store, other.root, own=own))) == 2
        return
    with pytest.raises(StoreError, match=name):
        list(merge(store, other.root, own=own))
    assert not store.root.exists()


def sealed(root: Path, *, config: dict[str, JsonValue] | None = None, hole: int = 0) -> Artefact:
    """An artefact with this config and a file that is a hole of so many bytes; its manifest is compact."""

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "text.json").write_text("{}")
        with (drafts[0].path / "hole.bin").open("wb") as file:
            file.truncate(hole)

    recipe = Recipe(
        stage="documents", labels=(("family", "v2_simple"),), revision=1, config=config or {}
    )
    (made,) = Store(root).produce([recipe], fill)
    (made.path / MANIFEST_NAME).write_text(made.manifest.model_dump_json())
    return made


def nested(levels: int, lists: int) -> JsonValue:
    """Lists beside each other, below so many levels of lists."""
    value: list[JsonValue] = [[] for _ in range(lists)]
    for _ in range(levels):
        value = [value]
    return value


@confined
@pytest.mark.parametrize(
    ("config", "is_taken"),
    [
        ("b" * (MAX_MANIFEST_BYTES - 5000), True),
        ("b" * MAX_MANIFEST_BYTES, False),
        (nested(3, 100_000), True),
        (nested(50, 100_000), False),
    ],
    ids=["long", "too long", "nested", "too large as it would be written"],
)
def test_a_manifest_that_is_too_large_is_refused_before_anything_is_copied(
    tmp_path: Path, config: JsonValue, *, is_taken: bool
) -> None:
    made = sealed(tmp_path / "from", config={"a": config})
    store = Store(tmp_path / "to")
    if is_taken:
        (taken,) = merge(store, tmp_path / "from")
        assert (taken.path / MANIFEST_NAME).stat().st_size <= MAX_MANIFEST_BYTES
        return
    with pytest.raises(StoreError) as refused:
        list(merge(store, tmp_path / "from"))
    assert refused.value.name == str(made.path / MANIFEST_NAME)
    assert not store.root.exists()
    assert len(list(merge(store, tmp_path / "from", own=True))) == 1, "a sound one of one's own"


@confined
def test_manifests_that_are_too_large_together_are_refused_before_one_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [
        (sealed(tmp_path / "from", config={"a": text}).path / MANIFEST_NAME).stat().st_size
        for text in ("a", "b")
    ]
    monkeypatch.setitem(merge.__globals__, "MAX_MANIFESTS_BYTES", sum(sizes))
    assert len(list(merge(Store(tmp_path / "to"), tmp_path / "from"))) == 2
    monkeypatch.setitem(merge.__globals__, "MAX_MANIFESTS_BYTES", sum(sizes) - 1)
    monkeypatch.delattr(Store, "artefacts")
    with pytest.raises(StoreError) as refused:
        list(merge(Store(tmp_path / "to"), tmp_path / "from"))
    assert refused.value.name == str(tmp_path / "from")


@confined
def test_a_manifest_that_is_too_large_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(tmp_path / "from", config={"a": "b" * MAX_MANIFEST_BYTES})
    monkeypatch.delattr(Store, "artefacts")
    with pytest.raises(StoreError):
        list(merge(Store(tmp_path / "to"), tmp_path / "from"))


@confined
def test_a_hole_in_a_file_of_another_user_takes_no_space(tmp_path: Path) -> None:
    made = sealed(tmp_path / "from", hole=64 << 20)
    (taken,) = merge(Store(tmp_path / "to"), tmp_path / "from")
    copied, control = (taken.path / "hole.bin").stat(), tmp_path / "control"
    assert (copied.st_size, copied.st_blocks) == (64 << 20, 0)
    with (made.path / "hole.bin").open("rb") as source, control.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    os.sync()
    assert control.stat().st_blocks * 512 >= 64 << 20, "the control: a plain copy writes zeros"


@given(st.lists(st.sampled_from([bytes(4096), b"a" * 4096, bytes(7), b"b"])), st.integers(0, 9000))
def test_a_copy_has_the_bytes_that_its_manifest_lists_and_no_more(
    parts: list[bytes], num_bytes: int
) -> None:
    data = b"".join(parts)
    with tempfile.TemporaryFile() as copy:
        _copy_blocks(io.BytesIO(data), copy, num_bytes)
        copy.seek(0)
        assert copy.read() == data[:num_bytes].ljust(num_bytes, b"\0")


@confined
def test_a_file_that_grows_meanwhile_is_copied_up_to_its_recorded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sealed(tmp_path / "from")
    check = merge.__globals__["_require_room"]

    def grow_after(*given: object) -> None:
        check(*given)
        with (made.path / "text.json").open("a") as file:
            file.write("x" * 1000)

    monkeypatch.setitem(merge.__globals__, "_require_room", grow_after)
    (taken,) = merge(Store(tmp_path / "to"), tmp_path / "from")
    assert (taken.path / "text.json").read_text() == "{}"


@confined
def test_files_that_the_disk_does_not_hold_are_refused_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(tmp_path / "from", hole=1000)
    store, disk = Store(tmp_path / "to" / "here"), shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk._replace(free=1001))
    with pytest.raises(StoreError) as refused:
        list(merge(store, tmp_path / "from"))
    assert refused.value.name == str(store.root)
    assert not store.root.parent.exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk._replace(free=1002))
    assert [each.made for each in merge(store, tmp_path / "from")] == [True]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk._replace(free=0))
    assert [each.made for each in merge(store, tmp_path / "from")] == [False], "it is here already"


def merge_copies(small: Path, home: Path) -> list[Artefact]:
    shutil.copytree(small, home)
    return [each for each in Store(home).artefacts() if each.shards()]


def test_a_flipped_byte_is_named_and_nothing_of_it_is_published(
    tmp_path: Path, small: Path
) -> None:
    artefact = damaged(small, tmp_path / "from")
    file = artefact.shards()[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    store = Store(tmp_path / "to")
    with pytest.raises(StoreError, match="bytes"):
        list(merge(store, tmp_path / "from"))
    assert list(store.artefacts()) == []
    assert not any((store.root / ".drafts").iterdir())


def test_a_file_that_leads_out_of_its_artefact_is_refused(tmp_path: Path, small: Path) -> None:
    artefact = damaged(small, tmp_path / "from")
    file = artefact.shards()[0]
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="a link"):
        list(merge(Store(tmp_path / "to"), tmp_path / "from"))
    assert list(Store(tmp_path / "to").artefacts()) == []


def test_an_artefact_that_lies_elsewhere_than_its_manifest_says_is_refused(
    tmp_path: Path, small: Path
) -> None:
    artefact = damaged(small, tmp_path / "from")
    moved = artefact.path.parent.with_name("repository-other") / artefact.path.name
    moved.parent.mkdir()
    artefact.path.rename(moved)
    with pytest.raises(StoreError, match="manifest"):
        list(merge(Store(tmp_path / "to"), tmp_path / "from"))


def test_the_same_key_with_other_bytes_is_refused(tmp_path: Path, small: Path) -> None:
    artefact = damaged(small, tmp_path / "from")
    changed = Store(tmp_path / "changed")

    def fill(drafts: object) -> None:
        (drafts[0].path / "other.txt").write_text("other")  # type: ignore[index]

    from curriculum.stages.merge import _recipe

    changed.produce([_recipe(Store(tmp_path / "from"), artefact)], fill)
    with pytest.raises(StoreError, match="same key"):
        list(merge(changed, tmp_path / "from"))


def test_a_folder_that_is_no_workspace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, check=fields(name=tmp_path)):
        list(merge(Store(tmp_path / "to"), tmp_path))
    assert not (tmp_path / "to").exists()
