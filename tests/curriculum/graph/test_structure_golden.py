"""What is what in small files, reviewed by eye: tests/golden/structure/<file>.txt.

Below each line stand the STRUCTURE_CODES of its bytes, after the text the chunks. After an intended change
raise the revision of v6_enriched, write them anew with

    python tests/curriculum/graph/test_structure_golden.py

and read the difference.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.graph.index import facts_of
from curriculum.graph.structure import code_structure
from schemas.corpus import Language
from schemas.structure import STRUCTURE_CODES

GOLDEN = Path(__file__).parents[2] / "golden" / "structure"
SOURCES = sorted(file for file in GOLDEN.iterdir() if file.suffix != ".txt")
NAMES = {code: name for name, code in STRUCTURE_CODES.items()}


def shown(text: str, language: Language) -> Iterator[str]:
    assert text.isascii()
    found = code_structure(text, language, facts_of(text, language))
    start = 0
    for line in text.splitlines():
        codes = found.structure_ids[start : start + len(line)].tolist()
        yield line
        yield "".join(
            " " if byte.isspace() else str(code) for byte, code in zip(line, codes, strict=True)
        ).rstrip()
        start += len(line) + 1
    for chunk in found.chunks:
        first, *more = text[chunk.start : chunk.end].splitlines()
        lines = f"{first} … {more[-1].strip()}" if more else first
        yield f"{NAMES[chunk.kind]:12} {chunk.name or '-':24} | {lines}"


def expected(source: Path) -> str:
    language: Language = "c" if source.suffix == ".c" else "cpp"
    return "\n".join(shown(source.read_text(encoding="utf-8"), language)) + "\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_structure_is_as_reviewed(source: Path) -> None:
    golden = source.with_suffix(source.suffix + ".txt")
    assert expected(source) == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_source() -> None:
    golden = {file.name.removesuffix(".txt") for file in GOLDEN.glob("*.txt")}
    assert golden == {source.name for source in SOURCES}
    assert len(golden) > 5


if __name__ == "__main__":
    for file in SOURCES:
        file.with_suffix(file.suffix + ".txt").write_text(expected(file), encoding="utf-8")
