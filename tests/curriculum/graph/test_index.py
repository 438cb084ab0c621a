from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.facts import Call, FileFacts, Symbol, SymbolKind
from curriculum.graph.index import facts_of
from schemas.corpus import LANGUAGES, Language

PIECES = [
    "#include <vector>\n",
    "#if A\n",
    "#else\n",
    "#endif\n",
    "#define MAX(a, b) \\\n  ((a) + (b))\n",
    "// doc é\n",
    "/** doc */\n",
    "template <class T>\n",
    "namespace a::b {\n",
    "namespace {\n",
    "class AB_API Box : public Base<int>, Other {\n",
    "struct {\n",
    " public:\n",
    "  Box(int a = 1) : a_(a) { init(); }\n",
    "  ~Box();\n",
    "  int a_; Box *next_, all_[3];\n",
    "  bool operator()(Box& x) const { return x.get<int>(1)->b(); }\n",
    "  operator bool() const;\n",
    "};\n",
    "}\n",
    "} S;\n",
    "AB_API int f(int, ...) {\n",
    "int g(), h = 3, *i;\n",
    "  auto x = [&](int y) { return g(y, /* z */ 1); };\n",
    "  Box b(1); b.c(); new Box{2}; Box{3}; LOG(b);\n",
    "enum class E { A, B };\n",
    "using X = std::map<int, Box>;\n",
    "using a::b::X;\n",
    "typedef int (*F)(int);\n",
    'extern "C" {\n',
    "friend void swap(Box&, Box&);\n",
    "int A::B<int>::c(A d) {}\n",
    "@ $ ((( \0\n",
    "/* open",
    'R"(',
]
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=80)
languages: st.SearchStrategy[Language] = st.sampled_from(["cpp", "c"])


def named(facts: FileFacts, kind: SymbolKind) -> list[str]:
    return [each.qualified for each in facts.symbols if each.kind == kind]


def functions(text: str, language: Language = "cpp") -> list[str]:
    return named(facts_of(text, language), "function")


def only(text: str, language: Language = "cpp") -> Symbol:
    (symbol,) = facts_of(text, language).symbols
    return symbol


def calls(text: str, language: Language = "cpp") -> list[str]:
    """Callers and what they call as it is written, with the number of arguments."""
    facts = facts_of(text, language)
    return [_shown(facts, call) for call in facts.calls]


def _shown(facts: FileFacts, call: Call) -> str:
    caller = facts.symbols[call.caller].qualified if call.caller >= 0 else ""
    on = "" if call.receiver is None else f"{call.receiver or '?'}."
    name = "::".join([*call.qualifier, call.name])
    return f"{caller} {call.form} {on}{name}/{call.arity}"


@given(texts, languages)
def test_ranges_lie_in_the_text_and_nest(text: str, language: Language) -> None:
    facts = facts_of(text, language)
    data = text.encode()
    assert 0 <= facts.error_bytes <= len(data)
    for symbol in facts.symbols:
        assert 0 <= symbol.start <= symbol.name_start < symbol.end <= len(data)
        assert symbol.start == 0 or data[symbol.start - 1] == ord("\n")
        assert symbol.end == len(data) or data[symbol.end - 1] == ord("\n")
        if symbol.body is not None:
            assert symbol.start <= symbol.body.start < symbol.body.end <= symbol.end
            assert data[symbol.body.start] == ord("{")
        if symbol.parent >= 0:
            parent = facts.symbols[symbol.parent]
            assert parent.kind == "class"
            assert parent.body is not None
            assert parent.body.start <= symbol.name_start < parent.body.end


@given(texts, languages)
def test_everything_is_in_the_order_of_the_text(text: str, language: Language) -> None:
    facts = facts_of(text, language)
    starts = [(each.start, -each.end) for each in facts.symbols]
    assert starts == sorted(starts)
    assert all(left.start <= right.start for left, right in pairwise(facts.calls))


