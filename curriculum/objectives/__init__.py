"""Objectives: tokens and targets of an encoding, one file per entry of schemas/objectives.py.

objective.py       the protocol, with its input and its result
causal.py          causal: every next token; target: the changed code of a context document
fim.py             the middle, given the text before and after it
documentation.py   a body given its comment, or a comment given its code, without copied text
chat_objective.py  the assistant's turns

new_lines.py       of lines that documents of a repository repeat, only the first occurrence
rearrange.py       an encoding in another order
"""

from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.tokens.codec import Tokenizer
from schemas.objectives import OBJECTIVES

__all__ = ["DocumentFacts", "Objective", "Result", "objective_of"]


def objective_of(objective: str, tokenizer: Tokenizer, *, variant: int) -> Objective:
    """Build an objective for a tokenizer; each variant makes different random choices.

    Raises:
        TokenizerError: if the tokenizer lacks a control token that the objective needs.
    """
    built: Objective = OBJECTIVES[objective].function(tokenizer, variant)
    return built
