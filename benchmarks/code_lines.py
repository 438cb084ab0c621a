"""Number of lines of code by package, without blank lines, comments and docstrings.

    python benchmarks/code_lines.py          lines by package
    python benchmarks/code_lines.py --list   also lines by folder

A line counts if a token starts on it. Comments, and strings that are statements, don't count. The limit of
all packages together is 58,000 lines.
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
    """Print the number of lines of every package, and their sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="also print the lines of every folder")
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
    print(f"{packages.total():7,} total")


if __name__ == "__main__":
    main()
