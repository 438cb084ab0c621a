"""The corpus: the pinned set of repositories that we read, and what of them we keep."""

import datetime
import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from schemas.text import Strict

Language = Literal["cpp", "c", "cmake", "make", "bazel", "meson"]
LANGUAGES: tuple[Language, ...] = ("cpp", "c", "cmake", "make", "bazel", "meson")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
Name = Annotated[str, Field(pattern=rf"^{_NAME.pattern}$")]
"""A name that is safe in a path: letters, digits, dot, dash, underscore; at most 100."""


class RepositorySpec(Strict):
    """A repository pin: where it lies, which commit, and which part of its history."""

    name: Name
    path: str | None = None
    """A work tree, a bare repository, a bundle or a plain directory (one snapshot, no history)."""
    url: str | None = None
    """Cloned into the workspace on first use."""
    commit: str = "HEAD"
    """A commit, tag or branch; what it resolves to is recorded."""
    licence: str | None = None
    compile_commands: str | None = None
    """A compilation database of the pinned commit, relative to a repository that is a folder, else to this
    file; by default compile_commands.json or build/compile_commands.json in that folder."""
    since: datetime.date | None = None
    until: datetime.date | None = None
    include: tuple[str, ...] = ()
    """gitignore-style patterns; a file that matches none is left out."""
    exclude: tuple[str, ...] = ()
    max_commits: Annotated[int, Field(ge=1)] | None = None
    """The newest so many commits."""

    @model_validator(mode="after")
    def _one_place(self) -> "RepositorySpec":
        if (self.path is None) == (self.url is None):
            raise ValueError("a repository has either a path or a url. Give exactly one of them")
        if self.commit.startswith("-"):
            raise ValueError("a commit does not begin with a dash. Give a commit, tag or branch")
        if self.since and self.until and self.since > self.until:
            raise ValueError("since is after until. Exchange them")
        return self


class ConversationsSpec(Strict):
    """Conversations to learn from: a file of JSON lines, or a folder of such files."""

    name: Name
    path: str
    licence: str | None = None


class HistorySpec(Strict):
    """How many versions of one file are read; hot files would drown the rest."""

    versions_per_path: Annotated[int, Field(ge=1)] = 8
    newest_first: bool = True


class QualitySpec(Strict):
    """What is too small, too large or not written by hand."""

    min_bytes: Annotated[int, Field(ge=0)] = 100
    max_bytes: Annotated[int, Field(ge=1)] = 1_000_000
    max_line_bytes: Annotated[int, Field(ge=1)] = 100_000
    vendored: bool = False
    """Keep files under third_party, vendor, … as well."""
    generated: bool = False
    """Keep files that say they were generated as well."""


class CorpusSpec(Strict):
    """A corpus file; `corpora/*.yaml`."""

    name: Name
    repositories: Annotated[tuple[RepositorySpec, ...], Field(min_length=1)]
    conversations: tuple[ConversationsSpec, ...] = ()
    """The sources of the chat family."""
    domains: str = "domains"
    """The rules that give each document its domain: a name that comes with the package, or a path."""
    files: tuple[Language, ...] = LANGUAGES
    history: HistorySpec = HistorySpec()
    quality: QualitySpec = QualitySpec()
    val_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.02
    max_skipped: Annotated[float, Field(ge=0, le=1)] = 0.01
    """A build that lost more than this share of its input to unreadable data fails."""
    store_targets: bool = True
    """false halves the rows on disk; readers derive target_ids."""

    @model_validator(mode="after")
    def _distinct_names(self) -> "CorpusSpec":
        names = [each.name for each in self.repositories]
        names += [each.name for each in self.conversations]
        seen: dict[str, str] = {}
        for name in names:
            if name.casefold() in seen:
                raise ValueError(
                    f"{seen[name.casefold()]!r} and {name!r}, of repositories or conversations, are "
                    "names that differ at most in case. Rename one of them"
                )
            seen[name.casefold()] = name
        return self