@given(texts, languages)
def test_names_stand_where_they_are_said_to(text: str, language: Language) -> None:
    facts = facts_of(text, language)
    data = text.encode()
    for symbol in facts.symbols:
        assert symbol.name
        is_word = symbol.name.replace("_", "").isalnum()
        assert not is_word or data.startswith(symbol.name.encode(), symbol.name_start)
        assert "" not in symbol.types
        assert symbol.max_arity >= -1
        assert symbol.max_arity == -1 or symbol.min_arity <= symbol.max_arity
    for call in facts.calls:
        assert call.name
        assert call.arity >= 0
        assert -1 <= call.caller < len(facts.symbols)
        if call.caller >= 0:
            caller = facts.symbols[call.caller]
            assert caller.kind == "function"
            assert caller.start <= call.start < caller.end
    assert all(facts.symbols[each.owner].kind == "class" for each in facts.members)


@given(texts)
def test_facts_depend_on_the_text_alone(text: str) -> None:
    first = facts_of(text, "cpp")
    facts_of.cache_clear()
    assert facts_of(text, "cpp") == first


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"cpp", "c"}))
def test_other_languages_have_no_facts(language: Language) -> None:
    facts = facts_of("int f() { return 1; } // é\n", language)
    assert (facts.symbols, facts.calls, facts.is_complete) == ((), (), False)
    assert facts.error_bytes == 28


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("int f() { return 1; }", "function", "f"),
        ("int f();", "function", "f"),
        ("int größe();", "function", "größe"),
        ("void ä::Maß::größe() {}", "function", "ä::Maß::größe"),
        ("template <class T> T f(T x);", "function", "f"),
        ("auto f() -> int { return 1; }", "function", "f"),
        ("int *const &f();", "function", "f"),
        ("void A<int>::B::f() {}", "function", "A::B::f"),
        ("A::A() : a(1) {}", "function", "A::A"),
        ("A::~A() = default;", "function", "A::~A"),
        ("bool operator==(A a, A b);", "function", "operator=="),
        ("int& A::operator [] (int i) { return i; }", "function", "A::operator[]"),
        ("A::operator  bool() const {}", "function", "A::operator bool"),
        ('int operator""_kb(char);', "function", 'operator""_kb'),
        ("void *operator new(size_t n);", "function", "operator new"),
        ('extern "C" int f();', "function", "f"),
        ("constexpr int f() noexcept(true) { try { } catch (int) { } }", "function", "f"),
        ("class A {};", "class", "A"),
        ("class A;", "class", "A"),
        ("template <> struct A<int> final {};", "class", "A"),
        ("union A { int a; };", "class", "A"),
        ("enum class A : int { B };", "enum", "A"),
        ("using A = int;", "alias", "A"),
        ("typedef int (*A)(int);", "alias", "A"),
        ("template <class T> concept A = true;", "alias", "A"),
        ("#define A(x) x", "macro", "A"),
        ("int a = 3;", "variable", "a"),
        ("const char* const a[] = {};", "variable", "a"),
        ("int A::b = 1;", "variable", "A::b"),
    ],
)
def test_each_definition_has_its_kind_and_qualified_name(
    text: str, kind: SymbolKind, name: str
) -> None:
    symbol = only(text)
    assert (symbol.kind, symbol.qualified) == (kind, name)
    assert text.encode()[symbol.name_start :].startswith(symbol.name[:8].encode())


@pytest.mark.parametrize(
    "text", ["f(1);", "return 1;", "if (a) { b(); }", "x = 1;", "namespace a {}", ";"]
)
def test_statements_define_nothing(text: str) -> None:
    assert facts_of(text, "cpp").symbols == ()


