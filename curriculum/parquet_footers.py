"""Sizes of columns according to Parquet footers, before any page is decoded."""

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
"""Minimum number of bytes of a decoded value by stored type; for text, that of its offset."""
_FLAT_DEPTH = 3
"""Maximum path length of a list's values; values in lists of structs have longer paths."""


def min_decoded_bytes(footer: "pq.FileMetaData") -> int:
    """Return the minimum number of bytes that all columns of a file decode to, according to its footer."""
    columns = [footer.schema.column(number) for number in range(footer.num_columns)]
    # Whole numbers with a logical type may have a single byte.
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
    """Return one of the named columns, and a lower bound for the length of its longest list.

    It is the column with the most values per row in a row group. Lists of structs aren't counted. None if
    no row group has such a column and a row.
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
