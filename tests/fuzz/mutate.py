"""Seeded changes of valid files: of their bytes, of JSON and YAML trees, and of Parquet tables."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Dice = random.Random
_RAW = "@raw{}@"
RAW: tuple[str, ...] = (
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 50_000 + "1" + "}" * 50_000,
    "[" * 300 + "]" * 300,
    "[" * 100_000,
    "9" * 5_000,
    "-" + "9" * 5_000,
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e-999",
    "1E400000000000",
    "0." + "0" * 5_000 + "1",
    '"\\ud800"',
    '"\\udfff\\ud800"',
    '{"a": 1, "a": 2}',
    "1 2",
    "'x'",
    "0x10",
    "010",
    "+1",
    "tru",
    '"\\u0000"',
    '"\x01"',
    "",
)
"""Texts that stand where one JSON value stood."""
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 127, 128, 255, 256, 32_767, 65_535, 65_536, 2**31 - 1, 2**31, -(2**31)),
    *(2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, -(10**30)),
    *(0.5, -0.5, 1e308, -1e308, 5e-324, 1e-300, True, False, None),
)
TEXTS = (
    "", " ", "\n", "\0", "a\0b", "..", "../x", "/etc/passwd", "/", ".", "a/b", "~", "x" * 300, "x" * 100_000,
    "\x1b[31mred\x1b[0m", "\u202egnp.exe", "\ufeffx", "e\u0301", "👩‍👩‍👧", "\ud800", "<script>", "%s%n",
    "{}", "{x.y}", "[bold]", "[/]", "[/nothing]", "-", "--help", "*", "**", "?[", "nan", "inf", "null", "1",
    "9" * 400, "(a+)+$", "(" * 5_000, "'; DROP TABLE x; --", "0001-01-01T00:00:00", "9999-12-31T23:59:59Z",
)  # fmt: skip
MAGIC = (
    b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0" * 8,
    b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"PAR1", b"PAR1PAR1", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc0\x80",
    b"\xed\xa0\x80", b'"', b"{", b"[", b"}", b"\n", b"\r", b"\x1b", b"\x15\xfe\xff\xff\xff\xff\xff\xff\x7f",
)  # fmt: skip


def broken_bytes(data: bytes, dice: Dice) -> bytes:
    """Flip, cut, repeat, move or overwrite some bytes, once or a few times."""
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16))):
        at = dice.randrange(len(found) + 1)
        size = min(dice.choice((1, 1, 2, 4, 8, 64, 4096)), len(found) - at)
        kind = dice.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del found[at : at + size]
        elif kind == 2:
            found[at:at] = found[at : at + size] * dice.choice((1, 2, 100))
        elif kind == 3:
            magic = dice.choice(MAGIC)
            found[at : at + len(magic)] = magic
        elif kind == 4:
            found[at:at] = dice.choice(MAGIC)
        elif kind == 5:
            found[at : at + size] = dice.randbytes(size)
        elif dice.random() < 0.3:
            del found[at:]
    return bytes(found)


def broken_json(tree: Any, dice: Dice, seal: Callable[[Any], Any] = lambda tree: tree) -> str:
    """The text of a tree with some of its values changed; `seal` sees the tree before it is written.

    Where a value is to be a text that no tree gives, the seal is of the tree with a word in its place.
    """
    found = json.loads(json.dumps(tree))
    raws: list[str] = []
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        found = _changed(found, dice, raws)
    text = json.dumps(seal(found), ensure_ascii=dice.random() < 0.5)
    for number, raw in enumerate(raws):
        text = text.replace(json.dumps(_RAW.format(number)), raw)
    return text


def broken_tree(tree: Any, dice: Dice) -> Any:
    """A copy of a tree with some of its values changed to what a tree can hold."""
    found = json.loads(json.dumps(tree))
    for _ in range(dice.choice((1, 1, 2, 3))):
        found = _changed(found, dice, None)
    return found


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    found, left = [], [tree]
    while left:
        each = left.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each))
        for key in keys:
            found.append((each, key))
            if isinstance(each[key], dict | list):
                left.append(each[key])
    return found


def _changed(tree: Any, dice: Dice, raws: list[str] | None) -> Any:
    places = _places(tree) if isinstance(tree, dict | list) else []
    if not places or dice.random() < 0.02:
        return _value(dice, raws, tree)
    # Long lists, such as a vocabulary, would hide what else there is.
    shallow = [place for place in places if len(place[0]) < 50] or places
    held, key = dice.choice(shallow if dice.random() < 0.8 else places)
    kind = dice.randrange(8)
    if kind == 0:
        del held[key]
    elif kind == 1 and isinstance(held, dict):
        held[dice.choice([*TEXTS, *map(str, held)])] = held.pop(key)
    elif kind == 1 or kind == 2:
        _add(held, key, dice, raws)
    elif kind == 3:
        other, name = dice.choice(shallow)
        held[key] = json.loads(json.dumps(other[name]))
    else:
        held[key] = _value(dice, raws, held[key])
    return tree


def _add(held: Any, key: Any, dice: Dice, raws: list[str] | None) -> None:
    if isinstance(held, dict):
        held[dice.choice(TEXTS)] = _value(dice, raws, held[key])
    elif dice.random() < 0.5:
        held[key:key] = [held[key]] * dice.choice((1, 2, 1000))
    else:
        held.insert(key, _value(dice, raws, held[key]))


def _value(dice: Dice, raws: list[str] | None, before: Any) -> Any:
    kind = dice.randrange(7)
    if kind == 0 and raws is not None:
        raws.append(dice.choice(RAW))
        return _RAW.format(len(raws) - 1)
    if kind == 1:
        return dice.choice(([], {}, [[]], [None], {"": None}, [1, "a", None]))
    if kind == 2 and isinstance(before, int | float):
        return before + dice.choice((-1, 1, 0.5, 1000, 10**9))
    if kind == 3 and isinstance(before, str):
        at = dice.randrange(len(before) + 1)
        return before[:at] + dice.choice(TEXTS) + before[at:]
    return dice.choice(TEXTS if kind in (2, 4) or isinstance(before, str) else NUMBERS)


def broken_table(table: pa.Table, dice: Dice) -> pa.Table:
    """A table with columns left out, doubled, of other types, and values changed, repeated or null."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        if not table.num_columns:
            return table
        table = dice.choice(_OF_TABLES)(table, dice.randrange(table.num_columns), dice)
    return table


