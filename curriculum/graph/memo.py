"""Memoized methods that are recomputed only if one of their dependencies has changed.

A `derived` method depends only on its arguments and on the memoized methods that it calls. A `tracked` method
reads an input. Each result records its dependencies in the order of their first use. When a result is needed
in a later revision, its dependencies are checked in this order; each of them is checked in the same way, down
to the tracked methods, which are called again. If none has changed, the result is reused. So a result always
equals the result of a computation from scratch.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, TypeVarTuple

MAX_UNUSED = 4
"""All results are dropped when their number exceeds MAX_UNUSED times the largest number used in
one revision.
"""
MIN_DROPPED = 100_000

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Entry:
    """Result of one call, with its dependencies. Entries are hashed by identity."""

    key: tuple[Any, ...]
    """The memoized function, followed by its arguments, of which `self` is the first."""
    value: Any = None
    dependencies: tuple["_Entry", ...] | None = ()
    """Entries that the result depends on, without duplicates, in the order of their first use; None for a
    tracked method.
    """
    verified: int = 0
    """Most recent revision for which the value is known to be valid."""
    changed: int = 0
    """Revision in which the value changed most recently."""


@dataclass(slots=True)
class Memo:
    """Store of results with their dependencies (about 0.5 KB each), and the current revision of the input."""

    revision: int = 1
    entries: dict[tuple[Any, ...], _Entry] = field(default_factory=dict)
    recording: dict[_Entry, None] | None = None
    """Dependencies recorded so far for the method that is being computed."""
    _used: int = 0
    """Number of results used in this revision."""
    _most_used: int = 0
    """Maximum of `_used` over all revisions."""

    def advance(self) -> None:
        """Begin the next revision, in which any input may have changed."""
        self.revision += 1
        self._most_used = max(self._most_used, self._used)
        self._used = 0
        # All results are dropped together, since values compared by identity must not survive in only some of
        # them.
        if len(self.entries) > max(MAX_UNUSED * self._most_used, MIN_DROPPED):
            self.entries.clear()

    def add(self, key: tuple[Any, ...], *, is_tracked: bool) -> _Entry:
        """Compute the result for `key` for the first time, and store it."""
        entry = _Entry(key, dependencies=None if is_tracked else ())
        self._compute(entry)
        self._used += 1
        self.entries[key] = entry
        return entry

    def verify(self, entry: _Entry) -> None:
        """Make sure that a stored result is valid in this revision; recompute it if necessary."""
        revision = self.revision
        if entry.dependencies is None:
            self._compute(entry)
        else:
            for dependency in entry.dependencies:
                if dependency.verified != revision:
                    self.verify(dependency)
                if dependency.changed > entry.verified:
                    # Later dependencies may not exist in this revision, so they aren't checked.
                    self._compute(entry)
                    break
        entry.verified = revision
        self._used += 1

    def _compute(self, entry: _Entry) -> None:
        function, *arguments = entry.key
        if entry.dependencies is None:
            value = function(*arguments)
        else:
            outer, self.recording = self.recording, {}
            try:
                value = function(*arguments)
                entry.dependencies = tuple(self.recording)
            finally:
                self.recording = outer
        if not entry.changed or (value is not entry.value and value != entry.value):
            entry.value = value
            entry.changed = self.revision
        entry.verified = self.revision


class Memoizing(Protocol):
    """Object with memoized methods.

    It is hashed by identity and has no mutable state except tracked inputs.
    """

    @property
    def memo(self) -> Memo:
        """Memo that stores the object's results."""


Object = TypeVar("Object", bound=Memoizing)


def derived(
    method: Callable[[Object, *Arguments], Result],
) -> Callable[[Object, *Arguments], Result]:
    """Memoize a method whose result depends only on its arguments and on other memoized methods.

    The result must not be an iterator.
    """
    return _memoized(method, is_tracked=False)


def tracked(
    method: Callable[[Object, *Arguments], Result],
) -> Callable[[Object, *Arguments], Result]:
    """Memoize a method that reads an input and calls no memoized method.

    Its results are kept for one revision.
    """
    return _memoized(method, is_tracked=True)


def _memoized(
    method: Callable[[Object, *Arguments], Result], *, is_tracked: bool
) -> Callable[[Object, *Arguments], Result]:
    @functools.wraps(method)
    def wrapper(self: Object, *arguments: *Arguments) -> Result:
        memo = self.memo
        key = (method, self, *arguments)
        entry = memo.entries.get(key)
        if entry is None:
            entry = memo.add(key, is_tracked=is_tracked)
        elif entry.verified != memo.revision:
            memo.verify(entry)
        if memo.recording is not None:
            memo.recording[entry] = None
        value: Result = entry.value
        return value

    return wrapper
