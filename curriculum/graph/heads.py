"""Beginnings (heads) of declarations that the grammar can't parse because of macros, and the bytes to blank.

The macros may be in any case. A head is matched only where it must be a declaration: up to the brace of a
class or namespace, up to the brace or semicolon after a parameter list, or from the beginning of a line.
Matched forms:

    class [[nodiscard]] my_api Y : Base {      words before the name of a class
    namespace lib LIB_ATTR {                   words before or after the name of a namespace
    export namespace n {                       `export`, and the braces of `export {`; `import std;`
    static __printf(2, 3) int say(int, …);     a call between a specifier and a type, or before a declaration
    CJSON_PUBLIC(char *) parse(int);           only the parentheses around a type, with the name before them
    char * __attribute__((used)) name(void);   words between a pointer and a function's name
    void wait(int) __acquires(lock) {          words after a parameter list
    int f OF((int a)) {                        a macro around a parameter list
    my_api std::string name();                 a word before a qualified type, or before a constructor
    int Box::*member();                        the class of a pointer to a member
    void (lua_close)(lua_State *L);            the parentheses around a declared name
    char *name(a, b) char *a; {                in C, the pointer before a name with K&R parameters
    { BEGIN_A BEGIN_B                          words on lines of their own
    ABSL_FLAG(int, size, 8, "…");              a call with types at the beginning of a line

In C, a function without a type – DEFINE_TEST(x) {…}, main() {…} – loses the second byte of its name, so that
the grammar parses the first byte as its type.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from curriculum.graph.blank import blank
from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import BLANK, merge_ranges
from schemas.corpus import Language

_KEYWORDS = (
    rb"(?:alignas|alignof|and|asm|auto|bool|break|case|catch|char|class|concept|const|consteval|constexpr"
    rb"|constinit|const_cast|continue|co_await|co_return|co_yield|decltype|default|defined|delete|do"
    rb"|double|dynamic_cast|else|enum|explicit|extern|final|float|for|friend|goto|if|inline|int|long"
    rb"|mutable|namespace|new|noexcept|not|operator|or|override|private|protected|public|register"
    rb"|reinterpret_cast|requires|restrict|return|short|signed|sizeof|static|static_assert|static_cast"
    rb"|struct|switch|template|this|thread_local|throw|try|typedef|typeid|typename|union|unsigned|using"
    rb"|virtual|void|volatile|while)\b"
)
_WORD = rb"[A-Za-z_]\w*+"
_FREE = rb"(?!" + _KEYWORDS + rb")" + _WORD
"""Identifier that is not a keyword: a name or a macro. Patterns match it last, because it is their slowest
part.
"""
_NAME = rb"(?:" + _WORD + rb"::)*+~?" + _FREE
_CAPS = re.compile(rb"[A-Z_][A-Z0-9_]{2,}\Z")
_ARGUMENTS = rb"\((?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+\)"
_ATTRIBUTE = rb"\[\[[^\[\]]*+\]\]"
_TEMPLATE = (
    rb"(?:\s*+<(?:[^;{}()<>]++|<(?:[^;{}()<>]++|<(?:[^;{}()<>]++|<[^;{}()<>]*+>)*+>)*+>)*+>)?+"
)
_SCOPED = _WORD + _TEMPLATE + rb"(?:::" + _WORD + _TEMPLATE + rb")*+"
_TYPE = rb"(?:(?:::)?" + _SCOPED + rb"[\s*&]++){1,8}?"
"""Type of up to eight words, and the space or pointers between the type and a name."""
_NO_STATEMENT = (
    rb"(?!(?:return|else|case|goto|new|delete|throw|using|do|typedef|co_\w++|noexcept|override|final"
    rb"|requires|try|default|while|for|if|switch|public|private|protected)\b)"
)
_FIRST_WORD = rb"(?=[\w:]++[<\s*&])" + _NO_STATEMENT
_LINE = rb"\n" + _FIRST_WORD

_LOOK_BACK = 200
"""Maximum bytes searched backwards for the class name before a pointer to a member."""
_CLASS_ITEM = re.compile(
    _ATTRIBUTE + rb"|(" + _WORD + rb")(?:::~?\w++)*+(\s*+" + _ARGUMENTS + rb")?" + _TEMPLATE
)
_CLASS_HEAD = re.compile(
    rb"\n[ \t]*+(?:(?:typedef|static|const|friend|export|template" + _TEMPLATE + rb")\s*+){0,16}+"
    rb"(class|struct|union|enum(?:\s++(?:class|struct)\b)?)\b\s*+"
    rb"(?=\[\[|" + _WORD + rb"\s*+(?:\w|\(|\[\[))"
    rb"((?:(?:" + _CLASS_ITEM.pattern.replace(b"(" + _WORD, b"(?:" + _WORD).replace(b"(\\s", b"(?:\\s")
    + rb")\s*+){2,9})(?:\{|(:)(?!:)(?=[^;{}]{1,2000}\{))"
)  # fmt: skip
_CLASS_WORDS = frozenset((b"alignas", b"__attribute__", b"__declspec", b"final", b"sealed"))
_FINAL = re.compile(rb"\w*(?:final|sealed)\w*", re.IGNORECASE)
_MEMBERS = re.compile(rb"[^;{}]*+(?:;|(?<=\))\{|(?<=[\w)]\s)\{)")
_NAMESPACE_HEAD = re.compile(
    rb"namespace\s++((?:(?:" + _ATTRIBUTE + rb"|(?!inline\b)" + _WORD + rb"(?:::(?!inline\b)\w++)*+"
    rb"(?:\s*+" + _ARGUMENTS + rb")?)\s*+){2,4})\{"
)  # fmt: skip


def heads(bare: bytes, calls: Sequence[re.Match[bytes]], language: Language) -> tuple[Range, ...]:
    r"""Return the bytes to blank, sorted and disjoint.

    Args:
        bare: b"\n", then the file with its comments, literals and directives blanked.
        calls: result of `leading_calls(bare)`.
        language: c or cpp.
    """
    rules = _C_RULES if language == "c" else _CPP_RULES
    around = merge_ranges(_around_parameters(bare))
    bare = blank(bare, around) if around else bare
    rest = (found for rule in rules for found in rule(bare))
    return merge_ranges((*around, *_macro_calls(bare, calls), *rest))


def _classes(bare: bytes, *, has_variables: bool) -> Iterator[Range]:
    """Yield the words before a class's name.

    With `has_variables`, text like `struct stat found{};` declares a variable and is skipped.
    """
    for head in _CLASS_HEAD.finditer(bare):
        items = list(_CLASS_ITEM.finditer(bare, *head.span(2)))
        words = [item for item in items if item[1] and item[1] not in _CLASS_WORDS]
        is_class = head[1] not in (b"struct", b"union") or head[3]
        if head[1] != b"class" and not head[3] and any(word[2] for word in words[1:]):
            continue
        while len(words) > 1 and (words[-1][2] or _FINAL.fullmatch(words[-1][0])):
            yield Range(*words.pop().span())
        macros = [] if not words or words[-1][2] else words[:-1]
        is_sure = is_class or not has_variables or _MEMBERS.match(bare, head.end())
        if is_sure or any(_CAPS.match(macro[1]) for macro in macros):
            yield from (Range(*macro.span()) for macro in macros)
        leads = [item[1] for item in items]
        if b"alignas" in leads[1:]:
            yield from (Range(*item.span()) for item in items if item[1] == b"alignas")


def _namespaces(bare: bytes) -> Iterator[Range]:
    """Yield the words before and after a namespace's name.

    The name is the first word that isn't in ALL_CAPS; if all words are, it is the first word.
    """
    for head in _NAMESPACE_HEAD.finditer(bare):
        items = list(_CLASS_ITEM.finditer(bare, *head.span(1)))
        names = [item for item in items if item[1] and not item[2]]
        names = [item for item in names if not _CAPS.match(item[1])] or names
        for item in items if names else ():
            is_lead = item[1] is None and item.start() < names[0].start()
            if item is not names[0] and not is_lead:
                yield Range(*item.span())


_IMPORT = re.compile(
    rb"\n(?:export\s++)?(?:module|import)\b[ \t]*+(?:[\w.:<>/]++[ \t]*+)?(?:"
    + _ATTRIBUTE + rb")?\s*+;"
)  # fmt: skip
_EXPORT = re.compile(rb"export(?<!\w.{6})\b\s*+(?=[\w\[{:])(\{)?")
_BRACE = re.compile(rb"[{}]")


def _modules(bare: bytes) -> Iterator[Range]:
    """Yield imports, the keyword `export`, and the braces of export blocks."""
    if b"export" not in bare and b"import" not in bare:
        return
    yield from (Range(*line.span()) for line in _IMPORT.finditer(bare))
    opening: set[int] = set()
    for export in _EXPORT.finditer(bare):
        yield Range(*export.span())
        opening.update([export.end()] if export[1] else [])
    waiting: list[int] = []
    for brace in _BRACE.finditer(bare) if opening else ():
        if brace[0] == b"{":
            waiting.append(brace.end())
        elif waiting and waiting.pop() in opening:
            yield Range(*brace.span())


_NAMES = rb"\(\s*+" + _WORD + rb"\s*+(?:,\s*+" + _WORD + rb"\s*+)*+\)"
_K_AND_R = _NAMES + rb"\s*+(?:[A-Za-z_][^;{}=]{0,300}+;\s*+){1,32}+\{"
_OLD_STYLE = re.compile(_K_AND_R)
_LISTED = re.compile(_NAMES)
_MIN_NAME_BYTES = 3
"""Minimum length of a function name whose second byte is blanked."""
_CALL = re.compile(
    rb"\n(?:[ \t]*+(?:(static|extern|inline|virtual|friend|constexpr)[ \t]++)++)?+(?=" + _WORD
    + rb"[ \t]*+\()(" + _FREE + rb")[ \t]*+(" + _ARGUMENTS + rb")\s*+(?=[\w:*{])"
)  # fmt: skip
_NAMED = re.compile(rb"[\s*]*+" + _NAME + rb"\s*+" + _ARGUMENTS + rb"\s*+([{;])?")
_DECLARES = re.compile(_NO_STATEMENT + _TYPE + rb"\(?\s*+[*&]*+" + _NAME + rb"\)?\s*+[(;=\[]")
_ONE_TYPE = re.compile(
    rb"\(\s*+(?:(?:const|unsigned|signed|struct|enum|union|long|short|volatile)\s++)*+"
    + _SCOPED + rb"[\s*&]*+(?:const\s*+)?\)"
)  # fmt: skip


def leading_calls(bare: bytes) -> Sequence[re.Match[bytes]]:
    """Return the matches of text that looks like a call at the beginning of a line.

    Specifiers such as `static` may precede the call.
    """
    return list(_CALL.finditer(bare))


def _macro_calls(bare: bytes, calls: Sequence[re.Match[bytes]]) -> Iterator[Range]:
    """Yield macros with arguments before a declaration, and macros around a type."""
    for call in calls:
        (name, arguments), end = (call.start(2), call.span(3)), call.end()
        if bare.startswith(b"{", end) or not (call[1] or _is_first(bare, name)):
            continue
        if _OLD_STYLE.match(bare, arguments[0]):
            continue
        function = _NAMED.match(bare, end)
        if function is None:
            if _DECLARES.match(bare, end):
                yield Range(name, arguments[1])
            continue
        one_line = b"\n" not in bare[arguments[1] : end]
        is_head = function[1] == b"{" or (function[1] == b";" and one_line)
        if is_head and _ONE_TYPE.fullmatch(bare, *arguments):
            # Blank only the macro's name and parentheses: its argument is the function's type.
            yield from (Range(name, arguments[0] + 1), Range(arguments[1] - 1, arguments[1]))


def untyped_functions(bare: bytes, calls: Sequence[re.Match[bytes]]) -> tuple[Range, ...]:
    """Return the bytes to blank in functions without a return type, and macro arguments that are no names.

    Of a function's name, the second byte is blanked. A macro that defines a function, such as
    SYSCALL_DEFINE1(close, unsigned int, fd) {…}, looks like a function without a type. In `bare`, macros are
    blanked as well.
    """
    found: list[Range] = []
    for call in calls:
        (start, end), (opening, closing) = call.span(2), call.span(3)
        has_body = bare.startswith(b"{", call.end())
        if end - start < _MIN_NAME_BYTES or not (has_body or _OLD_STYLE.match(bare, opening)):
            continue
        if bare[start] in BLANK or not (call[1] or _is_first(bare, start)):
            continue
        found.append(Range(start + 1, start + 2))
        if _CAPS.match(call[2]) and not _LISTED.fullmatch(bare, opening, closing):
            found.append(Range(opening + 1, closing - 1))
    return merge_ranges(found)


def _is_first(bare: bytes, place: int) -> bool:
    """Return True if `place` is the beginning of a statement or declaration."""
    while place and bare[place - 1] in BLANK:
        place -= 1
    return not place or bare[place - 1] in b";{}"


_AFTER_POINTER = re.compile(
    rb"\n(?=\w)[^\n;=(){}*&]*+[*&][\s*&]*+(?:((?:(?=\w++\s++\w)" + _FREE + rb"\s++"
    rb"|(?:__attribute__|__declspec|[A-Z][A-Z0-9_]{2,}+)\s*+" + _ARGUMENTS + rb"\s*+){1,4}?)"
    rb"(?=(?!__attribute__)" + _NAME + rb"\s*+\((?!\s*+\())|(__attribute__\s*+" + _ARGUMENTS + rb"))"
)  # fmt: skip
"""Words between a pointer and a function's name."""


