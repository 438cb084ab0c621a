from collections.abc import Iterator, Sequence

import pytest

from curriculum.corpus.header_languages import decide_headers, language_by_content
from curriculum.corpus.paths import source_languages

C_API = """\
#ifndef API_H
#define API_H
#ifdef __cplusplus
extern "C" {
#endif
int api(void);
#ifdef __cplusplus
}
#endif
#endif
"""


@pytest.mark.parametrize(
    "text",
    [
        "namespace n {\nint f();\n}\n",
        "#include <vector>\nint f();\n",
        "template <typename T> T f(T);\n",
        "class A;\n",
        "class EXPORT A : public B {\n",
        "struct A {\n public:\n  int f();\n};\n",
        "struct A { int f() const; };\n",
        "void f(const A& a);\n",
        "inline int f() { return n::g(); }\n",
        "using A = int;\n",
        "struct A : B {\n  int more;\n};\n",
        "struct A {\n  A(int a);\n  ~A();\n};\n",
        "struct A {\n  bool operator==(A other);\n};\n",
        "struct A {\n  void move(int a) = delete;\n};\n",
        "int f(int a) noexcept;\n",
        "void swap(int& first, long &second);\n",
        "#define TO_INT(x) static_cast<int>(x)\n",
        '#ifndef __cplusplus\n#error "C++ only"\n#endif\nclass A {};\n',
        "#if __cplusplus >= 201703L\nint g();\n#endif\nenum class A { x };\n",
    ],
)
def test_syntax_of_cpp_makes_a_header_cpp(text):
    assert language_by_content(text.encode()) == "cpp"


@pytest.mark.parametrize(
    "text",
    [
        C_API,
        C_API.replace("#ifdef __cplusplus", "#if defined(__cplusplus)"),
        C_API.replace("\n}\n", "\n}\nclass Wrapper {};\n"),
        C_API.replace("\n", "\r\n"),
        C_API.replace("int api(void);", "// as std::sort does\nint api(void);"),
    ],
)
def test_a_guarded_extern_c_makes_a_header_c(text):
    assert language_by_content(text.encode()) == "c"


@pytest.mark.parametrize(
    "text",
    [
        "int f(void);\n",
        "/* class A {\n namespace n { */\nint f(void);\n",
        '#define NAME "std::sort"\n',
        "struct a { int class; int template; };\n",
        "static inline int f(int a, int b) { return a & b; }\n",
        "struct a { unsigned b : 3; unsigned : 0; };\n#define A(x) \\\n  ~b(x)\n",
        "unsigned f(unsigned operator, int delete);\n#define A(p) ((unsigned) &p)\n",
        "#endif\n#else\nint f(void);\n",
        "",
    ],
)
def test_text_in_both_languages_decides_nothing(text):
    assert language_by_content(text.encode()) is None


def decided(files: dict[str, str]) -> dict[str, str]:
    """Decide the headers among the files of a repository."""

    def read(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, files[path].encode()

    headers = [path for path in files if path.endswith(".h")]
    found = decide_headers(source_languages(files), headers, read)
    return {path: found.language_of(path) for path in headers}


PLAIN = "int f(void);\n"


def test_one_file_in_cpp_does_not_turn_the_headers_of_a_repository_in_c():
    files = {
        "a.c": '#include "a.h"\n',
        "b.c": '#include "a.h"\n#include "b.h"\n',
        "tools/t.cc": '#include "../a.h"\n#include "t.h"\n',
        "a.h": PLAIN,
        "b.h": PLAIN,
        "tools/t.h": PLAIN,
        "unused.h": PLAIN,
        "wrapper.h": "class A;\n",
    }
    assert decided(files) == {
        "a.h": "c",
        "b.h": "c",
        "tools/t.h": "cpp",
        "unused.h": "c",
        "wrapper.h": "cpp",
    }


def test_a_header_behind_headers_goes_by_the_files_that_read_it_in_the_end():
    files = {
        "a.cc": '#include "outer.h"\n',
        "b.c": PLAIN,
        "c.c": PLAIN,
        "outer.h": '#include "inner.h"\n',
        "inner.h": '#include "outer.h"\n',
    }
    assert decided(files) == {"outer.h": "cpp", "inner.h": "cpp"}


def test_the_header_beside_its_includer_is_meant():
    files = {
        "c/a.c": '#include "x.h"\n',
        "c/x.h": PLAIN,
        "cpp/a.cc": '#include "x.h"\n',
        "cpp/x.h": PLAIN,
    }
    assert decided(files) == {"c/x.h": "c", "cpp/x.h": "cpp"}


def test_a_repository_of_headers_alone_goes_by_what_they_say():
    assert decided({"a.h": "class A;\n", "b.h": PLAIN}) == {"a.h": "cpp", "b.h": "cpp"}
    assert decided({"b.h": PLAIN}) == {"b.h": "c"}


def test_the_newest_commit_decides_for_all_of_a_history(build, read):
    built = build()
    built.commit(a_c='#include "a.h"\n', a_h=PLAIN, old_h="class A;\n", b_c="int b;\n")
    built.git("rm", "--quiet", "old.h")
    built.commit(main_cc="int main() {}\n", a_h=PLAIN + "int g(void);\n")
    changes, _ = read(built.path)
    assert {(change.path, change.language) for change in changes} == {
        ("a.c", "c"),
        ("a.h", "c"),
        ("b.c", "c"),
        ("main.cc", "cpp"),
        ("old.h", "cpp"),
    }


def test_a_plain_folder_is_judged_alike(tmp_path, read):
    files = {"a.c": '#include "a.h"\n', "a.h": PLAIN, "b.c": "int x;\n", "m.cc": "int x;\n"}
    for path, text in {**files, "w.h": "class A;\n"}.items():
        (tmp_path / "tree").mkdir(exist_ok=True)
        (tmp_path / "tree" / path).write_text(text)
    changes, _ = read(tmp_path / "tree")
    assert {change.path: change.language for change in changes} == {
        "a.c": "c",
        "a.h": "c",
        "b.c": "c",
        "m.cc": "cpp",
        "w.h": "cpp",
    }
