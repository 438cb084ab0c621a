"""Targets are the inputs, one further; the loss mask says where they count."""

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]


def target_ids(input_ids: Int32s, loss_mask: npt.NDArray[np.uint8], pad_id: int) -> Int32s:
    """The token after each, pad_id where it doesn't count: [5 6 7 8] masked [1 0 1 0] -> [6 P 8 P].

    Any number of rows, as [n, T] or end to end. The shift reads past each row's end; it can't be seen,
    because the mask is 0 at the last token of every document, and so at the last of every row.
    """
    targets = np.empty_like(input_ids)
    flat = targets.reshape(-1)
    flat[:-1] = input_ids.reshape(-1)[1:]
    flat[-1:] = pad_id
    np.putmask(targets, loss_mask == 0, pad_id)
    return targets
