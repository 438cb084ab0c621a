import pytest

from curriculum.corpus.paths import language_of


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.cc", "cpp"),
        ("dir.c/a.HPP", "cpp"),
        ("a.C", "cpp"),
        ("a.c", "c"),
        ("a.h", "cpp"),
        ("CMakeLists.txt", "cmake"),
        ("cmake/x.cmake", "cmake"),
        ("src/Makefile", "make"),
        ("rules.mk", "make"),
        ("BUILD", "bazel"),
        ("BUILD.bazel", "bazel"),
        ("defs.bzl", "bazel"),
        ("meson.build", "meson"),
        ("README.md", None),
        ("notes.txt", None),
        ("Makefile.txt", None),
        (".h", None),
        ("", None),
    ],
)
def test_a_language_goes_by_the_path(path, language):
    assert language_of(path, headers="cpp") == language


def test_a_header_is_in_the_language_that_is_given():
    assert language_of("a.h", headers="c") == "c"
