"""Marks around the turns of a conversation: control tokens for the roles, or lines that name them.

roles        <|user|> … of the tokenizer, where it has one for each role, else lines such as `### User`
turn's end   <|end_of_turn|>, else EOS, else nothing
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.tokens.codec import Tokenizer
from schemas.change import ROLES, Role

Ids = npt.NDArray[np.int32]
LINES: Mapping[Role, str] = {
    "system": "### System\n",
    "user": "### User\n",
    "assistant": "### Assistant\n",
}
"""Lines for tokenizers without tokens for the roles."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnMarks:
    """The ids around a turn; no text yields the control tokens among them."""

    leads: Mapping[str, Ids]
    """Marks before the turn, by role."""
    end: Ids
    """Behind it: one control token, or none."""
    by_tokens: bool
    """True if roles are control tokens; else lines of text."""
    ends_by_eos: bool
    """True if a turn ends as a document does, for want of a token of its own."""


def turn_marks(tokenizer: Tokenizer) -> TurnMarks:
    """Return the marks that a tokenizer has for turns."""
    own = tokenizer.ids_of
    by_tokens = all(role in own for role in ROLES)
    end = own.get("end_of_turn", tokenizer.eos_id)
    return TurnMarks(
        leads={
            role: _ids(own[role]) if by_tokens else tokenizer.encode(LINES[role]) for role in ROLES
        },
        end=_ids() if end is None else _ids(end),
        by_tokens=by_tokens,
        ends_by_eos="end_of_turn" not in own and end is not None,
    )


def _ids(*ids: int) -> Ids:
    return np.array(ids, dtype=np.int32)
