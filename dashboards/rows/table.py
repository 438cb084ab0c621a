"""Documents of a row as a table, and their text cut into tokens for the script."""

import codecs
import datetime
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.inspection.formats import number, percent
from curriculum.inspection.rows import DocumentInRow, FileRange, RowView, Source
from curriculum.tokens.codec import Tokenizer
from dashboards.html import escaped
from schemas.visible import visible

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""Digits of written lengths: a letter has two digits of three bits."""
MOST = 7
"""The digit that says that the next one is to be added to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """Text of each document of a row, with hidden characters escaped, and the lengths of its tokens."""

    texts: tuple[str, ...]
    lengths: str
    """Lengths of all documents' tokens in a row, in UTF-16 units, as `written` has them."""


def texts_of(shown: RowView, tokenizer: Tokenizer) -> Texts:
    """The documents' texts; a character of several tokens belongs to the one that completes it."""
    special = tokenizer.special
    known: dict[int, bytes] = {}
    texts, lengths = [], list[int]()
    for part in shown.parts:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        said = []
        ids = shown.row.input_ids[part.start : part.end]
        for at, token in enumerate(ids, start=1):
            if token not in known:
                is_control = bool(special[token])
                known[token] = (
                    tokenizer.decode([token]).encode()
                    if is_control
                    else tokenizer.decode_bytes([token])
                )
            # Escaped here, since a script cuts the text by these lengths.
            text = visible(decoder.decode(known[token], final=at == len(ids)))
            said.append(text)
            lengths.append(_units(text))
        texts.append("".join(said))
    return Texts(texts=tuple(texts), lengths=written(lengths))


def _units(text: str) -> int:
    """The length of a text for a script: in UTF-16."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def written(lengths: Iterable[int]) -> str:
    """Lengths as digits.

    >>> written([0, 2]), written([7, 9, 1]), written([3])
    ('C', '46P', 'f')
    """
    digits = [digit for each in lengths for digit in (*[MOST] * (each // MOST), each % MOST)]
    if len(digits) % 2:
        digits.append(MOST)
    return "".join(
        DIGITS[8 * one + two] for one, two in zip(digits[::2], digits[1::2], strict=True)
    )


def runs(flags: Sequence[bool] | npt.NDArray[np.bool_]) -> list[int]:
    """The lengths of runs that are in turn unset and set, beginning with an unset one.

    >>> runs([True, True, False, True])
    [0, 2, 1, 1]
    """
    values = np.asarray(flags, dtype=np.int8)
    edges = np.flatnonzero(np.diff(values, prepend=0)).tolist()
    return [end - start for start, end in itertools.pairwise((0, *edges, len(values)))]


def scored(shown: RowView) -> npt.NDArray[np.bool_]:
    """[T]: whether a prediction of each token counts, which the token before it makes."""
    mask = np.asarray(shown.row.loss_mask, dtype=np.bool_)
    return np.concatenate([[False], mask[:-1]])


def generated(shown: RowView) -> npt.NDArray[np.bool_]:
    """[T]: whether each token is one that no document holds."""
    flags = np.zeros(shown.length, dtype=np.bool_)
    for start, end in shown.generated:
        flags[start:end] = True
    return flags


def codes(shown: RowView) -> list[int]:
    """Structure codes and the lengths of their runs, in turn; empty where the row has no structure."""
    if not shown.row.is_structured:
        return []
    return [*itertools.chain.from_iterable(_coded(shown.row.structure_ids[: shown.row.valid]))]


def _coded(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    for code, run in itertools.groupby(values):
        yield code, sum(1 for _ in run)


COMMIT_DIGITS = 10
MOST_LINES = 100
"""Documents whose lines are written; the script adds those of the others, of what `rest` tells it."""
MOST_PLACES = 40
"""Files of a document that are listed."""


def table(parts: Sequence[DocumentInRow], place: str) -> str:
    """A line a document; it links to its text, whose place begins with `place`."""
    heads = (
        '<th class="n">#</th><th>repository</th><th>commit</th><th>path</th><th>licence</th>'
        '<th class="n">from</th><th class="n">tokens</th><th class="n">scored</th>'
    )
    lines = "".join(_line(part, at, place) for at, part in enumerate(parts[:MOST_LINES]))
    left = len(parts) - MOST_LINES
    more = f'<p class="more">and {left:,} more, each told above its text</p>' if left > 0 else ""
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="Documents"><table><thead><tr>{heads}'
        f'</tr></thead><tbody class="lines">{lines}</tbody></table>{more}</div>'
    )


# End tags and quotes that HTML can do without are left out: there may be thousands of lines.
def _line(part: DocumentInRow, at: int, place: str) -> str:
    repository, commit, licence, share = (escaped(each) for each in _words(part))
    return (
        f"<tr><th scope=row><a href=#{place}d{at}>{at}</a><td>{repository}<td>{commit}"
        f"<td><bdi>{escaped(_name(part))}</bdi><td>{licence}"
        f"<td>{part.start:,}<td>{part.tokens:,}<td>{share}"
    )


def rest(parts: Sequence[DocumentInRow]) -> tuple[list[str], list[int]]:
    """Return the words of unwritten lines, each once, and the numbers of four words for each line."""
    numbers: dict[str, int] = {}
    said = (visible(word) for part in parts[MOST_LINES:] for word in _words(part))
    lines = [numbers.setdefault(word, len(numbers)) for word in said]
    return list(numbers), lines


def _words(part: DocumentInRow) -> tuple[str, str, str, str]:
    first = part.source.first
    share = percent(part.scored / part.tokens)
    return first.repository, first.commit[:COMMIT_DIGITS], part.source.licence or "", share


def _name(part: DocumentInRow) -> str:
    return part.source.first.path or part.document_id or "unknown"


def texts(parts: Sequence[DocumentInRow], said: Sequence[str], place: str) -> Iterator[str]:
    """Each document's text as it is trained on."""
    for at, (part, text) in enumerate(zip(parts, said, strict=True)):
        # The parser drops one line feed after <pre>.
        yield (
            f"<section class=doc id={place}d{at}>{_head(part, at)}"
            f"<pre>\n{escaped(text)}</pre></section>"
        )


