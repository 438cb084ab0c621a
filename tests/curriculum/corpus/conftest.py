"""Small repositories made with git, and reading them."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from curriculum.corpus.file_histories import FileHistories
from curriculum.corpus.history import read_changes
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from schemas.change import FileChange
from schemas.corpus import CorpusSpec, HistorySpec, QualitySpec, RepositorySpec

START = 1_600_000_000
"""The time of a built repository's first commit; each further one is a day later."""


@dataclass
class Built:
    """A work tree that tests fill commit by commit."""

    path: Path
    clock: int = START
    ids: list[str] = field(default_factory=list)

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run git in the work tree as a user would, with a fixed author and time."""
        ours = {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_AUTHOR_DATE": f"@{self.clock} +0000",
            "GIT_COMMITTER_DATE": f"@{self.clock} +0000",
        }
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=self.path,
            env={"PATH": os.defpath, **ours},
            input=stdin,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").strip()

    def write(self, name: str | bytes, content: str | bytes) -> None:
        """Put a file into the work tree."""
        path = Path(os.fsdecode(os.path.join(os.fsencode(self.path), os.fsencode(name))))  # noqa: PTH118, TID251
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, subject: str = "Change", **files: str | bytes) -> str:
        """Commit everything; `a_cc="…"` writes a.cc first."""
        for name, content in files.items():
            self.write(name.replace("__", "/").replace("_", "."), content)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        self.clock += 86_400
        self.ids.append(self.git("rev-parse", "HEAD"))
        return self.ids[-1]


@dataclass
class Reader:
    """Reads a repository with a corpus of one."""

    cache: Path

    def __call__(
        self,
        path: Path,
        *,
        corpus: dict[str, Any] | None = None,
        histories: FileHistories | None = None,
        **pin: Any,
    ) -> tuple[list[FileChange], Skips]:
        """All changes and the skips; sizes don't matter unless the test says so."""
        spec = RepositorySpec(**{"name": "repo", "path": str(path), **pin})
        rules: dict[str, Any] = {
            "quality": QualitySpec(min_bytes=0),
            "history": HistorySpec(versions_per_path=1000),
            **(corpus or {}),
        }
        whole = CorpusSpec(name="corpus", repositories=(spec,), **rules)
        skips = Skips()
        source = resolve(spec, cache=self.cache)
        return list(read_changes(source, spec, whole, skips, histories)), skips


@dataclass
class Builder:
    """Makes repositories below a folder."""

    folder: Path

    def __call__(self, name: str = "repo", *init: str) -> Built:
        """An empty repository."""
        path = self.folder / name
        path.mkdir(parents=True)
        built = Built(path=path)
        built.git("init", "--quiet", "--initial-branch=main", "--template=", *init)
        return built


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    """Makes repositories in the test's folder."""
    return Builder(tmp_path)


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Reads repositories, with its cache in the test's folder."""
    return Reader(tmp_path / "cache")
