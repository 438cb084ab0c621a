"""Text cut by structure: nothing is lost, and each piece is one thing."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from curriculum.inspection.structure_text import StructuredText, pieces, shares, widened
from schemas.structure import Structure, StructureChunk

TEXT = "größer 🙂 {int f();}\n" * 3


@st.composite
def structures(draw: st.DrawFn) -> tuple[str, Structure]:
    """Runs and chunks over a text, their borders between characters."""
    borders = [len(TEXT[:at].encode()) for at in range(1, len(TEXT))]
    ends = [*sorted(draw(st.sets(st.sampled_from(borders)))), len(TEXT.encode())]
    codes = draw(st.lists(st.integers(0, 9), min_size=len(ends), max_size=len(ends)))
    places = sorted(draw(st.sets(st.sampled_from([0, *borders]))))
    chunks = [
        StructureChunk(start=start, end=end, kind=4, name="", dep_level=1)
        for start, end in zip(places[::2], places[1::2], strict=False)
    ]
    same = tuple(codes)
    structure = Structure(
        ends=tuple(ends), structure_ids=same, ast_depth=same, sibling_index=same,
        ast_node_type=same, chunks=tuple(chunks), call_edges=(), type_edges=(),
    )  # fmt: skip
    return TEXT, structure


@given(structures())
def test_pieces_are_the_text_each_of_one_category_and_one_chunk(
    made: tuple[str, Structure],
) -> None:
    text, structure = made
    content = text.encode()
    cut = [*pieces(content, 0, len(content), structure)]
    assert "".join(piece.text for piece in cut) == text
    at = 0
    for piece in cut:
        for byte in range(at, at + len(piece.text.encode())):
            run = next(index for index, end in enumerate(structure.ends) if byte < end)
            assert piece.code == structure.structure_ids[run]
            inside = [
                i for i, chunk in enumerate(structure.chunks) if chunk.start <= byte < chunk.end
            ]
            assert piece.chunk == (inside[0] if inside else -1)
        at += len(piece.text.encode())
    neighbours = itertools.pairwise(cut)
    assert all(a.code != b.code or a.chunk != b.chunk for a, b in neighbours)
    assert sum(shares(structure)) == len(content)


def test_a_chunk_takes_its_indentation_and_its_line_feed() -> None:
    cut = [
        StructuredText("a\n  "),
        StructuredText("f();", 4, 0),
        StructuredText(" \nb"),
        StructuredText(" "),
        StructuredText("g", 4, 1),
        StructuredText("\n\n"),
    ]
    assert [(piece.text, piece.chunk) for piece in widened(cut)] == [
        ("a\n", -1), ("  ", 0), ("f();", 0), (" \n", 0), ("b", -1), (" ", -1), ("g", 1), ("\n", 1),
        ("\n", -1),
    ]  # fmt: skip
    only = [
        StructuredText("  "),
        StructuredText("f", 4, 0),
        StructuredText("\n  "),
        StructuredText("g", 4, 1),
        StructuredText(" "),
        StructuredText("h", 4, 2),
    ]
    assert [(piece.text, piece.chunk) for piece in widened(only)] == [
        ("  ", 0), ("f", 0), ("\n", 0), ("  ", 1), ("g", 1), (" ", -1), ("h", 2),
    ]  # fmt: skip


@given(structures())
def test_widening_moves_white_space_only(made: tuple[str, Structure]) -> None:
    text, structure = made
    cut = [*pieces(text.encode(), 0, len(text.encode()), structure)]
    wide = [*widened(cut)]
    assert "".join(piece.text for piece in wide) == text
    chunks = [
        [each.chunk for piece in some for each in [piece] * len(piece.text)] for some in (cut, wide)
    ]
    for letter, before, after in zip(text, *chunks, strict=True):
        assert before == after or (before == -1 and letter.isspace())


def test_a_slice_of_the_text_has_the_pieces_inside_it() -> None:
    structure = Structure(
        ends=(2, 6), structure_ids=(7, 4), ast_depth=(0, 0), sibling_index=(0, 0),
        ast_node_type=(0, 0), chunks=(StructureChunk(start=3, end=5, kind=4, name="f", dep_level=1),),
        call_edges=(), type_edges=(),
    )  # fmt: skip
    cut = [(piece.text, piece.code, piece.chunk) for piece in pieces(b"abcdef", 1, 6, structure)]
    assert cut == [("b", 7, -1), ("c", 4, -1), ("de", 4, 0), ("f", 4, -1)]


def test_without_structure_a_text_is_one_piece() -> None:
    assert [piece.text for piece in pieces("größe".encode(), 0, 7, None)] == ["größe"]
