"""Parser for one JSON line of a conversation file: turns, loss weights and ignored keys.

A turn has a role and a text. It may also say whether it is trained on: `weight` is 1 or 0, as in OpenAI's
files; `train` is true or false. Only assistant turns can be trained on. A line is skipped if it has a key
that would change the loss, such as `tool_calls`. Every other unknown key is ignored and reported.
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
"""Reason why a line is skipped.

empty      a user or assistant turn is blank             json       not a JSON object
encoding   not UTF-8, or a lone surrogate                order      roles in the wrong order
role       a role that is not in ROLES                   shape      no list of turns with role and text
too_large  longer than quality.max_bytes                 key        a key in REFUSED_KEYS or a repeated key
weight     `weight` isn't 0 or 1, `train` isn't true or false, the two disagree, or a turn that isn't the
           assistant's is to be trained on
"""
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
}
"""Roles by the names that the two formats use."""
_LAYOUTS = (("messages", "role", "content"), ("conversations", "from", "value"))
_MARKS = frozenset(("weight", "train"))
_MASKS = frozenset(("loss", "loss_scale", "loss_mask", "mask", "masked", "train_detail"))
_TOOLS = frozenset(("tools", "functions", "tool_calls", "tool_call_id", "function_call"))
_THOUGHTS = frozenset(("reasoning", "reasoning_content", "thinking"))
_MEDIA = frozenset(("audio", "audios", "image", "images", "video", "videos"))
REFUSED_KEYS = _MASKS | _TOOLS | _THOUGHTS | _MEDIA | {"prefix", "refusal", "system"}
"""Keys of lines or turns that change the loss in other trainers.

They are for masks, tools, reasoning, media, and a system text outside of the turns. A key whose value is null
or empty is ignored.
"""


class LineError(ValueError):
    """Error for a line that is not a usable conversation.

    `found` is the key or value that caused the error; it may be empty.
    """

    def __init__(self, reason: LineReason, found: str = "") -> None:
        super().__init__(reason, found)
        self.reason = reason
        self.found = found


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationLine:
    """Conversation in a valid line, and the keys of the line that were ignored."""

    name: str | None
    """Id of the conversation in the line; None if there is none."""
    turns: tuple[Turn, ...]
    ignored_keys: tuple[str, ...]
    """Ignored keys of the line and of its turns, sorted and distinct."""


def parse_conversation(text: str) -> ConversationLine:
    """Return the conversation in `text`, which is a line that is not empty.

    Raises:
        LineError: if the line is not a valid conversation.
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
    """Return a JSON object with these pairs; raise if a key is repeated.

    If a key is repeated, parsers disagree on which value counts.
    """
    content = dict(pairs)
    if len(content) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise LineError("key", f"{next(key for key in times if times[key] > 1)} twice")
    return content


def _ordered(spoken: list[Turn]) -> tuple[Turn, ...]:
    """Return the turns without blank system turns.

    Raises:
        LineError: if the roles are in a wrong order, or another turn is blank.
    """
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
    """Return True for an assistant turn that isn't trained on, according to its `weight` or `train`."""
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
    """Return a text that describes `value` in messages.

    It is the JSON of a scalar. Other values may be deeply nested, so only the name of their type is returned.
    """
    return json.dumps(value) if isinstance(value, str | int | float) else type(value).__name__


def _said_keys(content: dict[str, Any]) -> set[str]:
    """Return the keys that have a value other than null, "", [] and {}."""
    return {
        key for key, value in content.items() if value is not None and value not in ("", [], {})
    }


def _in_order(roles: list[Role]) -> bool:
    """Return True if the roles are in a valid order.

    After at most one system turn, user and assistant must alternate, and the assistant must have the last
    turn.

    >>> _in_order(["system", "user", "assistant"]), _in_order(["user", "assistant", "user"])
    (True, False)
    """
    spoken = roles[roles[0] == "system" :]
    return bool(spoken) and spoken == ["user", "assistant"] * (len(spoken) // 2)


def _is_text(text: str) -> bool:
    """Return True unless the text contains lone surrogates, which escapes in JSON can produce."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(name: object) -> str | None:
    """Return a conversation's id if a lineage can be named after it, else None."""
    text = str(name) if isinstance(name, str | int) and not isinstance(name, bool) else ""
    sound = 0 < len(text) <= MAX_ID_LENGTH and _is_text(text) and CONTROL.search(text) is None
    return text if sound else None
