"""Foreign Parquet files are refused at the door where they are bombs, lie, crash or attack their reader."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum import foreign_decoding, sandboxed_process
from curriculum.foreign_decoding import decode_foreign
from curriculum.sandbox import landlock
from schemas.errors import StoreError
from tests.bounded import endless
from tests.curriculum.plain_reader import breaks_a_plain_reader

pytestmark = pytest.mark.skipif(
    not landlock(),
    reason="needs Landlock: Linux 5.13 or newer with it in /sys/kernel/security/lsm",
)

MAX_BYTES = 64 << 20
"""Decoded, in these tests; bombs decode to MAX_ROOM and more."""
MAX_ROOM = 384 << 20
"""Bytes of address space beyond those after the imports."""
LINES = MAX_ROOM // 8


def _runs_of_one_value(file: Path) -> None:
    table = pa.table({"step": np.zeros(LINES, np.int64)})
    pq.write_table(table, file, compression="zstd", row_group_size=LINES)


def _packed_page(file: Path) -> None:
    most = 1 << 30
    pq.write_table(
        pa.table({"step": np.zeros(LINES, np.int64)}),
        file,
        compression="zstd",
        use_dictionary=False,
        data_page_size=most,
        write_batch_size=most,
        max_rows_per_page=most,
        row_group_size=LINES,
    )


def _one_long_text(file: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 10_000])
    )
    pq.write_table(pa.table({"step": texts}), file, compression="zstd", store_schema=False)


def _one_long_text_as_a_dictionary(file: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 10_000])
    )
    pq.write_table(pa.table({"step": texts}), file, compression="zstd")


def _one_long_text_among_others(file: Path) -> None:
    texts = pa.array([*map(str, range(1_000)), "x" * 10_000])
    chosen = pa.DictionaryArray.from_arrays(
        pa.array([*range(1_001), *[1_000] * 50_000], pa.int32()), texts
    )
    pq.write_table(pa.table({"step": chosen}), file, compression="zstd", store_schema=False)


def _one_long_text_in_one_list(file: Path) -> None:
    texts = pa.array(["x" * 10_000] * 50_000)
    table = pa.table({"step": pa.ListArray.from_arrays(pa.array([0, 50_000], pa.int32()), texts)})
    pq.write_table(table, file, compression="zstd", store_schema=False)


def _repeated_texts(file: Path) -> None:
    table = pa.table({"step": pa.array(["x" * 10_000] * 50_000)})
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"step": "DELTA_BYTE_ARRAY"},
    )


def _repeated_texts_in_one_list(file: Path) -> None:
    texts = pa.array(["x" * 10_000] * 50_000)
    table = pa.table({"step": pa.ListArray.from_arrays(pa.array([0, 50_000], pa.int32()), texts)})
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"step.list.element": "DELTA_BYTE_ARRAY"},
    )


def _one_long_list(file: Path) -> None:
    values = pa.array(np.zeros(2 * LINES, np.int32))
    table = pa.table({"step": pa.LargeListArray.from_arrays(pa.array([0, 2 * LINES]), values)})
    pq.write_table(table, file, compression="zstd", store_schema=False)


Field = tuple[int, bytes]


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _number(value: int, kind: int = 5) -> Field:
    return kind, _varint(value << 1)


def _text(value: bytes) -> Field:
    return 8, _varint(len(value)) + value


def _struct(fields: list[tuple[int, Field]]) -> Field:
    raw = b"".join(bytes([kind]) + _varint(name << 1) + content for name, (kind, content) in fields)
    return 12, raw + b"\0"


def _list(items: list[Field]) -> Field:
    return 9, b"\xfc" + _varint(len(items)) + b"".join(content for _, content in items)


def _forged(schema: list[Field], rows: int, all_rows: int) -> bytes:
    """A file that has no page, whose footer claims columns and rows."""
    types, path = (9, b"\x15\0"), (9, b"\x18" + _text(b"step")[1])
    column = [(1, _number(2)), (2, types), (3, path)]
    column += [(4, _number(0)), (5, _number(rows, 6)), (6, _number(0, 6)), (7, _number(0, 6))]
    chunk = _struct([(2, _number(4, 6)), (3, _struct([*column, (9, _number(4, 6))]))])
    group = _struct([(1, _list([chunk])), (2, _number(0, 6)), (3, _number(rows, 6))])
    whole = [(1, _number(1)), (2, _list(schema)), (3, _number(all_rows, 6))]
    footer = _struct([*whole, (4, _list([group]))])[1]
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _claiming(rows: int, all_rows: int) -> bytes:
    root = _struct([(4, _text(b"schema")), (5, _number(1))])
    leaf = _struct([(1, _number(2)), (3, _number(0)), (4, _text(b"step"))])
    return _forged([root, leaf], rows, all_rows)


def _nested(levels: int) -> bytes:
    """Groups in groups: a reader that goes through them by recursion runs out of stack."""
    group = _struct([(3, _number(0)), (4, _text(b"step")), (5, _number(1))])
    leaf = _struct([(1, _number(2)), (3, _number(0)), (4, _text(b"step"))])
    return _forged([group] * levels + [leaf], 1, 1)


def _overlapping_groups(file: Path) -> None:
    """The first group counts 1 row, but its column chunk has all 40; the second group has 39 other rows."""
    sound, other = pa.table({"step": range(40)}), pa.table({"step": [-1] * 39})
    with pq.ParquetWriter(file, sound.schema) as writer:
        for table in (sound, other):
            writer.write_table(table)
    size = pq.read_metadata(file).row_group(0).total_byte_size
    raw = file.read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    footer = raw[-8 - length : -8]
    in_group = b"\x16" + _varint(2 * size) + b"\x16"
    changes = (
        (b"\x16" + _varint(2 * 79), b"\x16" + _varint(2 * 40)),
        (in_group + _varint(2 * 40), in_group + _varint(2 * 1)),
    )
    for before, after in changes:
        assert footer.count(before) == 1
        footer = footer.replace(before, after)
    file.write_bytes(raw[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


BOMBS: dict[str, Callable[[Path], object]] = {
    "runs_of_one_value": _runs_of_one_value,
    "packed_page": _packed_page,
    "one_long_text": _one_long_text,
    "one_long_text_as_a_dictionary": _one_long_text_as_a_dictionary,
    "one_long_text_among_others": _one_long_text_among_others,
    "one_long_text_in_one_list": _one_long_text_in_one_list,
    "repeated_texts": _repeated_texts,
    "repeated_texts_in_one_list": _repeated_texts_in_one_list,
    "one_long_list": _one_long_list,
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bombs")
    files = {name: folder / f"{name}.parquet" for name in BOMBS}
    for name, file in files.items():
        BOMBS[name](file)
    return files


def _refusal(file: Path, *others: Path, unsandboxed: bool = False) -> StoreError:
    with pytest.raises(StoreError) as refused:
        decode_foreign([*others, file], unsandboxed=unsandboxed)
    assert refused.value.name == str(file)
    return refused.value


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_decodes_to_more_than_it_may_is_refused(
    bombs: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_decoding, "MAX_BYTES", MAX_BYTES)
    monkeypatch.setattr(foreign_decoding, "RATIO", 1)
    assert bombs[name].stat().st_size < 1 << 20
    fault = str(_refusal(bombs[name]).value)
    assert "64 MiB" in fault or "more memory" in fault
    assert breaks_a_plain_reader(bombs[name], room=MAX_ROOM)


def test_a_bomb_ends_at_the_limit_of_memory(
    bombs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_decoding, "usual_memory", lambda _: 512 << 20)
    monkeypatch.setattr(foreign_decoding, "MAX_BYTES", 1 << 40)
    assert "memory" in str(_refusal(bombs["one_long_text_in_one_list"]).value)
    decode_foreign([bombs["runs_of_one_value"]])


def test_a_footer_alone_tells_that_a_file_decodes_to_more_than_it_may(
    bombs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of this test would run out of memory if it decoded the list."""
    monkeypatch.setattr(foreign_decoding, "usual_memory", lambda _: 512 << 20)
    monkeypatch.setattr(foreign_decoding, "MAX_BYTES", MAX_ROOM - 1)
    assert "383 MiB" in str(_refusal(bombs["one_long_list"]).value)


