"""Objectives: tokens and targets of an encoding, one file per entry of schemas/objectives.py.

objective.py       the protocol, with its input and its result
causal.py          causal: predict every next token; target: predict the changed code of a context document
fim.py             fim: predict the middle from the text before and after it
documentation.py   predict a body from its comment, or a comment from its code, without copied text
chat_objective.py  chat: predict the assistant's turns

new_lines.py       of lines that several documents of a repository contain, score only the first occurrence
rearrange.py       put an encoding into another order
"""

from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.tokens.codec import Tokenizer
from schemas.objectives import OBJECTIVES

__all__ = ["DocumentFacts", "Objective", "Result", "objective_of"]


def objective_of(objective: str, tokenizer: Tokenizer, *, variant: int) -> Objective:
    """Create the objective named `objective` for a tokenizer; each variant makes other random choices.

    Raises:
        TokenizerError: if the tokenizer lacks a control token that the objective needs.
    """
    built: Objective = OBJECTIVES[objective].function(tokenizer, variant)
    return built
