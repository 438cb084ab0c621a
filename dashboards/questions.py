"""SQL questions of the pages: files with their answers from a snapshot, and the queue of the SQL page.

A file begins with the question in plain words, as comments; the SELECT after them is what is run and what
is shown.

Questions of the SQL page take turns: a few at a time, the rest wait in the order in which they arrived. One
question may use a gigabyte and two cores. A server answers at most MOST at once, over all its pages, and so
do all servers of a user together where they share a folder of locks; the system releases the locks of a
process that is killed. `curriculum query` in a terminal is its user's own, and isn't counted. A question is
given up when its page is closed, asks another question, or has waited too long.
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
"""Memory of one page's snapshot; what doesn't fit is written to a folder that goes with the server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One file of dashboards/queries."""

    name: str
    words: str
    """Question, and the meaning of the answer."""
    sql: str
    """The whole file, as it is run."""


def question(name: str) -> Question:
    """The question of that name.

    >>> question("panels/standing").words.split("?")[0]
    'How does each phase of each specialist stand'
    """
    text = (resources.files("dashboards") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    words = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        words.append(line.removeprefix("--").strip())
    return Question(name=name, words=" ".join(words), sql=text)


def narrowed(asked: Question, **equal: str | None) -> Question:
    r"""The same question of only those lines whose columns hold these values; None for empty ones.

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
    """Questions that this server offers or has answered: their links need no second look.

    It holds the last ones, by digest; whitespace at their ends counts for nothing.
    """

    most: int = 10_000
    _digests: dict[bytes, None] = field(default_factory=dict)

    def add(self, sql: str) -> None:
        """Remember a question; the oldest is forgotten where there are too many."""
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
"""Questions of this server."""


class WorkspaceView:
    """A workspace as it stood when a page was opened; all panels of a page look at the same.

    A `status` that was computed since replaces the one that is written.
    """

    def __init__(self, home: Path, status: pa.Table | None = None) -> None:
        self.home = home
        self._catalog = open_catalog(home, status)
        # Some kilobytes of somebody else's Parquet can unpack to gigabytes.
        self._catalog.execute(f"SET memory_limit = '{MAX_MEMORY}'")

    def ask(self, asked: Question, line: type[Line]) -> list[Line]:
        """The answer to a question; the fields of a line are columns of it."""
        KNOWN.add(asked.sql)
        return lines(self._catalog, line, asked.sql)


def recipes() -> list[Question]:
    """The questions that stand in the cookbook, by name; those of panels aren't among them."""
    folder = resources.files("dashboards") / "queries"
    names = (file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [question(name.removesuffix(".sql")) for name in sorted(names)]


def cookbook() -> str:
    """The cookbook as Markdown: a line a question, which opens to its meaning and its SQL."""
    return "\n\n".join(_entry(recipe) for recipe in recipes())


def _entry(recipe: Question) -> str:
    asked, _, meaning = recipe.words.partition("? ")
    explanation = f"{meaning}\n\n" if meaning else ""
    comments = (line for line in recipe.sql.splitlines() if not line.startswith("--"))
    sql = "\n".join(comments).strip()
    title = asked.removesuffix("?")
    return f"<details><summary>{title}?</summary>\n\n{explanation}```sql\n{sql}\n```\n\n</details>"


MOST = 2
"""Questions that are answered at once."""
PLACES = 30
"""Questions that may wait."""
PATIENCE_S = 120.0
"""Seconds that a question waits."""
_POLL_S = 0.2
_ASKS = b"/api/kernel/set_ui_element_value"
_SESSION = b"marimo-session-id"

Application = Callable[..., Awaitable[None]]


@dataclass(kw_only=True, slots=True)
class Turns:
    """The questions that are answered, and behind them those that wait."""

    most: int = MOST
    places: int = PLACES
    seconds: float = PATIENCE_S
    slots: Path | None = None
    """A folder with a lock a turn, which several servers share; None for one server alone."""
    _line: list[object] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextlib.contextmanager
    def turn(self, show: Callable[[int], None], given_up: Callable[[], bool]) -> Iterator[None]:
        """Hold a turn while the block lasts; `show` gets the number of questions before this one as it falls.

        Raises:
            CatalogError: where too many wait, where it takes too long, and for a question that is given up.
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
        """One of the shared locks, held until the block ends; None while other servers hold all."""
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
    """The open pages, by marimo's id of their session, each with the number of times that it asked."""

    _asked: dict[str, int] = field(default_factory=dict)

    def opened(self, session: str) -> None:
        """Count a page that is opened."""
        self._asked.setdefault(session, 0)

    def asks(self, session: str) -> None:
        """Count a question of an open page."""
        if session in self._asked:
            self._asked[session] += 1

    def forget(self, session: str) -> None:
        """Forget a page."""
        self._asked.pop(session, None)

    def given_up(self, session: str) -> Callable[[], bool]:
        """Return a function that is true once the page is closed or has asked anew since now."""
        now = self._asked.get(session)
        return lambda: self._asked.get(session) != now


TURNS, PAGES = Turns(), OpenPages()
"""Queue and pages of this server."""


def share(folder: Path) -> None:
    """Let this server take its turns with all others that share a folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    TURNS.slots = folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """marimo's pages, and beside them which are open and when they ask."""

    pages: Any
    open_pages: OpenPages

    @property
    def routes(self) -> Any:
        """The applications of the pages."""
        return getattr(self.pages, "routes", ())

    async def __call__(self, scope: MutableMapping[str, Any], *ways: Any) -> None:
        """Pass on one request, or one WebSocket."""
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
    """The session of the page whose request marimo answers; empty where there is none."""
    if request is None:
        return ""
    named = request.headers.get(_SESSION.decode())
    return str(named or next(iter(request.query_params.get("session_id", [])), ""))
