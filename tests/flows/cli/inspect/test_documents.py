"""Documents in the terminal: trees with their edges, tokens where there are any, structure in colour."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from curriculum.inspection.document_view import document_of, documents, subject_of
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.row_view import sources_of
from curriculum.pipeline.references import Reference
from curriculum.store import Artefact, Store
from dashboards.palette import NAMES, SHADES
from flows.cli.inspect import command
from flows.cli.inspect.documents import TREE_LINES
from schemas.document import Document, Part
from schemas.errors import StoreError
from schemas.structure import STRUCTURE_CODES


def _artefact(home: Path, family: str) -> Artefact:
    return next(
        each
        for each in Store(home, dry=True).artefacts("documents")
        if each.manifest.labels["family"] == family
    )


def _said(
    home: Path,
    family: str,
    options: InspectOptions,
    *,
    styles: bool = False,
    width: int = 170,
) -> str:
    console = Console(
        record=True,
        width=width,
        force_terminal=styles,
        color_system="truecolor" if styles else None,
    )
    with console.capture() as captured:
        found = Reference(artefacts=(_artefact(home, family),))
        for piece in command.look(Store(home, dry=True), found, options):
            console.print(piece)
    return captured.get()


def _row(said: str, name: str) -> list[str]:
    line = next(line for line in said.splitlines() if name in line)
    return re.split(r"  +", line.strip("│ "))


def test_a_line_of_the_tree_says_how_its_chunk_was_reached_and_what_it_costs(
    looked: Path, context: Document
) -> None:
    said = _said(looked, "v4_context_graph", InspectOptions())
    assert _row(said, "called by main") == [
        "├ called by main", "function", "tools/größe.cpp", "1", "resolved 0.75", "96", "96", "1",
    ]  # fmt: skip
    assert _row(said, "BumpArena::take ") == [
        "arena::BumpArena::take", "function", "src/bump.cpp", "0", "187", "187", "kept",
    ]  # fmt: skip
    assert _row(said, "│ │ └ called by arena::<img")[1] == "function, signature"
    assert "calls 3 (resolved 2, syntactic 1) · overrides 1 (overridden)" in said
    assert "Grow </script>" in said
    assert context.document_id in said


def test_a_narrow_terminal_cuts_words_and_no_numbers(looked: Path) -> None:
    said = _said(looked, "v4_context_graph", InspectOptions(), width=80)
    line = next(line for line in said.splitlines() if "called by m" in line)
    assert line.split()[-7:-1] == ["1", "resolved", "0.75", "96", "96", "1"]
    assert max(map(len, said.splitlines())) <= 80


def test_the_targets_text_is_shown_and_with_full_all_of_it(looked: Path) -> None:
    short = _said(looked, "v4_context_graph", InspectOptions())
    assert "void* BumpArena::take(std::size_t size) {" in short
    assert "int main() {" not in short
    assert "int main() {" in _said(looked, "v4_context_graph", InspectOptions(full=True))


def test_a_long_tree_is_cut_at_the_far_end_and_says_so(looked: Path, wide: Document) -> None:
    options = InspectOptions(document=wide.document_id)
    said = _said(looked, "v4_context_graph", options)
    assert f"… {121 - TREE_LINES} more chunks: 67 at hop 1, 30 at hop 2" in said
    full = _said(looked, "v4_context_graph", InspectOptions(document=wide.document_id, full=True))
    assert "more chunks" not in full
    assert full.count("called by main") == 30


def test_tokens_are_left_out_where_the_workspace_has_none(looked: Path) -> None:
    assert "tokens" not in _said(looked, "v5_clang_graph", InspectOptions())


def test_an_older_artefact_without_chunks_is_shown_by_its_parts(looked: Path) -> None:
    said = _said(looked, "v5_clang_graph", InspectOptions())
    assert "11 parts" in said
    assert _row(said, "■ 10")[1:3] == ["target", "629"]


def test_structure_is_in_its_colours_with_a_legend_and_levels(looked: Path) -> None:
    plain = _said(looked, "v6_enriched", InspectOptions())
    assert re.search(r"■ none 0\.1% +■ func_sig 27\.\d% +■ func_body 39\.\d% +■ comment", plain)
    assert re.search(r"│ +3 ╭ void\* BumpArena::take", plain)
    assert plain.count("╭ ") == 1
    drawn = _said(looked, "v6_enriched", InspectOptions(), styles=True)
    red, green, blue = (int(SHADES["func_sig"].terminal[at : at + 2], 16) for at in (1, 3, 5))
    assert f"\x1b[38;2;{red};{green};{blue}mvoid* BumpArena::take" in drawn
    assert "made of 088d3085586fbbf971d4c45698242772" in plain


@pytest.mark.parametrize(
    ("header", "subject"),
    [
        ("// Commit: 1\n// Subject: Grow it\n", "Grow it"),
        ("/**\n * @file a.h\n * @remark Subject: Grow it\n */\n", "Grow it"),
        ("\n# === TARGET: Grow === it ===\n", "Grow === it"),
        ("\n// === TARGET ===\n", ""),
    ],
)
def test_the_subject_is_what_a_header_says(context: Document, header: str, subject: str) -> None:
    code = "// Subject: no subject\n"
    parts = (
        Part(kind="context", start=0, end=len(code)),
        Part(kind="header", start=len(code), end=len(code + header)),
    )
    assert subject_of(replace(context, text=code + header, parts=parts)) == subject


def test_every_category_has_a_colour_of_its_own() -> None:
    assert tuple(sorted(STRUCTURE_CODES, key=STRUCTURE_CODES.__getitem__)) == NAMES
    for scheme in ("terminal", "light", "dark"):
        assert len({getattr(shade, scheme) for shade in SHADES.values()}) == len(NAMES)


def test_an_artefact_without_documents_says_so(looked: Path) -> None:
    with pytest.raises(StoreError, match="no documents"):
        _said(looked, "v3_simple", InspectOptions())


def test_no_text_of_a_repository_steers_the_terminal(looked: Path) -> None:
    assert "\x1b" not in _said(looked, "v2_simple", InspectOptions())
    assert r"\x1b[31mred" in _said(looked, "v2_simple", InspectOptions())


@pytest.mark.parametrize("family", ["v4_context_graph", "v6_enriched", "v2_simple"])
def test_json_has_the_document_and_the_tokens_of_its_parts(
    looked: Path, capsys: pytest.CaptureFixture[str], family: str
) -> None:
    artefact = _artefact(looked, family)
    command.show(looked, str(artefact.path), InspectOptions(), as_json=True)
    line = json.loads(capsys.readouterr().out)["artefacts"][0]["lines"][0]
    assert line["family"] == family
    assert (line["structure"] is not None) == (family == "v6_enriched")
    expected = [part["end"] - part["start"] for part in line["parts"]]
    assert line.get("part_tokens") == (None if family == "v2_simple" else expected)


def test_json_of_an_id_is_that_document(
    looked: Path, wide: Document, capsys: pytest.CaptureFixture[str]
) -> None:
    command.show(looked, wide.document_id, InspectOptions(rows=5), as_json=True)
    said = json.loads(capsys.readouterr().out)["artefacts"][0]["lines"]
    assert [line["document_id"] for line in said] == [wide.document_id]


def test_a_document_of_several_files_is_named_by_the_file_of_its_lineage_everywhere(
    looked: Path, context: Document
) -> None:
    artefact, name = _artefact(looked, "v4_context_graph"), context.document_id
    options = InspectOptions(document=name)
    (document,) = documents(Store(looked, dry=True), artefact, options)
    source = sources_of([artefact], {name})[name]
    assert source.path == "src/bump.cpp" != context.provenance[0].path
    assert document.origin is not None
    assert (document.origin.repository, document.origin.commit, document.origin.path) == (
        source.repository,
        source.commit,
        source.path,
    )
    assert {file.path for file in source.files} == {each.path for each in context.provenance}


def test_a_line_that_is_no_document_is_named(looked: Path) -> None:
    artefact = _artefact(looked, "v2_simple")
    with pytest.raises(StoreError, match="line 7") as refused:
        document_of(artefact, {"document_id": "d", "text": 3}, 7, None)
    assert str(artefact.path) in str(refused.value)
