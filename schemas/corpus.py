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
"""Languages whose functions are parsed; all other languages describe builds."""
LANGUAGES: tuple[Language, ...] = ("cpp", "c", "cmake", "make", "bazel", "meson")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME = rf"^{_NAME.pattern}$"
"""Regular expression of a name, for JSON schemas of forms and editors."""
Name = Annotated[str, Field(pattern=NAME)]
"""A name that is safe in a path: at most 100 letters, digits, dots, dashes and underscores."""


def is_name(text: str) -> bool:
    """Return True if a text is safe as a name in a path.

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
    """An entry of a corpus file. Errors name its file and line."""

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
        """Return a copy with `file:line` by field name; the empty name is the entry itself."""
        placed = self.model_copy()
        placed._places = dict(places)
        return placed

    def title(self, field: str = "") -> str:
        """Return kind and name for an error message, after `file:line` of the field if known."""
        place = self._places.get(field) or self._places.get("")
        return f"{f'{place}: ' if place else ''}{self.KIND} {self.name}"


class RepositorySpec(CorpusEntry):
    """A pinned repository: its location, a commit, and the part of its history to read."""

    KIND = "repository"
    name: Name
    """Name in diets, documents and reports; unique in the corpus."""
    path: str | None = None
    """A work tree, a bare repository, a bundle or a plain directory (one snapshot, no history)."""
    url: str | None = None
    """URL of a git repository. It is cloned into the workspace on first use."""
    download_megabytes: Annotated[Whole, Field(ge=1)] | None = None
    """Approximate size of a clone of the url, in megabytes. Commands print the sum before they clone."""
    commit: str = "HEAD"
    """A commit, tag or branch. The commit that it resolves to is recorded."""
    licence: SpdxExpression | None = None
    """SPDX expression for files that state no licence and have no licence file in a folder above them."""
    compile_commands: str | None = None
    """A compilation database of the pinned commit. The path is relative to the repository if that is a
    folder, else to this file. By default compile_commands.json or build/compile_commands.json in the
    repository's
    folder."""
    since: datetime.date | None = None
    """First day, in UTC, whose commits are read, for example 2020-01-01."""
    until: datetime.date | None = None
    """Last day, in UTC, whose commits are read."""
    include: tuple[str, ...] = ()
    """gitignore-style patterns; files that match none of them are skipped."""
    exclude: tuple[str, ...] = ()
    """gitignore-style patterns; files that match any of them are skipped."""
    max_commits: Annotated[Whole, Field(ge=1)] | None = None
    """Maximum number of commits to read, newest first. If the corpus sets `later`, all commits from that
    day on are read in addition."""
    unseen: bool = False
    """Hold the whole repository out of training. Every phase is measured on it, as the validation set
    `unseen`. Files of other repositories that share much text with its files move to the validation set
    val."""

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
    """Name in diets, documents and reports; unique in the corpus, also among repositories."""
    path: str
    """A file of JSON lines, or a folder with JSON lines files; relative to this file."""
    licence: SpdxExpression | None = None
    """SPDX expression of the conversations' licence, stored with every document."""
    overlong: Overlong = "skip"
    """Handling of conversations longer than a row: skip leaves them out; drop_oldest drops their oldest
    exchanges (a question with its answer) until the rest fits. The system turn and the last scored exchange
    always
    stay."""


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
    """Licences of the code in a corpus; by default all are allowed."""

    purpose: LicencePurpose = "research"
    """Use of the corpus. release refuses code with an unknown or unrecognised licence; research keeps it."""
    allow: tuple[LicencePattern, ...] = ()
    """SPDX ids or patterns, for example `BSD-*`, that are allowed; by default all. `MIT OR GPL-2.0-only`
    needs one allowed licence, `MIT AND GPL-2.0-only` needs both."""
    refuse: tuple[LicencePattern, ...] = ()
    """SPDX ids or patterns, for example `*GPL-*`, that are refused. A refused licence is also refused with an
    exception, unless allow names it with that exception."""

    def refuses(self, licence: str | None) -> bool:
        """Return True if the corpus doesn't allow an SPDX expression; None is an unknown licence.

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
"""Licence policy of a corpus without `licences`."""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class HistorySpec(Documented):
    """Limit on the versions that are read of a file, so that frequently edited files don't dominate."""

    versions_per_path: Annotated[Whole, Field(ge=1)] = 8
    """Maximum number of changes that are read per file, across renames."""
    newest_first: bool = True
    """true reads the newest changes, false the oldest."""


