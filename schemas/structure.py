"""Codes of the structure columns, pinned for good."""

STRUCTURE_CODES = {
    "none": 0,
    "other": 1,
    "preamble": 2,
    "func_sig": 3,
    "func_body": 4,
    "class_decl": 5,
    "class_member": 6,
    "comment": 7,
    "typedef": 8,
    "namespace": 9,
}
"""structure_ids; 0 everywhere says that a row has no structure."""

LARGEST_LEVEL = 64
"""ast_depth, sibling_index and dep_levels are stored as value + 1, clamped to 1…64."""
