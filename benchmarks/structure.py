"""Speed of adding structure to documents, compared with a parse by tree-sitter alone.

    python benchmarks/structure.py PATH [PATH …] [--rounds 5]

Every C and C++ file in the paths is a document. `parse` is tree-sitter alone, which parses the text once.
`structure` parses the best variant of the text, finds symbols and creates chunks. `enrich` does the same, and
adds edges and runs of codes. Speeds are MB of text per CPU second, medians of alternating rounds with empty
caches.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import tree_sitter
import tree_sitter_c
import tree_sitter_cpp

from curriculum.corpus.paths import language_of
from curriculum.corpus.plain_folder import folder_headers
from curriculum.families.v6_enriched import enrich
from curriculum.graph import index, syntax_tree
from curriculum.graph.structure import code_structure
from schemas.corpus import Language
from schemas.document import Document, Part, Provenance

GRAMMARS = {
    "c": tree_sitter.Language(tree_sitter_c.language()),
    "cpp": tree_sitter.Language(tree_sitter_cpp.language()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", help="folders with C and C++ files")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = parser.parse_args()
    documents = [document for path in options.paths for document in _documents(path)]
    size = sum(document.parts[-1].end for document in documents)
    made = [enrich(document) for document in documents]
    runs = sum(len(structure.ends) for structure in made)
    chunks = sum(len(structure.chunks) for structure in made)
    edges = sum(len(structure.call_edges) + len(structure.type_edges) for structure in made)
    print(
        f"{len(documents)} files, {size / 1e6:.2f} MB: {runs} runs, {chunks} chunks, {edges} edges"
    )
    rates = _alternate(
        {"parse": _parse, "structure": _structure, "enrich": enrich}, documents, options
    )
    for name, rate in rates.items():
        print(f"{name:10} {rate:6.2f} MB/CPU s   {rate / rates['parse']:.2f} × parse")


def _documents(path: Path) -> list[Document]:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    headers = folder_headers(Path("/"), [file.absolute().as_posix() for file in files])
    found = []
    for file in files:
        language = language_of(
            file.as_posix(), headers=headers.language_of(file.absolute().as_posix())
        )
        if language is not None and language in GRAMMARS:
            text = file.read_text(encoding="utf-8", errors="replace")
            if text:
                found.append(_document(file.as_posix(), text, language))
    return found


def _document(path: str, text: str, language: str) -> Document:
    size = len(text.encode())
    source = Provenance(
        repository="benchmark",
        commit="",
        path=path,
        blob=path,
        start=0,
        end=size,
        lineage=f"benchmark:{path}",
    )
    return Document(
        text=text,
        family="v2_simple",
        language=language,
        licence=None,
        timestamp=0,
        parts=(Part(kind="code", start=0, end=size, source=0),),
        spans=(),
        provenance=(source,),
        lineage=source.lineage,
    )


def _parse(document: Document) -> object:
    return tree_sitter.Parser(GRAMMARS[document.language]).parse(document.text.encode())


def _structure(document: Document) -> object:
    language: Language = "c" if document.language == "c" else "cpp"
    return code_structure(document.text, language, index.facts_of(document.text, language))


def _alternate(
    sides: dict[str, Callable[[Document], object]],
    documents: list[Document],
    options: argparse.Namespace,
) -> dict[str, float]:
    size = sum(document.parts[-1].end for document in documents) / 1e6
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, run in sides.items():
            syntax_tree.parse.cache_clear()
            begin = time.process_time()
            for document in documents:
                run(document)
            rates[name].append(size / (time.process_time() - begin))
    return {name: statistics.median(values) for name, values in rates.items()}


if __name__ == "__main__":
    main()
