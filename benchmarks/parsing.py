"""Speed of reading facts off C and C++, compared with a bare parse of the same bytes, and bytes in errors.

    python benchmarks/parsing.py [CHECKOUT …] [--rounds 5]

Every C and C++ file of the checkouts; the sample repositories if none is named. `bare` parses a file as it
is, once; `same` parses bare all variants that `parse` looks at, which blanks branches and macros and keeps
the best; `facts` reads definitions, calls and types off that. MB of text a CPU second: medians of
alternating rounds, caches cold. Errors are bytes in outermost ERROR nodes; of a file that has no tree at
all, every byte.
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

BAR = 0.6
"""Least share of the speed of a bare parse of the same variants."""
MAX_ERRORS = 0.02


class Source(NamedTuple):
    """A file's text and language."""

    path: str
    text: str
    language: Language

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkouts = options.checkouts or unpack_samples(Path(folder))
        print("             files    MB   bare   same  parse  facts  facts/same  errors  unblanked")
        for checkout in checkouts:
            _report(checkout.name, _sources(checkout), options.rounds)
    print(f"bars{'':46} >= {BAR:.0%}  <= {MAX_ERRORS:.0%}")


def _report(name: str, sources: Sequence[Source], rounds: int) -> None:
    size = sum(each.size for each in sources)
    tried = _variants(sources)

    def same(source: Source) -> object:
        return [_parsed(variant, source.language) for variant in tried[source]]

    sides = {"bare": _bare, "same": same, "parse": _best, "facts": _facts}
    bare, variants, best, facts = _rates(sides, sources, rounds)
    kept = sum(map(_errors, sources)) / size
    unblanked = sum(error_bytes(_bare(each)) for each in sources) / size
    print(
        f"{name:12} {len(sources):5} {size / 1e6:5.2f} {bare:6.2f} {variants:6.2f} {best:6.2f} {facts:6.2f}"
        f" {facts / variants:10.0%} {kept:8.2%} {unblanked:9.2%}"
    )


def _variants(sources: Sequence[Source]) -> dict[Source, list[bytes]]:
    """Variants of each file that are parsed until one is good enough."""
    found: defaultdict[Source, list[bytes]] = defaultdict(list)
    for source in sources:

        def seen(
            data: bytes, language: Language, source: Source = source
        ) -> tree_sitter.Tree | None:
            found[source].append(data)
            return tree_of(data, language)

        parse.cache_clear()
        with mock.patch.object(syntax_tree, "tree_of", seen):
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
    return _parsed(source.text.encode(), source.language)


def _parsed(data: bytes, language: Language) -> tree_sitter.Tree:
    return tree_sitter.Parser(grammar(language)).parse(data)


def _best(source: Source) -> object:
    return parse(source.text, source.language)


def _facts(source: Source) -> object:
    return facts_of(source.text, source.language)


def _rates(
    sides: Mapping[str, Callable[[Source], object]], sources: Sequence[Source], rounds: int
) -> list[float]:
    size = sum(each.size for each in sources) / 1e6
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            parse.cache_clear()
            facts_of.cache_clear()
            begin = time.process_time()
            for source in sources:
                run(source)
            seen[name].append(size / (time.process_time() - begin))
    return [statistics.median(rates) for rates in seen.values()]


def _errors(source: Source) -> int:
    return facts_of(source.text, source.language).error_bytes


def error_bytes(tree: tree_sitter.Tree) -> int:
    """The bytes in outermost ERROR nodes."""
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
