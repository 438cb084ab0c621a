from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.cmake import BuildGraph, TargetId, build_graph, commands_of
from curriculum.graph.facts import FileFacts, Neighbour, NodeId, Range, SourceFile
from schemas.change import Blob, TreeFile


class Files:
    """A graph of files without symbols."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def paths(self) -> Iterable[str]:
        return sorted(self.texts)

    def source(self, path: str) -> SourceFile:
        text = self.texts[path]
        is_cmake = path.endswith((".txt", ".cmake"))
        file = TreeFile(
            path=path,
            language="cmake" if is_cmake else "cpp",
            blob=Blob(blob_id="b" * 40, text=text),
            lineage=f"sample:{path}",
        )
        facts = FileFacts(
            symbols=(),
            calls=(),
            includes=(),
            usings=(),
            error_bytes=0,
            is_complete=True,
        )
        return SourceFile(file=file, facts=facts)

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        return ()


def graph_of(**texts: str) -> BuildGraph:
    """`a__b` is the CMakeLists.txt of folder a/b, `root` that of the root."""
    files = {"sum.cc": "", "twice.cc": "", "lib/deep.cc": "", "lib/in.h": ""}
    for name, text in texts.items():
        folder = "" if name == "root" else name.replace("__", "/") + "/"
        files[folder + "CMakeLists.txt"] = text
    return build_graph(Files(files))


ROOT = "CMakeLists.txt"
SUM = TargetId(ROOT, "sum")
DEEP = TargetId("lib/CMakeLists.txt", "deep")


def test_a_target_has_its_sources_and_links() -> None:
    graph = graph_of(
        root="add_library(sum STATIC sum.cc lib/in.h)\n"
        "add_executable(twice twice.cc)\n"
        "target_link_libraries(twice PRIVATE sum m)\n"
    )
    assert graph.targets[SUM].sources == ("sum.cc", "lib/in.h")
    twice = graph.targets[TargetId(ROOT, "twice")]
    assert [(link.target, link.confidence) for link in twice.links] == [(SUM, 1.0)]
    assert twice.sources == ("twice.cc",)
    assert twice.num_unresolved == 1


def test_sources_are_named_from_their_own_folder() -> None:
    graph = graph_of(lib="add_library(deep deep.cc ../sum.cc)\ntarget_sources(deep PUBLIC in.h)\n")
    assert graph.targets[DEEP].sources == ("lib/deep.cc", "sum.cc", "lib/in.h")


def test_a_module_names_files_from_the_folder_of_the_lists_above_it() -> None:
    files = {"CMakeLists.txt": "", "cmake/sum.cmake": "add_library(sum sum.cc)\n", "sum.cc": ""}
    graph = build_graph(Files(files))
    assert graph.targets[TargetId("cmake/sum.cmake", "sum")].sources == ("sum.cc",)


def test_variables_are_counted_and_not_guessed() -> None:
    graph = graph_of(
        root="add_library(${name} sum.cc)\nadd_library(sum ${SOURCES} $<TARGET_OBJECTS:x> sum.cc)\n"
    )
    assert list(graph.targets) == [SUM]
    assert graph.targets[SUM].num_unresolved == 2
    assert graph.targets[SUM].sources == ("sum.cc",)


def test_an_alias_is_another_name() -> None:
    graph = graph_of(
        root="add_library(sum sum.cc)\nadd_library(all::sum ALIAS sum)\n",
        lib="add_library(deep deep.cc)\ntarget_link_libraries(deep all::sum)\n",
    )
    assert [link.target for link in graph.targets[DEEP].links] == [SUM]
    assert graph.targets[SUM].blocks[0].lines == Range(0, 56)


def test_the_nearest_of_several_targets_of_one_name_is_meant() -> None:
    main = "add_executable(main)\n"
    user = "add_library(deep)\nadd_dependencies(deep main)\n"
    graph = graph_of(a=main, b=main + user, b__c=main, d=user.replace("deep", "far"))
    own = graph.targets[TargetId("b/CMakeLists.txt", "deep")].links
    assert own == ((TargetId("b/CMakeLists.txt", "main"), 1.0),)
    far = graph.targets[TargetId("d/CMakeLists.txt", "far")].links
    assert far == ((TargetId("a/CMakeLists.txt", "main"), 1 / 3),)


def test_commands_of_other_files_belong_to_the_target() -> None:
    graph = graph_of(root="add_library(sum sum.cc)\n", lib="target_sources(sum PRIVATE deep.cc)\n")
    target = graph.targets[SUM]
    assert [block.path for block in target.blocks] == [ROOT, "lib/CMakeLists.txt"]
    assert target.sources == ("sum.cc", "lib/deep.cc")


def test_commands_about_one_of_several_in_other_files_belong_to_none() -> None:
    graph = graph_of(
        a="add_library(x)\n", b="add_library(x)\n", a__c="target_sources(x PUBLIC y)\n"
    )
    assert [len(target.blocks) for target in graph.targets.values()] == [1, 1]


TEXT = """\
project(sample)

# The sum,
# and nothing else.
add_library(sum sum.cc)

target_compile_features(sum PUBLIC cxx_std_17)
if(TWICE)
  add_executable(twice twice.cc)
  target_link_libraries(twice sum)
