"""Shards of a build: machines that divide its tasks among them without communication."""

import re
from dataclasses import dataclass

from schemas.errors import DietError


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One of `number` builds that divide the tasks among them; this one runs every `number`-th task."""

    index: int
    """0-based number of the shard."""
    number: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard that is written as i/n, with i counted from 1.

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
                cause="the value must be i/n with i from 1 to n",
                cure="For three shards, use 1/3, 2/3 and 3/3",
            )
        return cls(index=int(found[1]) - 1, number=int(found[2]))

    def owns(self, at: int) -> bool:
        """Return True if the task at an index belongs to this shard.

        >>> [at for at in range(5) if Shard(index=1, number=3).owns(at)]
        [1, 4]
        """
        return at % self.number == self.index
