"""CPU time to read the history of a repository, compared with commands of git and with pygit2.

    python benchmarks/reading_git.py REPOSITORY [--rounds 5]

All sides read the same commits and the same blobs in alternating rounds. CPU seconds include child processes.

    texts      read_changes without hunks, compared with git log --raw and git cat-file --batch
    changes    read_changes with hunks, compared with the same commands and git log -p -U0
    pygit2     a walk that compares trees and reads blobs, if pygit2 is installed

The target for texts is at most 1.5 times the time of git.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from unittest import mock

from curriculum.corpus import git
from curriculum.corpus.batch_diff import BatchDiffer
from curriculum.corpus.history import read_changes
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import Source, resolve
from schemas.corpus import CorpusSpec, HistorySpec, QualitySpec, RepositorySpec

ALL = 1_000_000_000
LOG = ("log", "--no-merges", "--raw", "-z", "--no-abbrev", "-M50%", "--date-order", "--reverse")
PATCH = ("log", "--no-merges", "-p", "-U0", "--diff-algorithm=histogram", "-M50%", "--text")
SUFFIXES = ("*.cc", "*.cpp", "*.cxx", "*.h", "*.hpp", "*.c", "*.cmake", "*CMakeLists.txt")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Repository whose whole history is read."""

    spec: RepositorySpec
    corpus: CorpusSpec
    source: Source
    ids: bytes
    """Ids of the blobs to read, one per line, in the order of the changes."""


def case_of(path: str) -> Case:
    spec = RepositorySpec(name="repository", path=path)
    corpus = CorpusSpec(
        name="benchmark",
        repositories=(spec,),
        history=HistorySpec(versions_per_path=ALL),
        quality=QualitySpec(min_bytes=0, vendored=True, generated=True),
    )
    source = resolve(spec, cache=Path(tempfile.gettempdir()))
    ids: dict[str, None] = {}
    changes = texts = 0
    for change in read_changes(source, spec, corpus, Skips()):
        changes += 1
        for blob in (change.before, change.after):
            if blob is not None:
                ids[blob.blob_id] = None
                texts += len(blob.text)
    print(f"{path}: {changes:,} changes, {texts / 1e6:,.0f} MB of texts, {len(ids):,} blobs")
    return Case(
        spec=spec, corpus=corpus, source=source, ids="".join(f"{blob}\n" for blob in ids).encode()
    )


def ours(case: Case) -> None:
    for _ in read_changes(case.source, case.spec, case.corpus, Skips()):
        pass


def ours_without_hunks(case: Case) -> None:
    with mock.patch.object(BatchDiffer, "hunks", lambda _, pairs: [()] * len(pairs)):
        ours(case)


def git_texts(case: Case) -> None:
    run_git(case, *LOG, case.source.commit)
    run_git(case, "cat-file", "--batch", "--buffer", stdin=case.ids)


def git_changes(case: Case) -> None:
    git_texts(case)
    run_git(case, *PATCH, case.source.commit, "--", *SUFFIXES)


def run_git(case: Case, *arguments: str, stdin: bytes = b"") -> None:
    """Run git and read all of its output."""
    assert case.source.layout is not None
    with git.view(case.source.layout) as repository, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            git.command(*arguments),
            stdin=given,
            stdout=subprocess.PIPE,
            env=git.environment(repository),
        )
        assert process.stdout is not None
        drain(process.stdout)
        assert process.wait() == 0


def drain(stream: IO[bytes]) -> None:
    with stream:
        while stream.read(1 << 20):
            pass


def pygit2_walk(case: Case) -> None:
    import pygit2

    assert case.source.layout is not None
    repository = pygit2.Repository(str(case.source.layout.common))
    wanted = {bytes.fromhex(blob_id) for blob_id in case.ids.decode().split()}
    order = pygit2.enums.SortMode.TIME | pygit2.enums.SortMode.REVERSE
    for commit in repository.walk(case.source.commit, order):
        if len(commit.parents) > 1:
            continue
        if commit.parents:
            diff = repository.diff(commit.parents[0], commit)
        else:
            diff = commit.tree.diff_to_tree(swap=True)
        for delta in diff.deltas:
            for side in (delta.old_file, delta.new_file):
                if side.id.raw in wanted:
                    _ = repository[side.id].read_raw()


def measure(run: Callable[[Case], None], case: Case) -> float:
    before = cpu_seconds()
    run(case)
    return cpu_seconds() - before


def cpu_seconds() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("repository", help="git repository")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = parser.parse_args()
    case = case_of(options.repository)
    runs: list[tuple[str, Callable[[Case], None]]] = [
        ("git: log + cat-file", git_texts),
        ("ours: texts", ours_without_hunks),
        ("git: log + cat-file + log -p", git_changes),
        ("ours: changes", ours),
    ]
    if find_spec("pygit2"):
        runs.append(("pygit2: walk + read", pygit2_walk))
    seconds: dict[str, list[float]] = {name: [] for name, _ in runs}
    for _ in range(options.rounds):
        for name, run in runs:
            seconds[name].append(measure(run, case))
    print(f"{git.version()=}, {platform.python_version()=}, load {os.getloadavg()[0]:.1f}")
    print(f"{time.strftime('%Y-%m-%d')}, CPU seconds, median (min, max) of {options.rounds}")
    median = {name: statistics.median(times) for name, times in seconds.items()}
    for name, times in seconds.items():
        print(f"{name:32} {median[name]:7.2f}  ({min(times):.2f}, {max(times):.2f})")
    print(
        f"texts    {median['ours: texts'] / median['git: log + cat-file']:.2f} x git (target 1.5)"
    )
    print(f"changes  {median['ours: changes'] / median['git: log + cat-file + log -p']:.2f} x git")
    if "pygit2: walk + read" in median:
        print(f"pygit2   {median['pygit2: walk + read'] / median['ours: texts']:.1f} x our texts")


if __name__ == "__main__":
    main()