endif()
set_target_properties(sum PROPERTIES FOLDER lib)
"""


def shown(graph: BuildGraph, target: TargetId, text: str) -> list[str]:
    data = text.encode()
    return [data[b.lines.start : b.lines.end].decode() for b in graph.targets[target].blocks]


def test_blocks_are_whole_lines_with_the_comments_above() -> None:
    graph = graph_of(root=TEXT)
    first, second = shown(graph, SUM, TEXT)
    assert first.startswith("# The sum,\n")
    assert first.endswith("cxx_std_17)\n")
    assert second == "set_target_properties(sum PROPERTIES FOLDER lib)\n"
    assert shown(graph, TargetId(ROOT, "twice"), TEXT) == [
        "  add_executable(twice twice.cc)\n  target_link_libraries(twice sum)\n"
    ]


def test_lines_that_two_targets_share_belong_to_the_first() -> None:
    text = "add_library(sum sum.cc) add_library(twice\n  twice.cc)\n"
    graph = graph_of(root=text)
    assert shown(graph, SUM, text) == [text]
    assert graph.targets[TargetId(ROOT, "twice")].blocks == ()


def test_ranges_touch_the_targets_whose_commands_they_meet() -> None:
    graph = graph_of(root=TEXT)
    at = TEXT.index("endif")
    assert graph.touched(ROOT, [Range(at, at + 1)]) == []
    assert graph.touched(ROOT, [Range(at - 1, at)]) == [TargetId(ROOT, "twice")]
    assert graph.touched(ROOT, [Range(0, len(TEXT))]) == [SUM, TargetId(ROOT, "twice")]
    assert graph.touched("lib/CMakeLists.txt", [Range(0, len(TEXT))]) == []


LINES = st.sampled_from(
    [
        "add_library(a a.cc)",
        "add_library(b a.cc) add_library(c)",
        "# a comment",
        "",
        "target_link_libraries(a b",
        "  c)",
        "add_library(x ALIAS a)",
        "target_sources(x PRIVATE a.cc)",
        "junk",
    ]
)


@given(st.lists(LINES, max_size=12), st.lists(LINES, max_size=6))
def test_no_byte_is_in_two_blocks(root: list[str], other: list[str]) -> None:
    files = {"a.cc": "", ROOT: "\n".join(root), "b/" + ROOT: "\n".join(other)}
    blocks = sorted(
        block for target in build_graph(Files(files)).targets.values() for block in target.blocks
    )
    for block, later in pairwise(blocks):
        assert block.lines.start < block.lines.end
        assert (block.path, block.lines.end) <= (later.path, later.lines.start)


def said(text: str) -> list[tuple[str, list[str]]]:
    return [(each.name, [a.text for a in each.arguments]) for each in commands_of(text)]


def test_arguments_are_unquoted_quoted_or_between_brackets() -> None:
    text = 'add_library(a one "two words" [=[three\n]]\nfour]=] x;y)\n'
    assert said(text) == [("add_library", ["a", "one", "two words", "three\n]]\nfour", "x", "y"])]


def test_command_names_are_lowered() -> None:
    assert said("Add_Library (a)\n") == [("add_library", ["a"])]


def test_comments_are_no_arguments() -> None:
    text = "#[[ f(x)\n]] g(a # b)\n  #[not a bracket ]] c)\n c) # d\n"
    assert said(text) == [("g", ["a", "c"])]


def test_parentheses_nest_among_arguments() -> None:
    assert said("if((A AND B) OR C)\n") == [("if", ["A", "AND", "B", "OR", "C"])]
    assert said("f(" + "(" * 100_000 + "a" + ")" * 100_000 + ")\n") == [("f", ["a"])]


def test_only_plain_text_is_literal() -> None:
    text = r'f(a "b c" ${d} "${e}" $<f:g> \${h} @i@ [[${j}]] k@2)'
    (command,) = commands_of(text)
    literal = [each.text for each in command.arguments if each.is_literal]
    assert literal == ["a", "b c", "${j}", "k@2"]


def test_legacy_arguments_may_hold_quotes() -> None:
    assert said('f(-Da="b c" $(MAKE) d)\n') == [("f", ['-Da="b c"', "$(MAKE)", "d"])]


def test_quotes_may_span_lines() -> None:
    assert said('f("a\nb" "c\\\nd" "e\\"f")\n') == [("f", ["a\nb", "cd", 'e\\"f'])]


def test_a_command_knows_its_lines() -> None:
    text = "é(1)\n  f(a\n    b)  # c\ng()"
    data = text.encode()
    lines = [data[each.lines.start : each.lines.end].decode() for each in commands_of(text)]
    assert lines == ["  f(a\n    b)  # c\n", "g()"]


def test_what_is_no_command_is_passed_over() -> None:
    found = commands_of("<<<<<<< ours\nf(a)\n=======\ng(b)\n")
    assert [each.name for each in found] == ["f", "g"]


def test_nothing_is_read_past_a_missing_end() -> None:
    for broken in ("g(a\nh(b)\n", 'g("a)\nh()\n', "g([[a)\nh()\n", "#[[ a\nh()\n"):
        found = commands_of("f(x)\n" + broken)
        assert [each.name for each in found] == ["f"]


def test_hostile_texts_cost_linear_time() -> None:
    for text in (
        "[[" * 300_000,
        "a(" * 300_000,
        'f("' * 200_000,
        "f() " * 200_000,
        "#[[" * 200_000,
    ):
        commands_of(text)


@given(st.text(st.sampled_from('ab_ \n()[]=#"\\$@;{}é'), max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    data = text.encode()
    for command in commands_of(text):
        start, end = command.lines
        assert 0 <= start < end <= len(data)
        assert start == 0 or data[start - 1 : start] == b"\n"
        assert end == len(data) or data[end - 1 : end] == b"\n"


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z_]+", fullmatch=True), st.lists(st.text(max_size=8))))
)
def test_commands_that_are_written_are_read(
    commands: list[tuple[str, list[str]]],
) -> None:
    def quoted(text: str) -> str:
        return "[====[\n" + text + "]====]"

    safe = [(name, [each.replace("]", "") for each in values]) for name, values in commands]
    text = "".join(f"{name}({' '.join(map(quoted, values))})\n" for name, values in safe)
    assert said(text) == safe
