"""Sizes of columns according to the footers of Parquet files, known before any page is decoded."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_BYTES = {
    "BOOLEAN": 0,
    "INT32": 4,
    "INT64": 8,
    "INT96": 8,
    "FLOAT": 4,
    "DOUBLE": 8,
    "BYTE_ARRAY": 4,
    "FIXED_LEN_BYTE_ARRAY": 1,
}
"""Minimum number of bytes of a decoded value, by stored type. For text, this is the size of its offset."""
_FLAT_DEPTH = 3
"""Maximum length of the path to the values of a list; values in lists of structs have longer paths."""


def min_decoded_bytes(footer: "pq.FileMetaData") -> int:
    """Return the minimum number of bytes that all columns of a file decode to, according to its footer."""
    columns = [footer.schema.column(number) for number in range(footer.num_columns)]
    # Integers with a logical type may have a single byte.
    sizes = [
        1
        if column.physical_type == "INT32" and column.logical_type.type == "INT"
        else _BYTES.get(column.physical_type, 1)
        for column in columns
    ]
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return sum(
        size * group.column(number).num_values
        for group in groups
        for number, size in enumerate(sizes)
    )


def longest_list(footer: "pq.FileMetaData", names: frozenset[str]) -> tuple[str, int] | None:
    """Return the named column that has the longest list, and a lower bound for the length of that list.

    The bound is the maximum over all row groups of the number of values per row. Lists of structs aren't
    counted. The result is None if no row group has both one of the columns and a row.
    """
    longest: tuple[str, int] | None = None
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(footer.num_columns) if group.num_rows else ():
            column = group.column(place)
            name, *rest = column.path_in_schema.split(".")
            if name in names and len(rest) < _FLAT_DEPTH:
                values = -(-column.num_values // group.num_rows)
                if longest is None or values > longest[1]:
                    longest = name, values
    return longest
