"""Functions are found, with their calls, whatever stands around their names.

In each form `to_NAME` is called by the function NAME, and `to_CLASS__NAME` by the method CLASS::NAME.
"""

import re

import pytest

from curriculum.graph.index import facts_of
from curriculum.graph.outline import outline
from curriculum.graph.structure import code_structure
from schemas.corpus import Language
from schemas.structure import STRUCTURE_CODES

BOTH = {
    "pointer to a function": "void (*a(int code))(int) { return to_a(code); }",
    "static pointer to a function": "static int (*a(char *n, int m))(int, char **)\n{\n  return to_a(n);\n"
    "}",
    "pointer to a pointer to a function": "void (*(*a(int c))(int))(char) { return to_a(c); }",
    "pointer to an array": "int (*a(int n))[4] { return to_a(n); }",
    "ten pointers": "int ********** a(void) { return to_a(1); }",
    "parentheses": "int (a)(int n) { return to_a(n); }",
    "parentheses and a macro": "LUA_API int (a) (lua_State *L) {\n  return to_a(L);\n}",
    "pointer and parentheses": "LUA_API const char *(a) (lua_State *L) { return to_a(L); }",
    "macro with numbers": "static __printf(2,3) int a(T *p, const char *f, ...)\n{\n\treturn to_a(p, f);\n"
    "}",
    "macro with numbers above": "static __printf(2, 0)\nvoid a(struct x *p, char *f)\n{\n\tto_a(p);\n"
    "}",
    "macro with numbers first": "__printf(1, 2) int a(const char *f, ...)\n{\n\treturn to_a(f);\n}",
    "attribute after a pointer": "int * __attribute__((used)) a(void) { return to_a(); }",
    "attribute between pointers": "char * __attribute__((x)) * a(void) { return to_a(); }",
    "attribute and struct": "struct s * __attribute__((noinline)) a(struct s *x) { return to_a(x); "
    "}",
    "call convention": "int * __cdecl a(void) { return to_a(); }",
    "word after a pointer": "struct s * __must_check a(int x)\n{\n\treturn to_a(x);\n}",
    "words of Linux": "static int __init a(void)\n{\n\treturn to_a();\n}\n"
    "static noinline int b(int x) { to_b(x); }",
    "macro after a capital type": "extern ZPOS64_T ZEXPORT a(unzFile file) {\n    return to_a(file);\n"
    "}",
    "macro above the name": "static gboolean G_GNUC_UNUSED\na (void)\n{\n  return to_a (1);\n}",
    "macro with parentheses above": "static void noreturn_attribute()\na(const char *x)\n{\n\tto_a(x);\n"
    "}",
    "macro with numbers after a type": "static int __printf(1, 2) a(char *f, ...)\n{\n\tto_a(f);\n}",
    "macro around a type": "CJSON_PUBLIC(const char *) a(void)\n{\n    return to_a(1);\n}",
    "static macro around a type": "static JPEG_DEF(void) a (j_common_ptr cinfo)\n{\n  to_a(cinfo);\n"
    "}",
    "macros after parameters": "int a(int n) NOTHROW ATTR_PURE\n{\n  return to_a(n);\n}",
    "locks": "void a(struct x *p) __acquires(lock) __releases(lock)\n{\n  to_a(p);\n}",
    "declared with a macro": "int x(const char *f, ...) __printf(1, 2);\n"
    "int a(void) { return to_a(); }",
    "system calls": "SYSCALL_DEFINE2(setname, char __user *, name, int, len)\n{\n"
    "\treturn to_SYSCALL_DEFINE2(name);\n}",
    "a test": "DEFINE_TEST(test_read)\n{\n\tto_DEFINE_TEST(1);\n}\n"
    "DEFINE_TEST(other) { to_DEFINE_TEST(2); }",
    "a static test": "static DEFINE_TEST(test_read)\n{\n\tto_DEFINE_TEST(1);\n}",
    "a test in lower case": "test_case(read_all)\n{\n\tto_test_case(1);\n}",
    "a test with a text": 'TEST_CASE("parses", "[x]") {\n  to_TEST_CASE(2);\n}',
    "three macros in a line": "int a(int n)\n{\n  BEGIN_A BEGIN_B BEGIN_C\n  return to_a(n);\n}",
    "three macros in lines": "int a(int n)\n{\n  BEGIN_A\n  BEGIN_B\n  BEGIN_C\n  return to_a(n);\n"
    "}",
    "three words in lines": "int a(int n)\n{\n  begin_a\n  begin_b\n  begin_c\n  return to_a(n);\n"
    "}",
    "a call without semicolon": "module_param(x, int, 0644)\nint a(void) { return to_a(1); }",
    "macro around parameters": "int a OF((int n)) { return to_a(n); }\n"
    "int ZEXPORT b OF((char *n, int m))\n{\n  return to_b(n);\n}",
    "macro around parameters, after a pointer": "static char *a __P((void))\n{\n  return to_a(1);\n}",
    "macro around parameters on the next line": "void a\n  PROTO((int n, char *s))\n{\n  to_a(n);\n}",
    "macros with arguments in a line": "int a(int n)\n{\n  UNUSED(n) CHECK(n, 2)\n  to_a(n);\n"
    "  if (n) { to_a(3); }\n}",
    "four macros with arguments in a line": "int a(int n)\n{\n  int x;\n"
    "  BEGIN(n) STEP(n, 2) STEP(n, 3) END\n  x = to_a(n);\n  return to_a(x);\n}",
    "macros with arguments in lower case": "int a(int n)\n{\n  begin_a(1) begin_b(n)\n  to_a(n);\n"
    "  return to_a(x);\n}",
    "types as arguments": 'MY_FLAG(int, size, 8, "of {");\nMY_FLAG(bool, b, 0, "}");\n'
    'int a(void) { return to_a(1); }',
}  # fmt: skip
C = {
    "K&R": "int a(n, m)\n  int n;\n  char *m;\n{\n  return to_a(n, m);\n}",
    "K&R with a pointer": "char *\na(n, m)\n    const char *n, *m;\n{\n    return to_a(n);\n}",
    "K&R with specifiers": "void *a(n, m)\n register char **n;\n unsigned m;\n"
    "{ to_a(n); return 0; }",
    "K&R with parentheses": "int (a)(n) int n; { return to_a(n); }",
    "K&R with a callback": "void each(list, fn)\n  struct list *list;\n  void (*fn)();\n{\n  to_each(list);\n"
    "}",
    "K&R without a type": "main(argc, argv)\n    int argc;\n    char *argv[];\n{\n    return to_main(argc);\n"
    "}",
    "static K&R without a type": "static helper(x) int x; { return to_helper(x); }",
    "no type": "main(int argc, char **argv)\n{\n  return to_main(argc);\n}",
    "packed": "struct __packed hdr {\n int a;\n};\nint a(void) { return to_a(); }",
}
CPP = {
    "reference to an array": "const char (&a(int n) noexcept)[8] { return to_a(n); }",
    "pointer to a member": "int Box::*a(int n) { return to_a(n); }",
    "pointer to a method": "int (Box::*a(int n) const)(int) const { return to_a(n); }",
    "method with a pointer": "void (*Box::a(int n))(int) { return to_Box__a(n); }",
    "members": "struct L {\n  void (L::*a(int n))(int) { return to_L__a(n); }\n"
    "  int L::*b() { return to_L__b(); }\n};",
    "parentheses in a class": "struct L {\n  static constexpr T (max)() noexcept { return to_L__max(); }\n"
    "};",
    "parentheses around a scope": "int (Box::a)(int n) { return to_Box__a(n); }",
    "template in parentheses": "template <class T> T (min)(T n) { return to_min(n); }",
    "trailing type": "auto (*a(int n))(int) -> int { return to_a(n); }",
    "extern C": 'extern "C" void (*a(int n))(int) { return to_a(n); }',
    "attributes": "int a [[gnu::cold]] (int n) { return to_a(n); }\n"
    "int b(int n) [[gnu::cold]] { return to_b(n); }",
    "benchmark": "BENCHMARK_F(A, b)(State& st) {\n  to_BENCHMARK_F(st);\n}",
    "attribute and alignas": "class [[nodiscard]] alignas(8) Y {\n public:\n  int m() { return to_Y__m(); }\n"
    "};",
    "attribute and macro": "class [[nodiscard]] MY_API Y {\n public:\n  int m() { return to_Y__m(); }\n"
    "};",
    "macro and attribute": "class MY_API [[nodiscard]] Y final : public B<int> {\n"
    "  int m() { return to_Y__m(); }\n};",
    "lower case and a base": "class my_api Y : public Base {\n public:\n  int m() { return to_Y__m(); }\n"
    "};",
    "mixed case and a base": "struct My_Export Y : Base {\n  int m() { return to_Y__m(); }\n};",
    "lower case": "class my_api Y {\n public:\n  int m() { return to_Y__m(); }\n};",
    "lower case with arguments": "class attribute(1) Y : public Base {\n  int m() { return to_Y__m(); }\n"
    "};",
    "macro with arguments": 'class CAPABILITY("mutex") Y {\n public:\n  int m() { return to_Y__m(); }\n};',
    "struct and macro with arguments": "struct attr(1) Y {\n  int m() { return to_Y__m(); }\n};",
    "template and macro with arguments": "template <class T>\nclass ATTR(1) Y {\n  T m() { to_Y__m(); }\n};",
    "namespace and macro with arguments": "namespace ATTR(1) lib {\nint a() { return to_lib__a(); }\n}",
    "exported class": "export template <class T> class my_api Z { int m() { return to_Z__m(1); } };",
    "macro for final": "class Y MY_FINAL : public Base {\n  int m() { return to_Y__m(); }\n};",
    "template": "template <class T>\nclass my_api Z<T*> : public B<T> {\n"
    "  int m() { return to_Z__m(); }\n};",
    "namespace and macro": "namespace lib LIB_ATTR {\nint a() { return to_lib__a(); }\n}",
    "macro and namespace": "namespace LIB_ATTR lib {\nint a() { return to_lib__a(); }\n}",
    "namespace and attribute": 'namespace lib __attribute__((visibility("x"))) {\n'
    'int a() { return to_lib__a(); }\n}',
    "exported namespace": "export module m;\nimport std;\nexport namespace n {\n"
    "int a() { return to_n__a(); }\n}",
    "exported block": "export {\nint a() { return to_a(); }\nclass C { int m() { return to_C__m(); } };\n"
    "}",
    "exported template": "module;\nexport module m:part;\nimport <vector>;\n"
    "export template <class T> int a(T) { return to_a(); }",
    "word before a scope": "my_api std::string a(int n) { return to_a(n); }",
    "macros after parameters in a class": "class Y {\n"
    "  int m(int n) const LOCKS_EXCLUDED(mu_) NOINLINE {\n    return to_Y__m(n);\n  }\n"
    "  void n(int i) my_attr other_attr(1) { to_Y__n(i); }\n  int mu_;\n};",
    "macro around parameters in a class": "class Y {\n  int m OF((int n)) { return to_Y__m(n); }\n"
    "  int n OF((int n)) const { return to_Y__n(n); }\n};",
    "attribute and a class in capitals": "struct __attribute__((packed)) HDR {\n"
    "  int m() { return to_HDR__m(); }\n};",
    "attribute, macro and a class in capitals": "class __declspec(dllexport) alignas(8) MY_API HDR : B {\n"
    "  int m() { return to_HDR__m(); }\n};",
    "word before a constructor": "my_api Foo::Foo(int n) : b(n) { to_Foo__Foo(n); }",
}  # fmt: skip
FORMS = [
    *((language, text) for text in BOTH.values() for language in ("c", "cpp")),
    *(("c", text) for text in C.values()),
    *(("cpp", text) for text in CPP.values()),
]
IDS = [*(f"{name} {language}" for name in BOTH for language in ("c", "cpp")), *C, *CPP]


