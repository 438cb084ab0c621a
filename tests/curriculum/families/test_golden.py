"""Documents as they are meant to look, reviewed by eye: tests/golden/families/<case>.txt.

After an intended change, raise the family's revision and write them anew with

    python tests/curriculum/families/test_golden.py

and read the difference.
"""

from pathlib import Path

import pytest

from curriculum.families.render import render
from schemas.change import Blob, FileChange, Hunk
from schemas.corpus import EditSettings
from schemas.document import Document
from schemas.families import families_of

GOLDEN = Path(__file__).parents[2] / "golden" / "families"
BOTH_V3 = ("v3_simple", "v3_doxygen")


def hunk(before: int, removed: int, after: int, added: int) -> Hunk:
    return Hunk(before_start=before, before_lines=removed, after_start=after, after_lines=added)


def change(
    before: str | None,
    after: str | None,
    *hunks: Hunk,
    subject: str = "Return the sum",
    path: str = "src/sum.cc",
    old_path: str | None = None,
) -> FileChange:
    kind = "added" if before is None else "deleted" if after is None else "modified"
    return FileChange(
        kind="renamed" if old_path else kind,  # type: ignore[arg-type]
        repository="sample",
        licence="MIT",
        commit="89abcdef01234567" * 2 + "89abcdef",
        timestamp=1_700_000_000,
        subject=subject,
        path=path,
        old_path=old_path or path,
        language="cmake" if path.endswith(".txt") else "cpp",
        before=None if before is None else Blob(blob_id="b" * 40, text=before),
        after=None if after is None else Blob(blob_id="a" * 40, text=after),
        hunks=hunks,
        lineage=f"sample:{old_path or path}",
        before_is_new=True,
    )


SUM = """\
#include "sum.h"

/// The sum.
int sum(int a, int b) {
  return a - b;
}

/// Twice.
int twice(int a) {
  return 2 * a;
}
"""
MACRO = """\
#define CHECK(x) \\
  do {           \\
  } while (0)
// a path ends in a trigraph??/
int unchanged;
"""
RAW = """\
const char* kText = R"(first
// second \\
)"; int live;
int unchanged;
"""
TABLE = (
    "int table[] = {\n" + "".join(f"    {i}, {i * i}, // {i:#06x}\n" for i in range(700)) + "};\n"
)
CMAKE = "project(sample)\n\nadd_library(sum sum.cc)\n#[[ a bracket\ncomment ]]\n"
LARGE = (
    SUM
    + "\nint large(int v) {\n"
    + "  v += twice(v);\n" * 10
    + "\n  return v;\n\n"
    + "  v += twice(v);\n" * 600
    + "}\n\nint last();\n"
)

CASES: dict[str, tuple[FileChange, tuple[str, ...]]] = {
    "modified": (
        change(SUM, SUM.replace("a - b", "a + b"), hunk(4, 1, 4, 1)),
        families_of("changes"),
    ),
    "backslash": (change(MACRO, "int unchanged;\n", hunk(0, 4, 0, 0)), BOTH_V3),
    "raw_string": (
        change(RAW, "const char* kText;\nint unchanged;\n", hunk(0, 3, 0, 1)),
        ("v3_simple",),
    ),
    "huge_hunk": (
        change(
            "int before;\n\nint after;\n",
            f"int before;\n\n{TABLE}\nint after;\n",
            hunk(2, 0, 2, 703),
        ),
        ("v3_simple",),
    ),
    "deleted": (change(SUM, None, hunk(0, 11, 0, 0)), ("v2_simple", *BOTH_V3)),
    "renamed": (
        change(
            SUM,
            SUM.replace("a - b", "a + b"),
            hunk(4, 1, 4, 1),
            path="src/add.cc",
            old_path="src/sum.cc",
        ),
        families_of("changes"),
    ),
    "cmake": (
        change(
            CMAKE,
            CMAKE.replace("#[[ a bracket\ncomment ]]\n", "target_link_libraries(sum m)\n"),
            hunk(3, 2, 3, 1),
            path="CMakeLists.txt",
        ),
        families_of("changes"),
    ),
    "related": (change(SUM, SUM.replace("a - b", "a + b"), hunk(4, 1, 4, 1)), ("v3_simple",)),
    "related_large": (change(LARGE, LARGE.replace("v;", "w;"), hunk(24, 1, 24, 1)), ("v3_simple",)),
    "related_cmake": (
        change(
            CMAKE,
            CMAKE.replace("sum.cc", "sum.cc twice.cc"),
            hunk(2, 1, 2, 1),
            path="CMakeLists.txt",
        ),
        ("v3_simple",),
    ),
    "hostile_subject": (
        change(
            SUM,
            SUM.replace("a - b", "a + b"),
            hunk(4, 1, 4, 1),
            subject="End */ int x; /* it, @param y \\return ??/",
            path="src/a*/b??/\n#define c \\",
        ),
        families_of("changes"),
    ),
}


def shown(document: Document) -> str:
    """A document with its parts between rulers and its spans below."""
    data = document.text.encode()
    lines = [f"{'=' * 20} {document.family}\n"]
    for part in document.parts:
        fate = f"elidable, rank {part.rank}" if part.elidable else "stays"
        lines.append(f"{'-' * 60} {part.kind}, source {part.source}, {fate}\n")
        text = data[part.start : part.end].decode()
        lines.append(text if text.endswith("\n") else text + "<no line end>\n")
    lines += [
        f"{span.kind}: {data[span.start : span.end].decode()!r:.200}\n" for span in document.spans
    ]
    lines += [
        f"source: {source.path!r} {source.blob[:1]} [{source.start}, {source.end})\n"
        for source in document.provenance
    ]
    return "".join(lines)


RELATED = EditSettings(changes="all")
ALL = EditSettings(full_file="all", changes="all")


def expected(case: str) -> str:
    change, families = CASES[case]
    rendered = render(change, families, RELATED if case.startswith("related") else ALL)
    counts = "".join(f"{each.family}: {each.number} {each.reason}\n" for each in rendered.counts)
    return "".join(map(shown, rendered.documents)) + counts


@pytest.mark.parametrize("case", CASES)
def test_documents_look_as_reviewed(case: str) -> None:
    assert expected(case) == (GOLDEN / f"{case}.txt").read_text(encoding="utf-8")


def test_there_is_no_file_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def rewrite() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        (GOLDEN / f"{case}.txt").write_text(expected(case), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    rewrite()
