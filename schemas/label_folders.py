"""Folders of a workspace that labels name, `family-v3_simple` for the label family and the value v3_simple.

They aren't named `family=v3_simple`: what reads Parquet takes a folder `key=value` on the way to a file for a
column, and the files have columns `family`, `split`, `phase` of their own, of other types.
"""


def label_folder(label: str, value: str) -> str:
    """Return the name of the folder that holds the artefacts with a value of a label."""
    return f"{label}-{value}"


def label_of(folder: str) -> tuple[str, str]:
    """Return the label and the value of a folder; a folder that no label names has an empty value.

    >>> label_of("row_length-4096"), label_of("rows")
    (('row_length', '4096'), ('rows', ''))
    """
    label, _, value = folder.partition("-")
    return label, value
