from collections.abc import Iterator

import numpy as np
import pytest

from curriculum.corpus.shared_lines import WINDOW, lineages_with_shared_text, windows


def functions(name: object, first: int, last: int) -> str:
    return "".join(f"int {name}_{at}() {{\n  return {at};\n}}\n" for at in range(first, last))


def found(*versions: tuple[str, str], **limits: int) -> set[tuple[str, str]]:
    return set(lineages_with_shared_text(versions, **limits))


def test_white_space_includes_and_the_first_comment_count_for_nothing():
    bare = functions("f", 0, 4)
    dressed = "/* A licence\n of three\n lines */\n#include <b>\n" + bare.replace("  ", "\t\t")
    assert np.array_equal(windows(bare), windows(dressed.replace("\n", "\r\n")))


def test_braces_on_lines_of_their_own_count_for_nothing():
    attached = (
        functions("f", 0, 4) + "if (a) {\n  b();\n} else {\n  c();\n}\nstruct A {\n  int d;\n};\n"
    )
    broken = attached.replace("} else", "}\nelse").replace(" {\n", "\n{\n")
    assert np.array_equal(windows(attached), windows(broken))


def test_a_file_of_macros_has_windows():
    assert len(windows("".join(f"#define A{at} {at}\n" for at in range(5)))) == 5 - WINDOW + 1
    assert len(windows("# A licence\n#\n# of CMake\nif(A)\nset(B)\n")) == 0


@pytest.mark.parametrize("text", ["", "\n", "// only a comment", "int a;\nint b;", "{\n}\n{\n}\n"])
def test_a_file_of_fewer_lines_than_a_window_has_none(text):
    assert len(windows(text)) == 0


def test_every_window_counts_lines_in_their_order():
    lines = [f"line {at};" for at in range(10)]
    assert len(windows("\n".join(lines))) == 10 - WINDOW + 1
    assert not set(windows("\n".join(lines))) & set(windows("\n".join(reversed(lines))))


def test_a_line_of_any_length_is_read_whole():
    long = "x" * 100_000
    one, other = (f"int a;\n{long}{end}\nint b;\n" for end in "yz")
    assert set(windows(one)) != set(windows(other))


def test_a_small_file_inside_a_large_one_is_found_in_whatever_version_it_was():
    small = functions("s", 0, 8)
    assert found(
        ("r:large", functions("l", 0, 200)),
        ("r:small", small),
        ("r:large", functions("l", 0, 200) + small),
        ("r:other", functions("o", 0, 8)),
        ("r:small", functions("t", 0, 3)),
    ) == {("r:large", "r:small")}


def test_a_few_lines_in_common_join_nothing():
    assert (
        found(
            ("r:a", functions("a", 0, 50) + functions("x", 0, 2)),
            ("r:b", functions("b", 0, 50) + functions("x", 0, 2)),
        )
        == set()
    )


def copies(count: int) -> Iterator[tuple[str, str]]:
    for number in range(count):
        text = functions("c", 0, 40).replace("return 7;", f"return {number};")
        yield f"r:{number:03}", text


def test_many_copies_hang_together():
    pairs = found(*copies(50))
    reached = {"r:000"}
    for _ in range(50):
        reached |= {name for pair in pairs if reached & set(pair) for name in pair}
    assert len(reached) == 50


def test_a_sample_of_the_windows_finds_the_same_files():
    versions = [
        (f"r:{kind}{number}", functions(number, 0, 100) + functions((kind, number), 0, 30))
        for number in range(20)
        for kind in "ab"
    ]
    whole = found(*versions)
    assert whole == {(f"r:a{number}", f"r:b{number}") for number in range(20)}
    assert found(*versions, max_windows=2_000) == whole


def test_the_order_of_files_changes_nothing():
    versions = [*copies(8), ("r:large", functions("l", 0, 20) + functions("c", 0, 20))]
    assert found(*versions) == found(*reversed(versions))
