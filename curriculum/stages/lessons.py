"""A lesson between fitting and structure: what joins objectives to encodings."""

from collections.abc import Iterable
from dataclasses import replace

from curriculum.encode import Fitted, Teach, Tokenised
from curriculum.objectives import Document, Lesson, lesson_of
from curriculum.stages.row_sources import Wanted
from curriculum.stages.tokens import Tokenizing
from curriculum.tokens.codec import Tokenizer


def check_lessons(tokenizing: Tokenizing, wanted: Iterable[Wanted]) -> None:
    """Pass if a given tokenizer has what the objectives need, before anything is read; a trained one has.

    Raises:
        TokenizerError: for the first that it can't serve.
    """
    if tokenizing.file:
        tokenizer = Tokenizer.load(tokenizing.file, tokenizing.roles)
        for objective in sorted({each.objective for each in wanted}):
            lesson_of(objective, tokenizer, variant=0)


def taught_by(lesson: Lesson, *, row_length: int) -> Teach:
    """What a lesson makes of each encoding of a document for rows of one length, and what it counts."""

    def teach(document: Tokenised, fitted: Fitted) -> Fitted:
        known = Document(
            flat_id=document.flat_id,
            spans=document.spans,
            part_bytes=document.part_bytes,
            part_kinds=document.part_kinds,
            room=row_length,
        )
        taught = [lesson.teach(encoding, known) for encoding in fitted.encodings]
        return replace(
            fitted,
            encodings=tuple(each.encoding for each in taught),
            taught=tuple(count for each in taught for count in each.counts),
        )

    return teach
