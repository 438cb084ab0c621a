"""The corpus file: pinned repositories, filters, and the rules of domains."""

import datetime
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, PrivateAttr, model_validator

from schemas.mistakes import nearest_or
from schemas.spdx import (
    UNRECOGNISED,
    is_satisfied,
    normalized,
    parse_expression,
    spdx_ids,
    unknown_ids,
)
from schemas.text import Documented, Number, Whole

Language = Literal["cpp", "c", "cmake", "make", "bazel", "meson"]
CODE: frozenset[Language] = frozenset(("cpp", "c"))
"""Languages whose functions are parsed. The other languages are those of build files."""
LANGUAGES: tuple[Language, ...] = ("cpp", "c", "cmake", "make", "bazel", "meson")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME = rf"^{_NAME.pattern}$"
"""Regular expression of a name, for the JSON schemas that forms and editors use."""
Name = Annotated[str, Field(pattern=NAME)]
"""A name that is safe in a path: at most 100 letters, digits, dots, dashes and underscores."""


def is_name(text: str) -> bool:
    """Return True if a text can be used as a name in a path.

    >>> is_name("my-rows"), is_name("../rows")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def _known_licence(text: str) -> str:
    """Return an SPDX expression with deprecated ids replaced by current ones.

    Raises:
        ValueError: if the text isn't an SPDX expression, or contains an unknown id.
    """
    for name in unknown_ids(text):
        cure = nearest_or(name, spdx_ids(), "See spdx.org/licenses")
        raise ValueError(f"{name!r} isn't an SPDX licence. {cure}; or write LicenseRef- and a name")
    return normalized(text)


SpdxExpression = Annotated[str, AfterValidator(_known_licence)]
"""An SPDX expression, for example MIT or `GPL-2.0-only WITH Classpath-exception-2.0 OR MIT`. Deprecated
ids are replaced by current ones."""


class CorpusEntry(Documented):
    """An entry of a corpus file. It knows its file and line, so that errors can name them."""

    KIND: ClassVar[str]
    _places: Mapping[str, str] = PrivateAttr(default_factory=dict)

    name: Name
    """Name in diets, documents and reports; unique in the corpus."""

    def __eq__(self, other: object) -> bool:
        """Compare fields only, not the place in a file."""
        return isinstance(other, type(self)) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        """Hash fields only, not the place in a file."""
        return hash(tuple(self.__dict__.items()))

    def found_at(self, places: Mapping[str, str]) -> Self:
        """Return a copy that knows where its fields are in a file.

        `places` has `file:line` by field name; the empty name stands for the entry itself.
        """
        placed = self.model_copy()
        placed._places = dict(places)
        return placed

    def title(self, field: str = "") -> str:
        """Return the kind and name of the entry for an error message.

        If `file:line` of the field is known, the title starts with it.
        """
        place = self._places.get(field) or self._places.get("")
        return f"{f'{place}: ' if place else ''}{self.KIND} {self.name}"


class RepositorySpec(CorpusEntry):
    """A pinned repository: its location, a commit, and the part of its history to read."""

    KIND = "repository"
    name: Name
    """Name in diets, documents and reports. It is unique in the corpus."""
    path: str | None = None
    """A work tree, a bare repository, a bundle or a plain directory (one snapshot, no history)."""
    url: str | None = None
    """URL of a git repository. It is cloned into the workspace on first use."""
    download_megabytes: Annotated[Whole, Field(ge=1)] | None = None
    """Approximate size in megabytes of a clone of the url. Before commands clone, they print the sum."""
    commit: str = "HEAD"
    """A commit, tag or branch. The commit that it resolves to is recorded."""
    licence: SpdxExpression | None = None
    """SPDX expression for files that state no licence, and for which no folder above has a licence file."""
    compile_commands: str | None = None
    """A compilation database of the pinned commit. The path is relative to the repository if that is a
    folder, else to this file. By default, it is compile_commands.json or build/compile_commands.json in
    the repository's folder.
    """
    since: datetime.date | None = None
    """First day, in UTC, whose commits are read, for example 2020-01-01."""
    until: datetime.date | None = None
    """Last day, in UTC, whose commits are read."""
    include: tuple[str, ...] = ()
    """gitignore-style patterns. Files that match none of them are skipped."""
    exclude: tuple[str, ...] = ()
    """gitignore-style patterns. Files that match any of them are skipped."""
    max_commits: Annotated[Whole, Field(ge=1)] | None = None
    """Maximum number of commits to read, newest first. If the corpus sets `later`, all commits from that
    day on are read as well.
    """
    unseen: bool = False
    """Hold the whole repository out of training. It becomes the validation set `unseen`, on which every
    phase is measured. Files of other repositories that share much text with its files move to the
    validation set val.
    """

    @model_validator(mode="after")
    def _one_place(self) -> "RepositorySpec":
        if (self.path is None) == (self.url is None):
            raise ValueError("a repository needs either a path or a url. Give exactly one of them")
        if self.commit.startswith("-"):
            raise ValueError("a commit can't begin with a dash. Give a commit, tag or branch")
        if self.since and self.until and self.since > self.until:
            raise ValueError("since is after until. Swap them")
        return self


Overlong = Literal["skip", "drop_oldest"]
OnError = Literal["stop", "skip"]


class ConversationsSpec(CorpusEntry):
    """Conversations for training: a file of JSON lines, or a folder with JSON lines files."""

    KIND = "conversations"
    name: Name
    """Name in diets, documents and reports. It is unique in the corpus, also among repositories."""
    path: str
    """A file of JSON lines, or a folder with JSON lines files. The path is relative to this file."""
    licence: SpdxExpression | None = None
    """SPDX expression of the conversations' licence. It is stored with every document."""
    overlong: Overlong = "skip"
    """Handling of conversations that are longer than a row: skip leaves them out; drop_oldest drops their
    oldest exchanges (a question with its answer) until the rest fits. The system turn and the last scored
    exchange always stay.
    """