def test_files_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"part-{number}.parquet" for number in range(4)]
    for file in files:
        pq.write_table(pa.table({"step": np.zeros(1 << 20, np.int64)}), file)
    monkeypatch.setattr(foreign_decoding, "MAX_BYTES", 40 << 20)
    decode_foreign(files[:2])
    with pytest.raises(StoreError) as refused:
        decode_foreign(files)
    assert refused.value.name == str(files[2])


def test_rows_that_only_a_footer_claims_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    for rows, all_rows in ((1 << 40, 1 << 40), (5, 7), (5, 5)):
        file.write_bytes(_claiming(rows, all_rows))
        assert pq.read_metadata(file).num_rows == all_rows
        _refusal(file)


def test_columns_that_are_nested_too_deep_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    file.write_bytes(_nested(3))
    assert pq.read_metadata(file).num_rows == 1
    file.write_bytes(_nested(1 << 18))
    assert "nested" in str(_refusal(file).value)


def test_a_sound_file_passes_whatever_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": [3, 1, None],
            "t": ["a", "é", None],
            "l": [[1], [], None],
            "s": [{"a": [{"b": "x" * 5_000}]}, None, {"a": []}],
            "d": pa.array(["a", "b", "a"]).dictionary_encode(),
            "m": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "f": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int8(), 2)),
            "ls": pa.array([["a"], ["b", "c"], []]),
        }
    )
    files = []
    for compression in ("zstd", "snappy", "none", "gzip"):
        for version in ("1.0", "2.0"):
            files.append(tmp_path / f"{compression}-{version}.parquet")
            pq.write_table(
                table, files[-1], compression=compression, data_page_version=version,
                write_page_checksum=True,
            )  # fmt: skip
    decode_foreign(files)
    decode_foreign([])
    empty = tmp_path / "empty.parquet"
    pq.write_table(table.slice(0, 0), empty)
    decode_foreign([empty])