@pytest.mark.parametrize(("language", "text"), FORMS, ids=IDS)
def test_a_function_of_any_form_is_found_with_its_calls(language: Language, text: str) -> None:
    facts = facts_of(text + "\n", language)
    wanted = [name.replace("__", "::") for name in re.findall(r"\bto_(\w+?)\s*\(", text)]
    defined = [
        symbol.qualified for symbol in facts.symbols if symbol.kind == "function" and symbol.body
    ]
    assert {*defined} == {*wanted}
    calls = [
        (facts.symbols[call.caller].qualified, call.name)
        for call in facts.calls
        if call.caller >= 0
    ]
    for name in wanted:
        assert calls.count((name, f"to_{name.replace('::', '__')}")) == wanted.count(name)


@pytest.mark.parametrize(("language", "text"), FORMS, ids=IDS)
def test_outline_and_structure_know_a_function_of_any_form(language: Language, text: str) -> None:
    wanted = {name.replace("__", "::") for name in re.findall(r"\bto_(\w+?)\s*\(", text)}
    found = code_structure(text + "\n", language, facts_of(text + "\n", language))
    bodies = {chunk.name for chunk in found.chunks if chunk.kind == STRUCTURE_CODES["func_body"]}
    assert bodies == wanted
    for place in (match.start() for match in re.finditer(r"\bto_", text)):
        assert found.structure_ids[place] == STRUCTURE_CODES["func_body"]
        bodies_of_file = outline(text + "\n", language).bodies
        assert any(body.start < place < body.end for body in bodies_of_file)


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("c", "void (*signal(int n, void (*f)(int)))(int);", ["signal"]),
        ("cpp", "LUA_API void (lua_close) (lua_State *L);\nextern const char *(lua_x) (int);",
         ["lua_close", "lua_x"]),
        ("c", "LUA_API lua_Number (lua_version) (lua_State *L);", ["lua_version"]),
        ("cpp", "template <class T, size_t N>\nchar (&Helper(T (&array)[N]))[N];", ["Helper"]),
        ("c", "typedef int (handler)(int);\nint (*one)(int);\nvoid (*many[])(int) = {f};\nint (x);", []),
        ("cpp", "struct stat found{};\nstruct stat all[] = {{}};\nenum color kept{red};", []),
        ("c", 'void *malloc(size_t n) __attribute__((deprecated("x")));', ["malloc"]),
        ("c", "void *__libc_malloc(size_t n) PREALIAS(malloc);", ["__libc_malloc"]),
        ("cpp", 'void *malloc(size_t n) ATTR_MALLOC(1) __attribute__((x));', ["malloc"]),
        ("c", "struct foo make(int a);\nunsigned x = (unsigned) (y), z = a * b (c);", ["make"]),
    ],
)  # fmt: skip
def test_declarations_are_told_from_variables(
    language: Language, text: str, names: list[str]
) -> None:
    found = facts_of(text + "\n", language).symbols
    assert [symbol.name for symbol in found if symbol.kind == "function"] == names


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_name_in_parentheses_is_called(language: Language) -> None:
    facts = facts_of("int f(int a) { return (max)(a, 1) + ((min))(a) + (int)(a); }\n", language)
    assert [(call.name, call.arity) for call in facts.calls] == [("max", 2), ("min", 1)]


def test_a_scope_in_parentheses_is_called() -> None:
    (call,) = facts_of("int f(int a) { return (std::min)(a, g<1, 2>, 3); }\n", "cpp").calls
    assert (call.qualifier, call.name, call.arity) == (("std",), "min", 3)


def test_a_definition_of_a_function_without_a_type_mentions_no_letter() -> None:
    (test,) = facts_of("DEFINE_TEST(Fixture)\n{\n  use(1);\n}\n", "c").symbols
    assert (test.name, test.name_start, test.types) == ("DEFINE_TEST", 0, ("Fixture",))


def test_parameters_whose_types_stand_below_fit_every_declaration() -> None:
    (function,) = facts_of("int f(a, b) int a; char *b; { return a; }\n", "c").symbols
    assert (function.parameters, function.min_arity, function.max_arity) == (("", ""), 2, 2)
