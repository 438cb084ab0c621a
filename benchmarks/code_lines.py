"""Lines of code by package, without blank lines, comments and docstrings.

    python benchmarks/code_lines.py          the packages
    python benchmarks/code_lines.py --list   the folders of each, too

A line counts if a token begins on it that is neither a comment nor of a string that stands alone as a
statement. Limit: 58,000 lines.
"""

import argparse
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def code_lines(file: Path) -> int:
    """Return the number of lines of code of a Python file."""
    lines: set[int] = set()
    begins = True
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            is_docstring = begins and token.type == tokenize.STRING
            if token.type not in LAYOUT and not is_docstring:
                lines.add(token.start[0])
            if token.type == tokenize.NEWLINE:
                begins = True
            elif token.type not in LAYOUT:
                begins = False
    return len(lines)


def main() -> None:
    """Print the lines of code of each package and of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the lines of each folder, too")
    is_listed = parser.parse_args().list
    packages: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            lines = code_lines(file)
            packages[package] += lines
            folders[file.parent.relative_to(ROOT).as_posix()] += lines
    for name, lines in (*packages.items(), *(folders.most_common() if is_listed else ())):
        print(f"{lines:7,} {name}")
    print(f"{packages.total():7,} in all")


if __name__ == "__main__":
    main()