_PASSED = rb"(?:const|volatile|noexcept|override|final|mutable|throw|try)\b"
_TRAILING = re.compile(rb"(?:" + _PASSED + rb"|(" + _FREE + rb"))(\s*+" + _ARGUMENTS + rb")?\s*+")
_SPECIFIERS = frozenset(b"static extern inline virtual friend constexpr".split())
_KEYS = frozenset(b"class struct union enum namespace".split())
_PARAMETERS = re.compile(
    rb"\n[ \t]*+" + _FIRST_WORD + _TYPE
    + rb"((?!__attribute__|__declspec|_?[Aa]lignas)" + _NAME + rb"\s*+" + _ARGUMENTS + rb")\s*+((?:"
    + _TRAILING.pattern.replace(b"(" + _FREE, b"(?:" + _FREE).replace(b"(\\s", b"(?:\\s")
    + rb"){1,8}+)([{;])"
)  # fmt: skip


def _after_parameters(bare: bytes) -> Iterator[Range]:
    """Yield the words after a parameter list.

    A macro with arguments between a type and a function's name looks like a function; then the macro is
    yielded.
    """
    for head in _PARAMETERS.finditer(bare):
        before = bare[head.start() : head.start(1)].split()
        if _SPECIFIERS.issuperset(before) or before[-1] in _KEYS:
            continue
        names = [item for item in _TRAILING.finditer(bare, *head.span(2)) if item[1]]
        has_body = head[3] == b"{"
        if not has_body and not all(
            item[2] or _CAPS.match(item[1]) or item[1].startswith(b"_") for item in names
        ):
            continue
        is_alone = has_body and len(names) == 1 and names[0][2]
        is_first = is_alone and names[0].start() == head.start(2)
        if is_first and _is_name(bare, head[1], names[0]):
            yield Range(*head.span(1))
        else:
            yield from (Range(*item.span()) for item in names)