def _values(table: pa.Table, at: int, dice: Dice) -> pa.Table:
    """Some values changed, in a type that Arrow finds for them or in the same."""
    column = table.column(at)
    tree = broken_tree([_plain(each) for each in column.to_pylist()], dice)
    tree = (tree if isinstance(tree, list) else [tree])[: len(table)]
    tree += [None] * (len(table) - len(tree))
    try:
        values = pa.array(tree, type=column.type if dice.random() < 0.7 else None)
    except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
        return _retyped(table, at, dice)
    return table.set_column(at, table.column_names[at], values)


def _plain(value: Any) -> Any:
    return (
        value if value is None or isinstance(value, str | int | float | list | dict) else str(value)
    )


def _retyped(table: pa.Table, at: int, dice: Dice) -> pa.Table:
    kind: Any = dice.choice(_TYPES)
    try:
        column: Any = table.column(at).cast(kind, safe=False)
    except (pa.ArrowException, ValueError, KeyError, AttributeError):
        column = pa.nulls(len(table), kind) if dice.random() < 0.3 else _sample(kind, len(table))
    return table.set_column(at, table.column_names[at], column)


def _sample(kind: Any, count: int) -> Any:
    values: Sequence[Any] = (0, 1, True, "x", b"x", [], [1], ["x"], {}, [[1]], 0.5, [{}])
    for value in values:
        try:
            return pa.array([value] * count, type=kind)
        except (pa.ArrowException, TypeError, ValueError, AttributeError):
            continue
    return pa.nulls(count, kind)


_TYPES: tuple[pa.DataType, ...] = (
    *(
        pa.int8(),
        pa.uint8(),
        pa.int16(),
        pa.int64(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
    ),
    *(pa.string(), pa.large_string(), pa.binary(), pa.null(), pa.timestamp("ns"), pa.date32()),
    *(pa.decimal128(38, 2), pa.binary(4), pa.dictionary(pa.int32(), pa.string()), pa.duration("s")),
    *(
        pa.list_(pa.int8()),
        pa.list_(pa.uint64()),
        pa.large_list(pa.int32()),
        pa.list_(pa.int32(), 128),
    ),
    *(
        pa.list_(pa.string()),
        pa.list_(pa.list_(pa.int32())),
        pa.struct([]),
        pa.list_(pa.struct([])),
    ),
    *(pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32()), pa.list_(pa.null())),
)


def _renamed(table: pa.Table, at: int, dice: Dice) -> pa.Table:
    names = list(table.column_names)
    names[at] = dice.choice([*(text for text in TEXTS if "\ud800" not in text), *names])
    return table.rename_columns(names)


def _described(table: pa.Table, at: int, dice: Dice) -> pa.Table:
    before = table.schema.metadata or {}
    names = [
        *before,
        b"schema_version",
        b"row_length",
        b"vocab_size",
        b"\xff",
        b"ARROW:schema",
        b"pandas",
    ]
    values = [
        b"",
        b"\xff\xfe",
        b"0",
        b"-1",
        b"9" * 5000,
        b"1.99",
        b"2.0",
        b"none",
        b"\0",
        b"{" * 1000,
    ]
    return table.replace_schema_metadata({**before, dice.choice(names): dice.choice(values)})


def _sliced(table: pa.Table, at: int, dice: Dice) -> pa.Table:
    return table.slice(dice.randrange(len(table) + 1), dice.choice((0, 1, 2, len(table))))


_OF_TABLES: tuple[Callable[[pa.Table, int, Dice], pa.Table], ...] = (
    _values,
    _values,
    _values,
    _values,
    _retyped,
    _retyped,
    _renamed,
    _described,
    _sliced,
    lambda table, at, dice: table.remove_column(at),
    lambda table, at, dice: table.append_column(table.schema.field(at), table.column(at)),
    lambda table, at, dice: pa.concat_tables([table] * dice.choice((0, 2, 2, 40)) or [table.slice(0, 0)]),
)  # fmt: skip


def write_table(table: pa.Table, file: Path, dice: Dice) -> None:
    """Write a table in one of the ways that Parquet has."""
    try:
        pq.write_table(
            table,
            file,
            row_group_size=dice.choice((1, 2, 1 << 20)),
            compression=dice.choice(("zstd", "snappy", "gzip", "none")),
            use_dictionary=dice.random() < 0.5,
            data_page_version=dice.choice(("1.0", "2.0")),
            data_page_size=dice.choice((64, 1 << 20)),
            write_page_checksum=dice.random() < 0.5,
            store_schema=dice.random() < 0.8,
        )
    except (pa.ArrowException, UnicodeError, ValueError):
        # Parquet has no such type or name: the file is as it was cut off.
        with file.open("ab") as begun:
            begun.truncate(dice.choice((0, 4, 12)))
