"""chat: an unchanged conversation with one part per turn.

The speaker of a turn is the kind of its part and is not written as text. An answer that serves only as
context has a span `unscored`. The tokenizer adds control tokens for the roles when rows are built.
"""

from itertools import accumulate, pairwise

from schemas.change import Conversation
from schemas.document import Document, Part, Provenance, Span
from schemas.families import CHAT_FAMILY


def document(conversation: Conversation) -> Document:
    """Return the document of a conversation.

    The text of each turn consists of whole lines: line feeds around it are replaced by a single one at its
    end.
    """
    texts = [_lines(turn.text) for turn in conversation.turns]
    borders = [*pairwise(accumulate((len(text.encode()) for text in texts), initial=0))]
    lineage = f"{conversation.source}:{conversation.name}"
    return Document(
        text="".join(texts),
        family=CHAT_FAMILY,
        language="",
        licence=conversation.licence,
        timestamp=0,
        parts=tuple(
            Part(kind=turn.role, start=start, end=end, source=0)
            for turn, (start, end) in zip(conversation.turns, borders, strict=True)
        ),
        spans=tuple(
            Span(kind="unscored", start=start, end=end)
            for turn, (start, end) in zip(conversation.turns, borders, strict=True)
            if turn.is_context
        ),
        provenance=(
            Provenance(
                repository=conversation.source,
                commit=conversation.pin,
                path=f"{conversation.file}:{conversation.line}",
                blob=conversation.digest,
                start=conversation.start,
                end=conversation.end,
                lineage=lineage,
                licence=conversation.licence,
            ),
        ),
        lineage=lineage,
    )


def _lines(text: str) -> str:
    r"""Return `text` with `\n` line ends; all line feeds around it are replaced by one at its end.

    >>> _lines("\n  a\r\nb\r\rc\n\n")
    '  a\nb\n\nc\n'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n") + "\n"
