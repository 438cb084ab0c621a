"""What is learnt from an encoding: one file an objective.

lesson.py      what goes in and what comes out
rearrange.py   an encoding in another order
causal.py      every next token
chat.py        what the assistant says
fim.py         the middle after what stands before and after it
documentation.py  a body after its comment, a comment after its code
    documented.py     which comments are about what
    given_away.py     what a comment says verbatim of code
"""

from collections.abc import Callable, Mapping

from curriculum.objectives import causal, chat, documentation, fim
from curriculum.objectives.lesson import Document, Lesson, Taught
from curriculum.tokens.codec import Tokenizer

__all__ = ["REVISIONS", "Document", "Lesson", "Taught", "lesson_of"]

_LESSONS: Mapping[str, Callable[[Tokenizer, int], Lesson]] = {
    "causal": causal.lesson,
    "chat": chat.lesson,
    "code_to_doc": documentation.code_to_doc,
    "doc_to_code": documentation.doc_to_code,
    "fim": fim.lesson,
}
REVISIONS: Mapping[str, int] = {
    "causal": causal.REVISION,
    "chat": chat.REVISION,
    "code_to_doc": documentation.REVISION,
    "doc_to_code": documentation.REVISION,
    "fim": fim.REVISION,
}
"""By objective, of what changes the rows that it gives."""


def lesson_of(objective: str, tokenizer: Tokenizer, *, variant: int) -> Lesson:
    """The lesson of a buildable objective; variants of one draw otherwise.

    Raises:
        TokenizerError: for a tokenizer without a control token that the objective needs.
    """
    return _LESSONS[objective](tokenizer, variant)
