"""Nothing half made is ever seen, and nothing is made twice."""

import dataclasses
import itertools
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from curriculum.catalog.snapshot import walk
from curriculum.store import (
    Input,
    Recipe,
    StagingDirectory,
    Store,
    collect_garbage,
    explain,
    garbage,
)
from curriculum.store.artefact import published_in
from curriculum.store.marks import read_mark
from schemas.document import SCHEMA_VERSION
from schemas.errors import CurriculumError, SchemaError, StoreError
from tests.bounded import bounded, endless

PATIENCE_S = 240.0
"""For processes that start where cores are shared."""


def recipe(size: int = 3, *inputs: Input, stage: str = "documents") -> Recipe:
    return Recipe(
        stage=stage,
        labels=(("family", "v2_simple"),),
        revision=1,
        config={"size": size},
        inputs=inputs,
        tools={"git": "2"},
    )


def write(drafts: Sequence[StagingDirectory]) -> None:
    for draft in drafts:
        (draft.path / "part-00000.parquet").write_text("x" * 100)
        draft.report["documents"] = 1


def refuse(drafts: Sequence[StagingDirectory]) -> None:
    pytest.fail(f"{len(drafts)} artefacts were made again")


def test_same_key_is_made_once(tmp_path: Path) -> None:
    first = Store(tmp_path).produce([recipe()], write)[0]
    again = Store(tmp_path).produce([recipe()], refuse)[0]
    assert first.made
    assert not again.made
    assert again.content == first.content
    assert again.manifest.report["documents"] == 1


def test_one_pass_makes_only_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.produce([recipe(1)], write)
    sizes: list[object] = []

    def note(drafts: Sequence[StagingDirectory]) -> None:
        sizes.extend(draft.recipe.config["size"] for draft in drafts)
        write(drafts)

    made = store.produce([recipe(1), recipe(2), recipe(3)], note)
    assert sizes == [2, 3]
    assert [artefact.made for artefact in made] == [False, True, True]


def test_labels_and_order_of_inputs_are_no_part_of_the_key() -> None:
    a, b = Input(name="a", key="1", content="2"), Input(name="b", key="3", content="4")
    moved = Recipe(
        stage="documents",
        labels=(("family", "v3_simple"),),
        revision=1,
        config={"size": 3},
        inputs=(b, a),
        tools={"git": "2"},
    )
    assert recipe(3, a, b).key == moved.key
    assert recipe(3, a).key != moved.key
    assert recipe(4, a, b).key != moved.key


def test_a_failed_maker_leaves_nothing(tmp_path: Path) -> None:
    def fail(drafts: Sequence[StagingDirectory]) -> None:
        write(drafts)
        raise RuntimeError("half way")

    store = Store(tmp_path)
    with pytest.raises(RuntimeError, match="half way"):
        store.produce([recipe()], fail)
    assert store.find(recipe()) is None
    assert list((tmp_path / ".drafts").iterdir()) == []


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    def fail(drafts: Sequence[StagingDirectory]) -> None:
        raise OSError(28, "No space left on device")

    store = Store(tmp_path)
    with pytest.raises(StoreError, match="No space left"):
        store.produce([recipe()], fail)
    assert store.find(recipe()) is None


_KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from curriculum.store import Store, Recipe
def slow(drafts):
    for draft in drafts:
        for n in range(50):
            (draft.path / f"part-{{n:05d}}.parquet").write_text("x" * 1000)
            if n == {moment}:
                print(n, flush=True)
                time.sleep(6000)
