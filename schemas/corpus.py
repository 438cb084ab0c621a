"""The corpus: the pinned set of repositories, what is kept of them, and the rules of domains."""

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
"""The languages whose functions are parsed; the others describe builds."""
LANGUAGES: tuple[Language, ...] = ("cpp", "c", "cmake", "make", "bazel", "meson")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME = rf"^{_NAME.pattern}$"
"""The pattern of a name in the schemas of forms and editors."""
Name = Annotated[str, Field(pattern=NAME)]
"""A name that is safe in a path: letters, digits, dot, dash, underscore; at most 100."""


def is_name(text: str) -> bool:
    """Return True if a text is safe as a name in a path.

    >>> is_name("my-rows"), is_name("../rows")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def _known_licence(text: str) -> str:
    """Return an SPDX expression in its present form.

    Raises:
        ValueError: for what is no expression, and for an id that SPDX lacks.
    """
    for name in unknown_ids(text):
        cure = nearest_or(name, spdx_ids(), "See spdx.org/licenses")
        raise ValueError(f"{name!r} is no SPDX licence. {cure}; or write LicenseRef- and a name")
    return normalized(text)


SpdxExpression = Annotated[str, AfterValidator(_known_licence)]
"""MIT, or `GPL-2.0-only WITH Classpath-exception-2.0 OR MIT`; of a deprecated id its present form."""


class CorpusEntry(Documented):
    """An entry of a corpus file, which errors name by file and line."""

    KIND: ClassVar[str]
    _places: Mapping[str, str] = PrivateAttr(default_factory=dict)

    name: Name
    """Name in diets, documents and reports; unique in the corpus."""

    def __eq__(self, other: object) -> bool:
        """Compare what entries say, wherever they stand."""
        return isinstance(other, type(self)) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        """Hash what the entry says."""
        return hash(tuple(self.__dict__.items()))

    def found_at(self, places: Mapping[str, str]) -> Self:
        """Return the entry with `file:line` of its fields, and of the entry itself under an empty name."""
        placed = self.model_copy()
        placed._places = dict(places)
        return placed

    def title(self, field: str = "") -> str:
        """Return kind and name for an error, behind file and line of a field where a file has the entry."""
        place = self._places.get(field) or self._places.get("")
        return f"{f'{place}: ' if place else ''}{self.KIND} {self.name}"


class RepositorySpec(CorpusEntry):
    """A repository pin: where it lies, which commit, and which part of its history."""

    KIND = "repository"
    name: Name
    """Name in diets, documents and reports; unique in the corpus."""
    path: str | None = None
    """A work tree, a bare repository, a bundle or a plain directory (one snapshot, no history)."""
    url: str | None = None
    """Cloned into the workspace on first use."""
    download_megabytes: Annotated[Whole, Field(ge=1)] | None = None
    """Megabytes that cloning the url transfers, about; commands print the sum before they clone."""
    commit: str = "HEAD"
    """A commit, tag or branch; what it resolves to is recorded."""
    licence: SpdxExpression | None = None
    """The SPDX expression of files that state no licence and have no licence file in a folder above them."""
    compile_commands: str | None = None
    """A compilation database of the pinned commit, relative to a repository that is a folder, else to this
    file; by default compile_commands.json or build/compile_commands.json in that folder."""
    since: datetime.date | None = None
    """The first day, in UTC, whose commits are read: 2020-01-01."""
    until: datetime.date | None = None
    """The last day, in UTC, whose commits are read."""
    include: tuple[str, ...] = ()
    """gitignore-style patterns; a file that matches none is left out."""
    exclude: tuple[str, ...] = ()
    """gitignore-style patterns; a file that matches one is left out."""
    max_commits: Annotated[Whole, Field(ge=1)] | None = None
    """The newest so many commits, and all later ones where the corpus has a day `later`."""
    unseen: bool = False
    """Hold the whole repository out: every phase is measured on it, as the set `unseen`. Files of other
    repositories that share much of their text with its files are held out with val."""

    @model_validator(mode="after")
    def _one_place(self) -> "RepositorySpec":
        if (self.path is None) == (self.url is None):
            raise ValueError("a repository has either a path or a url. Give exactly one of them")
        if self.commit.startswith("-"):
            raise ValueError("a commit does not begin with a dash. Give a commit, tag or branch")
        if self.since and self.until and self.since > self.until:
            raise ValueError("since is after until. Exchange them")
        return self


Overlong = Literal["skip", "drop_oldest"]
OnError = Literal["stop", "skip"]


class ConversationsSpec(CorpusEntry):
    """Conversations to learn from: a file of JSON lines, or a folder of such files."""

    KIND = "conversations"
    name: Name
    """Name in diets, documents and reports; unique in the corpus, among repositories too."""
    path: str
    """A file of JSON lines, or a folder of such files; relative to this file."""
    licence: SpdxExpression | None = None
    """The SPDX expression of their licence; it is kept with every document."""
    overlong: Overlong = "skip"
    """Conversations that are longer than a row: skip leaves them out, drop_oldest leaves out their oldest
    exchanges, each a question with its answer, until the rest fits; system turn and last scored exchange
    stay."""


def _known_pattern(text: str) -> str:
    """Return an id in its present form, or a pattern that some id matches.

    Raises:
        ValueError: for an id that SPDX lacks, and for a pattern that no id matches.
    """
    if "*" not in text:
        if not parse_expression(text).isliteral:
            raise ValueError(f"{text!r} names several licences. Write each as an entry of the list")
        return _known_licence(text)
    if not text.startswith("LicenseRef-") and not any(
        fnmatchcase(name, text) for name in spdx_ids()
    ):
        raise ValueError(
            f"no SPDX licence matches {text!r}. Write an id, or a pattern such as GPL-*"
        )
    return text


LicencePattern = Annotated[str, AfterValidator(_known_pattern)]
"""MIT, `GPL-2.0-only WITH Classpath-exception-2.0`, or a pattern: `GPL-*`."""
LicencePurpose = Literal["research", "release"]


class LicencesSpec(Documented):
    """Licences of the code that a corpus takes; the default takes all."""

    purpose: LicencePurpose = "research"
    """Use of the corpus. release refuses code whose licence is unknown or in words that are not known;
    research keeps it."""
    allow: tuple[LicencePattern, ...] = ()
    """The SPDX ids that are taken, or patterns such as `BSD-*`; all where none is given. Of `MIT OR
    GPL-2.0-only` one that is taken suffices, of `MIT AND GPL-2.0-only` both have to be."""
    refuse: tuple[LicencePattern, ...] = ()
    """The SPDX ids that are not taken, or patterns such as `*GPL-*`. A licence is also refused with an
    exception, unless allow names it with the exception."""

    def refuses(self, licence: str | None) -> bool:
        """Return True for an expression that the corpus doesn't take; None is an unknown licence.

        >>> policy = LicencesSpec(refuse=("GPL-*",))
        >>> [policy.refuses(each) for each in ("MIT", "MIT OR GPL-2.0-only", "MIT AND GPL-2.0-only", None)]
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
        """Return what isn't the default, for keys."""
        settings = self.model_dump(mode="json", exclude_defaults=True)
        return {"licences": settings} if settings else {}


