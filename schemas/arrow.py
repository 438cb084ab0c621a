"""Arrow types without nulls: the form of every stored column unless it says otherwise."""

import pyarrow as pa


def required(name: str, kind: pa.DataType) -> "pa.Field[pa.DataType]":
    """A column that is never null."""
    return pa.field(name, kind, nullable=False)


def list_of(kind: pa.DataType) -> pa.DataType:
    """A list type whose items are never null."""
    return pa.list_(required("item", kind))
