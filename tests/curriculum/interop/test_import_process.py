"""Foreign rows are read in a sandbox: what comes of sound ones is the same, and hostile ones are refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from curriculum import sandboxed_process
from curriculum.interop import import_process, received_files
from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.interop.import_process import ForeignRows, publish_foreign
from curriculum.sandbox import landlock
from curriculum.store import Store
from curriculum.store.inside import MAX_DEPTH
from flows.cli import app
from schemas.errors import CurriculumError, SchemaError, StoreError
from tests.bounded import MEMORY_ENDED, endless, exit_apart
from tests.curriculum.interop.conftest import NOTHING
from tests.curriculum.interop.in_process import publish
from tests.curriculum.plain_reader import breaks_a_plain_reader
from tests.curriculum.tokens.templates import QWEN25

pytestmark = pytest.mark.skipif(
    not landlock(),
    reason="needs Landlock: Linux 5.13 or newer with it in /sys/kernel/security/lsm",
)


MEMORY = 700 << 20
"""Bytes that a process may take in these tests; its libraries take half of them."""


def _rows(world: Any, folder: Path) -> Path:
    folder.mkdir()
    for number, file in enumerate(world.flat.shards()):
        shutil.copy(file, folder / f"part-{number}.parquet")
    return folder


def _copy(world: Any, folder: Path) -> Store:
    shutil.copytree(world.store.root, folder)
    return Store(folder)


@pytest.mark.parametrize("form", ["parquet", "megatron", "flat"])
def test_rows_that_a_sandbox_read_are_those_that_are_read_without(
    world: Any, tmp_path: Path, said: Any, form: Any
) -> None:
    if form == "parquet":
        theirs = _rows(world, tmp_path / "theirs")
        without = publish(world.store, parquet_rows(theirs, said(), world.codec), world.tokenizer)
    else:
        theirs = world.export(world.flat, tmp_path / "theirs", form)
        without = world.take(theirs, form)
    other = _copy(world, tmp_path / "other")
    shutil.rmtree(other.root / without.path.relative_to(world.store.root))
    (tokenizer,) = other.artefacts("tokenizers")
    asked = ForeignRows(path=theirs, format=form, facts=said())
    made = publish_foreign(other, asked, tokenizer)
    assert (made.key, made.content) == (without.key, without.content)
    assert made.manifest.report == without.manifest.report
    assert made.made
    assert not publish_foreign(other, asked, tokenizer).made
    assert list((other.root / ".drafts").iterdir()) == []


def test_links_of_a_cache_of_hugging_face_are_followed(
    world: Any, tmp_path: Path, said: Any
) -> None:
    cache = tmp_path / "datasets--theirs--rows"
    snapshot = cache / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    for file in _rows(world, cache / "blobs").iterdir():
        (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    asked = ForeignRows(path=snapshot, format="parquet", facts=said())
    assert publish_foreign(world.store, asked, world.tokenizer).made
    (tmp_path / "given").symlink_to(snapshot)
    asked = ForeignRows(path=tmp_path / "given", format="parquet", facts=said())
    assert not publish_foreign(world.store, asked, world.tokenizer).made


@pytest.mark.parametrize("form", ["parquet", "flat"])
def test_folders_that_are_nested_too_deep_are_refused_by_name(
    world: Any, tmp_path: Path, said: Any, form: Any
) -> None:
    theirs = _rows(world, tmp_path / "theirs") if form == "parquet" else tmp_path / "theirs"
    if form == "flat":
        world.export(world.flat, theirs, form)
    asked = ForeignRows(path=theirs, format=form, facts=said())
    deepest = theirs.joinpath(*["a"] * MAX_DEPTH)
    deepest.mkdir(parents=True)
    assert publish_foreign(world.store, asked, world.tokenizer).path
    (deepest / "a").mkdir()
    with pytest.raises(SchemaError) as refused:
        publish_foreign(world.store, asked, world.tokenizer)
    assert refused.value.name == str(deepest)


@pytest.mark.parametrize("form", ["parquet", "flat"])
def test_a_link_that_leads_out_of_the_folder_is_refused_by_name(
    world: Any, tmp_path: Path, said: Any, form: Any
) -> None:
    private, theirs = tmp_path / "private", tmp_path / "theirs" / "snapshots" / "0123abcd"
    theirs.parent.mkdir(parents=True)
    if form == "parquet":
        _rows(world, theirs)
    else:
        world.export(world.flat, theirs, form)
    shutil.copytree(theirs, private)
    (tmp_path / "theirs" / "blobs").symlink_to(private)
    name = "part-0.parquet" if form == "parquet" else "tokens.bin"
    (theirs / name).unlink()
    asked = ForeignRows(path=theirs, format=form, facts=said())
    for lead in (private / name, Path("../../blobs") / name):
        (theirs / name).symlink_to(lead)
        with pytest.raises(SchemaError) as refused:
            publish_foreign(world.store, asked, world.tokenizer)
        assert refused.value.name == str(theirs / name)
        assert refused.value.value == f"a link to {private / name}"
        (theirs / name).unlink()
    shutil.copy(private / name, theirs / "elsewhere")
    (theirs / name).symlink_to("elsewhere")
    assert publish_foreign(world.store, asked, world.tokenizer).path


def test_a_tokenizer_that_lies_beside_rows_is_no_link_out_of_their_folder(
    world: Any, tmp_path: Path
) -> None:
    theirs = _rows(world, tmp_path / "theirs")
    (theirs / "tokenizer.json").symlink_to(world.tokenizer.path / "tokenizer.json")
    home = ("--home", str(tmp_path / "new"))
    for words in ((), ("--tokenizer", str(theirs))):
        done = CliRunner().invoke(app, ["import", str(theirs), *home, *words])
        assert done.exit_code == 2
        assert "a link to" in done.output.replace("\n", " ")
    given = ("--tokenizer", str(theirs / "tokenizer.json"))
    done = CliRunner().invoke(app, ["import", str(theirs), *home, *given])
    assert done.exit_code == 0, done.output


def test_the_template_of_a_snapshot_that_is_given_comes_with_its_tokenizer(
    world: Any, tmp_path: Path
) -> None:
    cache = tmp_path / "models--theirs"
    snapshot, blobs = cache / "snapshots" / "0123abcd", cache / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    shutil.copy(world.tokenizer.path / "tokenizer.json", blobs / "a1")
    (blobs / "b2").write_text(QWEN25)
    for name, blob in (("tokenizer.json", "a1"), ("chat_template.jinja", "b2")):
        (snapshot / name).symlink_to(Path("../../blobs") / blob)
    rows, home = _rows(world, tmp_path / "theirs"), tmp_path / "new"
    done = CliRunner().invoke(
        app, ["import", str(rows), "--tokenizer", str(snapshot), "--home", str(home)]
    )
    assert done.exit_code == 0, done.output
    (config,) = home.glob("tokenizers/**/tokenizer_config.json")
    assert json.loads(config.read_text())["chat_template"] == QWEN25


def test_a_link_to_a_file_is_followed_where_the_user_gave_it(
    world: Any, tmp_path: Path, said: Any
) -> None:
    file = next(_rows(world, tmp_path / "theirs").iterdir())
    (tmp_path / "given.parquet").symlink_to(file)
    asked = ForeignRows(path=tmp_path / "given.parquet", format="parquet", facts=said())
    assert publish_foreign(world.store, asked, world.tokenizer).path


def test_a_link_beside_a_file_that_is_imported_may_lead_anywhere(
    world: Any, tmp_path: Path, said: Any
) -> None:
    """Files beside it are read where their names begin as its own does."""
    theirs = world.export(world.flat, tmp_path / "theirs", "megatron")
    for name in ("tokens.bin", "tokens.idx"):
        (theirs / name).rename(theirs / name.replace("tokens", "mine"))
    (theirs / "other.bin").symlink_to(tmp_path / "elsewhere.bin")
    given = said(family="mine")
    asked = ForeignRows(path=theirs / "mine", format="megatron", facts=given, row_length=512)
    assert publish_foreign(world.store, asked, world.tokenizer).path
    (theirs / "mine.idx").rename(tmp_path / "mine.idx")
    (theirs / "mine.idx").symlink_to(tmp_path / "mine.idx")
    with pytest.raises(SchemaError) as refused:
        publish_foreign(world.store, asked, world.tokenizer)
    assert refused.value.name == str(theirs / "mine.idx")


def _swapped(place: Path, target: Path) -> None:
    """Put a link in place of what its owner showed before."""
    place.rename(place.with_name("before"))
    place.symlink_to(target)


@pytest.mark.parametrize("unsandboxed", [False, True], ids=["sandboxed", "unsandboxed"])
@pytest.mark.parametrize("swap", ["a file", "a folder of blobs", "tokens", "offsets"])
def test_a_link_that_is_swapped_in_after_the_check_lets_no_other_file_in(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str, unsandboxed: bool
) -> None:
    """Without a sandbox the private rows come in: the link is there in time."""
    cache = tmp_path / "datasets--theirs--rows"
    blobs, theirs = cache / "blobs", cache / "snapshots" / "0123abcd"
    theirs.mkdir(parents=True)
    words = ["--unsandboxed"] if unsandboxed else []
    if swap in ("tokens", "offsets"):
        exported = world.export(world.flat, blobs, "flat")
        words += ["--format", "flat", "--row-length", "512", "--family", "mine"]
        names = {"tokens.bin": "mine.bin", "offsets.bin": "mine.offsets.bin"}
        files = {exported / name: alias for name, alias in names.items()}
        given, place = theirs / "mine.bin", blobs / f"{swap}.bin"
    else:
        files = {file: file.name for file in _rows(world, blobs).iterdir()}
        given, place = theirs, blobs if swap == "a folder of blobs" else blobs / "part-0.parquet"
    for file, name in files.items():
        (theirs / name).symlink_to(Path("../../blobs") / file.name)
    private = tmp_path / "private"
    shutil.copytree(blobs, private)
    check = received_files.received_files

    def raced(path: Path, *, parquet: bool) -> list[Path]:
        found = check(path, parquet=parquet)
        _swapped(place, private / place.name if place != blobs else private)
        return found

    monkeypatch.setattr(received_files, "received_files", raced)
    tokenizer = str(world.tokenizer.path / "tokenizer.json")
    home = tmp_path / "new"
    done = CliRunner().invoke(
        app, ["import", str(given), "--tokenizer", tokenizer, "--home", str(home), *words]
    )
    came_in = [*home.glob("rows/**/*.parquet")]
    assert (done.exit_code, bool(came_in)) == ((0, True) if unsandboxed else (2, False)), (
        done.output
    )
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("put", "lies"),
    [
        (os.mkfifo, "a pipe"),
        (lambda file: file.symlink_to("/dev/zero"), "a device"),
        (lambda file: file.symlink_to(file), "a broken link"),
    ],
    ids=["pipe", "device", "loop"],
)
def test_an_import_says_what_lies_in_place_of_a_file(
    world: Any, tmp_path: Path, said: Any, put: Callable[[Path], None], lies: str
) -> None:
    theirs = _rows(world, tmp_path / "theirs")
    file = theirs / "odd.parquet"
    put(file)
    if file.is_fifo():
        with endless(seconds=0.3):
            file.read_bytes()
    if file.is_char_device():
        assert exit_apart(file.read_bytes, mebibytes=256) == MEMORY_ENDED
    assert lies in _is_refused(_command(world, file), file)
    for path in (file, theirs):
        with pytest.raises(SchemaError) as refused:
            publish_foreign(
                world.store,
                ForeignRows(path=path, format="parquet", facts=said()),
                world.tokenizer,
            )
        assert refused.value.name == str(file)
        assert lies in refused.value.cause


def test_files_without_rows_are_said_to_have_none(world: Any, tmp_path: Path, said: Any) -> None:
    theirs = _rows(world, tmp_path / "theirs")
    table = pq.read_table(theirs / "part-0.parquet")
    file = theirs / "empty.parquet"
    pq.write_table(table.slice(0, 0), file)
    with pytest.raises(SchemaError) as refused:
        publish_foreign(
            world.store, ForeignRows(path=file, format="parquet", facts=said()), world.tokenizer
        )
    assert (refused.value.name, refused.value.value) == (str(file), "0 rows")
    asked = ForeignRows(path=theirs, format="parquet", facts=said())
    assert publish_foreign(world.store, asked, world.tokenizer).path, "others have rows"


def _bomb(world: Any, file: Path) -> None:
    """One long text in a dictionary, named by each of many documents: 1 MB becomes 6 GB."""
    table = pq.read_table(world.flat.shards()[0], partitioning=None).slice(0, 6)
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 6000, pa.int32()), pa.array(["x" * 10**6])
    )
    lists = pa.ListArray.from_arrays(pa.array([1000 * row for row in range(7)], pa.int32()), texts)
    at = table.schema.get_field_index("document_ids")
    file.parent.mkdir()
    bomb = table.set_column(at, "document_ids", lists)
    pq.write_table(bomb, file, store_schema=False, compression="zstd")


def _command(world: Any, path: Path, *words: str) -> Result:
    tokenizer = str(world.tokenizer.path / "tokenizer.json")
    home = str(path.parents[1] / "new")
    return CliRunner().invoke(
        app, ["import", str(path), "--tokenizer", tokenizer, "--home", home, *words]
    )


def _is_refused(done: Result, path: Path) -> str:
    output = done.output.replace("\n", "")
    assert done.exit_code == 2, output
    assert "Traceback" not in output
    assert path.name in output
    assert not list((path.parents[1] / "new").glob("rows/**/*.parquet"))
    return output


def test_a_bomb_that_its_footer_hides_ends_at_the_limit_of_memory(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "theirs" / "part-0.parquet"
    _bomb(world, file)
    assert file.stat().st_size < 2_000_000
    monkeypatch.setattr(import_process, "usual_memory", lambda _: MEMORY)
    assert "of memory" in _is_refused(_command(world, file), file)
    assert breaks_a_plain_reader(file, room=MEMORY)


def test_a_row_of_millions_of_tokens_is_refused(world: Any, tmp_path: Path) -> None:
    """Some hundred bytes each 2²⁰ values."""
    file = tmp_path / "theirs" / "part-0.parquet"
    file.parent.mkdir()
    ids = pa.array([1] * (128 + (1 << 24)), pa.int32())
    edges = pa.array([0, 128, len(ids)], pa.int32())
    columns = {
        "input_ids": pa.ListArray.from_arrays(edges, ids),
        "loss_mask": pa.array([[1] * 128] * 2),
    }
    pq.write_table(pa.table(columns), file, compression="zstd")
    assert file.stat().st_size < 100_000
    _is_refused(_command(world, file, "--family", "mine"), file)
    assert pq.read_table(file).nbytes > 64 << 20, "whoever reads it whole has it in memory"


def test_a_row_that_is_too_long_is_refused_before_a_page_is_decoded(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "theirs" / "part-0.parquet"
    file.parent.mkdir()
    number = 1 << 26
    row = pa.ListArray.from_arrays(
        pa.array([0, number], pa.int32()), pa.array(np.zeros(number, np.int32))
    )
    pq.write_table(pa.table({"input_ids": row, "loss_mask": row}), file, compression="zstd")
    assert file.stat().st_size < 2_000
    monkeypatch.setattr(import_process, "usual_memory", lambda _: MEMORY)
    with pytest.raises(SchemaError) as refused:
        publish_foreign(
            world.store, ForeignRows(path=file, format="parquet", facts=NOTHING), world.tokenizer
        )
    assert refused.value.name == file.name
    assert refused.value.value == f"a row has at least {number:,} values in input_ids"


def test_many_unknown_columns_are_one_line_that_names_the_first(world: Any, tmp_path: Path) -> None:
    table = pq.read_table(world.flat.shards()[0], partitioning=None)
    extra = pa.nulls(len(table), pa.int8())
    for number in range(2_000):
        table = table.append_column(f"mine_{number}" + "x" * 1_000 * (number == 1), extra)
    file = tmp_path / "theirs" / "part-0.parquet"
    file.parent.mkdir()
    pq.write_table(table, file)
    done = _command(world, file)
    assert done.exit_code == 0, done.output
    assert len(done.output) < 2_000
    (line,) = (line for line in done.output.splitlines() if "not imported" in line)
    assert line.startswith("2,000 columns not imported: mine_0, mine_1x")
    assert line.endswith("mine_4 and 1,995 more")


def test_a_type_of_many_fields_is_refused_in_few_words(world: Any, tmp_path: Path) -> None:
    table = pq.read_table(world.flat.shards()[0], partitioning=None)
    at = table.schema.get_field_index("domain")
    fields = pa.StructArray.from_arrays(
        [pa.nulls(len(table), pa.int8())] * 3_000, [f"field_{number}" for number in range(3_000)]
    )
    file = tmp_path / "theirs" / "part-0.parquet"
    file.parent.mkdir()
    pq.write_table(table.set_column(at, "domain", fields), file)
    assert len(_is_refused(_command(world, file), file)) < 15_000


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """A file that has taken over the process of its import, by what it tries."""
    monkeypatch.setattr(import_process, "__name__", "tests.curriculum.hostile_decoder")
    monkeypatch.setattr(import_process, "usual_seconds", lambda _: 2)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "secret").write_text("a secret")

    def of(attempt: str) -> Path:
        file = tmp_path / "theirs" / f"{attempt}.parquet"
        file.write_bytes(b"")
        return file

    return of


@pytest.mark.parametrize(
    ("attempt", "done"), [("steal", "a secret"), ("write", "written"), ("connect", "opened")]
)
def test_a_process_that_a_file_took_over_can_do_nothing(
    world: Any, taken_over: Callable[[str], Path], attempt: str, done: str
) -> None:
    """Without the sandbox it does each of these things."""
    file = taken_over(attempt)
    assert "stopped: Permission denied" in _is_refused(_command(world, file), file)
    assert not (file.parent / "written").exists()
    assert done in _is_refused(_command(world, file, "--unsandboxed"), file)


@pytest.mark.parametrize("attempt", ["crash", "spin", "sleep", "say_nonsense", "forge_an_error"])
def test_a_process_that_crashes_or_never_ends_ends_its_command_in_words(
    world: Any,
    taken_over: Callable[[str], Path],
    attempt: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandboxed_process, "MAX_IDLE_SECONDS", 3)
    file = taken_over(attempt)
    if attempt == "forge_an_error":
        rows = ForeignRows(path=file, format="parquet", facts=NOTHING)
        with pytest.raises(CurriculumError) as error:
            publish_foreign(world.store, rows, world.tokenizer)
        assert type(error.value) is SchemaError
    else:
        _is_refused(_command(world, file), file)


def test_labels_that_would_lead_out_of_the_workspace_are_refused(
    world: Any, taken_over: Callable[[str], Path], tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SchemaError, match="--family"):
        publish_foreign(
            world.store,
            ForeignRows(path=taken_over("forge_a_label"), format="parquet", facts=NOTHING),
            world.tokenizer,
        )
    assert {path.suffix for path in {*tmp_path.rglob("*")} - {*before}} <= {".lock", ".parquet", ""}


def test_without_landlock_rows_are_read_only_where_that_is_asked(
    world: Any, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = _rows(world, tmp_path / "theirs")
    monkeypatch.setattr(sandboxed_process, "landlock", lambda: 0)
    asked = ForeignRows(path=theirs, format="parquet", facts=said())
    with pytest.raises(StoreError) as refused:
        publish_foreign(world.store, asked, world.tokenizer)
    assert refused.value.name == "Landlock"
    assert "--unsandboxed" in refused.value.cure
    assert publish_foreign(world.store, asked, world.tokenizer, unsandboxed=True).made
