"""Documents of sampled commits or conversations, made as in a build, in a temporary store.

The changed files of a sampled commit show whether the commit touched a function or a build target. Of the
commits that touched one, only some are walked, which means that their whole trees are parsed.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from curriculum import frames
from curriculum.corpus.conversations import (
    ConversationFiles,
    SkippedLines,
    find_conversations,
    read_conversations,
)
from curriculum.corpus.history import (
    OpenHistory,
    SampledCommits,
    iterate_changes,
    open_history,
    read_changes,
)
from curriculum.corpus.skips import Skips
from curriculum.corpus.survey import SURVEY_SCHEMA, Survey, sample_commits, survey, survey_snapshot
from curriculum.corpus.trees import iterate_commits, read_commits
from curriculum.families import chat
from curriculum.families.chosen_changes import render_changes
from curriculum.families.cmake_targets import LANGUAGE as BUILD_LANGUAGE
from curriculum.families.render import RenderResult
from curriculum.families.touched_functions import touched_bytes
from curriculum.objectives.new_lines import UInt64s, shown_lines
from curriculum.stages.documents import FamilyWriters, Repository
from curriculum.stages.graphs import RepositoryGraphs
from curriculum.stages.indexes import Index
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory
from schemas.change import CommitChange, FileChange
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.families import CHAT_FAMILY, families_of
from schemas.reports import SurveyReport

SURVEY_NAME, TOUCHED_NAME, BEFORE_NAME = "survey.parquet", "touched.parquet", "before.parquet"
TOUCHED_SCHEMA = pl.Schema(
    {"unit": pl.String, "lineage": pl.String, "is_build": pl.Boolean, "bytes": pl.Int64}
)
"""Sampled commits and the files that they changed.

Each sampled commit has one row without lineage and bytes, plus one row per changed file. `is_build` is True
if the file's documents are those of build targets. `bytes` is the size of the functions that the commit
touched.
"""
BEFORE_SCHEMA = pl.Schema(
    [("unit", pl.String()), ("lineage", pl.String()), ("keys", pl.List(pl.UInt64()))]
)
"""Lines of files before sampled changes: one row per change of an existing file.

`keys` are the keys of the distinct lines before the change.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitsTask:
    """Some commits of a repository that are read with their whole trees; a plain folder has one commit."""

    repository: Repository
    families: tuple[str, ...]
    index: Index | None
    commits: tuple[str, ...]
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledFiles(Stage[Sequence[Repository], Repository]):
    """Stage that writes a repository's survey and the sampled documents of each family that shows files."""

    name = "commits"
    parses = True
    raises_last = True
    share: float
    min_count: int
    """Minimum number of sampled commits per repository."""

    def title(self, task: Repository) -> str:
        """Return the repository's name."""
        return task.name

    def recipes(self, task: Repository) -> Sequence[Recipe]:
        """Return the recipes of the survey and of each family."""
        place, config = ("repository", task.name), {"repository": task.name}
        survey = Recipe(stage="surveys", labels=(place,), revision=0, config=config)
        documents = [
            Recipe(
                stage="documents",
                labels=(("family", family), place),
                revision=0,
                config={**config, "family": family},
            )
            for family in families_of("changes")
        ]
        return [survey, *documents]

    def run(self, task: Repository, drafts: Sequence[StagingDirectory]) -> None:
        """Survey all commits and render the changes of the sampled ones."""
        touched: list[tuple[str, str, bool, int]] = []
        before: list[tuple[str, str, UInt64s]] = []
        with FamilyWriters(drafts[1:]) as writers, _open_reader(task) as reader:
            found = reader.survey()
            chosen = sample_commits(found.commits, self.share, min_count=self.min_count)
            changes = _record_rows(reader.changes(found, chosen), touched, before)
            settings = task.corpus.edit_settings()
            for rendered in render_changes(changes, writers.families, settings):
                writers.add(rendered)
        write_frame(found.changes, drafts[0].path / SURVEY_NAME)
        drafts[0].record(
            SurveyReport(
                tree_bytes=found.tree_bytes,
                in_log=found.in_log,
                unread=dict(found.unread),
            )
        )
        write_touched([*_untouched(chosen), *touched], drafts[0].path)
        frame = pl.DataFrame(before, schema=BEFORE_SCHEMA, orient="row")
        write_frame(frame, drafts[0].path / BEFORE_NAME)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledGraphs(Stage[Sequence[CommitsTask], CommitsTask]):
    """Stage that writes documents for some commits of a repository, for each family built from graphs."""

    name = "graphs"
    parses = True

    def title(self, task: CommitsTask) -> str:
        """Return the repository's name and the number of the task's part, counted from 1."""
        return f"{task.repository.name} {task.number + 1}"

    def recipes(self, task: CommitsTask) -> Sequence[Recipe]:
        """Return one recipe per family of the task."""
        return [
            Recipe(
                stage="documents",
                labels=(("family", family), ("repository", task.repository.name)),
                revision=0,
                config={
                    "family": family,
                    "repository": task.repository.name,
                    "number": task.number,
                },
            )
            for family in task.families
        ]

    def run(self, task: CommitsTask, drafts: Sequence[StagingDirectory]) -> None:
        """Render the commits one after another."""
        settings = task.repository.corpus.context_settings()
        graphs = RepositoryGraphs.of(task.families, task.index, settings)
        with FamilyWriters(drafts) as writers, _open_reader(task.repository) as reader:
            for commit in reader.commits(task.commits):
                graphs.apply(commit.tree)
                for rendered in graphs.documents(commit):
                    writers.add(rendered)