def test_namespaces_and_classes_scope_what_they_hold() -> None:
    text = (
        "namespace a::b {\ninline namespace v1 {\nnamespace {\nint f();\n}\nclass C {\n"
        "  int g();\n  struct D { int h(); };\n  friend int k(C);\n};\n}\n}\nint a::b::C::g() {}\n"
    )
    assert functions(text) == [
        "a::b::v1::f",
        "a::b::v1::C::g",
        "a::b::v1::C::D::h",
        "a::b::v1::k",
        "a::b::C::g",
    ]
    facts = facts_of(text, "cpp")
    parents = {
        each.name: facts.symbols[each.parent].name for each in facts.symbols if each.parent >= 0
    }
    assert parents == {"g": "C", "h": "D", "D": "C", "k": "C"}
    assert facts.symbols[0].scope == ("a", "b", "v1", "")


def test_scopes_are_told_to_a_depth() -> None:
    text = "namespace a {\n" * 100 + "int f();\n" + "}\n" * 100
    assert only(text).scope == ("a",) * 64


@pytest.mark.parametrize(
    ("parameters", "types", "arity"),
    [
        ("", (), (0, 0)),
        ("void", (), (0, 0)),
        ("int a, const std::vector<int, A>& b", ("int", "vector"), (2, 2)),
        ("int a, int b = f(1, 2), A c = {}", ("int", "int", "A"), (1, 3)),
        ("const char* format, ...", ("char",), (1, -1)),
        ("A a, T&&... rest", ("A", "T"), (1, -1)),
        ("int (*call)(int, int), A a", ("", "A"), (2, 2)),
        ("unsigned long a /* one, two */", ("unsigned long",), (1, 1)),
        ("std::function<void(int, int)> f", ("function",), (1, 1)),
    ],
)
def test_overloads_differ_by_types_and_arity(
    parameters: str, types: tuple[str, ...], arity: tuple[int, int]
) -> None:
    symbol = only(f"int f({parameters});")
    assert symbol.parameters == types
    assert (symbol.min_arity, symbol.max_arity) == arity


def test_functions_say_what_they_return_and_whether_they_are_virtual() -> None:
    text = (
        "struct A {\n  virtual B f();\n  auto g() -> std::C;\n  D* h() override;\n  ~A() final;\n"
        "  template <class T> static E<T> i();\n};\n"
    )
    found = facts_of(text, "cpp").symbols[1:]
    assert [each.returns for each in found] == ["B", "C", "D", "", "E"]
    assert [each.is_virtual for each in found] == [True, False, True, True, False]


def test_classes_know_bases_members_and_types() -> None:
    facts = facts_of(
        "class A : public x::B<int>, virtual private C {\n  int a_, *b_;\n  std::unique_ptr<D> d_;\n"
        "  F f_ GUARDED_BY(m);\n  void g(E);\n};\n",
        "cpp",
    )
    assert facts.symbols[0].bases == ("x::B", "C")
    assert facts.symbols[0].types == ("C", "D", "F", "std::unique_ptr", "x::B")
    assert facts.symbols[1].types == ("E",)
    assert [(each.name, each.type, each.is_object) for each in facts.members] == [
        ("a_", "int", True),
        ("b_", "int", False),
        ("d_", "D", False),
        ("f_", "F", True),
    ]


def test_includes_and_usings_are_those_that_live() -> None:
    facts = facts_of(
        '#include <a>\n# include "b/c.h"  // why\n#if 0\n#include "dead.h"\n#endif\n'
        '/*\n#include "not.h"\n*/\nusing namespace std;\nusing a::b;\nusing c = d;\n',
        "cpp",
    )
    assert facts.includes == ("a", "b/c.h")
    assert facts.usings == ("std", "a::b")


def test_macros_of_all_branches_are_known_with_all_their_lines() -> None:
    text = "#if A\n#define M(a, ...) \\\n  f(a)\n#else\n#define M\n#endif\n#define N() 1\n"
    found = facts_of(text, "cpp").symbols
    assert [(each.name, each.min_arity, each.max_arity) for each in found] == [
        ("M", 1, -1),
        ("M", 0, 0),
        ("N", 0, 0),
    ]
    assert text[found[0].start : found[0].end] == "#define M(a, ...) \\\n  f(a)\n"


