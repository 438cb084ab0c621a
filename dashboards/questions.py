"""SQL queries behind the pages, and the queue for the queries that readers enter on the SQL page.

Each query of a page is a file in dashboards/queries. It starts with comments, which contain a question in
plain words and the meaning of its answer; the SELECT follows.

The SQL page runs a few queries at a time; the others wait in order of arrival. A query may use one gigabyte
of memory and two cores. A server runs at most MAX_RUNNING queries at once, counted over all its pages.
Servers that share a folder of locks have this limit together. If a process is killed, the operating system
releases its locks. A waiting query is dropped when its page is closed or starts another query, or after a
timeout. `curriculum query` in a terminal is not limited.
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
    """A question with its SQL, from a file of dashboards/queries."""

    name: str
    words: str
    """The question and the meaning of its answer."""
    sql: str
    """Full text of the file, with its comments."""


def question(name: str) -> Question:
    """Read the question in the file `name`.sql.

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
    r"""Return a question whose answer has only the rows in which columns have the given values.

    The value None matches NULL.

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
    """Queries that this server has shown or answered; a link to such a query runs it without confirmation.

    Only the digests of the latest queries are kept. White space at the ends of a query doesn't count.
    """

    most: int = 10_000
    _digests: dict[bytes, None] = field(default_factory=dict)

    def add(self, sql: str) -> None:
        """Add a query; if there are too many, remove the oldest ones."""
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
    """Snapshot of a workspace, taken when a page is opened and used by all panels of the page.

    If `status` is given, it replaces the saved status of the phases.
    """

    def __init__(self, home: Path, status: pa.Table | None = None) -> None:
        self.home = home
        self._catalog = open_catalog(home, status)
        # A few kilobytes of Parquet from an untrusted workspace may decompress to gigabytes.
        self._catalog.execute(f"SET memory_limit = '{MAX_MEMORY}'")

    def ask(self, asked: Question, line: type[Line]) -> list[Line]:
        """Run a question and return its rows; the fields of the class `line` are the columns."""
        KNOWN.add(asked.sql)
        return lines(self._catalog, line, asked.sql)


def recipes() -> list[Question]:
    """Return the questions of the cookbook in the order of their names, without those of panels."""
    folder = resources.files("dashboards") / "queries"
    names = (file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [question(name.removesuffix(".sql")) for name in sorted(names)]


def cookbook() -> str:
    """Return the cookbook as Markdown; each question is a folded entry with its meaning and its SQL."""
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
    """Queue of queries; the first ones are running, the others wait for their turn."""

    most: int = MAX_RUNNING
    places: int = MAX_WAITING
    seconds: float = PATIENCE_S
    slots: Path | None = None
    """Folder with one lock per running query, which several servers share; None for a single server."""
    _line: list[object] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextlib.contextmanager
    def turn(self, show: Callable[[int], None], given_up: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn, and keep it for the duration of the block.

        `show` is called with the number of queries that are ahead, each time it falls. The query is dropped
        as soon as `given_up` returns True.

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
        """Acquire a lock of those that servers share and return it; None while other servers hold all."""
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
    """Pages that are open, by marimo session id, each with the number of queries that it has started."""

    _asked: dict[str, int] = field(default_factory=dict)

    def opened(self, session: str) -> None:
        """Record that a page was opened."""
        self._asked.setdefault(session, 0)

    def asks(self, session: str) -> None:
        """Record that an open page started a query."""
        if session in self._asked:
            self._asked[session] += 1

    def forget(self, session: str) -> None:
        """Forget a page that was closed."""
        self._asked.pop(session, None)

    def given_up(self, session: str) -> Callable[[], bool]:
        """Return a function that says whether the page was closed or has started another query since now."""
        now = self._asked.get(session)
        return lambda: self._asked.get(session) != now


TURNS, PAGES = Turns(), OpenPages()
"""Queue and pages of this server."""


def share(folder: Path) -> None:
    """Share the limit of running queries with all servers that use the locks in `folder`."""
    TURNS.slots = folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """ASGI wrapper of marimo's pages; it records which pages are open and when they start queries."""

    pages: Any
    open_pages: OpenPages

    @property
    def routes(self) -> Any:
        """Routes of the wrapped application."""
        return getattr(self.pages, "routes", ())

    async def __call__(self, scope: MutableMapping[str, Any], *ways: Any) -> None:
        """Pass one request or WebSocket on to the wrapped application."""
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
    """Return the session id of marimo's current request; empty if `request` is None."""
    if request is None:
        return ""
    named = request.headers.get(_SESSION.decode())
    return str(named or next(iter(request.query_params.get("session_id", [])), ""))
