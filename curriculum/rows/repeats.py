"""Rule 8 of the packed row: nothing is scored that its document has before, where the objective says so."""

import numpy as np
import numpy.typing as npt

from curriculum.repeats import REPEAT_FREE, RUN, in_repeats
from curriculum.rows.columns import Columns
from curriculum.rows.faults import Place, Rule
from curriculum.rows.layout import Layout

Bools = npt.NDArray[np.bool_]
_FREE = {name.encode() for name in REPEAT_FREE}


def repeats(columns: Columns, layout: Layout, place: Place) -> int:
    """How many scored tokens lie in runs of RUN tokens that stand earlier in their document.

    Where the objective isn't stored, they are only counted.
    """
    repeated = _repeated(columns, layout)
    scored = np.zeros_like(repeated)
    scored[:, :-1] = repeated[:, 1:] & (columns.tokens("loss_mask")[:, :-1] == 1)
    if columns.has("objective"):
        objectives = columns.text("objective")
        forbidden = np.array([each in _FREE for each in objectives], dtype=np.bool_)
        place.wrong_tokens(
            Rule.REPEATS,
            scored & forbidden[:, None],
            f"{', '.join(REPEAT_FREE)} score no run of {RUN} tokens that stands there before",
            lambda i, t: (
                f"token {t + 1} is a target in a run of {_length(repeated[i], t + 1)} tokens "
                f"that its document has before"
            ),
        )
    return int(scored.sum())


def _repeated(columns: Columns, layout: Layout) -> Bools:
    """[n, T]: which tokens lie in repeats."""
    ids = columns.tokens("input_ids")
    valid = np.arange(layout.row_length) < layout.valid[:, None]
    repeated = np.zeros(ids.shape, dtype=np.bool_)
    repeated[valid] = in_repeats(ids[valid], np.cumsum(layout.lengths) - layout.lengths)
    return repeated


def _length(repeated: Bools, token: int) -> int:
    """Of the stretch of repeated tokens around one: [0 1 1 0 1] has 2 around 1."""
    others = np.flatnonzero(~repeated)
    before, after = others[others < token], others[others > token]
    first = int(before[-1]) + 1 if len(before) else 0
    return (int(after[0]) if len(after) else len(repeated)) - first