recipe = Recipe(stage="documents", labels=(("family", "v2_simple"),), revision=1, config={{"slow": 1}})
Store(Path({root!r})).produce([recipe], slow)
"""


@pytest.mark.parametrize("moment", [1, 25, 49])
def test_kill_at_any_point_leaves_nothing_half_done(tmp_path: Path, moment: int) -> None:
    slow = Recipe(
        stage="documents", labels=(("family", "v2_simple"),), revision=1, config={"slow": 1}
    )
    script = _KILLED.format(root=str(tmp_path), tests=str(Path.cwd()), moment=moment)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == moment
        process.send_signal(signal.SIGKILL)
    store = Store(tmp_path)
    assert store.find(slow) is None
    assert list(store.artefacts()) == []
    assert len(list((tmp_path / ".drafts").iterdir())) == 1, "the kill came while writing"
    made = store.produce([slow], write)[0]
    assert [record.name for record in made.manifest.files] == ["part-00000.parquet"]
    assert list((tmp_path / ".drafts").iterdir()) == []


def _produce_slowly(root: str, together: Barrier, queue: "multiprocessing.Queue[bool]") -> None:
    def slow(drafts: Sequence[StagingDirectory]) -> None:
        write(drafts)
        time.sleep(0.3)

    together.wait(PATIENCE_S)
    queue.put(Store(Path(root)).produce([recipe()], slow)[0].made)


def _answers(
    number: int, answer: Callable[[str, Barrier, "multiprocessing.Queue[Any]"], None], root: Path
) -> list[Any]:
    """Return the answers of `number` processes that start at the same moment."""
    context = multiprocessing.get_context("spawn")
    queue, together = context.Queue(), context.Barrier(number)
    processes = [
        context.Process(target=answer, args=(str(root), together, queue), daemon=True)
        for _ in range(number)
    ]
    for process in processes:
        process.start()
    found = [queue.get(timeout=PATIENCE_S) for _ in processes]
    for process in processes:
        process.join()
    queue.close()
    queue.join_thread()
    return found


def test_two_writers_at_once_make_one_artefact(tmp_path: Path) -> None:
    assert sorted(_answers(2, _produce_slowly, tmp_path)) == [False, True]


@pytest.mark.parametrize("damage", ["truncate", "remove", "config", "files"])
def test_a_damaged_artefact_is_named(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    artefact = store.produce([recipe()], write)[0]
    part, manifest = artefact.path / "part-00000.parquet", artefact.path / "manifest.json"
    content = json.loads(manifest.read_text())
    if damage == "truncate":
        part.write_text("x" * 99)
    elif damage == "remove":
        part.unlink()
    elif damage == "config":
        content["config"]["size"] = 4
        manifest.write_text(json.dumps(content))
    else:
        content["files"][0]["sha256"] = "0" * 64
        manifest.write_text(json.dumps(content))
    with pytest.raises(CurriculumError, match=r"Move .*build"):
        Store(tmp_path).find(recipe())


def test_a_flipped_byte_is_found_by_verify(tmp_path: Path) -> None:
    store = Store(tmp_path)
    artefact = store.produce([recipe()], write)[0]
    store.verify(artefact)
    (artefact.path / "part-00000.parquet").write_text("x" * 99 + "y")
    with pytest.raises(StoreError, match="bytes"):
        store.verify(artefact)


def test_a_manifest_of_another_major_version_is_refused_by_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest = store.produce([recipe()], write)[0].path / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"{SCHEMA_VERSION}"', '"2.3"'))
    with pytest.raises(SchemaError, match=r"schema_version 2\.3"):
        store.find(recipe())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that a reader asks an artefact for."""

    context_bytes: int


@pytest.mark.parametrize("config", [{}, {"context_bytes": "many"}])
def test_a_setting_that_no_producer_wrote_is_named(tmp_path: Path, config: dict[str, str]) -> None:
    made = Store(tmp_path).produce([replace(recipe(), config=config)], write)[0]
    with pytest.raises(StoreError) as refused:
        made.configured(Settings)
    assert refused.value.value == "config.context_bytes"
    whole = replace(recipe(), config={"context_bytes": 7, "other": True})
    assert Store(tmp_path).produce([whole], write)[0].configured(Settings).context_bytes == 7


def test_same_key_with_other_content_is_an_error(tmp_path: Path) -> None:
    def race(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "part-00000.parquet").write_text("other")
        rival = Store(tmp_path)
        target = tmp_path / drafts[0].recipe.directory
        target.mkdir(parents=True)
        (target / "part-00000.parquet").write_text("x" * 100)
        rival.publish_run(target, drafts[0].recipe, {})

    with pytest.raises(StoreError, match="deterministic"):
        Store(tmp_path).produce([recipe()], race)