class QualitySpec(Documented):
    """Limits on files that are too small, too large or generated."""

    min_bytes: Annotated[Whole, Field(ge=0)] = 100
    """Files smaller than this are skipped."""
    max_bytes: Annotated[Whole, Field(ge=1)] = 1_000_000
    """Files larger than this are skipped."""
    max_line_bytes: Annotated[Whole, Field(ge=1)] = 100_000
    """Files with a longer line are skipped as data or generated code. Lines joined by backslashes count as
    one line."""
    vendored: bool = False
    """Keep vendored files: files in folders named third_party, vendor, …, and files that belong to other
    projects according to their licence, copyright, licence file or commits at the pinned commit."""
    generated: bool = False
    """Keep generated files: files whose first comment says that they are generated or amalgamated; files
    with hardly any function in which more than half of the lines are numbers; and files of at least
    20,000 bytes that zlib compresses below 8 % of their size."""


def _not_usual(settings: dict[str, JsonValue], usual: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in settings.items() if value != usual[name]}


FullFile = Literal["related", "all"]
ChangeChoice = Literal["code", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EditSettings:
    """Selection of changes for edit families, and of the file content that they show."""

    full_file: FullFile = "related"
    changes: ChangeChoice = "code"

    def not_usual(self, *, shows_file: bool = True) -> dict[str, JsonValue]:
        """Return non-default settings, for artefact keys; full_file only if the family shows files."""
        shown = self if shows_file else replace(self, full_file=USUAL_EDITS.full_file)
        return _not_usual(asdict(shown), asdict(USUAL_EDITS))


USUAL_EDITS = EditSettings()
"""Edit settings of a corpus that sets none."""


CONTEXT_BYTES = 262_144
"""Default maximum size of a context document in bytes: about 64k tokens of code."""


ContextContent = Literal["related", "filled"]
EdgeTrust = Literal["all", "confident", "resolved", "none"]
ContextOrder = Literal["graph", "random"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextSettings:
    """Selection and order of the context; defaults are those of a corpus file."""

    context: ContextContent = "related"
    context_bytes: int = CONTEXT_BYTES
    context_order: ContextOrder = "graph"
    edges: EdgeTrust = "confident"

    def not_usual(self) -> dict[str, JsonValue]:
        """Return the settings that differ from the defaults, for artefact keys."""
        return _not_usual(asdict(self), asdict(USUAL_CONTEXT))


USUAL_CONTEXT = ContextSettings()
"""Context settings of a corpus that sets none."""


class CorpusSpec(Documented):
    """A corpus file; `corpora/*.yaml`."""

    name: Name
    """Name of the corpus in the workspace and in reports."""
    repositories: Annotated[tuple[RepositorySpec, ...], Field(min_length=1)]
    """Repositories to read, in order of priority: text that occurs in two of them is kept in the first."""
    conversations: tuple[ConversationsSpec, ...] = ()
    """Sources of conversations for the chat family."""
    domains: str = "domains"
    """Rules that assign a domain to each document: a name that ships with the package, or a path."""
    not_in: tuple[str, ...] = ()
    """Corpora whose files are excluded: names, or paths of corpus files. A file is excluded if its oldest
    or newest version is a near-duplicate of a file there. Build these corpora first, in the same
    workspace."""
    files: tuple[Language, ...] = LANGUAGES
    """Languages to read; by default all that are supported."""
    history: HistorySpec = HistorySpec()
    """Limit on the versions that are read of a file."""
    quality: QualitySpec = QualitySpec()
    """Limits on file sizes, and exclusion of generated and vendored files."""
    licences: LicencesSpec = USUAL_LICENCES
    """Allowed licences. Documents whose own code has another licence are excluded; pieces of context with
    another licence are left out."""
    context: ContextContent = "related"
    """Context of v4_context_graph and v5_clang_graph. related stops after related definitions: callers,
    callees, types, bases, overrides and members, then signatures of indirect callers and callees. filled
    continues along all edges until context_bytes are used."""
    context_bytes: Annotated[Whole, Field(ge=65_536, le=16_777_216)] = CONTEXT_BYTES
    """Maximum size in bytes of a whole document of v4_context_graph or v5_clang_graph. The default suits
    rows of 65,536 tokens; rows of 131,072 tokens need 1,048,576."""
    context_order: ContextOrder = "graph"
    """Order of the context: graph puts the nearest definitions next to the target; random shuffles the
    same chunks, for studies."""
    edges: EdgeTrust = "confident"
    """Edges that a context follows. confident skips edges that are more likely wrong than right. resolved
    follows only edges from a compiler frontend, and none shows targets without context; both are for
    studies."""
    full_file: FullFile = "related"
    """Content of the FULL FILE section in v3 documents. related shows the functions and classes that the
    commit changed, and signatures of others, up to the size of the CHANGES section: names used in CHANGES
    first, then the nearest. all shows every line of the file."""
    changes: ChangeChoice = "code"
    """Changes that v3 and edit show. code skips changes of only comments, includes and whitespace, and
    deletions of files without an added file of the same name in the commit. It takes at most 3 documents
    of a commit that changes 30 files or more, or that mostly replaces one text by another; commits of 30
    files or more don't count for versions_per_path. all shows every change."""
    val_fraction: Annotated[Number, Field(gt=0, lt=1)] = 0.02
    """Share of files held out for validation, of each repository and language (tests apart) in which that
    is at least one file. Files that share much text count as one."""
    later: datetime.date | None = None
    """First day, in UTC, whose commits are held out, for example 2026-06-01. Every phase is measured on
    the lines that these commits added to files with earlier training data, as the validation set `later`.
    versions_per_path counts separately before and after that day; after it, the oldest versions are read."""
    max_skipped: Annotated[Number, Field(ge=0, le=1)] = 0.01
    """Maximum share of a repository's changes, or of a conversation source's lines, that may be unreadable:
    undecodable, damaged or missing. A chat template may reject the same share of all conversations."""
    on_error: OnError = "stop"
    """Handling of a repository or conversation source that can't be read, or that loses more than
    max_skipped. stop fails the build with one message after all others are done. skip builds without it
    and says why; it is read again only after its commit changes or its folders in documents are deleted.
    A missing path or commit always stops the build, since it is a mistake in the corpus file."""
    store_targets: bool = True
    """false halves the size of rows on disk; readers then derive target_ids."""

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
        """Return the corpus without held-out data: unseen repositories and commits from `later` on."""
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
        """Unix time from which on commits are held out, or None."""
        if self.later is None:
            return None
        day = datetime.datetime.combine(self.later, datetime.time(), datetime.UTC)
        return int(day.timestamp())

    def edit_settings(self) -> EditSettings:
        """Return the settings of the edit families."""
        return EditSettings(full_file=self.full_file, changes=self.changes)

    def tolerance(self) -> dict[str, str | float]:
        """Return the settings for skipping sources, for artefact keys; empty with `stop`."""
        if self.on_error == "stop":
            return {}
        return {"on_error": self.on_error, "max_skipped": self.max_skipped}

    def context_settings(self) -> ContextSettings:
        """Return the selection and order of the context."""
        return ContextSettings(
            context=self.context,
            context_bytes=self.context_bytes,
            context_order=self.context_order,
            edges=self.edges,
        )

    def overlong_of(self, source: str) -> Overlong:
        """Return the handling of a source's overlong conversations; skip for a repository."""
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
"""Domain of every conversation, independent of rules."""
COLUMNS = ("path", "repository", "language", "num_bytes")
"""Columns that rules may test in addition to features. `num_bytes` is the size of the document's code."""


class DomainRule(Documented):
    """One rule. It decides documents that match `when` and no earlier rule."""

    domain: Name
    """Domain of matching documents."""
    rule: Annotated[str, Field(min_length=1, max_length=100)]
    """Unique name of the rule, stored with every document that it decides."""
    when: Annotated[str, Field(min_length=1)]
    """SQL condition on one document, over path, repository, language, num_bytes and the features:
    comparisons, AND, OR, NOT, IN, LIKE, arithmetic, `path ~ 'regex'`."""
    why: str = ""
    """Reason for the rule, for readers; it changes no key."""


class DomainsSpec(Documented):
    """A domains file: features of a document's code, and rules in order; the first match decides.

    The code is the file after the commit, without its header comment; the target alone for a context
    document; the removed lines for a deleted file.
    """

    features: Annotated[dict[str, str], Field(default_factory=dict)]
    """Regular expressions by feature name, in the syntax of Rust's regex crate. The feature is the number
    of matches per 1,000 bytes of code."""
    rules: Annotated[tuple[DomainRule, ...], Field(min_length=1)]
    """Rules in order; documents that match none get the domain general."""

    @property
    def domains(self) -> tuple[str, ...]:
        """All possible domains in the order of the rules, `general` last."""
        named = dict.fromkeys(rule.domain for rule in self.rules if rule.domain != GENERAL)
        return (*named, GENERAL)