def _is_name(bare: bytes, before: bytes, item: re.Match[bytes]) -> bool:
    """Return True if `item` is the function's name and `before` is a macro with arguments."""
    if item[1].startswith(b"__") or _CAPS.match(item[1]):
        return False
    return before.startswith(b"__") or bare[item.start() - 1 : item.start()] == b"\n"


_BEFORE_QUALIFIED = re.compile(
    rb"\n(?=\w++[ \t]++(?:::)?\w++(?:<|::))(" + _FREE + rb")\s++(?=(?:::)?" + _SCOPED + rb"[\s*&]++" + _NAME
    + rb"\s*+\(|(" + _WORD + rb")::~?\2\s*+\()"
)  # fmt: skip


def _before_qualified(bare: bytes) -> Iterator[Range]:
    """Yield a word before a qualified type or before a constructor."""
    for found in _BEFORE_QUALIFIED.finditer(bare):
        if _is_first(bare, found.start(1)):
            yield Range(*found.span(1))


_MEMBER_POINTER = re.compile(rb"::\s*+\*")
_CLASS_BEFORE = re.compile(rb"(?:" + _WORD + _TEMPLATE + rb"::)++\Z")
_OLD_POINTER = re.compile(rb"(\*[\s*]*+)(" + _WORD + rb"\s*+" + _K_AND_R + rb")?")
_PARENTHESES = re.compile(
    _LINE + _TYPE + rb"(?<=[\s*&])(\()\s*+" + _NAME + rb"\s*+(\))\s*+"
    rb"(?=\(\s*+(?:void\s*+)?\)|\([^()]*\w[\s*&]++\w|\([^()]*\()" + _ARGUMENTS + rb"\s*+;"
)  # fmt: skip
_PROTOTYPE = re.compile(
    rb"\n[ \t]*+" + _FIRST_WORD + rb"(" + _TYPE + rb")" + _NAME
    + rb"\s++((?!__attribute__|__declspec|_?[Aa]lignas)" + _FREE + rb"\s*+\()\s*+"
    + rb"(?:(?=\(\s*+(?:void\s*+)?\)|\([^()]*\w[\s*&]++\w)|(?=[^;{]{1,2000}+\{))" + _ARGUMENTS
    + rb"\s*+(\))\s*+(?:(?:const|noexcept|override|final)\b\s*+)*+[{;]"
)  # fmt: skip
_BEFORE_LINE = re.compile(
    rb"\n(?:(?:static|inline|extern)\s++){0,16}+(?=\w++[\s*&]++[A-Z_])" + _FREE
    + rb"[\s*&]++([A-Z_][A-Z0-9_]{2,})[ \t]*+\n(?="
    + _NAME + rb"\s*+" + _ARGUMENTS + rb"\s*+[{;])"
)  # fmt: skip
"""Macro between a type and a function's name, which is on the next line."""


