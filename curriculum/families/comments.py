"""The comment syntax of the languages, and text that cannot break out of a comment."""

import re
from typing import Literal

from schemas.corpus import Language

Mark = Literal["//", "#"]

_UNPRINTABLE = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_SPLICES = ("\\", "??/")


def line_mark(language: Language) -> Mark:
    """What begins a comment that ends with its line."""
    return "//" if language in ("cpp", "c") else "#"


def one_line(text: str) -> str:
    r"""Text from outside as one line that neither opens nor closes a comment.

    >>> one_line("end it */ int x;\n#define Y")
    'end it * / int x; #define Y'
    """
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line.replace("*/", "* /").replace("/*", "/ *")


def unspliced(line: str, mark: Mark) -> str:
    r"""A comment's line without its end that cannot continue on the next line.

    A backslash, its trigraph, or either before blanks would glue the next line to the comment; the
    mark is set behind.

    >>> unspliced("// - #define SUM \\", "//")
    '// - #define SUM \\ //'
    """
    return f"{line} {mark}" if line.rstrip(" \t\f\v\0").endswith(_SPLICES) else line