@pytest.mark.parametrize("damage", ["footer", "page", "text"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    sound, file = tmp_path / "sound.parquet", tmp_path / "plan.parquet"
    pq.write_table(pa.table({"step": [*range(1000)]}), sound)
    decode_foreign([sound])
    content = bytearray(sound.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    begin = {"footer": footer, "page": 4 + (footer - 4) // 2, "text": 0}[damage]
    for at in range(begin, begin + 20):
        content[at] ^= 0xFF
    file.write_bytes(b"no Parquet at all" if damage == "text" else content)
    assert str(tmp_path) not in str(_refusal(file, sound).value)


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """A file that has taken over its reader, by what it tries."""
    monkeypatch.setattr(foreign_decoding, "__name__", "tests.curriculum.hostile_decoder")
    monkeypatch.setattr(foreign_decoding, "usual_seconds", lambda _: 2)
    monkeypatch.setenv("SECRET", "in the environment")
    (tmp_path / "secret").write_text("a secret")

    def of(attempt: str) -> Path:
        file = tmp_path / f"{attempt}.parquet"
        file.write_bytes(b"")
        return file

    return of


@pytest.mark.parametrize(
    ("attempt", "done"), [("steal", "a secret"), ("write", "written"), ("connect", "opened")]
)
def test_a_reader_that_a_file_took_over_can_do_nothing(
    taken_over: Callable[[str], Path], attempt: str, done: str
) -> None:
    """Without the sandbox it does each of these things."""
    file = taken_over(attempt)
    assert _refusal(file).value == "stopped: Permission denied"
    assert not (file.parent / "written").exists()
    if attempt != "write":  # the limit of written bytes holds there, too
        assert _refusal(file, unsandboxed=True).value == done


@pytest.mark.parametrize(
    ("attempt", "end"),
    [
        ("crash", "SIGSEGV"),
        ("spin", "more than 2 s of processor time"),
        ("say_nonsense", "its reader ended"),
    ],
)
@pytest.mark.parametrize("unsandboxed", [False, True])
def test_a_reader_that_crashes_or_never_ends_ends_its_command_in_words(
    taken_over: Callable[[str], Path], attempt: str, end: str, unsandboxed: bool
) -> None:
    assert end in str(_refusal(taken_over(attempt), unsandboxed=unsandboxed).value)


@pytest.mark.parametrize("attempt", ["sleep", "drip"])
def test_a_reader_that_says_nothing_is_left_at_a_deadline(
    taken_over: Callable[[str], Path], attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = taken_over(attempt)
    with endless(seconds=4):
        decode_foreign([file])
    monkeypatch.setattr(sandboxed_process, "MAX_IDLE_SECONDS", 1)
    assert "within 3 s" in str(_refusal(file).value)


def test_a_reader_gets_nothing_of_the_environment(taken_over: Callable[[str], Path]) -> None:
    seen = str(_refusal(taken_over("look_around")).value)
    assert "SECRET" not in seen
    assert "ARROW_DEFAULT_MEMORY_POOL" in seen, "it has seen what there is"


def test_without_landlock_a_file_is_read_only_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sound.parquet"
    pq.write_table(pa.table({"step": [1]}), file)
    monkeypatch.setattr(sandboxed_process, "landlock", lambda: 0)
    with pytest.raises(StoreError) as refused:
        decode_foreign([file])
    assert refused.value.name == "Landlock"
    assert "--unsandboxed" in refused.value.cure
    decode_foreign([file], unsandboxed=True)


def test_a_file_that_gives_other_rows_by_group_than_as_a_whole_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    _overlapping_groups(file)
    with pq.ParquetFile(file) as opened:
        assert opened.read()["step"].to_pylist() == [*range(40)]
        groups = [opened.read_row_group(number)["step"].to_pylist() for number in (0, 1)]
    assert groups == [[0], [-1] * 39], "the file is read in two ways"
    _refusal(file)


def test_rows_with_nan_and_groups_of_many_sizes_are_equal(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    table = pa.table({"nats": [float("nan"), 1.0, None] * 50, "ids": [[1], [], [2, 3]] * 50})
    with pq.ParquetWriter(file, table.schema) as writer:
        for start, count in ((0, 1), (1, 100), (101, 0), (101, 49)):
            writer.write_table(table.slice(start, count))
    decode_foreign([file])
