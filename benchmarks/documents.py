"""Documents rendered from a history per CPU second, compared with a pygit2 walk that only reads.

    python benchmarks/documents.py PATH [--families v3_simple] [--rounds 5] [--versions 8]

Both sides see the whole history of PATH (or so many versions of each path), in alternating rounds. Ours
reads, diffs, parses and renders; the peer walks the commits, diffs trees and reads the texts before and
after of every C and C++ file, and makes nothing of them. CPU seconds count child processes as well.
"""

import argparse
import importlib
import resource
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from curriculum.corpus.history import read_changes
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.families.document_writer import DocumentWriter
from curriculum.families.render import render
from curriculum.graph.outline import outline
from curriculum.graph.syntax_tree import parse
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec
from schemas.document import Document
from schemas.families import families_of

SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--families", nargs="+", default=list(families_of("changes")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--versions", type=int, default=1_000_000)
    options = parser.parse_args()
    sides: dict[str, Callable[[], int]] = {
        "documents": lambda: _documents(options.path, options.families, options.versions),
        "written": lambda: _written(options.path, options.families, options.versions),
    }
    pygit2 = _pygit2()
    if pygit2:
        sides["pygit2"] = lambda: _walk(pygit2, options.path)
    rates = _alternate(sides, options.rounds)
    for name, rate in rates.items():
        print(f"{name:10} {rate:10.0f} {'changes' if name == 'pygit2' else 'documents'}/CPU s")
    if pygit2:
        print(f"documents / pygit2: {rates['documents'] / rates['pygit2']:.2f}")
    else:
        print("pygit2 is not installed: no ratio")


def _pygit2() -> ModuleType | None:
    try:
        return importlib.import_module("pygit2")
    except ModuleNotFoundError:
        return None


def _alternate(sides: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begin = _cpu_seconds()
            count = run()
            seen[name].append(count / (_cpu_seconds() - begin))
    return {name: statistics.median(rates) for name, rates in seen.items()}


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _documents(path: Path, families: list[str], versions: int) -> int:
    return sum(1 for _ in _rendered(path, families, versions))


def _written(path: Path, families: list[str], versions: int) -> int:
    with tempfile.TemporaryDirectory() as folder, DocumentWriter(Path(folder)) as writer:
        for document in _rendered(path, families, versions):
            writer.append(document)
        return writer.count


def _rendered(path: Path, families: list[str], versions: int) -> Iterator[Document]:
    outline.cache_clear()
    parse.cache_clear()
    spec = RepositorySpec(name="benchmark", path=str(path))
    history = HistorySpec(versions_per_path=versions)
    corpus = CorpusSpec(name="benchmark", repositories=(spec,), files=("cpp", "c"), history=history)
    with tempfile.TemporaryDirectory() as cache:
        source = resolve(spec, cache=Path(cache))
        for change in read_changes(source, spec, corpus, Skips()):
            yield from render(change, families).documents


def _walk(pygit2: ModuleType, path: Path) -> int:
    repository = pygit2.Repository(str(path))
    count = read = 0
    for commit in repository.walk(repository.head.target):
        if len(commit.parents) > 1:
            continue
        if commit.parents:
            diff = commit.parents[0].tree.diff_to_tree(commit.tree)
        else:
            diff = commit.tree.diff_to_tree(swap=True)
        for delta in diff.deltas:
            if delta.new_file.path.endswith(SUFFIXES):
                for side in (delta.old_file, delta.new_file):
                    if side.id in repository:
                        read += len(repository[side.id].data)
                count += 1
    assert read
    return count


if __name__ == "__main__":
    main()