def test_a_macro_s_lines_are_not_those_of_a_macro_above() -> None:
    text = "#define A(x) \\\n  EXPECT_THAT(x)\n#define B 1\n"
    assert [text[each.start : each.end] for each in facts_of(text, "cpp").symbols] == [
        "#define A(x) \\\n  EXPECT_THAT(x)\n",
        "#define B 1\n",
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("g(1, h());", ["f call g/2", "f call h/0"]),
        ("g(/* none */);", ["f call g/0"]),
        ("g(a, // one\n  b);", ["f call g/2"]),
        ("a::b<int>::g<T>(1);", ["f call a::b::g/1"]),
        ("::g();", ["f call ::g/0"]),
        ("A a; a.g(1);", ["f call A.g/1"]),
        ("std::unique_ptr<A> a; a->g();", ["f call A.g/0"]),
        ("auto a = h(); a.g();", ["f call h/0", "f call ?.g/0"]),
        ("this->g();", ["f call this.g/0"]),
        ("h().g().i();", ["f call h/0", "f call ?.g/0", "f call ?.i/0"]),
        ("a.template g<int>(1);", ["f call ?.g/1"]),
        ("LOG(g());", ["f macro LOG/1", "f call g/0"]),
        ("A a(1, 2);", ["f construct A/2"]),
        ("A a{1};", ["f construct A/1"]),
        ("new a::A(1);", ["f construct a::A/1"]),
        ("h(A{}, int{1});", ["f call h/2", "f construct A/0"]),
        ("auto l = [&](int x) { return g(x); }; l(1);", ["f call g/1", "f call l/1"]),
        ("int n = sizeof(a) + static_cast<int>(b);", []),
        ("if (a) return (b);", []),
    ],
)
def test_calls_are_told_as_they_are_written(statement: str, expected: list[str]) -> None:
    assert calls(f"void f() {{ {statement} }}") == expected


def test_members_have_types_wherever_they_stand() -> None:
    text = "struct A {\n  void f() { b_.g(); }\n  B b_;\n};\nvoid A::h() { b_.i(); }\n"
    assert calls(text) == ["A::f call B.g/0", "A::h call B.i/0"]


def test_initialisers_construct_members_and_bases() -> None:
    text = (
        "struct B {};\nstruct A : B {\n  A() : B(1), c_(2, 3), n_{4} {}\n  C c_;\n  int n_;\n};\n"
    )
    assert calls(text) == ["A::A construct B/1", "A::A construct C/2"]


def test_calls_outside_of_functions_have_no_caller() -> None:
    assert calls("int a = g(1);\nint b = [] { return h(); }();\n")[:1] == [" call g/1"]


def test_names_are_utf_8_wherever_they_are_told() -> None:
    facts = facts_of(
        "namespace ö {\nclass Ä : Ü {\n  void ß(É é) { î_.ñ(); à::ç(); x_.y(); }\n  Î î_;\n};\n}\n"
        "using ö::Ä;\n",
        "cpp",
    )
    owner, method = facts.symbols
    assert (owner.scope, owner.name, owner.bases, owner.types) == (("ö",), "Ä", ("Ü",), ("Î", "Ü"))
    assert (method.scope, method.name, method.parameters) == (("ö", "Ä"), "ß", ("É",))
    assert [(each.name, each.type) for each in facts.members] == [("î_", "Î")]
    assert [(each.receiver, each.qualifier, each.name) for each in facts.calls] == [
        ("Î", (), "ñ"),
        (None, ("à",), "ç"),
        ("", (), "y"),
    ]
    assert facts.usings == ("ö::Ä",)


