"""Random histories of small trees of C++ and CMake, whose commits change what calls, types and bases mean."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from schemas.change import Blob, TreeDelta, TreeFile
from schemas.corpus import Language

Tree = Mapping[str, tuple[str, ...]]
"""Lines by path; each line is a whole definition or directive."""

DECLARED = (
    "struct {C} {{ void {F}(); virtual void {G}(int x); }};",
    "struct {C} {{ void {F}(int x = 0); {C}(int x); }};",
    "struct {C} : {B} {{ void {G}(int x) override; {T} held; }};",
    "struct Box {{ {T} held; void go(); Box(); }};",
    "struct Crate : {B} {{ void go(); {T} kept; }};",
    "struct Crate : Box {{ void go(); {T} kept; }};",
    "using Alias = {T};",
    "typedef {C} Alias;",
    "using namespace n;",
    "using n::{F};",
    '#include "{H}"',
    "#define {F}(x) x",
    "#define {F} {G}",
    "void {F}({T} x);",
    "void {F}(int x, int y = 0);",
    "namespace n {{ struct {C} {{ void {F}(); }}; void {G}(int x); }}",
    "enum {C} {{ one }};",
    "// {F}",
)
DEFINED = (
    "void Box::go() {{ held.{F}(); held.{G}(1); }}",
    "void Crate::go() {{ kept.{F}(); held.{F}(); {G}(1); }}",
    "void {C}::{F}() {{ {G}(1); }}",
    "void {C}::{F}(int x) {{ {F}(); }}",
    "Box::Box() : held(1) {{}}",
    "void {F}(int x) {{ {C} made; made.{G}(); }}",
    "void {F}(int x, int y) {{ n::{G}(x); }}",
    "namespace {{ void {F}({C} x) {{ x.{G}(); }} }}",
    "void user(Box b, Alias a) {{ b.go(); a.{F}(); b.held.{G}(1); {G}(2); {C} c(1); }}",
    "namespace n {{ void {C}::{F}() {{ {G}(1); }} void {G}(int x) {{ }} }}",
)
BUILT = (
    "add_library({F} {H})",
    "add_executable({F} a.cc)",
    "target_link_libraries({F} {G})",
)
HEADERS = ("a.h", "b.h", "sub/a.h")
CODE = (*HEADERS, "a.cc", "b.cc")
CMAKE = ("CMakeLists.txt", "sub/CMakeLists.txt")
START: Tree = {
    "a.h": (
        "struct Foo { void launch(); virtual void step(int x); };",
        "struct Bar { void launch(); virtual void step(int x); };",
        "struct Box { Foo held; void go(); Box(); };",
        "using Alias = Bar;",
    ),
    "b.h": (
        '#include "a.h"',
        "struct Crate : Box { void go(); Bar kept; };",
        "namespace n { struct Foo : Bar { void launch(); void step(int x); }; void step(int x); }",
    ),
    "a.cc": (
        '#include "a.h"',
        "void Foo::launch() { step(1); }",
        "void Bar::launch() { step(1); }",
        "void Box::go() { held.launch(); held.step(1); }",
    ),
    "b.cc": (
        '#include "b.h"',
        "void Crate::go() { kept.launch(); held.launch(); step(1); }",
        "void user(Box b, Alias a) { b.go(); a.launch(); b.held.step(1); step(2); Foo c(1); }",
        "void step(int x, int y = 0) { n::step(x); }",
    ),
    "CMakeLists.txt": ("add_library(launch a.cc)", "add_executable(go b.cc)"),
}
NAME = re.compile(r"\b(?:Foo|Bar|Alias|launch|step|go|held|kept)\b")
MEMBER = re.compile(r" \S+ (held|kept);")
CLASSES = st.sampled_from(("Foo", "Bar", "Alias"))
FUNCTIONS = st.sampled_from(("launch", "step", "go"))
TYPES = st.sampled_from(("Foo", "Bar", "Foo*", "std::unique_ptr<Bar>", "n::Foo", "Alias"))


class Change(NamedTuple):
    """One thing that a commit does to a path; where there is nothing to do it to, it does nothing."""

    does: Literal["replace", "insert", "cut", "rename", "retype", "move", "delete", "restore"]
    path: str
    at: int = 0
    """The line, counted round."""
    text: str = ""
    """The new line, the new name, or the path to move to."""
    name: int = 0
    """Index of the renamed name in its line, modulo the number of names."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A tree, what led to it, and whether the graph of it is read."""

    files: Mapping[str, str]
    delta: TreeDelta
    is_read: bool


