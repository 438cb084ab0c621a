"""Shards of a build: machines that share its tasks without a word between them."""

import re
from dataclasses import dataclass

from schemas.errors import DietError


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One of several builds that share the work without a word between them: every n-th task is its own."""

    index: int
    """Number of the shard, from 0."""
    number: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that a text names: i/n, from 1 on.

        >>> Shard.parse("1/3")
        Shard(index=0, number=3)

        Raises:
            DietError: for any other text.
        """
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise DietError(
                "--shard",
                text,
                cause="it isn't i/n with i from 1 to n",
                cure="Of three shards the first is 1/3, the last 3/3",
            )
        return cls(index=int(found[1]) - 1, number=int(found[2]))

    def owns(self, at: int) -> bool:
        """Return True if the task at an index is this shard's.

        >>> [at for at in range(5) if Shard(index=1, number=3).owns(at)]
        [1, 4]
        """
        return at % self.number == self.index