def read_survey(artefact: Artefact) -> pl.DataFrame:
    """Return the table of SURVEY_SCHEMA with all commits of a repository."""
    return frames.read(artefact.path / SURVEY_NAME)


def read_touched(artefact: Artefact) -> pl.DataFrame:
    """Return the table of TOUCHED_SCHEMA with the sampled commits of a repository."""
    return frames.read(artefact.path / TOUCHED_NAME)


def read_before(artefact: Artefact) -> pl.DataFrame:
    """Return the table of BEFORE_SCHEMA with the sampled commits of a repository."""
    return frames.read(artefact.path / BEFORE_NAME)


def _record_rows(
    changes: Iterable[FileChange],
    touched: list[tuple[str, str, bool, int]],
    before: list[tuple[str, str, UInt64s]],
) -> Iterator[FileChange]:
    """Yield `changes` unmodified, and append rows about them to `touched` and `before`.

    Rows of `touched` have TOUCHED_SCHEMA, rows of `before` have BEFORE_SCHEMA. Changes that only the edit
    families use add no row to `touched`, because families of graphs don't use them.
    """
    for change in changes:
        if not change.is_edit_only:
            is_build = change.language == BUILD_LANGUAGE
            touched.append((change.commit, change.lineage, is_build, touched_bytes(change)))
        if change.before is not None:
            text = change.before.text.encode()
            lines = shown_lines(text, np.array([[0, len(text)]], dtype=np.int32))
            before.append((change.commit, change.lineage, np.unique(lines.keys)))
        yield change


def _untouched(units: Iterable[str]) -> list[tuple[str, str, bool, int]]:
    """Return one row of TOUCHED_SCHEMA per unit, without lineage and bytes."""
    return [(unit, "", False, 0) for unit in units]


def write_touched(rows: Sequence[tuple[str, str, bool, int]], folder: Path) -> None:
    """Write `rows` as the table of TOUCHED_SCHEMA in `folder`."""
    frame = pl.DataFrame(rows, schema=TOUCHED_SCHEMA, orient="row")
    write_frame(frame, folder / TOUCHED_NAME)