def _known_pattern(text: str) -> str:
    """Return an SPDX id in its current form, or a pattern that matches at least one id.

    Raises:
        ValueError: if the id is unknown, or the pattern matches no id.
    """
    if "*" not in text:
        if not parse_expression(text).isliteral:
            raise ValueError(f"{text!r} names several licences. Write each as an entry of the list")
        return _known_licence(text)
    if not text.startswith("LicenseRef-") and not any(
        fnmatchcase(name, text) for name in spdx_ids()
    ):
        raise ValueError(
            f"no SPDX licence matches {text!r}. Write an id, or a pattern, for example GPL-*"
        )
    return text


LicencePattern = Annotated[str, AfterValidator(_known_pattern)]
"""An SPDX id, for example MIT or `GPL-2.0-only WITH Classpath-exception-2.0`, or a pattern, for example
`GPL-*`."""
LicencePurpose = Literal["research", "release"]


class LicencesSpec(Documented):
    """Licences that the code in a corpus may have; by default any."""

    purpose: LicencePurpose = "research"
    """Use of the corpus. release refuses code with an unknown or unrecognised licence; research keeps it."""
    allow: tuple[LicencePattern, ...] = ()
    """SPDX ids or patterns, for example `BSD-*`, that are allowed; by default all.
    `MIT OR GPL-2.0-only` needs one allowed licence, `MIT AND GPL-2.0-only` needs both.
    """
    refuse: tuple[LicencePattern, ...] = ()
    """SPDX ids or patterns, for example `*GPL-*`, that are refused. A licence that is refused is also
    refused if it has an exception, unless allow names it with that exception.
    """

    def refuses(self, licence: str | None) -> bool:
        """Return True if the corpus doesn't allow an SPDX expression. None stands for an unknown licence.

        >>> policy = LicencesSpec(refuse=("GPL-*",))
        >>> licences = ("MIT", "MIT OR GPL-2.0-only", "MIT AND GPL-2.0-only", None)
        >>> [policy.refuses(licence) for licence in licences]
        [False, False, True, False]
        """
        if licence is None:
            return self.purpose == "release"
        return not is_satisfied(parse_expression(licence), self._takes)

    def _takes(self, name: str, without_exception: str) -> bool:
        if name == UNRECOGNISED:
            return self.purpose == "research"
        if _matches(name, self.refuse):
            return False
        if _matches(name, self.allow):
            return True
        if _matches(without_exception, self.refuse):
            return False
        return not self.allow or _matches(without_exception, self.allow)

    def not_usual(self) -> dict[str, JsonValue]:
        """Return the settings that differ from the defaults, for artefact keys."""
        settings = self.model_dump(mode="json", exclude_defaults=True)
        return {"licences": settings} if settings else {}


