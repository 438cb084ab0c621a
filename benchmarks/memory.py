"""Memory of a build by number of documents: it must be flat.

Two repositories with the same kind of history, one ten times as long, are built from the start, each in
a process of its own. Printed: documents, and two peaks: of the memory that the process allocated, and
with the pages of memory-mapped files, which the system takes back when it needs them.

    python benchmarks/memory.py [--commits 300]
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
print(json.dumps({"documents": sum(each.manifest.report["documents"] for each in built.documents),
                  "tokens": sum(each.manifest.report["tokens"] for each in built.tokens)}))
"""


def history(folder: Path, commits: int) -> None:
    """A repository with so many commits, each changing one function of one file."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    rng = random.Random(commits)
    texts = [[function(rng, n) for n in range(LINES // 6)] for _ in range(FILES)]
    stream = bytearray()
    for number in range(commits):
        which = number % FILES
        texts[which][rng.randrange(len(texts[which]))] = function(rng, number)
        data = "\n".join(texts[which]).encode()
        who = f"A <a@example.org> {1_600_000_000 + number} +0000"
        stream += f"commit refs/heads/main\ncommitter {who}\ndata 7\nEdit it\n".encode()
        stream += f"M 100644 inline src/file{which}.cc\ndata {len(data)}\n".encode() + data + b"\n"
    subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet"], input=bytes(stream), check=True
    )


def function(rng: random.Random, number: int) -> str:
    words = [f"{rng.choice('abcdefgh')}{rng.randrange(1000)}" for _ in range(6)]
    body = "\n".join(f"  {word} += {rng.randrange(1 << 20)};" for word in words[:4])
    return f"int f{number}_{words[4]}(int {words[0]}) {{\n{body}\n}}\n"


def measured(commits: int, folder: Path) -> dict[str, int]:
    repository = folder / f"history-{commits}"
    history(repository, commits)
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
    said: dict[str, int] = json.loads(process.stdout.read().splitlines()[-1])
    return said | peaks


def memory(pid: int) -> dict[str, int]:
    """RssAnon and VmRSS of a process, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = (line.split() for line in lines if line.startswith(("RssAnon:", "VmRSS:")))
    return {name.rstrip(":"): int(size) for name, size, _ in fields}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            measured(commits, Path(folder)) for commits in (options.commits, 10 * options.commits)
        )
    for each in (small, large):
        print(
            f"{each['documents']:>8,} documents {each['tokens']:>12,} tokens"
            f"  allocated {each['RssAnon'] / 1024:7.1f} MiB"
            f"  with mapped files {each['VmRSS'] / 1024:7.1f} MiB"
        )
    more = large["documents"] - small["documents"]
    print(f"{(large['RssAnon'] - small['RssAnon']) * 1024 / more:,.0f} bytes a further document")


if __name__ == "__main__":
    main()
