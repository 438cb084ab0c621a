"""Documents rendered from a git history per CPU second, compared with a pygit2 walk that only reads.

    python benchmarks/documents.py PATH [--families v3_simple] [--rounds 5] [--versions 8]

Two sides process the whole history of the repository PATH in alternating rounds. curriculum reads commits,
computes diffs, parses code and renders documents (`documents`), and also writes them to files (`written`).
pygit2 walks the commits, compares the trees and reads every C and C++ file before and after a change, but
renders nothing. CPU seconds include child processes.
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
    parser.add_argument("path", type=Path, help="git repository")
    parser.add_argument(
        "--families", nargs="+", default=list(families_of("changes")), help="families to render"
    )
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    parser.add_argument(
        "--versions", type=int, default=1_000_000, help="maximum versions of a path, for curriculum"
    )
    options = parser.parse_args()
    sides: dict[str, Callable[[], int]] = {
        "documents": lambda: _count_rendered(options.path, options.families, options.versions),
        "written": lambda: _count_written(options.path, options.families, options.versions),
    }
    pygit2 = _pygit2()
    if pygit2:
        sides["pygit2"] = lambda: _walk_commits(pygit2, options.path)
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
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begin = _cpu_seconds()
            count = run()
            rates[name].append(count / (_cpu_seconds() - begin))
    return {name: statistics.median(values) for name, values in rates.items()}


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _count_rendered(path: Path, families: list[str], versions: int) -> int:
    return sum(1 for _ in _render(path, families, versions))


def _count_written(path: Path, families: list[str], versions: int) -> int:
    with tempfile.TemporaryDirectory() as folder, DocumentWriter(Path(folder)) as writer:
        for document in _render(path, families, versions):
            writer.append(document)
        return writer.count


def _render(path: Path, families: list[str], versions: int) -> Iterator[Document]:
    outline.cache_clear()
    parse.cache_clear()
    spec = RepositorySpec(name="benchmark", path=str(path))
    history = HistorySpec(versions_per_path=versions)
    corpus = CorpusSpec(name="benchmark", repositories=(spec,), files=("cpp", "c"), history=history)
    with tempfile.TemporaryDirectory() as cache:
        source = resolve(spec, cache=Path(cache))
        for change in read_changes(source, spec, corpus, Skips()):
            yield from render(change, families).documents


def _walk_commits(pygit2: ModuleType, path: Path) -> int:
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