USUAL_LICENCES = LicencesSpec()
"""Licence policy of a corpus that doesn't set `licences`."""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class HistorySpec(Documented):
    """Limit on the number of versions to read of a file, so that files edited often don't dominate."""

    versions_per_path: Annotated[Whole, Field(ge=1)] = 8
    """Maximum number of changes to read per file, across renames."""
    newest_first: bool = True
    """true reads the newest changes, false the oldest."""


class QualitySpec(Documented):
    """Limits that exclude files which are too small, too large or generated."""

    min_bytes: Annotated[Whole, Field(ge=0)] = 100
    """Files smaller than this are skipped."""
    max_bytes: Annotated[Whole, Field(ge=1)] = 1_000_000
    """Files larger than this are skipped."""
    max_line_bytes: Annotated[Whole, Field(ge=1)] = 100_000
    """Files with a longer line are skipped as data or generated code. Lines joined by backslashes count as
    one line."""
    vendored: bool = False
    """Keep vendored files. These are files in folders named third_party, vendor, …, and files that belong
    to other projects according to their licence, copyright, licence file, or commits at the pinned commit.
    """
    generated: bool = False
    """Keep generated files. These are files whose first comment says that they are generated or
    amalgamated; files with hardly any function in which more than half of the lines are numbers; and files
    of at least 20,000 bytes that zlib compresses to less than 8 % of their size.
    """


def _not_usual(settings: dict[str, JsonValue], usual: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in settings.items() if value != usual[name]}


