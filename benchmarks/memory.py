"""Peak memory of a build by number of documents; the peak must not grow with it.

    python benchmarks/memory.py [--commits 300]

The script generates two repositories, one with ten times as many commits as the other, and builds their rows
in separate processes. It prints the number of documents and two peaks: of the memory that the process
allocated, and of this memory together with memory-mapped files, whose pages the system can reclaim.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = 40
LINES = 120
BUILD = """
import json, sys
from pathlib import Path
from curriculum.stages import RowsSpec, Tokenizing, build
from curriculum.corpus.load import corpus_of_repositories
from curriculum.store import Store
from schemas.corpus import HistorySpec

corpus = corpus_of_repositories([Path(sys.argv[1])])
corpus = corpus.model_copy(update={"history": HistorySpec(versions_per_path=1_000_000)})
wanted = [RowsSpec(family="v3_simple", row_length=4096)]
built = build(Store(Path(sys.argv[2])), corpus, wanted, anchor_length=4096,
              tokenizing=Tokenizing(vocab_size=4096))
print(json.dumps({"documents": sum(data.manifest.report["documents"] for data in built.documents),
                  "tokens": sum(data.manifest.report["tokens"] for data in built.tokens)}))
"""


def create_repository(folder: Path, commits: int) -> None:
    """Create a repository with `commits` commits; every commit changes one function of one file."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    rng = random.Random(commits)
    texts = [[function(rng, n) for n in range(LINES // 6)] for _ in range(FILES)]
    stream = bytearray()
    for number in range(commits):
        index = number % FILES
        texts[index][rng.randrange(len(texts[index]))] = function(rng, number)
        data = "\n".join(texts[index]).encode()
        who = f"A <a@example.org> {1_600_000_000 + number} +0000"
        stream += f"commit refs/heads/main\ncommitter {who}\ndata 7\nEdit it\n".encode()
        stream += f"M 100644 inline src/file{index}.cc\ndata {len(data)}\n".encode() + data + b"\n"
    subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet"], input=bytes(stream), check=True
    )


def function(rng: random.Random, number: int) -> str:
    words = [f"{rng.choice('abcdefgh')}{rng.randrange(1000)}" for _ in range(6)]
    body = "\n".join(f"  {word} += {rng.randrange(1 << 20)};" for word in words[:4])
    return f"int f{number}_{words[4]}(int {words[0]}) {{\n{body}\n}}\n"


def measure_build(commits: int, folder: Path) -> dict[str, int]:
    repository = folder / f"history-{commits}"
    create_repository(repository, commits)
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(repository), str(folder / f"workspace-{commits}")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "POLARS_MAX_THREADS": "2"},
    )
    peaks = {"RssAnon": 0, "VmRSS": 0}
    while process.poll() is None:
        for name, value in memory(process.pid).items():
            peaks[name] = max(peaks.get(name, 0), value)
        time.sleep(0.02)
    assert process.returncode == 0, "the build failed"
    assert process.stdout is not None
    counts: dict[str, int] = json.loads(process.stdout.read().splitlines()[-1])
    return counts | peaks


def memory(pid: int) -> dict[str, int]:
    """Return RssAnon and VmRSS of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = (line.split() for line in lines if line.startswith(("RssAnon:", "VmRSS:")))
    return {name.rstrip(":"): int(size) for name, size, _ in fields}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--commits", type=int, default=300, help="commits of the smaller repository"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            measure_build(commits, Path(folder))
            for commits in (options.commits, 10 * options.commits)
        )
    for build in (small, large):
        print(
            f"{build['documents']:>8,} documents {build['tokens']:>12,} tokens"
            f"  allocated {build['RssAnon'] / 1024:7.1f} MiB"
            f"  with mapped files {build['VmRSS'] / 1024:7.1f} MiB"
        )
    more = large["documents"] - small["documents"]
    print(
        f"{(large['RssAnon'] - small['RssAnon']) * 1024 / more:,.0f} bytes per additional document"
    )


if __name__ == "__main__":
    main()
