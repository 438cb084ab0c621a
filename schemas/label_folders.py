"""Folder names of the workspace, made of a label and its value, for example `family-v3_simple`.

They aren't named `family=v3_simple`, because Parquet readers turn a folder `key=value` into a column, and
the files have their own columns `family`, `split` and `phase` of other types.
"""


def label_folder(label: str, value: str) -> str:
    """Return the name of the folder for a label and its value."""
    return f"{label}-{value}"


def label_of(folder: str) -> tuple[str, str]:
    """Return label and value of a folder name; the value is empty without a label.

    >>> label_of("row_length-4096"), label_of("rows")
    (('row_length', '4096'), ('rows', ''))
    """
    label, _, value = folder.partition("-")
    return label, value
