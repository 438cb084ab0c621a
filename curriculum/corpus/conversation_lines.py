"""One line of JSON as a conversation: its turns, which of them are learnt, and keys that aren't read.

A turn has a role and a text, and may say whether it is learnt: `weight` is 1 or 0, as in OpenAI's files,
`train` is true or false. Only an assistant's turn is learnt, so no other may ask for it. A key that would
change what is learnt, such as `tool_calls`, isn't read; a line with one is skipped. Any other key is named.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from curriculum.corpus.paths import CONTROL
from schemas.change import Role, Turn

MAX_ID_LENGTH = 200
LineReason = Literal[
    "empty", "encoding", "json", "key", "order", "role", "shape", "too_large", "weight"
]
"""Reasons to skip a line.

empty      a turn of user or assistant says nothing      json       it is no JSON object
encoding   it isn't UTF-8, or half a character           order      the roles are out of order
role       a role is none of ROLES                       shape      no list of turns with role and text
too_large  it is longer than quality.max_bytes           key        it has a key of REFUSED_KEYS, or one twice
weight     weight isn't 0 or 1, train isn't true or false, the two disagree, or a turn that isn't the
           assistant's asks to be learnt
"""
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
}
"""Names of the roles, in either format."""
_LAYOUTS = (("messages", "role", "content"), ("conversations", "from", "value"))
_MARKS = frozenset(("weight", "train"))
_MASKS = frozenset(("loss", "loss_scale", "loss_mask", "mask", "masked", "train_detail"))
_TOOLS = frozenset(("tools", "functions", "tool_calls", "tool_call_id", "function_call"))
_THOUGHTS = frozenset(("reasoning", "reasoning_content", "thinking"))
_MEDIA = frozenset(("audio", "audios", "image", "images", "video", "videos"))
REFUSED_KEYS = _MASKS | _TOOLS | _THOUGHTS | _MEDIA | {"prefix", "refusal", "system"}
"""Keys of turns or lines by which other trainers learn something else: masks, tools, thoughts, media, and
a system text beside the turns. One that is null, or has nothing in it, says nothing."""


class LineError(ValueError):
    """A line is no conversation that can be learnt from; `found` names what is wrong, where that helps."""

    def __init__(self, reason: LineReason, found: str = "") -> None:
        super().__init__(reason, found)
        self.reason = reason
        self.found = found


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationLine:
    """Content of a sound line."""

    name: str | None
    """The id that the line gives the conversation."""
    turns: tuple[Turn, ...]
    ignored_keys: tuple[str, ...]
    """Keys of the line or of its turns that aren't read, each once, sorted."""


def parse_conversation(text: str) -> ConversationLine:
    """Return the conversation of a line that isn't empty.

    Raises:
        LineError: for any other line.
    """
    try:
        content = json.loads(text, object_pairs_hook=_distinct)
    except LineError:
        raise
    except (ValueError, RecursionError):
        raise LineError("json") from None
    if not isinstance(content, dict):
        raise LineError("json")
    layout = next((layout for layout in _LAYOUTS if layout[0] in content), None)
    if layout is None:
        raise LineError("shape")
    listed, role, said = layout
    known = {"id", listed}
    _require_readable(content, known, {*REFUSED_KEYS, *_MARKS, *(layout[0] for layout in _LAYOUTS)})
    entries = content[listed] if isinstance(content[listed], list) else []
    spoken = [_turn(entry, role, said) for entry in entries]
    ignored = _said_keys(content) - known
    for entry in entries:
        ignored |= _said_keys(entry) - {role, said, *_MARKS}
    return ConversationLine(
        name=_name(content.get("id")),
        turns=_ordered(spoken),
        ignored_keys=tuple(sorted(ignored)),
    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON that says each key once: readers differ in which of two values they take."""
    content = dict(pairs)
    if len(content) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise LineError("key", f"{next(key for key in times if times[key] > 1)} twice")
    return content


def _ordered(spoken: list[Turn]) -> tuple[Turn, ...]:
    """The turns without blank system turns, once their roles are in order and none is blank."""
    turns = tuple(turn for turn in spoken if turn.text.strip() or turn.role != "system")
    if not turns:
        raise LineError("shape")
    if not _in_order([turn.role for turn in turns]):
        raise LineError("order")
    if not all(turn.text.strip() for turn in turns):
        raise LineError("empty")
    return turns


def _turn(entry: object, role_key: str, text_key: str) -> Turn:
    if not isinstance(entry, dict):
        raise LineError("shape")
    _require_readable(entry, {role_key, text_key}, REFUSED_KEYS)
    role, text = entry.get(role_key), entry.get(text_key)
    if not isinstance(role, str) or not isinstance(text, str):
        raise LineError("shape")
    if role not in ROLES:
        raise LineError("role")
    if not _is_text(text):
        raise LineError("encoding")
    return Turn(role=ROLES[role], text=text, is_context=_is_context(entry, ROLES[role]))


def _require_readable(
    content: dict[str, Any], known: set[str], refused: set[str] | frozenset[str]
) -> None:
    found = sorted(_said_keys(content) & refused - known)
    if found:
        raise LineError("key", found[0])


def _is_context(entry: dict[str, Any], role: Role) -> bool:
    """Return True for an assistant's turn that weight or train marks as context."""
    weight, train = entry.get("weight"), entry.get("train")
    if isinstance(weight, bool) or weight not in (None, 0, 1):
        raise LineError("weight", f"weight {_shown(weight)}")
    if train is not None and not isinstance(train, bool):
        raise LineError("weight", f"train {_shown(train)}")
    marks = {bool(mark) for mark in (weight, train) if mark is not None}
    if len(marks) > 1:
        raise LineError("weight", f"weight {weight} and train {_shown(train)}")
    if role != "assistant" and True in marks:
        raise LineError("weight", f"role {role}")
    return role == "assistant" and False in marks


def _shown(value: object) -> str:
    """Show a value as JSON, and one that may be nested deeply by its type."""
    return json.dumps(value) if isinstance(value, str | int | float) else type(value).__name__


def _said_keys(content: dict[str, Any]) -> set[str]:
    """Keys whose values say something: null says nothing, and neither does an empty text or list."""
    return {
        key for key, value in content.items() if value is not None and value not in ("", [], {})
    }


def _in_order(roles: list[Role]) -> bool:
    """Return True if the roles are user and assistant in turn, after a system turn or none.

    >>> _in_order(["system", "user", "assistant"]), _in_order(["user", "assistant", "user"])
    (True, False)
    """
    spoken = roles[roles[0] == "system" :]
    return bool(spoken) and spoken == ["user", "assistant"] * (len(spoken) // 2)


def _is_text(text: str) -> bool:
    """Return True if it is whole characters: JSON can spell half of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(name: object) -> str | None:
    """An id that can stand in a lineage; None for any other."""
    text = str(name) if isinstance(name, str | int) and not isinstance(name, bool) else ""
    sound = 0 < len(text) <= MAX_ID_LENGTH and _is_text(text) and CONTROL.search(text) is None
    return text if sound else None