def _around_parameters(bare: bytes) -> Iterator[Range]:
    """Yield a macro and its parentheses around a parameter list, as in zlib's OF((int a))."""
    for found in _PROTOTYPE.finditer(bare):
        if found[1].split()[-1] not in _KEYS:
            yield from (Range(*found.span(2)), Range(*found.span(3)))


def _member_pointers(bare: bytes) -> Iterator[Range]:
    for found in _MEMBER_POINTER.finditer(bare):
        end = found.start() + 2
        if scope := _CLASS_BEFORE.search(bare, max(0, end - _LOOK_BACK), end):
            yield Range(*scope.span())


def _old_pointers(bare: bytes) -> Iterator[Range]:
    """Yield the pointers in the return types of functions with K&R parameters."""
    for found in _OLD_POINTER.finditer(bare):
        if found[2] is not None:
            yield Range(*found.span(1))


_ALONE = rb"[A-Z][A-Z0-9_]{2,}(?!\w)(?:[ \t]*+" + _ARGUMENTS + rb")?"
_BARE = re.compile(
    rb"\n[ \t]*+(" + _ALONE + rb"(?:[ \t]++" + _ALONE + rb")++)[ \t]*+\n(?!\w++\s*+\()"
    rb"|\n[ \t]++(?=\w++[ \t]*+\()((?:" + _FREE + rb"[ \t]*+" + _ARGUMENTS + rb"[ \t]*+){2,16}+)\n(?!\s*+\{)"
    rb"|\n((?:[ \t]++(?=\w++[ \t]*+\n)" + _FREE + rb"[ \t]*+\n(?:[ \t]*+\n)*+){2,16}+)(?=\s*+[\w}])"
    rb"(\s*+\w++\s*+\()?"
)  # fmt: skip


