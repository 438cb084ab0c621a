"""What a documentation says verbatim of the body below: an example that is its code, a formula, a copy.

A line gives the body away where it has a part in a run of GIVEN_AWAY words and marks that stands in the
body too. Blanks don't count, since neither indentation nor the spaces in an expression hide a copy. Not
tokens, since what is masked mustn't depend on a vocabulary, nor on what begins a line of comment; and not
bytes, since a name of thirty of them is what a comment has to share with code.
"""

import re

import numpy as np

from curriculum.objectives.documented import END, START, Bools, Int32s, Lines
from curriculum.repeats import Int64s, covered, first_copies

GIVEN_AWAY = 8
"""Words and marks; `return a.first < b.first;` has nine."""
_UNIT = re.compile(rb"[\w\x80-\xff]+|[^\w\s]")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_OPENING = re.compile(rb"/\*[*!]?<?")
_WORD = re.compile(rb"\w")


def given_away(lines: Lines, found: Int32s) -> tuple[Int32s, Bools]:
    """Bytes to mask, [r, 2], sorted and disjoint, and by documentation whether no word of it is left then.

    `found` is `documented` where there are bodies, and their comments stand whole in the encoding.
    """
    told = _told(lines, found)
    wordless = np.zeros(len(found), dtype=np.bool_)
    masked = [np.empty((0, 2), dtype=np.int32)]
    comments = np.searchsorted(found[:, START], told, side="right") - 1
    for number in np.unique(comments).tolist():
        low = int(lines.starts_of(found[number : number + 1, START])[0])
        high = int(lines.ends_of(found[number : number + 1, END] - 1)[0])
        comment = lines.text(low, high)
        gone = masked_bytes(comment, told[comments == number] - low)
        left = np.frombuffer(comment, dtype=np.uint8)[~gone].tobytes()
        wordless[number] = _WORD.search(left) is None
        masked.append(_ranges_of(gone) + low)
    return np.concatenate(masked), wordless


def masked_bytes(comment: bytes, told: Int64s) -> Bools:
    r"""[n]: which bytes of a comment's lines go, so that no line is left with a byte of `told`.

    Where some lines of a block comment stay, what opens and closes it does too.

    >>> comment = b"/** Adds:\n *  a + b\n */\n"
    >>> gone = masked_bytes(comment, np.array([5, 14]))
    >>> bytes(byte for byte, is_gone in zip(comment, gone) if not is_gone)
    b'/**\n */\n'
    """
    data = np.frombuffer(comment, dtype=np.uint8)
    newlines = np.flatnonzero(data == ord("\n"))
    line = np.searchsorted(newlines, np.arange(len(data)))
    goes = np.zeros(len(newlines) + 1, dtype=np.bool_)
    goes[line[told]] = True
    gone: Bools = goes[line]
    for each in _COMMENT.finditer(comment):
        first, last = line[each.start()], line[each.end() - 1]
        opening = _OPENING.match(comment, each.start())
        if opening is not None and not goes[first : last + 1].all():
            gone[each.start() : opening.end()] = False
            gone[newlines[[first, last]]] = False
            gone[each.end() - len("*/") : each.end()] = False
    return gone


def _told(lines: Lines, found: Int32s) -> Int64s:
    """The first bytes of words and marks of comments that stand in runs of their bodies, sorted."""
    numbers: dict[bytes, int] = {}
    units: list[int] = []
    places: list[int] = []
    firsts: list[int] = []
    code_ends: list[int] = []
    for start, end, _, body, last in found.tolist():
        code = _UNIT.findall(lines.text(body, last))
        comment = list(_UNIT.finditer(lines.text(start, end)))
        firsts.append(len(units))
        code_ends += [len(units) + len(code)] * (len(code) + len(comment))
        places += [-1] * len(code)
        places += [start + each.start() for each in comment]
        units += [numbers.setdefault(each, len(numbers)) for each in code]
        units += [numbers.setdefault(each.group(), len(numbers)) for each in comment]
    at = np.array(places, dtype=np.int64)
    copies = first_copies(np.array(units, dtype=np.int64), np.array(firsts), run=GIVEN_AWAY)
    copies[(at < 0) | (copies > np.array(code_ends, dtype=np.int64) - GIVEN_AWAY)] = -1
    return at[covered(copies, GIVEN_AWAY)]


def _ranges_of(chosen: Bools) -> Int32s:
    """[r, 2]: where runs begin and end: [0 1 1 0 1] -> [1 3) [4 5)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int32)