USUAL_LICENCES = LicencesSpec()
"""The policy where a corpus says nothing."""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class HistorySpec(Documented):
    """Limit on the versions of one file that are read; hot files would drown the rest."""

    versions_per_path: Annotated[Whole, Field(ge=1)] = 8
    """Changes of one file, through renames, that are read at most."""
    newest_first: bool = True
    """True if those are the newest; false takes the oldest."""


class QualitySpec(Documented):
    """Limits on texts that are too small, too large or generated."""

    min_bytes: Annotated[Whole, Field(ge=0)] = 100
    """Smaller files are left out."""
    max_bytes: Annotated[Whole, Field(ge=1)] = 1_000_000
    """Larger files are left out."""
    max_line_bytes: Annotated[Whole, Field(ge=1)] = 100_000
    """Files with a longer line are left out: data, or written by a machine. Lines that backslashes join are
    one."""
    vendored: bool = False
    """Keep vendored files as well: files in folders named third_party, vendor, …, and files whose licence and
    copyright, licence file or commits show at the pinned commit that they are other people's."""
    generated: bool = False
    """Keep generated files as well: files whose first comment says that they are generated or amalgamated,
    files more than half of which are lines of numbers with hardly a function beside them, and files of 20,000
    bytes or more that zlib compresses below 8 % of their size."""


def _not_usual(settings: dict[str, JsonValue], usual: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in settings.items() if value != usual[name]}