def test_what_a_killed_writer_left_of_a_run_is_no_part_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = tmp_path / recipe(stage="runs").directory / "attempt=1"
    (folder / "checkpoints" / ".step=3.draft").mkdir(parents=True)
    for left in (
        ".manifest.json.7.draft",
        "manifest.json.draft",
        "checkpoints/.step=3.draft/model",
    ):
        (folder / left).write_text("half")
    (folder / "report.json").write_text("{}")
    closed = store.publish_run(folder, recipe(stage="runs"), {})
    assert [record.name for record in closed.manifest.files] == ["report.json"]
    store.verify(store.load(folder))


def test_a_killed_close_of_a_run_leaves_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    folder = tmp_path / recipe(stage="runs").directory
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("{}")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", _killed)
        with pytest.raises(KeyboardInterrupt):
            store.publish_run(folder, recipe(stage="runs"), {})
    assert store.find(recipe(stage="runs")) is None
    store.publish_run(folder, recipe(stage="runs"), {})
    found = store.find(recipe(stage="runs"))
    assert found is not None
    store.verify(found)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_killed_mark_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    first, second = store.produce([recipe(1), recipe(2)], write)
    file = store.mark("runs-templates", [first])
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", _killed)
        with pytest.raises(KeyboardInterrupt):
            store.mark("runs-templates", [second])
    assert read_mark(file) == [str(first.path.relative_to(tmp_path))]
    assert [each.key for each in garbage(store)] == [second.key]


def _who_is_it(root: str, together: Barrier, queue: "multiprocessing.Queue[str]") -> None:
    store = Store(Path(root))
    together.wait(PATIENCE_S)
    store.open()
    queue.put(store.workspace().uuid)


def test_of_several_that_begin_a_workspace_at_once_all_see_the_same_one(tmp_path: Path) -> None:
    assert len(set(_answers(4, _who_is_it, tmp_path / "fresh"))) == 1


