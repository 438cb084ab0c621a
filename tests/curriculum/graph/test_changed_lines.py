from curriculum.graph.changed_lines import ChangedLines
from curriculum.graph.index import facts_of
from schemas.change import Blob, FileChange, Hunk
from schemas.reports import ChangedLinesReport

COMMIT = "0123456789abcdef" * 2 + "01234567"
TEXT = """// A comment.
#include <stdio.h>
static int known;

int f(int a) {
  return a;  // What is known.
}
"""


def change(text: str, *hunks: tuple[int, int], path: str = "a.c") -> FileChange:
    """A change whose new version has lines from the hunks: first line and number, counted from 0."""
    return FileChange(
        kind="modified",
        repository="sample",
        licence="MIT",
        commit=COMMIT,
        timestamp=1_600_000_000,
        subject="Mend it",
        path=path,
        old_path=path,
        language="c",
        before=Blob(blob_id="b" * 40, text=""),
        after=Blob(blob_id="a" * 40, text=text),
        hunks=tuple(
            Hunk(before_start=0, before_lines=0, after_start=start, after_lines=lines)
            for start, lines in hunks
        ),
        lineage=f"sample:{path}",
        before_is_new=True,
    )


def counted(*changes: FileChange) -> ChangedLinesReport:
    lines = ChangedLines()
    for change in changes:
        assert change.after is not None
        lines.add(COMMIT, change, facts_of(change.after.text, "c"))
    return lines.report()


def test_only_changed_lines_of_code_count() -> None:
    report = counted(change(TEXT, (0, 5)))
    assert (report.lines, report.outside_functions, report.outside_symbols) == (2, 1, 0)
    assert report.examples == ()


def test_lines_that_define_nothing_do_not_count() -> None:
    text = "namespace a::b {\nusing std::min;\nusing namespace c;\n"
    text += 'extern "C" {\nstatic_assert(\n  f(1));\n}}\n'
    lines = ChangedLines()
    lines.add(COMMIT, change(text, (0, 7)), facts_of(text, "cpp"))
    assert lines.report().lines == 0


def test_lines_of_variables_and_types_are_known_though_no_function_has_them() -> None:
    report = counted(
        change("int x;\nstruct S {\n  int a;\n};\nint f(void) { return 1; }\n", (0, 5))
    )
    assert (report.lines, report.outside_functions, report.outside_symbols) == (4, 3, 0)


def test_code_in_no_symbol_is_counted_with_its_place() -> None:
    dead = "#ifdef _WIN32\nint lost(void) {\n  return 1;\n}\n#else\nint kept(void) { return 2; }\n#endif\n"
    report = counted(change(dead, (0, 7)))
    assert (report.lines, report.outside_functions, report.outside_symbols) == (3, 2, 2)
    assert report.examples == ("0123456789ab:a.c:2: int lost(void) {",)


def test_examples_are_the_longest_runs_one_a_file() -> None:
    def dead(lines: int) -> str:
        return "#if 0\n" + "  call(1);\n" * lines + "#endif\n"

    changes = [change(dead(n), (0, 99), path=f"{n}.c") for n in range(1, 9)]
    report = counted(*changes, *changes)
    assert [line.split(":")[1] for line in report.examples] == ["8.c", "7.c", "6.c", "5.c", "4.c"]
    assert report.outside_symbols == report.lines == 72


def test_every_changed_function_of_a_known_form_is_inside() -> None:
    text = "void (*pick_handler(int code))(int) {\n  return table_lookup(deep(code));\n}\n"
    report = counted(change(text, (1, 1)))
    assert (report.lines, report.outside_functions, report.outside_symbols) == (1, 0, 0)