FullFile = Literal["related", "all"]
ChangeChoice = Literal["code", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EditSettings:
    """Choice of the changes that families of edits show, and of what they show of the file."""

    full_file: FullFile = "related"
    changes: ChangeChoice = "code"

    def not_usual(self, *, shows_file: bool = True) -> dict[str, JsonValue]:
        """Return what isn't the default, for keys; full_file only where a family shows the file."""
        shown = self if shows_file else replace(self, full_file=USUAL_EDITS.full_file)
        return _not_usual(asdict(shown), asdict(USUAL_EDITS))


USUAL_EDITS = EditSettings()
"""The edits where a corpus says nothing."""


CONTEXT_BYTES = 262_144
"""Bytes of a context document at most, where a corpus says nothing: about 64k tokens of code."""


ContextContent = Literal["related", "filled"]
EdgeTrust = Literal["all", "confident", "resolved", "none"]
ContextOrder = Literal["graph", "random"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextSettings:
    """Choice and order of the context; the defaults are those of a corpus file."""

    context: ContextContent = "related"
    context_bytes: int = CONTEXT_BYTES
    context_order: ContextOrder = "graph"
    edges: EdgeTrust = "confident"

    def not_usual(self) -> dict[str, JsonValue]:
        """Return what isn't the default, for keys."""
        return _not_usual(asdict(self), asdict(USUAL_CONTEXT))


USUAL_CONTEXT = ContextSettings()
"""The context where a corpus says nothing."""


class CorpusSpec(Documented):
    """A corpus file; `corpora/*.yaml`."""

    name: Name
    """Name of the corpus in workspace and reports."""
    repositories: Annotated[tuple[RepositorySpec, ...], Field(min_length=1)]
    """Repositories that are read, in order: the same text in two of them is kept in the first."""
    conversations: tuple[ConversationsSpec, ...] = ()
    """The sources of the chat family."""
    domains: str = "domains"
    """The rules that give each document its domain: a name that comes with the package, or a path."""
    not_in: tuple[str, ...] = ()
    """Corpora whose files are left out: names, or paths of their files. A file is left out where its oldest
    or newest version is a near copy of one there. Build these corpora first, in the same workspace."""
    files: tuple[Language, ...] = LANGUAGES
    """The languages whose files are read; all that are known by default."""
    history: HistorySpec = HistorySpec()
    """Limit on the versions of one file that are read."""
    quality: QualitySpec = QualitySpec()
    """Limits on files that are left out for their size, or since they are generated or vendored."""
    licences: LicencesSpec = USUAL_LICENCES
    """Licences that are taken. A document whose own code has another one is left out, and so are pieces of
    context with another one."""
    context: ContextContent = "related"
    """Context of v4_context_graph and v5_clang_graph. related ends it where nothing related is left: callers,
    callees, types, bases, overrides and members, then callers of callers and further callees as signatures.
    filled goes on along all edges until context_bytes are full."""
    context_bytes: Annotated[Whole, Field(ge=65_536, le=16_777_216)] = CONTEXT_BYTES
    """Bytes of a whole document of v4_context_graph or v5_clang_graph at most: what fills rows of 65,536
    tokens. Rows of 131,072 take 1,048,576."""
    context_order: ContextOrder = "graph"
    """Order of the context: graph puts what is nearest to the target next to it; random shuffles the same
    chunks, for studies."""
    edges: EdgeTrust = "confident"
    """Edges that a context follows: confident leaves out those that are more likely wrong than right;
    resolved takes those of a compiler frontend alone, and none shows targets alone, both for studies."""
    full_file: FullFile = "related"
    """Lines below FULL FILE in documents of v3. related shows the functions and classes that the commit
    changed, and signatures of others, as many bytes as CHANGES at most: first those that CHANGES names, then
    the nearest. all shows every line of the file."""
    changes: ChangeChoice = "code"
    """Changes that v3 and edit show. code leaves out changes of nothing but comments, includes and white
    space, and files that a commit deletes without adding one of the same name. A commit that changes 30 files
    or more, or most of its files by one replacement of words, gives 3 documents at most; commits of 30 files
    don't count among their versions_per_path. all shows every change."""
    val_fraction: Annotated[Number, Field(gt=0, lt=1)] = 0.02
    """The share of files that is held out to measure on: of each repository and language, tests apart, where
    that is a file or more. Files that share much of their text count as one."""
    later: datetime.date | None = None
    """The first day, in UTC, whose commits are held out: 2026-06-01. Every phase is measured on the lines
    that they added to files that are trained on before, as the set `later`. versions_per_path counts before
    and after that day apart; after it the oldest versions are read."""
    max_skipped: Annotated[Number, Field(ge=0, le=1)] = 0.01
    """The share of a repository's changes, or of a source's lines of conversations, that may be unreadable:
    in no certain encoding, damaged or missing. A chat template may refuse the same share of all
    conversations."""
    on_error: OnError = "stop"
    """The fate of a repository or a source of conversations that can't be read, or of which more than
    max_skipped is lost. stop ends the build with one message once all others are done; skip builds without
    it, says why, and reads it again only where its commit changes or its folders in documents are deleted.
    A path or commit that isn't there stops every build: it is a mistake in the corpus file."""
    store_targets: bool = True
    """false halves the rows on disk; readers derive target_ids."""

    @model_validator(mode="after")
    def _distinct_names(self) -> "CorpusSpec":
        names = [repository.name for repository in self.repositories]
        names += [conversation.name for conversation in self.conversations]
        seen: dict[str, str] = {}
        for name in names:
            if name.casefold() in seen:
                raise ValueError(
                    f"{seen[name.casefold()]!r} and {name!r}, of repositories or conversations, are "
                    "names that differ at most in case. Rename one of them"
                )
            seen[name.casefold()] = name
        return self

    @model_validator(mode="after")
    def _not_in_itself(self) -> "CorpusSpec":
        if self.name in self.not_in:
            raise ValueError(f"not_in names the corpus {self.name!r} itself. Take it out")
        return self

    @model_validator(mode="after")
    def _something_to_train_on(self) -> "CorpusSpec":
        if all(repository.unseen for repository in self.repositories):
            raise ValueError("every repository is unseen. Leave one to train on")
        return self

    def trained(self) -> "CorpusSpec":
        """Return the corpus without what is never trained on: unseen repositories and later commits."""
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
        """Return the names of the repositories that are held out whole."""
        return frozenset(repository.name for repository in self.repositories if repository.unseen)

    @property
    def trained_before(self) -> int | None:
        """Return the seconds UTC from which on commits are held out; None where none are."""
        if self.later is None:
            return None
        day = datetime.datetime.combine(self.later, datetime.time(), datetime.UTC)
        return int(day.timestamp())

    def edit_settings(self) -> EditSettings:
        """Return the choice of changes, and of what is shown of their files."""
        return EditSettings(full_file=self.full_file, changes=self.changes)

    def tolerance(self) -> dict[str, str | float]:
        """Return what decides whether a source is skipped, for keys; nothing where none is."""
        if self.on_error == "stop":
            return {}
        return {"on_error": self.on_error, "max_skipped": self.max_skipped}

    def context_settings(self) -> ContextSettings:
        """Return the choice and order of the context."""
        return ContextSettings(
            context=self.context,
            context_bytes=self.context_bytes,
            context_order=self.context_order,
            edges=self.edges,
        )

    def overlong_of(self, source: str) -> Overlong:
        """Return the fate of a source's overlong conversations; skip for a repository, which has none."""
        return next(
            (
                conversation.overlong
                for conversation in self.conversations
                if conversation.name == source
            ),
            "skip",
        )


GENERAL = "general"
"""The domain of a document for which no rule holds."""
CHAT_DOMAIN = "chat"
"""The domain of every conversation; no rule gives it."""
COLUMNS = ("path", "repository", "language", "num_bytes")
"""Columns that a rule may test of a document beside its features; `num_bytes` is of its code."""


class DomainRule(Documented):
    """One rule: it decides about the documents for which `when` holds and no rule before it."""

    domain: Name
    """The domain of the documents that it decides about."""
    rule: Annotated[str, Field(min_length=1, max_length=100)]
    """Its name, unique; it is kept with every document that it decides about."""
    when: Annotated[str, Field(min_length=1)]
    """A condition in SQL over path, repository, language, num_bytes and the features, on one document
    alone: comparisons, AND, OR, NOT, IN, LIKE, arithmetic, `path ~ 'regex'`."""
    why: str = ""
    """The reason, for people; it changes no key."""


class DomainsSpec(Documented):
    """A file of domains: features of a document's code, and rules in order; the first that holds decides.

    The code of a file is the file as it is after the commit, without the header; of a context document
    its target alone; of a deleted file what was taken away.
    """

    features: Annotated[dict[str, str], Field(default_factory=dict)]
    """Name → regular expression in the syntax of Rust's regex crate: matches per 1,000 bytes of code."""
    rules: Annotated[tuple[DomainRule, ...], Field(min_length=1)]
    """Rules in order; for a document for which none holds the domain is general."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Every domain that a document can have, in the order of the rules, `general` last."""
        named = dict.fromkeys(rule.domain for rule in self.rules if rule.domain != GENERAL)
        return (*named, GENERAL)