def write_frame(frame: pl.DataFrame, file: Path) -> None:
    """Write a table to `file`, after serialising it in memory.

    Raises:
        OSError: if the write fails. If polars wrote the file, it would report a full disk as an error of its
            own.
    """
    held = io.BytesIO()
    frame.write_parquet(held)
    file.write_bytes(held.getbuffer())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reader:
    """Reader of a git history, or of a plain folder, which is always read completely."""

    repository: Repository
    past: OpenHistory | None

    def survey(self) -> Survey:
        """Return the survey of the history or folder."""
        if self.past is None:
            return survey_snapshot(self._directory())
        return survey(self.past, self.repository.spec, self.repository.source.commit)

    def changes(self, found: Survey, commits: Sequence[str]) -> Iterator[FileChange]:
        """Yield the file changes of the given commits."""
        if self.past is None:
            yield from self._directory()
            return
        sampled = SampledCommits(commits=frozenset(commits), marks=found.marks)
        edits = self.repository.corpus.changes
        yield from iterate_changes(self.past, self.repository.spec, Skips(), sampled, edits=edits)

    def commits(self, commits: Sequence[str]) -> Iterator[CommitChange]:
        """Yield the given commits with their trees."""
        spec, corpus = self.repository.spec, self.repository.corpus
        if self.past is None:
            yield from read_commits(self.repository.source, spec, corpus, Skips())
            return
        sampled = SampledCommits(commits=frozenset(commits), marks=frozenset())
        yield from iterate_commits(self.past, spec, Skips(), sampled)

    def _directory(self) -> Iterator[FileChange]:
        return read_changes(
            self.repository.source, self.repository.spec, self.repository.corpus, Skips()
        )


@contextmanager
def _open_reader(repository: Repository) -> Iterator[_Reader]:
    source = repository.source
    if source.layout is None:
        yield _Reader(repository=repository, past=None)
        return
    spec, corpus = repository.spec, repository.corpus
    with open_history(source.layout, source, spec, corpus, Skips()) as past:
        yield _Reader(repository=repository, past=past)


MIN_CONVERSATIONS = 2_000
"""Minimum number of sampled conversations per source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledConversations(Stage[Sequence[ConversationsSpec], ConversationFiles]):
    """Stage that writes the survey of each source of conversations, and the documents of its sample."""

    name = "conversations"
    corpus: CorpusSpec
    share: float

    def tasks(self, inputs: Sequence[ConversationsSpec]) -> Sequence[ConversationFiles]:
        """Find the files of each source.

        Raises:
            CorpusError: for a source without files.
        """
        return [find_conversations(source) for source in inputs]

    def title(self, task: ConversationFiles) -> str:
        """Return the source's name."""
        return task.spec.name

    def recipes(self, task: ConversationFiles) -> Sequence[Recipe]:
        """Return the recipes of the survey and of the documents."""
        place, config = ("repository", task.spec.name), {"conversations": task.spec.name}
        return [
            Recipe(stage="surveys", labels=(place,), revision=0, config=config),
            Recipe(
                stage="documents",
                labels=(("family", CHAT_FAMILY), place),
                revision=0,
                config=config,
            ),
        ]

    def run(self, task: ConversationFiles, drafts: Sequence[StagingDirectory]) -> None:
        """Read all lines for the survey, then read them again for the documents of the sample."""
        rows = []
        for conversation in read_conversations(task, self.corpus, SkippedLines()):
            # The survey has the digest of a conversation in the column for commit ids.
            size = sum(len(turn.text.encode()) for turn in conversation.turns)
            rows.append(
                (conversation.digest, f"{conversation.source}:{conversation.name}", size, 0)
            )
        frame = pl.DataFrame(rows, schema=SURVEY_SCHEMA, orient="row")
        frame = frame.unique("commit", keep="first", maintain_order=True)
        write_frame(frame, drafts[0].path / SURVEY_NAME)
        listed = sample_commits(frame["commit"], self.share, min_count=MIN_CONVERSATIONS)
        write_touched(_untouched(listed), drafts[0].path)
        chosen = frozenset(listed)
        with FamilyWriters(drafts[1:]) as writers:
            for conversation in read_conversations(task, self.corpus, SkippedLines()):
                if conversation.digest in chosen:
                    writers.add(RenderResult(documents=(chat.document(conversation),), counts=()))