FullFile = Literal["related", "all"]
ChangeChoice = Literal["code", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EditSettings:
    """Settings of edit families: the changes to select, and the content of the file to show."""

    full_file: FullFile = "related"
    changes: ChangeChoice = "code"

    def not_usual(self, *, shows_file: bool = True) -> dict[str, JsonValue]:
        """Return the settings that differ from the defaults, for artefact keys.

        `full_file` is only included if the family shows files.
        """
        shown = self if shows_file else replace(self, full_file=USUAL_EDITS.full_file)
        return _not_usual(asdict(shown), asdict(USUAL_EDITS))


USUAL_EDITS = EditSettings()
"""Edit settings of a corpus that doesn't set any."""


CONTEXT_BYTES = 262_144
"""Default maximum size in bytes of a document with context: about 64k tokens of code."""


ContextContent = Literal["related", "filled"]
EdgeTrust = Literal["all", "confident", "resolved", "none"]
ContextOrder = Literal["graph", "random"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextSettings:
    """Settings of the context: what it selects, and in which order. Defaults are those of a corpus file."""

    context: ContextContent = "related"
    context_bytes: int = CONTEXT_BYTES
    context_order: ContextOrder = "graph"
    edges: EdgeTrust = "confident"

    def not_usual(self) -> dict[str, JsonValue]:
        """Return the settings that differ from the defaults, for artefact keys."""
        return _not_usual(asdict(self), asdict(USUAL_CONTEXT))


USUAL_CONTEXT = ContextSettings()
"""Context settings of a corpus that doesn't set any."""


class CorpusSpec(Documented):
    """A corpus file; `corpora/*.yaml`."""

    name: Name
    """Name of the corpus in the workspace and in reports."""
    repositories: Annotated[tuple[RepositorySpec, ...], Field(min_length=1)]
    """Repositories to read, in order of priority. Text that occurs in two of them is kept in the first."""
    conversations: tuple[ConversationsSpec, ...] = ()
    """Sources of conversations for the chat family."""
    domains: str = "domains"
    """Rules that assign a domain to each document: a name that ships with the package, or a path."""
    not_in: tuple[str, ...] = ()
    """Corpora whose files are excluded, given by name or by the path of a corpus file. A file is excluded
    if its oldest or newest version is a near-duplicate of a file there. Build these corpora first, in the
    same workspace.
    """
    files: tuple[Language, ...] = LANGUAGES
    """Languages to read; by default all supported languages."""
    history: HistorySpec = HistorySpec()
    """Limit on the number of versions to read of a file."""
    quality: QualitySpec = QualitySpec()
    """Limits on file sizes, and exclusion of generated and vendored files."""
    licences: LicencesSpec = USUAL_LICENCES
    """Allowed licences. A document is excluded if its own code has another licence; pieces of its context
    with another licence are left out.
    """
    context: ContextContent = "related"
    """Definitions that v4_context_graph and v5_clang_graph show as context. related shows callers, callees,
    types, bases, overrides and members, then signatures of indirect callers and callees. filled continues
    along all edges until context_bytes are used.
    """
    context_bytes: Annotated[Whole, Field(ge=65_536, le=16_777_216)] = CONTEXT_BYTES
    """Maximum size in bytes of a whole document of v4_context_graph or v5_clang_graph. The default suits
    rows of 65,536 tokens; rows of 131,072 tokens need 1,048,576."""
    context_order: ContextOrder = "graph"
    """Order of the context. graph puts the definitions that are nearest next to the target. random shuffles
    the same chunks, for studies.
    """
    edges: EdgeTrust = "confident"
    """Edges that a context follows. confident skips edges that are more likely wrong than right. For
    studies, resolved follows only edges that a compiler frontend found, and none shows targets without
    context.
    """
    full_file: FullFile = "related"
    """Content of the FULL FILE section in v3 documents. related shows the functions and classes that the
    commit changed, and signatures of others, up to the size of the CHANGES section: first those whose names
    are used in CHANGES, then the nearest. all shows every line of the file.
    """
    changes: ChangeChoice = "code"
    """Changes that v3 and edit show. code skips changes of only comments, includes and whitespace. It also
    skips the deletion of a file, unless the commit adds a file of the same name. It shows at most 3
    documents of a commit that changes 30 files or more, or that mostly replaces one text by another; commits
    of 30 files or more don't count for versions_per_path. all shows every change.
    """
    val_fraction: Annotated[Number, Field(gt=0, lt=1)] = 0.02
    """Share of the files that are held out for validation. It applies to each repository and language, with
    tests counted apart, if that gives at least one file. Files that share much text count as one.
    """
    later: datetime.date | None = None
    """First day, in UTC, whose commits are held out, for example 2026-06-01. The lines that these commits
    add to files with earlier training data become the validation set `later`, on which every phase is
    measured. versions_per_path counts separately before and after that day; after it, the oldest versions
    are read.
    """
    max_skipped: Annotated[Number, Field(ge=0, le=1)] = 0.01
    """Maximum share of a repository's changes, or of a conversation source's lines, that may be unreadable:
    undecodable, damaged or missing. A chat template may refuse the same share of all conversations.
    """
    on_error: OnError = "stop"
    """Handling of a repository or conversation source that can't be read, or that loses more than
    max_skipped. stop fails the build with one message after all other sources are built. skip builds without
    the source and says why. It is read again only after its commit changes or its folders in documents are
    deleted. A missing path or commit always stops the build, since it is a mistake in the corpus file.
    """
    store_targets: bool = True
    """false leaves target_ids out of rows, which halves their size on disk. Readers derive target_ids."""

    @model_validator(mode="after")
    def _distinct_names(self) -> "CorpusSpec":
        names = [repository.name for repository in self.repositories]
        names += [conversation.name for conversation in self.conversations]
        seen: dict[str, str] = {}
        for name in names:
            if name.casefold() in seen:
                raise ValueError(
                    f"the names {seen[name.casefold()]!r} and {name!r} of repositories or conversations "
                    "differ at "
                    "most in case. Rename one of them"
                )
            seen[name.casefold()] = name
        return self

    @model_validator(mode="after")
    def _not_in_itself(self) -> "CorpusSpec":
        if self.name in self.not_in:
            raise ValueError(f"not_in names this corpus, {self.name!r}. Remove it from not_in")
        return self

    @model_validator(mode="after")
    def _something_to_train_on(self) -> "CorpusSpec":
        if all(repository.unseen for repository in self.repositories):
            raise ValueError(
                "every repository is unseen, so nothing is left for training. Unset unseen of at "
                "least one repository"
            )
        return self

    def trained(self) -> "CorpusSpec":
        """Return the corpus without held-out data: unseen repositories, and commits from `later` on."""
        seen = (repository for repository in self.repositories if not repository.unseen)
        if self.later is None:
            return self.model_copy(update={"repositories": tuple(seen)})
        last = self.later - datetime.timedelta(days=1)
        ended = (
            repository.model_copy(update={"until": min(repository.until or last, last)})
            for repository in seen
        )
        return self.model_copy(update={"repositories": tuple(ended), "later": None})

    @property
    def unseen(self) -> frozenset[str]:
        """Names of the repositories that are held out as a whole."""
        return frozenset(repository.name for repository in self.repositories if repository.unseen)

    @property
    def trained_before(self) -> int | None:
        """Unix time from which commits are held out, or None."""
        if self.later is None:
            return None
        day = datetime.datetime.combine(self.later, datetime.time(), datetime.UTC)
        return int(day.timestamp())

    def edit_settings(self) -> EditSettings:
        """Return the settings of the edit families."""
        return EditSettings(full_file=self.full_file, changes=self.changes)

    def tolerance(self) -> dict[str, str | float]:
        """Return the settings that decide which sources are skipped, for artefact keys.

        They are empty with on_error `stop`.
        """
        if self.on_error == "stop":
            return {}
        return {"on_error": self.on_error, "max_skipped": self.max_skipped}

    def context_settings(self) -> ContextSettings:
        """Return the settings of the context."""
        return ContextSettings(
            context=self.context,
            context_bytes=self.context_bytes,
            context_order=self.context_order,
            edges=self.edges,
        )

    def overlong_of(self, source: str) -> Overlong:
        """Return what to do with overlong conversations of a source; `skip` for a repository."""
        return next(
            (
                conversation.overlong
                for conversation in self.conversations
                if conversation.name == source
            ),
            "skip",
        )


GENERAL = "general"
"""Domain of documents that match no rule."""
CHAT_DOMAIN = "chat"
"""Domain of every conversation, whatever the rules."""
COLUMNS = ("path", "repository", "language", "num_bytes")
"""Columns that rules may use in addition to features. `num_bytes` is the size of the document's code."""


class DomainRule(Documented):
    """One rule. It decides the domain of documents that match `when`, but no earlier rule."""

    domain: Name
    """Domain of matching documents."""
    rule: Annotated[str, Field(min_length=1, max_length=100)]
    """Unique name of the rule, stored with every document that it decides."""
    when: Annotated[str, Field(min_length=1)]
    """SQL condition on one document, over path, repository, language, num_bytes and the features:
    comparisons, AND, OR, NOT, IN, LIKE, arithmetic, `path ~ 'regex'`."""
    why: str = ""
    """Reason for the rule, for readers. It changes no key."""


class DomainsSpec(Documented):
    """A domains file: features of a document's code, and rules in order; the first match decides.

    The code is the file after the commit, without its header comment. For a document with context it is only
    the target; for a deleted file, the removed lines.
    """

    features: Annotated[dict[str, str], Field(default_factory=dict)]
    """Regular expressions by the name of a feature, in the syntax of Rust's regex crate. The value of the
    feature is the number of matches per 1,000 bytes of code.
    """
    rules: Annotated[tuple[DomainRule, ...], Field(min_length=1)]
    """Rules in order. Documents that match none get the domain general."""

    @property
    def domains(self) -> tuple[str, ...]:
        """All possible domains in the order of the rules, `general` last."""
        named = dict.fromkeys(rule.domain for rule in self.rules if rule.domain != GENERAL)
        return (*named, GENERAL)
