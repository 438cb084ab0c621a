"""chat: a conversation as it was, a part a turn; who speaks is the part's kind, not text.

An answer that is only context has a span `unscored`. Control tokens for the roles come with the tokenizer,
when rows are made.
"""

from itertools import accumulate, pairwise

from schemas.change import Conversation
from schemas.document import Document, Part, Provenance, Span
from schemas.families import CHAT_FAMILY


def document(conversation: Conversation) -> Document:
    """The document of a conversation.

    A turn is whole lines, so that the next begins one: line feeds around it become one behind it.
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
    r"""The text as whole lines.

    >>> _lines("\n  a\r\nb\r\rc\n\n")
    '  a\nb\n\nc\n'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n") + "\n"
