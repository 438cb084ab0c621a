"""SQL questions of the pages, and the queue for queries of the SQL page.

A file in dashboards/queries starts with the question and the meaning of its answer as comments, followed by
the SELECT.

The SQL page answers a few queries at a time; the others wait in order of arrival. A query may use one
gigabyte and two cores. A server runs at most MAX_RUNNING queries at once over all its pages; servers
of a user that share a folder of locks have this limit together. The operating system releases the locks of a
killed process. `curriculum query` in a terminal is not limited. A waiting query is
dropped when its page is closed or starts another query, or after a timeout.
"""

import contextlib
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

import filelock
import pyarrow as pa

from curriculum.catalog import CatalogError, lines, open_catalog

Line = TypeVar("Line")
MAX_MEMORY = "2GiB"
"""Memory limit of a page's snapshot; DuckDB spills the rest to a temporary folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A file of dashboards/queries."""

    name: str
    words: str
    """The question and the meaning of its answer."""
    sql: str
    """Full text of the file."""


def question(name: str) -> Question:
    """Read a question by its name.

    >>> question("panels/standing").words.split("?")[0]
    'What is the state of each phase of each specialist'
    """
    text = (resources.files("dashboards") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    words = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        words.append(line.removeprefix("--").strip())
    return Question(name=name, words=" ".join(words), sql=text)


def narrowed(asked: Question, **equal: str | None) -> Question:
    r"""Return a question limited to rows whose columns equal the values; None matches NULL.

    >>> narrowed(Question(name="n", words="", sql="SELECT 1 AS a"), a="it's").sql
    "SELECT * FROM (\nSELECT 1 AS a\n) WHERE a IS NOT DISTINCT FROM 'it''s'"
    """
    held = " AND ".join(
        f"{column} IS NOT DISTINCT FROM {_quoted(value)}" for column, value in equal.items()
    )
    return replace(asked, sql=f"SELECT * FROM (\n{asked.sql.rstrip()}\n) WHERE {held}")


def _quoted(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


@dataclass(kw_only=True, slots=True)
class KnownQuestions:
    """Queries that this server offered or answered; links to them run without confirmation.

    Keeps the digests of the latest queries, without surrounding white space.
    """

    most: int = 10_000
    _digests: dict[bytes, None] = field(default_factory=dict)

    def add(self, sql: str) -> None:
        """Add a query; remove the oldest ones above the limit."""
        digest = _digest(sql)
        self._digests.pop(digest, None)
        self._digests[digest] = None
        while len(self._digests) > self.most:
            self._digests.pop(next(iter(self._digests)), None)

    def __contains__(self, sql: str) -> bool:
        return _digest(sql) in self._digests


def _digest(sql: str) -> bytes:
    return hashlib.sha256(sql.strip().encode("utf-8", "surrogatepass")).digest()


KNOWN = KnownQuestions()
"""Known queries of this server."""


class WorkspaceView:
    """A snapshot of a workspace from the time when a page was opened, shared by all panels of the page.

    A computed `status` replaces the saved one.
    """

    def __init__(self, home: Path, status: pa.Table | None = None) -> None:
        self.home = home
        self._catalog = open_catalog(home, status)
        # A few kilobytes of Parquet from an untrusted workspace may decompress to gigabytes.
        self._catalog.execute(f"SET memory_limit = '{MAX_MEMORY}'")

    def ask(self, asked: Question, line: type[Line]) -> list[Line]:
        """Run a question and return its rows; the fields of `line` are its columns."""
        KNOWN.add(asked.sql)
        return lines(self._catalog, line, asked.sql)


def recipes() -> list[Question]:
    """Return the questions of the cookbook by name, without those of panels."""
    folder = resources.files("dashboards") / "queries"
    names = (file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [question(name.removesuffix(".sql")) for name in sorted(names)]


def cookbook() -> str:
    """Return the cookbook as Markdown: one folded entry per question with its meaning and SQL."""
    return "\n\n".join(_entry(recipe) for recipe in recipes())


def _entry(recipe: Question) -> str:
    asked, _, meaning = recipe.words.partition("? ")
    explanation = f"{meaning}\n\n" if meaning else ""
    comments = (line for line in recipe.sql.splitlines() if not line.startswith("--"))
    sql = "\n".join(comments).strip()
    title = asked.removesuffix("?")
    return f"<details><summary>{title}?</summary>\n\n{explanation}```sql\n{sql}\n```\n\n</details>"


MAX_RUNNING = 2
"""Maximum number of running queries."""
MAX_WAITING = 30
"""Maximum number of waiting queries."""
PATIENCE_S = 120.0
"""Timeout of a waiting query."""
_POLL_S = 0.2
_ASKS = b"/api/kernel/set_ui_element_value"
_SESSION = b"marimo-session-id"

Application = Callable[..., Awaitable[None]]


@dataclass(kw_only=True, slots=True)
class Turns:
    """Queue of queries: running ones first, then waiting ones."""

    most: int = MAX_RUNNING
    places: int = MAX_WAITING
    seconds: float = PATIENCE_S
    slots: Path | None = None
    """Folder with one lock per running query, shared by several servers; None for a single server."""
    _line: list[object] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextlib.contextmanager
    def turn(self, show: Callable[[int], None], given_up: Callable[[], bool]) -> Iterator[None]:
        """Hold a turn for the duration of the block; `show` receives the falling number of earlier queries.

        Raises:
            CatalogError: If the queue is full, on timeout, or if the query is dropped.
        """
        ticket = object()
        with self._changed:
            if len(self._line) >= self.most + self.places:
                raise _refusal(
                    f"{self.places} queries are already waiting", "Run it again in a minute"
                )
            self._line.append(ticket)
        try:
            with self._wait(ticket, show, given_up):
                yield
        finally:
            with self._changed:
                self._line.remove(ticket)
                self._changed.notify_all()

    def _wait(
        self, ticket: object, show: Callable[[int], None], given_up: Callable[[], bool]
    ) -> contextlib.AbstractContextManager[object]:
        until, shown = time.monotonic() + self.seconds, -1
        while True:
            with self._changed:
                before = self._line.index(ticket)
            if before < self.most and (slot := self._slot()) is not None:
                return slot
            if given_up():
                raise _refusal("its page was closed or started another query", "Run it again")
            if time.monotonic() > until:
                others = (
                    f"{before} earlier queries"
                    if before >= self.most
                    else "queries of other servers"
                )
                words = f"it waited {self.seconds:g} s for {others}"
                raise _refusal(words, "Run it again, or run `curriculum query` in a terminal")
            if before != shown:
                show(before)
                shown = before
            with self._changed:
                self._changed.wait(_POLL_S)

    def _slot(self) -> contextlib.AbstractContextManager[object] | None:
        """Return one of the shared locks, acquired, or None while other servers hold all of them."""
        if self.slots is None:
            return contextlib.nullcontext()
        for number in range(self.most):
            lock = filelock.FileLock(self.slots / f"{number}.lock", timeout=0)
            with contextlib.suppress(filelock.Timeout):
                return lock.acquire()
        return None


def _refusal(cause: str, cure: str) -> CatalogError:
    return CatalogError("the query", cause=cause, cure=cure)


@dataclass(kw_only=True, slots=True)
class OpenPages:
    """Open pages by marimo session id, with their number of queries."""

    _asked: dict[str, int] = field(default_factory=dict)

    def opened(self, session: str) -> None:
        """Register an opened page."""
        self._asked.setdefault(session, 0)

    def asks(self, session: str) -> None:
        """Count a query of an open page."""
        if session in self._asked:
            self._asked[session] += 1

    def forget(self, session: str) -> None:
        """Remove a closed page."""
        self._asked.pop(session, None)

    def given_up(self, session: str) -> Callable[[], bool]:
        """Return a function that is true once the page was closed or started another query."""
        now = self._asked.get(session)
        return lambda: self._asked.get(session) != now


TURNS, PAGES = Turns(), OpenPages()
"""Queue and pages of this server."""


def share(folder: Path) -> None:
    """Share the limit of running queries with all servers that use the same folder of locks."""
    folder.mkdir(mode=0o700, exist_ok=True)
    TURNS.slots = folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """Wrapper of marimo's pages that records open pages and their queries."""

    pages: Any
    open_pages: OpenPages

    @property
    def routes(self) -> Any:
        """Routes of the wrapped pages."""
        return getattr(self.pages, "routes", ())

    async def __call__(self, scope: MutableMapping[str, Any], *ways: Any) -> None:
        """Forward one request or WebSocket."""
        if scope["type"] == "websocket":
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            (session, *_) = query.get("session_id", [""])
            self.open_pages.opened(session)
            try:
                await self.pages(scope, *ways)
            finally:
                self.open_pages.forget(session)
            return
        if scope["path"].encode().endswith(_ASKS):
            for name, value in scope["headers"]:
                if name.lower() == _SESSION:
                    self.open_pages.asks(value.decode("latin-1"))
        await self.pages(scope, *ways)


def session_of(request: Any) -> str:
    """Return the session id of a marimo request; empty without a request."""
    if request is None:
        return ""
    named = request.headers.get(_SESSION.decode())
    return str(named or next(iter(request.query_params.get("session_id", [])), ""))
