"""Speed of parsing C and C++ and reading facts, compared with tree-sitter alone, and share of parse errors.

    python benchmarks/parsing.py [CHECKOUT …] [--rounds 5]

The script reads every C and C++ file of the checkouts, or of the sample repositories. The columns are:

    bare        tree-sitter alone parses every file once
    same        tree-sitter alone parses all variants of a file that `parse` tries
    parse       our parser: it blanks preprocessor branches and macros, and chooses the best variant
    facts       our parser, and reading definitions, calls and types from its tree
    facts/same  speed of `facts` divided by speed of `same`
    errors      share of bytes in outermost ERROR nodes, with our parser; if a file has no tree, all its bytes
    unblanked   the same with a bare parse

Speeds are MB of text per CPU second, medians of alternating rounds with empty caches.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import tree_sitter

from curriculum.corpus.load import unpack_samples
from curriculum.corpus.paths import language_of
from curriculum.corpus.plain_folder import folder_headers
from curriculum.graph import syntax_tree
from curriculum.graph.index import facts_of
from curriculum.graph.syntax_tree import grammar, parse, tree_of
from schemas.corpus import CODE, Language

MIN_SPEED = 0.6
"""Target of the column facts/same."""
MAX_ERRORS = 0.02


class Source(NamedTuple):
    """Text and language of a file."""

    path: str
    text: str
    language: Language

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.text.encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="*", help="folders with C and C++ files")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkouts = options.checkouts or unpack_samples(Path(folder))
        print("             files    MB   bare   same  parse  facts  facts/same  errors  unblanked")
        for checkout in checkouts:
            _report(checkout.name, _sources(checkout), options.rounds)
    print(f"targets{'':43} >= {MIN_SPEED:.0%}  <= {MAX_ERRORS:.0%}")


def _report(name: str, sources: Sequence[Source], rounds: int) -> None:
    size = sum(source.size for source in sources)
    tried = _variants(sources)

    def same(source: Source) -> object:
        return [_parse(variant, source.language) for variant in tried[source]]

    sides = {"bare": _bare, "same": same, "parse": _best, "facts": _facts}
    bare, variants, best, facts = _rates(sides, sources, rounds)
    kept = sum(map(_errors, sources)) / size
    unblanked = sum(error_bytes(_bare(source)) for source in sources) / size
    print(
        f"{name:12} {len(sources):5} {size / 1e6:5.2f} {bare:6.2f} {variants:6.2f} {best:6.2f} {facts:6.2f}"
        f" {facts / variants:10.0%} {kept:8.2%} {unblanked:9.2%}"
    )


def _variants(sources: Sequence[Source]) -> dict[Source, list[bytes]]:
    """Return the variants of every file that our parser tries until one is good enough."""
    found: defaultdict[Source, list[bytes]] = defaultdict(list)
    for source in sources:

        def keep(
            data: bytes, language: Language, source: Source = source
        ) -> tree_sitter.Tree | None:
            found[source].append(data)
            return tree_of(data, language)

        parse.cache_clear()
        with mock.patch.object(syntax_tree, "tree_of", keep):
            parse(source.text, source.language)
    return found


def _sources(checkout: Path) -> list[Source]:
    files = sorted(file for file in checkout.rglob("*") if file.is_file() and not file.is_symlink())
    files = [file for file in files if ".git" not in file.relative_to(checkout).parts]
    headers = folder_headers(Path("/"), [file.absolute().as_posix() for file in files])
    found = []
    for file in files:
        language = language_of(
            file.as_posix(), headers=headers.language_of(file.absolute().as_posix())
        )
        if language in CODE:
            text = file.read_text(encoding="utf-8", errors="replace")
            found.append(Source(file.as_posix(), text, language))
    return found


def _bare(source: Source) -> tree_sitter.Tree:
    return _parse(source.text.encode(), source.language)


def _parse(data: bytes, language: Language) -> tree_sitter.Tree:
    return tree_sitter.Parser(grammar(language)).parse(data)


def _best(source: Source) -> object:
    return parse(source.text, source.language)


def _facts(source: Source) -> object:
    return facts_of(source.text, source.language)


def _rates(
    sides: Mapping[str, Callable[[Source], object]], sources: Sequence[Source], rounds: int
) -> list[float]:
    size = sum(source.size for source in sources) / 1e6
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            parse.cache_clear()
            facts_of.cache_clear()
            begin = time.process_time()
            for source in sources:
                run(source)
            rates[name].append(size / (time.process_time() - begin))
    return [statistics.median(values) for values in rates.values()]


def _errors(source: Source) -> int:
    return facts_of(source.text, source.language).error_bytes


def error_bytes(tree: tree_sitter.Tree) -> int:
    """Return the number of bytes in outermost ERROR nodes."""
    cursor = tree.walk()
    found = 0
    while True:
        node = cursor.node
        assert node is not None
        if node.is_error:
            found += node.end_byte - node.start_byte
        elif node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found


if __name__ == "__main__":
    main()
