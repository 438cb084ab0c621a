"""Rule that counts lines of code."""

from pathlib import Path

from benchmarks.code_lines import code_lines

TEXT = '''\
"""A module,
in two lines."""

# A comment.
import os  # counts


def name(
    path: str,
) -> str:
    """A docstring."""
    text = """one
    two"""
    return os.sep + text + "a" \\
        "b"
'''


def test_blank_lines_comments_and_docstrings_are_no_code(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(TEXT)
    assert code_lines(file) == 7


def test_a_text_of_several_lines_counts_where_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('TEXT = """\n\n\n"""\n')
    assert code_lines(file) == 1
