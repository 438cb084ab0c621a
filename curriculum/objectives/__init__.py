"""What is learnt from an encoding: one file an objective, each an entry of schemas.objectives.

lesson.py      what goes in and what comes out
rearrange.py   an encoding in another order
causal.py      every next token
chat.py        what the assistant says
fim.py         the middle after what stands before and after it
documentation.py  a body after its comment, a comment after its code
    documented.py     which comments are about what
    given_away.py     what a comment says verbatim of code
"""

from curriculum.objectives.lesson import Document, Lesson, Taught
from curriculum.tokens.codec import Tokenizer
from schemas.objectives import OBJECTIVES

__all__ = ["Document", "Lesson", "Taught", "lesson_of"]


def lesson_of(objective: str, tokenizer: Tokenizer, *, variant: int) -> Lesson:
    """Return the lesson of an objective; variants of one draw otherwise.

    Raises:
        TokenizerError: for a tokenizer without a control token that the objective needs.
    """
    lesson: Lesson = OBJECTIVES[objective].function(tokenizer, variant)
    return lesson