def test_explain_follows_the_inputs_that_differ(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = store.produce([recipe(1)], write)[0]
    store.produce([recipe(7, old.as_input("base"), stage="rows")], write)
    new = store.produce([recipe(2)], write)[0]
    told = explain(store, recipe(7, new.as_input("base"), stage="rows"))
    assert [difference.name for difference in told.differences] == ["input base"]
    assert [(each.name, each.before, each.now) for each in told.because[0].differences] == [
        ("size", 1, 2)
    ]


def _selection(corpus: str, size: int) -> Recipe:
    labels = (("corpus", corpus),)
    return replace(recipe(size, stage="selections"), labels=labels)


def test_rows_of_another_corpus_are_no_earlier_version(tmp_path: Path) -> None:
    store = Store(tmp_path)
    mine, theirs, changed = store.produce(
        [_selection("mine", 1), _selection("theirs", 2), _selection("mine", 3)], write
    )
    store.produce([recipe(7, mine.as_input("selection"), stage="rows")], write)
    last = recipe(8, theirs.as_input("selection"), stage="rows")
    first = explain(store, last)
    assert first.first, "the folder holds rows of another corpus alone"
    store.produce([last], write)
    told = explain(store, recipe(7, changed.as_input("selection"), stage="rows"))
    assert [each.name for each in told.differences] == ["input selection"], "not the size of theirs"
    assert [(each.before, each.now) for each in told.because[0].differences] == [(1, 3)]


def test_a_mixture_of_another_corpus_is_an_earlier_version_of_its_specialist(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    mine, theirs = store.produce([_selection("mine", 1), _selection("theirs", 2)], write)
    labels = (("specialist", "ours"), ("phase", "syntax"))
    before, now = (
        replace(recipe(7, each.as_input("rows"), stage="mixtures"), labels=labels)
        for each in (mine, theirs)
    )
    store.produce([before], write)
    assert [each.name for each in explain(store, now).differences] == ["input rows"]


def test_explain_names_an_input_that_was_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    base = store.produce([recipe(1)], write)[0]
    store.produce([recipe(7, base.as_input("base"), stage="rows")], write)
    shutil.rmtree(base.path)
    dry = Store(tmp_path, dry=True)
    planned = dry.produce([recipe(1)], refuse)[0]
    (found,) = explain(dry, recipe(7, planned.as_input("base"), stage="rows")).differences
    assert found.deleted == "documents/family-v2_simple"


def test_a_dry_store_says_what_it_would_make_and_makes_nothing(tmp_path: Path) -> None:
    Store(tmp_path).produce([recipe(1)], write)
    dry = Store(tmp_path, dry=True)
    there, planned = dry.produce([recipe(1), recipe(2)], refuse)
    assert not there.planned
    assert planned.planned
    assert [step.outcome for step in dry.steps] == ["there", "planned"]
    assert Store(tmp_path).find(recipe(2)) is None


def test_gc_keeps_what_is_marked_and_all_its_inputs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    base, stray = store.produce([recipe(1), recipe(2)], write)
    top = store.produce([recipe(3, base.as_input("base"), stage="rows")], write)[0]
    store.mark("build-sample", [top])
    unused = garbage(store)
    assert [artefact.key for artefact in unused] == [stray.key]
    assert collect_garbage(store, unused) == 100
    assert {artefact.key for artefact in store.artefacts()} == {base.key, top.key}


def test_an_artefact_is_found_in_another_folder_by_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = Recipe(stage="mixtures", labels=(("specialist", "a"), ("phase", "p")), revision=1)
    shelves = ("mixtures/specialist-*/phase-p", "mixtures/specialist-*/branch-*/phase-p")
    labels = (("specialist", "a"), ("branch", "wide"), ("phase", "p"))
    other = Recipe(stage="mixtures", labels=labels, revision=1, alternate_folders=shelves)
    assert store.path_of(other) == store.root / other.directory
    (first,) = store.produce([made], lambda drafts: None)
    (found,) = store.produce([other], lambda drafts: None)
    assert (found.path, found.made) == (first.path, False)
    assert store.find(Recipe(stage="mixtures", labels=labels, revision=1)) is None


def test_of_what_has_one_key_only_the_content_that_was_read_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    twins = [
        dataclasses.replace(recipe(1), labels=(("family", name),)) for name in ("read", "other")
    ]

    def name_them(drafts: Sequence[StagingDirectory]) -> None:
        for draft in drafts:
            (draft.path / "part-00000.parquet").write_text(dict(draft.recipe.labels)["family"])

    read, other = (store.produce([each], name_them)[0] for each in twins)
    assert read.key == other.key
    assert read.content != other.content
    made_of = dataclasses.replace(recipe(2), inputs=(read.as_input("documents"),))
    (reader,) = store.produce([made_of], write)
    store.mark("rows", [reader])
    assert [each.path for each in garbage(store)] == [other.path]
    store.mark("documents", [other])
    assert garbage(store) == []


def test_only_folders_of_stages_are_searched_for_artefacts(tmp_path: Path) -> None:
    made = Store(tmp_path).produce([recipe()], write)
    shutil.copytree(tmp_path / "documents", tmp_path / "repositories" / "a-b")
    fan = [tmp_path / "repositories" / "a-b" / f"folder{number}" for number in range(37)]
    for folder in fan:
        folder.mkdir()
    for folder, further in itertools.pairwise(fan):  # 2^36 paths
        (folder / "a-").symlink_to(further)
        (folder / "b-").symlink_to(further)
    (tmp_path / "rows").touch()
    with bounded(seconds=5, mebibytes=16):
        assert [each.path for each in Store(tmp_path).artefacts()] == [made[0].path]
        assert [each.path for each in walk(tmp_path).published] == [
            made[0].path.relative_to(tmp_path).as_posix()
        ]
    with endless(seconds=1):
        assert [*published_in(fan[0])]
