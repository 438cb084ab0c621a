"""Packed rows with structure columns in the terminal."""

from rich.console import Console
from rich.text import Text

from curriculum.inspection.row_view import RowView, row_pieces
from curriculum.tokens.codec import Tokenizer
from flows.cli.inspect.text import coloured_lines, plain
from schemas.structure import StructureChunk

TEXT = "// f\nint f();\nint g() { f(); }\n"


def _row(tokenizer: Tokenizer) -> RowView:
    ids = tokenizer.encode(TEXT).tolist()
    assert len(ids) == len(TEXT)
    return RowView.model_validate(
        {
            "pack_id": "r-0",
            "input_ids": ids,
            "loss_mask": [*([0] * 13), *([1] * 17), 0],
            "doc_starts": [0],
            "valid_token_count": len(ids),
            "loss_token_count": 17,
            "document_ids": ["d"],
            "domain": "general",
            "structure_ids": [*([7] * 5), *([3] * 9), *([4] * 17)],
            "chunk_boundaries": [
                {"start": 5, "end": 14, "kind": 3, "dep_level": 1, "doc": 0},
                {"start": 14, "end": 31, "kind": 4, "dep_level": 2, "doc": 0},
            ],
            "call_edges": [{"source": 1, "target": 0, "label": 4}],
            "type_edges": [],
        }
    )


def test_a_rows_text_is_cut_where_scoring_category_or_chunk_changes(
    bytes_tokenizer: Tokenizer,
) -> None:
    cut = [*row_pieces(_row(bytes_tokenizer), bytes_tokenizer, 0, 31)]
    assert [(piece.text, piece.code, piece.chunk, piece.scored) for piece in cut] == [
        ("// f\n", 7, -1, False),
        ("int f();\n", 3, 0, False),
        ("int g() { f(); }\n", 4, 1, True),
    ]
    assert _flat_pieces(bytes_tokenizer) == [(TEXT[:14], False), (TEXT[14:], True)]


def _flat_pieces(tokenizer: Tokenizer) -> list[tuple[str, bool]]:
    row = _row(tokenizer)
    flat = row.model_copy(update={"structure_ids": [], "chunk_boundaries": ()})
    assert not flat.is_structured
    assert row.is_structured
    return [(piece.text, piece.scored) for piece in row_pieces(flat, tokenizer, 0, 31)]


def _printed(lines: list[Text]) -> list[str]:
    console = Console(width=60, color_system=None)
    with console.capture() as captured:
        console.print(*lines, sep="\n")
    return [line.rstrip() for line in captured.get().splitlines()]


def test_levels_stand_where_chunks_begin_and_unscored_text_is_dim(
    bytes_tokenizer: Tokenizer,
) -> None:
    row = _row(bytes_tokenizer)
    lines = [*coloured_lines(row_pieces(row, bytes_tokenizer, 0, 31), row.chunk_boundaries)]
    assert _printed(lines) == ["      // f", "  0 ╭ int f();", "  1 ╭ int g() { f(); }"]
    styles = [{str(span.style) for span in line.spans} for line in lines]
    assert [any(style.startswith("dim") for style in each) for each in styles] == [
        True,
        True,
        False,
    ]


def test_a_chunk_of_several_lines_has_its_level_once(bytes_tokenizer: Tokenizer) -> None:
    row = _row(bytes_tokenizer)
    whole = (StructureChunk(start=0, end=31, kind=4, name="", dep_level=3),)
    pieces = (piece._replace(chunk=0) for piece in row_pieces(row, bytes_tokenizer, 0, 31))
    assert _printed([*coloured_lines(pieces, whole)]) == [
        "  2 ╭ // f",
        "    │ int f();",
        "    │ int g() { f(); }",
    ]


def test_text_without_structure_is_in_no_colour(bytes_tokenizer: Tokenizer) -> None:
    row = _row(bytes_tokenizer)
    lines = [*plain(row_pieces(row, bytes_tokenizer, 0, 31))]
    assert [line.plain for line in lines] == TEXT.splitlines()
    assert {str(span.style) for line in lines for span in line.spans} == {"dim"}
