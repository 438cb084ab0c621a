"""A lesson between fitting and structure: what joins objectives to encodings."""

from dataclasses import replace

from curriculum.encode import Fitted, Teach, Tokenised
from curriculum.objectives import Document, Lesson


def taught_by(lesson: Lesson) -> Teach:
    """What a lesson makes of each encoding of a document, and what it counts."""

    def teach(document: Tokenised, fitted: Fitted) -> Fitted:
        known = Document(
            flat_id=document.flat_id,
            spans=document.spans,
            part_bytes=document.part_bytes,
            part_kinds=document.part_kinds,
        )
        taught = [lesson.teach(encoding, known) for encoding in fitted.encodings]
        return replace(
            fitted,
            encodings=tuple(each.encoding for each in taught),
            taught=tuple(count for each in taught for count in each.counts),
        )

    return teach
