"""The text of a row, cut into its tokens, in a form that is small and that a script takes apart."""

import codecs
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.inspection.packed_rows import RowView
from curriculum.tokens.codec import Tokenizer
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
