"""splitmix64 finalizer: mixes 64-bit words so that every output bit depends on every input bit."""

import numpy as np
import numpy.typing as npt

UInt64s = npt.NDArray[np.uint64]


def mixed_words(words: UInt64s) -> UInt64s:
    """Map 64-bit words one-to-one to words that look random, even for the inputs 0, 1, 2 and so on.

    >>> [f"{word:016x}" for word in mixed_words(np.arange(3, dtype=np.uint64))]
    ['0000000000000000', '5692161d100b05e5', 'dbd238973a2b148a']
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
