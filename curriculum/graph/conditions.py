"""Which branches of #if a compiler on Linux would surely leave out."""

import functools
import re

from schemas.corpus import Language

_LONGEST = 500
"""Characters; longer conditions aren't judged."""
_FALSE = frozenset(
    [
        "_WIN32",
        "WIN32",
        "_WIN64",
        "__WIN32__",
        "_MSC_VER",
        "_MSC_FULL_VER",
        "__MINGW32__",
        "__MINGW64__",
        "__CYGWIN__",
        "__APPLE__",
        "__MACH__",
        "__ANDROID__",
        "__FreeBSD__",
        "__NetBSD__",
        "__OpenBSD__",
        "__sun",
        "__HAIKU__",
        "_AIX",
        "__INTEL_COMPILER",
        "__NVCC__",
        "__NVCOMPILER",
        "__CUDACC__",
        "__CUDA_ARCH__",
        "__EMSCRIPTEN__",
        "__BORLANDC__",
        "__SUNPRO_CC",
        "__SUNPRO_C",
        "__IBMCPP__",
        "__ICCARM__",
        "__CC_ARM",
        "__DMC__",
        "__SWITCH__",
        "__VXWORKS__",
        "DOXYGEN",
        "__DOXYGEN__",
        "DOXYGEN_SHOULD_SKIP_THIS",
        "GENERATING_DOCUMENTATION",
        "SWIG",
    ]
)
_TRUE = frozenset(("__linux__", "__linux", "linux", "__unix__", "__unix", "__GNUC__", "__STDC__"))
_STANDARD = 202_002
"""What __cplusplus is taken for; in C it isn't defined."""

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_COMPARED = re.compile(r"(\d+)(?:u?l{0,2})\s*([<>]=?|[!=]=)\s*(\d+)(?:u?l{0,2})", re.IGNORECASE)
_CALLED = re.compile(r"(?!defined\b)\b[A-Za-z_]\w*\s*\([^()]*\)")
_NUMBER = re.compile(r"(?<!\w)(\d+)(?:u?l{0,2})(?!\w)", re.IGNORECASE)
_NAME = re.compile(r"\b(?![TFU]\b)[A-Za-z_]\w*")
_RULES = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"\(([TFU])\)", r"\1"),
        (r"!!", ""),
        (r"!T", "F"),
        (r"!F", "T"),
        (r"!U", "U"),
        (r"(?<!!)(?:F&&[TFU]|[TU]&&F)", "F"),
        (r"(?<!!)T&&T", "T"),
        (r"(?<!!)(?:U&&[TU]|T&&U)", "U"),
        (r"(?<![!&])(?:T\|\|[TFU]|[FU]\|\|T)(?!&)", "T"),
        (r"(?<![!&])F\|\|F(?!&)", "F"),
        (r"(?<![!&])(?:U\|\|[FU]|F\|\|U)(?!&)", "U"),
    )
)
"""T, F and U are true, false and unknown."""


@functools.lru_cache(maxsize=4096)
def may_hold(directive: str, condition: str, language: Language) -> bool:
    """Whether the branch of `#directive condition` may be compiled; what isn't known may be.

    >>> may_hold("if", "defined(_WIN32) && X", "cpp"), may_hold("ifndef", "A_H", "cpp")
    (False, True)
    >>> may_hold("if", "0 || (X > 3)", "cpp"), may_hold("ifdef", "__cplusplus", "c")
    (True, False)
    """
    condition = condition.strip()
    if directive in ("ifdef", "ifndef", "elifdef", "elifndef"):
        condition = f"defined {condition.split()[0]}" if condition else ""
        condition = f"!{condition}" if directive.endswith("ndef") else condition
    return len(condition) > _LONGEST or _judged(condition, language) != "F"


def _judged(condition: str, language: Language) -> str:
    def is_defined(match: re.Match[str]) -> str:
        return _truth(match[1] or match[2], language)

    reduced = _DEFINED.sub(is_defined, condition)
    if language == "cpp":
        reduced = re.sub(r"\b__cplusplus\b", str(_STANDARD), reduced)
    reduced = re.sub(r"\b[A-Za-z_]\w*\b(?!\s*\()", lambda m: _number(m[0], language), reduced)
    reduced = _COMPARED.sub(_comparison, reduced)
    reduced = _CALLED.sub("U", reduced)
    reduced = _NUMBER.sub(lambda match: "T" if int(match[1]) else "F", reduced)
    reduced = _NAME.sub("U", reduced)
    return _reduced("".join(reduced.split()))


def _truth(name: str, language: Language) -> str:
    if name == "__cplusplus":
        return "T" if language == "cpp" else "F"
    return "T" if name in _TRUE else "F" if name in _FALSE else "U"


def _number(name: str, language: Language) -> str:
    if name in _FALSE or (name == "__cplusplus" and language == "c"):
        return "0"
    return {"true": "1", "false": "0"}.get(name, name)


def _comparison(match: re.Match[str]) -> str:
    left, right = int(match[1]), int(match[3])
    order = (left > right) - (left < right)
    holds = {"<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}
    return "T" if holds.get(match[2], (order == 0) == (match[2] == "==")) else "F"


def _reduced(logic: str) -> str:
    while True:
        before = logic
        for pattern, to in _RULES:
            logic = pattern.sub(to, logic)
        if logic == before:
            return logic
