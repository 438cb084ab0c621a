"""Near copies: speed of shingles and signatures, recall and precision of candidates, disk and memory.

    python benchmarks/near_copies.py REPOSITORY … [--revisions HEAD v1.0 …]

Candidates are pairs of files whose signatures have a band in common. The script computes the exact Jaccard
similarity of all pairs of files, and prints:

    recall      share of the pairs with a similarity of at least 0.7 that are candidates
    precision   share of the candidates with such a similarity; the build compares and drops the others
    large files the same for files with at least 10,000 shingles, where a copy contains over half of the
                smaller file
    size        bytes of signatures.parquet, and peak memory while pairs are searched, for two numbers of
                signatures and projected to 10⁷

Revisions that a repository doesn't have are skipped.
"""

import argparse
import itertools
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from curriculum.corpus.copy_clusters import (
    LARGE_SHINGLES,
    MIN_ACROSS,
    MIN_ACROSS_LARGE,
    min_large_similarity,
)
from curriculum.corpus.near_pairs import candidate_pairs, large_pairs
from curriculum.corpus.shingles import UInt64s, shingles
from curriculum.corpus.signatures import SIGNATURES_NAME, SignatureWriter, SignedVersion

SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".cmake")
MIN_BYTES = 100
SIZES = (20_000, 200_000)
PROJECTED = 10_000_000
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.01)


def texts_of(repository: str, revision: str) -> Iterator[str]:
    git = ("git", "--git-dir", repository)
    listed = subprocess.run(
        (*git, "ls-tree", "-r", "-z", revision), capture_output=True, check=False
    )
    entries = [line.split(b"\t", 1) for line in listed.stdout.split(b"\0") if line]
    for facts, path in entries:
        mode, _, blob = facts.split()
        if mode.startswith(b"100") and path.decode(errors="replace").endswith(SUFFIXES):
            read = subprocess.run(
                (*git, "cat-file", "blob", blob), capture_output=True, check=False
            )
            try:
                text = read.stdout.decode()
            except UnicodeDecodeError:
                continue
            if len(text) >= MIN_BYTES:
                yield text


def write_signatures(folder: Path, sets: Sequence[UInt64s]) -> Path:
    with SignatureWriter(folder / SIGNATURES_NAME) as writer:
        for number, shingle_set in enumerate(sets):
            name = np.random.default_rng(number).bytes(16).hex()
            lineage = f"repository:folder{number // 200}/file{number}.cc"
            writer.add(SignedVersion(lineage=lineage, document_id=name, shingles=shingle_set))
    return folder / SIGNATURES_NAME


def similar_pairs(sets: Sequence[UInt64s], minimum: float) -> dict[tuple[int, int], float]:
    """Return the exact similarity of all pairs of files with at least a similarity of `minimum`."""
    words, codes = np.unique(np.concatenate(sets), return_inverse=True)
    sizes = np.array([len(shingle_set) for shingle_set in sets])
    starts = np.cumsum(sizes) - sizes
    is_own = np.zeros(len(words), dtype=np.bool_)
    found: dict[tuple[int, int], float] = {}
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        own = codes[start : start + size]
        is_own[own] = True
        shared = np.add.reduceat(is_own[codes], starts, dtype=np.int64)
        is_own[own] = False
        similarity = shared / (sizes + size - shared)
        for other in np.flatnonzero(similarity >= minimum):
            if other > number:
                found[number, int(other)] = float(similarity[other])
    return found


def measure_quality(texts: Sequence[str], folder: Path) -> None:
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    start = time.process_time()
    sets = [shingle_set for shingle_set in map(shingles, texts) if len(shingle_set)]
    shingled = time.process_time()
    file = write_signatures(folder, sets)
    signed = time.process_time()
    candidates = set(map(tuple, candidate_pairs(file, len(sets)).tolist()))
    print(f"{len(sets):,} files, {megabytes:.1f} MB")
    print(f"shingles {megabytes / (shingled - start):.1f} MB/s")
    print(f"shingles and signatures {megabytes / (signed - start):.1f} MB/s")
    exact = similar_pairs(sets, EDGES[0])
    for low, high in itertools.pairwise(EDGES):
        pairs = [pair for pair, value in exact.items() if low <= value < high]
        share = len(candidates.intersection(pairs)) / max(1, len(pairs))
        print(f"{low:.1f} to {min(high, 1):.1f}: {len(pairs):,} pairs, {share:.4f} are candidates")
    print_recall({pair for pair, value in exact.items() if value >= MIN_ACROSS}, candidates)
    large = [shingle_set for shingle_set in sets if len(shingle_set) >= LARGE_SHINGLES]
    file = write_signatures(folder, large)
    compared = large_pairs(file, np.ones(len(large), dtype=np.bool_))
    print(f"{len(large):,} large files")
    exact = similar_pairs(large, MIN_ACROSS_LARGE)
    alike = np.array([*exact], dtype=np.int64).reshape(-1, 2)
    sizes = np.array([len(shingle_set) for shingle_set in large])
    minima = min_large_similarity(sizes[alike[:, 0]], sizes[alike[:, 1]])
    copies = alike[np.array([*exact.values()]) >= minima]
    print_recall(set(map(tuple, copies.tolist())), set(map(tuple, compared.tolist())))


def print_recall(alike: set[tuple[int, ...]], candidates: set[tuple[int, ...]]) -> None:
    found = len(alike & candidates)
    print(
        f"{len(alike):,} pairs, recall {found / max(1, len(alike)):.4f}, "
        f"precision {found / max(1, len(candidates)):.4f}"
    )


def measure_size(folder: Path) -> None:
    rng = np.random.default_rng(1)
    for size in SIZES:
        sets = [rng.integers(1 << 64, size=100, dtype=np.uint64) for _ in range(size)]
        file = write_signatures(folder, sets)
        del sets
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        candidate_pairs(file, size)
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        num_bytes = file.stat().st_size / size
        print(
            f"{size:,} signatures: {num_bytes:.0f} bytes per signature, "
            f"{num_bytes * PROJECTED / 1e9:.2f} GB for 10⁷; "
            f"pairs in {seconds:.1f} s, peak memory {before / 1e3:.0f} to {peak / 1e3:.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="+", help="git directories")
    parser.add_argument("--revisions", nargs="+", default=["HEAD"], help="revisions to read")
    arguments = parser.parse_args()
    texts = [
        text
        for repository in arguments.repositories
        for revision in arguments.revisions
        for text in texts_of(repository, revision)
    ]
    with tempfile.TemporaryDirectory() as folder:
        measure_quality(texts, Path(folder))
        measure_size(Path(folder))


if __name__ == "__main__":
    main()