def _bare_words(bare: bytes) -> Iterator[Range]:
    """Yield macros that stand without a semicolon.

    The last word before a function's name may be its type, so it is not yielded.
    """
    for found in _BARE.finditer(bare):
        start, end = found.span(1 if found[1] else 2 if found[2] else 3)
        words = bare[start:end].rstrip()
        if _is_first(bare, start):
            yield Range(start, start + (words.rfind(b"\n") if found[4] else len(words)))


_TYPES_AS_ARGUMENTS = re.compile(
    rb"\n([A-Z][A-Z0-9_]{2,}[ \t]*+(?=\()(?=\([^()]*\b(?:bool|char|double|float|int|long|short|unsigned)\b)"
    + _ARGUMENTS + rb")[ \t]*+;"
)  # fmt: skip
"""Macros at the beginning of a line whose arguments are types."""


_Rule = Callable[[bytes], Iterator[Range]]


def _groups(pattern: re.Pattern[bytes]) -> _Rule:
    """Return a rule that yields the ranges of all groups of a pattern."""

    def rule(bare: bytes) -> Iterator[Range]:
        for found in pattern.finditer(bare):
            for group in range(1, pattern.groups + 1):
                if found[group] is not None:
                    yield Range(*found.span(group))

    return rule


_SHARED_RULES: tuple[_Rule, ...] = (
    _groups(_AFTER_POINTER), _after_parameters, _groups(_BEFORE_LINE), _groups(_PARENTHESES),
    _groups(_TYPES_AS_ARGUMENTS), _bare_words,
)  # fmt: skip
_C_RULES: tuple[_Rule, ...] = (
    *_SHARED_RULES,
    partial(_classes, has_variables=False),
    _old_pointers,
)
_CPP_RULES: tuple[_Rule, ...] = (
    *_SHARED_RULES, partial(_classes, has_variables=True), _namespaces, _modules, _before_qualified,
    _member_pointers,
)  # fmt: skip
