"""A conversation: what the reader of JSON lines hands to the chat family."""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Turn of one side, as it was written; not blank."""

    role: Role
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Turns of user and assistant by turns, the assistant's last; a system turn may come before."""

    source: str
    """The name of its source in the corpus."""
    pin: str
    """40 hex digits: the digest of all files of the source."""
    licence: str | None
    file: str
    """Below the source's folder."""
    line: int
    """Line number, from 1."""
    start: int
    end: int
    """The line's bytes in the file, half-open, its end left out."""
    name: str
    """The id that its line gives it, else its digest."""
    digest: str
    """40 hex digits of who says what."""
    turns: tuple[Turn, ...]


def digest_of(turns: tuple[Turn, ...]) -> str:
    """40 hex digits that equal turns have in common, and no others."""
    built = hashlib.sha256()
    for turn in turns:
        text = turn.text.encode()
        built.update(f"{turn.role} {len(text)}\0".encode() + text)
    return built.hexdigest()[:40]