def lines(templates: Sequence[str]) -> st.SearchStrategy[str]:
    """A line of some templates, with names that stand in others too."""
    return st.builds(
        str.format,
        st.sampled_from(templates),
        C=CLASSES,
        B=st.sampled_from(("Foo", "Bar", "n::Foo", "Box")),
        F=FUNCTIONS,
        G=FUNCTIONS,
        T=TYPES,
        H=st.sampled_from(HEADERS),
    )


def changes() -> st.SearchStrategy[Change]:
    """Changes of any kind, mostly of lines and of names in them."""
    number = st.integers(0, 4)
    named = st.one_of(TYPES, FUNCTIONS, st.sampled_from(("held", "kept")))
    edits = st.sampled_from(("replace", "replace", "insert"))
    return st.one_of(
        st.builds(Change, edits, st.sampled_from(HEADERS), number, lines(DECLARED)),
        st.builds(Change, edits, st.sampled_from(CODE), number, lines(DECLARED + DEFINED)),
        st.builds(Change, edits, st.sampled_from(CMAKE), number, lines(BUILT)),
        st.builds(
            Change, st.sampled_from(("cut", "delete", "restore")), st.sampled_from(CODE), number
        ),
        st.builds(Change, st.just("retype"), st.sampled_from(HEADERS), number, TYPES),
        st.builds(Change, st.just("rename"), st.sampled_from(CODE), number, named, number),
        st.builds(Change, st.just("move"), st.sampled_from(CODE), number, st.sampled_from(CODE)),
    )


def histories(*, most: int) -> st.SearchStrategy[list[Commit]]:
    """Histories of some commits, `most` at most, after the first, which has the same tree in all of them."""
    made = st.tuples(st.lists(changes(), min_size=1, max_size=3), st.booleans())
    return st.lists(made, min_size=most // 2, max_size=most).map(
        lambda commits: list(_walked(commits))
    )


def text_of(tree: Tree) -> dict[str, str]:
    """The files of a tree."""
    return {path: "".join(f"{line}\n" for line in lines) for path, lines in tree.items()}


def delta_of(before: Mapping[str, str], after: Mapping[str, str]) -> TreeDelta:
    """Return the difference between two trees."""
    return TreeDelta(
        removed=tuple(sorted(before.keys() - after.keys())),
        files=tuple(
            _file(path, text) for path, text in sorted(after.items()) if before.get(path) != text
        ),
    )


def _file(path: str, text: str) -> TreeFile:
    language: Language = "cmake" if path.endswith(".txt") else "cpp"
    blob = Blob(blob_id=sha1(text.encode()).hexdigest(), text=text)
    return TreeFile(path=path, language=language, blob=blob, lineage=f"sample:{path}")


def _walked(commits: Sequence[tuple[Sequence[Change], bool]]) -> Iterator[Commit]:
    tree, gone = dict(START), dict[str, tuple[str, ...]]()
    files = text_of(tree)
    yield Commit(files=files, delta=delta_of({}, files), is_read=True)
    for number, (made, is_read) in enumerate(commits, start=1):
        for change in made:
            _apply(tree, gone, change)
        before, files = files, text_of(tree)
        is_last = number == len(commits)
        yield Commit(files=files, delta=delta_of(before, files), is_read=is_read or is_last)


def _apply(
    tree: dict[str, tuple[str, ...]], gone: dict[str, tuple[str, ...]], made: Change
) -> None:
    known = tree.get(made.path)
    if made.does == "restore":
        tree.update({made.path: gone[made.path]} if known is None and made.path in gone else {})
    elif made.does == "insert" or known is None:
        if made.does in ("insert", "replace"):
            lines, at = known or (), made.at % (len(known or ()) + 1)
            tree[made.path] = (*lines[:at], made.text, *lines[at:])
    elif made.does in ("delete", "move"):
        gone[made.path] = tree.pop(made.path)
        if made.does == "move":
            tree[made.text] = known
    elif made.does == "retype":
        _retype(tree, made)
    elif known:
        at = made.at % len(known)
        tree[made.path] = (*known[:at], *_changed(known[at], made), *known[at + 1 :])


def _retype(tree: dict[str, tuple[str, ...]], made: Change) -> None:
    """Change the type of one of a file's members."""
    known = tree[made.path]
    found = [at for at, line in enumerate(known) if MEMBER.search(line)]
    if found:
        at = found[made.at % len(found)]
        line = MEMBER.sub(lambda member: f" {made.text} {member[1]};", known[at], count=1)
        tree[made.path] = (*known[:at], line, *known[at + 1 :])


def _changed(line: str, made: Change) -> tuple[str, ...]:
    if made.does != "rename":
        return (made.text,) if made.does == "replace" else ()
    places = [found.span() for found in NAME.finditer(line)]
    if not places:
        return (line,)
    start, end = places[made.name % len(places)]
    return (line[:start] + made.text + line[end:],)
