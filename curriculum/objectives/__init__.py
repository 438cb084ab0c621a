"""Objectives: tokens and targets of an encoding, one file an entry of schemas/objectives.py.

objective.py       the protocol: what goes in and what comes out
causal.py          every next token, and target: what a commit changed, in a document of its graph
fim.py             the middle after what is before and after it
documentation.py   a body after its comment, a comment after its code; no text that one copies from the other
chat_objective.py  the assistant's turns

new_lines.py       of lines that a repository shows again and again, the first showing
rearrange.py       an encoding in another order
"""

from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.tokens.codec import Tokenizer
from schemas.objectives import OBJECTIVES

__all__ = ["DocumentFacts", "Objective", "Result", "objective_of"]


def objective_of(objective: str, tokenizer: Tokenizer, *, variant: int) -> Objective:
    """Build an objective for a tokenizer; its variants draw otherwise.

    Raises:
        TokenizerError: for a tokenizer without a control token that the objective needs.
    """
    built: Objective = OBJECTIVES[objective].function(tokenizer, variant)
    return built