def test_c_is_read_as_c() -> None:
    text = (
        "struct node { struct node *next; };\nstatic int f(struct node *new) { return g(new->next); }\n"
        "typedef enum { A } Kind;\ntypedef struct both { int x; } both;\nint k(void);\n"
    )
    facts = facts_of(text, "c")
    assert [(each.kind, each.name) for each in facts.symbols] == [
        ("class", "node"),
        ("function", "f"),
        ("enum", "Kind"),
        ("class", "both"),
        ("function", "k"),
    ]
    assert facts.symbols[1].parameters == ("node",)
    assert calls(text, "c") == ["f call g/1"]
    assert facts.error_bytes == 0


@pytest.mark.parametrize(
    "text",
    [
        "#if A\nint f(int a) {\n#else\nint f(long a) {\n#endif\n  return 1;\n}\n",
        "int f(int a)\n#if 0\n  throw()\n#endif\n{ return 1; }\n",
        "FMT_API int f(int a) { return 1; }\n",
        "AB_BEGIN_NAMESPACE\nint f(int a) { return 1; }\nAB_END_NAMESPACE\n",
        "static AB_INLINE int f(int a) AB_NOEXCEPT { return 1; }\n",
        "AB_NON_NULL(1)\nint AB_CALL f(int a) { return 1; }\n",
        "template <class T, AB_ENABLE_IF(is<T>())>\nint f(T a) { return 1; }\n",
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\nint f(int a) { return 1; }\n#ifdef __cplusplus\n}\n"
        "#endif\n",
        "int f(int a) { return AB_PLUS(1) }\n",
        "int f(int a) {\n  AB_TRY {\n    return 1;\n  } AB_CATCH(...) {\n  }\n}\n",
    ],
)  # fmt: skip
def test_functions_survive_branches_and_macros(text: str) -> None:
    facts = facts_of(text, "cpp")
    (found,) = (each for each in facts.symbols if each.kind == "function")
    assert (found.name, found.scope, found.min_arity) == ("f", (), 1)
    assert found.body is not None
    assert text[found.body.start] == "{"
    assert text[found.body.end - 1] == "}"


def test_methods_survive_access_labels_and_annotations() -> None:
    text = (
        "class AB_EXPORT A : public B {\n AB_PRIVATE_UNLESS_TESTED:\n  Q_OBJECT\n"
        "  AB_API void f() AB_LOCKS_EXCLUDED(m_);\n public Q_SLOTS:\n  void g() { h(); }\n"
        "  int m_ AB_GUARDED_BY(n_);\n};\n"
    )
    facts = facts_of(text, "cpp")
    assert [each.qualified for each in facts.symbols] == ["A", "A::f", "A::g"]
    assert facts.symbols[0].bases == ("B",)
    assert [each.name for each in facts.members] == ["m_"]
    assert calls(text) == ["A::g call h/0"]
    assert facts.error_bytes == 0


def test_a_definition_takes_comments_attributes_and_macros_right_above() -> None:
    text = "int a;\n\n// One.\n/* Two. */\nAB_NON_NULL(1)\ntemplate <class T>\n[[nodiscard]]\nint f(T);\n\n"
    symbol = facts_of(text, "cpp").symbols[1]
    assert text[symbol.start : symbol.end] == text[text.index("// One") : -1]


@pytest.mark.parametrize(
    "text",
    [
        "namespace a {\n" * 5_000 + "}\n" * 5_000,
        "class a {\n" * 5_000 + "};\n" * 5_000,
        "int x = " + "f(/**/" * 10_000 + ")" * 10_000 + ";",
        "int x = a" + ".a()" * 40_000 + ";",
        "AB_C\n" * 5_000 + "int f();" * 5_000,
        "int f() {} /* x */" * 5_000,
        "a<" * 20_000,
        "#define A \\\n" + "  x \\\n" * 20_000,
        "#if 1\n#i" * 10_000,
        ")" + "&" * 50_000,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_no_text_is_too_much_for_facts(text: str) -> None:
    assert 0 <= facts_of(text, "cpp").error_bytes <= len(text)