def _head(part: DocumentInRow, at: int) -> str:
    facts = " · ".join(escaped(each) for each in _facts(part))
    return f"<h3><b>{at}</b>{escaped(_name(part))}</h3><p>{facts}{_origin(part)}"


def _facts(part: DocumentInRow) -> Iterator[str]:
    first, source = part.source.first, part.source
    if first.commit:
        yield f"{first.repository} at {first.commit}"
    else:
        yield "its documents artefact is gone"
    if source.timestamp:
        then = datetime.datetime.fromtimestamp(source.timestamp, datetime.UTC)
        yield f"{then.day} {then:%b %Y}"
    if source.licence:
        yield source.licence
    yield f"{number(part.tokens, 'token')} from {part.start:,}"
    if part.scored < part.tokens - 1:
        yield f"{part.scored:,} scored"
    if 0 < part.last_byte - part.first_byte < source.num_bytes:
        yield f"bytes {part.first_byte:,} to {part.last_byte:,} of {source.num_bytes:,}"


def _origin(part: DocumentInRow) -> str:
    """The document's id and all that it was made of, folded away; of each file what its head doesn't say."""
    places = _merged(part.source)
    if not part.document_id:
        return ""
    listed = "".join(_place(each, part.source.first) for each in places[:MOST_PLACES])
    left = len(places) - MOST_PLACES
    more = f"<li>and {left:,} more" if left > 0 else ""
    return (
        f"<details><summary>made of {number(len(places), 'file')}</summary>"
        f"document <code>{escaped(part.document_id)}</code><ul>{listed}{more}</ul></details>"
    )


def _place(place: FileRange, first: FileRange) -> str:
    """A file: its path unless it is the document's own, its repository and commit where they are others."""
    size = f"{place.num_bytes:,} bytes"
    elsewhere = [place.repository] if place.repository != first.repository else []
    if place.commit != first.commit:
        elsewhere.append(place.commit[:COMMIT_DIGITS])
    if not elsewhere and place.path == first.path:
        return f"<li>this file, {size}"
    at = " ".join(escaped(each) for each in [*elsewhere, ""])
    return f"<li>{at}<b>{escaped(place.path)}</b> {size}"


def _merged(source: Source) -> list[FileRange]:
    """Places of one file at one commit as one, in the order in which they came first."""
    sizes: dict[tuple[str, str, str], int] = {}
    for each in source.places:
        name = (each.repository, each.commit, each.path)
        sizes[name] = sizes.get(name, 0) + each.num_bytes
    return [
        FileRange(repository=repository, commit=commit, path=path, num_bytes=size)
        for (repository, commit, path), size in sizes.items()
    ]
