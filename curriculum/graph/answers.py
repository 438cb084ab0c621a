"""Answers that are kept while everything that they were computed from stays the same.

A function that is `answered` depends on its arguments and on what it asks of other such functions, and on
nothing else. Each answer keeps, in order, the answers that it used. After a step an answer is valid if none
of those has changed, which is decided in the same order, down to the functions that `read` the input: these
are called again. So an answer never differs from one that is computed anew, whatever steps led there.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, TypeVarTuple

MOST_UNUSED = 4
"""Answers are dropped when there are so many times more than one step has used."""
LEAST_DROPPED = 100_000

Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")


@dataclass(eq=False, slots=True)
class _Kept:
    """One answer: hashed by identity."""

    question: tuple[Any, ...]
    """The function, and what it is called with."""
    value: Any = None
    used: tuple["_Kept", ...] | None = ()
    """Each once, in the order of their first use; None for what is read."""
    valid: int = 0
    """The last step at which the value was found valid."""
    changed: int = 0
    """The step at which the value became what it is."""


@dataclass(slots=True)
class Answers:
    """Answers, and at which step they are valid; memory is about 0.5 KB an answer."""

    now: int = 1
    kept: dict[tuple[Any, ...], _Kept] = field(default_factory=dict)
    using: dict[_Kept, None] | None = None
    """What the function that runs has used so far."""
    _used: int = 0
    """How many answers this step has used."""
    _most_used: int = 0
    """How many answers one step has used at most."""

    def step(self) -> None:
        """Take the next step: what functions read may have changed."""
        self.now += 1
        self._most_used = max(self._most_used, self._used)
        self._used = 0
        if len(self.kept) > max(MOST_UNUSED * self._most_used, LEAST_DROPPED):
            self.kept.clear()

    def make(self, question: tuple[Any, ...], *, is_read: bool) -> _Kept:
        """Compute an answer for the first time."""
        answer = _Kept(question, used=None if is_read else ())
        self._compute(answer)
        self._used += 1
        self.kept[question] = answer
        return answer

    def refresh(self, answer: _Kept) -> None:
        """Make an answer valid at this step."""
        now = self.now
        if answer.used is None:
            self._compute(answer)
        else:
            for each in answer.used:
                if each.valid != now:
                    self.refresh(each)
                if each.changed > answer.valid:
                    # What was used after that may not be there any more: it isn't looked at.
                    self._compute(answer)
                    break
        answer.valid = now
        self._used += 1

    def _compute(self, answer: _Kept) -> None:
        function, *arguments = answer.question
        if answer.used is None:
            value = function(*arguments)
        else:
            outer, self.using = self.using, {}
            try:
                value = function(*arguments)
                answer.used = tuple(self.using)
            finally:
                self.using = outer
        if not answer.changed or (value is not answer.value and value != answer.value):
            answer.value = value
            answer.changed = self.now
        answer.valid = self.now


class Answering(Protocol):
    """An object whose answers are kept, hashed by identity: what changes in it is seen by `read` alone."""

    @property
    def answers(self) -> Answers:
        """Where they are kept."""


Object = TypeVar("Object", bound=Answering)


def answered(
    function: Callable[[Object, *Arguments], Answer],
) -> Callable[[Object, *Arguments], Answer]:
    """Keep what a method returns, which must be no iterator; it is called by place only."""
    return _kept(function, is_read=False)


def read(
    function: Callable[[Object, *Arguments], Answer],
) -> Callable[[Object, *Arguments], Answer]:
    """Keep what a method reads of an input: it asks nothing, and is called once a step at most."""
    return _kept(function, is_read=True)


def _kept(
    function: Callable[[Object, *Arguments], Answer], *, is_read: bool
) -> Callable[[Object, *Arguments], Answer]:
    @functools.wraps(function)
    def asked(self: Object, *arguments: *Arguments) -> Answer:
        answers = self.answers
        question = (function, self, *arguments)
        answer = answers.kept.get(question)
        if answer is None:
            answer = answers.make(question, is_read=is_read)
        elif answer.valid != answers.now:
            answers.refresh(answer)
        if answers.using is not None:
            answers.using[answer] = None
        value: Answer = answer.value
        return value

    return asked
