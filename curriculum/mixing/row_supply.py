"""Supply of rows: the columns of a rows artefact that planning needs, without the tokens."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import parquet
from schemas.errors import SchemaError

KEY_DIGITS = 12
INDEX_DIGITS = 10
"""Digits of the index in a pack_id, which is `<first 12 digits of the rows' key>-<index>`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """The rows of one artefact, numbered across all shards; takes 22 bytes of memory per row."""

    key: str
    domains: tuple[str, ...]
    """Names of the domains, sorted."""
    domain: npt.NDArray[np.int16]
    """Domain of each row as an index into `domains`, [n]."""
    valid_tokens: npt.NDArray[np.int32]
    """Number of valid tokens in each row, [n]."""
    attention_pairs: npt.NDArray[np.int64]
    """Number of attention pairs in each row, [n]."""
    pack_index: npt.NDArray[np.int64]
    """Number after the dash in each row's pack_id, [n]."""
    shard_starts: npt.NDArray[np.int64]
    """Number of each shard's first row, followed by the number of all rows, [shards + 1]."""
    left_out: npt.NDArray[np.bool_] | None = None
    """True for each row that is excluded from plans, [n]; None if no row is excluded."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.valid_tokens)

    def rows_of(self, domain: str) -> npt.NDArray[np.int64]:
        """Return the row numbers of `domain`, ascending; excluded rows are included."""
        return np.flatnonzero(self.domain == self.domains.index(domain))

    def tokens_of(self, domain: str) -> int:
        """Return the number of valid tokens in the rows of `domain`; excluded rows don't count."""
        rows = self.rows_of(domain)
        there = rows if self.left_out is None else rows[~self.left_out[rows]]
        return int(self.valid_tokens[there].sum(dtype=np.int64))


def read_supply(files: Sequence[Path], *, key: str, without: Collection[str] = ()) -> Supply:
    """Return the supply in the shards `files` of a rows artefact, in shard order.

    `without` are the pack_ids of excluded rows.

    Raises:
        SchemaError: for a pack_id that doesn't belong to these rows.
    """
    names: dict[str, int] = {}
    shards = [_read_shard(file, key, names) for file in files]
    order = sorted(names)
    ranks = np.empty(len(order), dtype=np.int16)
    ranks[[names[name] for name in order]] = np.arange(len(order), dtype=np.int16)
    codes = np.concatenate([np.empty(0, np.int16), *(shard.domain for shard in shards)])
    indices = np.concatenate([np.empty(0, np.int64), *(shard.index for shard in shards)])
    begin = f"{key[:KEY_DIGITS]}-"
    left_out = [int(pack.removeprefix(begin)) for pack in without if pack.startswith(begin)]
    return Supply(
        key=key,
        domains=tuple(order),
        domain=ranks[codes],
        valid_tokens=np.concatenate([np.empty(0, np.int32), *(shard.tokens for shard in shards)]),
        attention_pairs=np.concatenate([np.empty(0, np.int64), *(shard.pairs for shard in shards)]),
        pack_index=indices,
        shard_starts=np.cumsum([0, *(len(shard.index) for shard in shards)], dtype=np.int64),
        left_out=np.isin(indices, left_out) if without else None,
    )


def estimate_supply(
    amounts: Mapping[str, float], row_length: int, *, key: str = "estimate"
) -> Supply:
    """Return rows as a build would make them; `amounts` is the number of valid tokens per domain.

    >>> found = estimate_supply({"general": 1000.0, "testing": 300.0}, 512)
    >>> found.domains, found.valid_tokens.tolist()
    (('general', 'testing'), [500, 500, 300])
    """
    domains = tuple(sorted(name for name, tokens in amounts.items() if round(tokens)))
    tokens = [round(amounts[name]) for name in domains]
    rows = [-(-count // row_length) for count in tokens]
    valid = [np.full(n, count // n) for n, count in zip(rows, tokens, strict=True)]
    for count, own in zip(tokens, valid, strict=True):
        own[: count % len(own)] += 1
    count = sum(rows)
    return Supply(
        key=key,
        domains=domains,
        domain=np.repeat(np.arange(len(domains), dtype=np.int16), rows),
        valid_tokens=np.concatenate([np.empty(0, np.int32), *valid]).astype(np.int32),
        attention_pairs=np.zeros(count, dtype=np.int64),
        pack_index=np.arange(count, dtype=np.int64),
        shard_starts=np.array([0, count], dtype=np.int64),
    )


def pack_ids(keys: pl.Series, indices: npt.NDArray[np.int64]) -> pl.Series:
    """Return the pack_ids of rows, given the key of each row's artefact and the row's pack index.

    >>> pack_ids(pl.Series(["ab" * 32]), np.array([17])).to_list()
    ['abababababab-0000000017']
    """
    digits = pl.Series(indices).cast(pl.String).str.zfill(INDEX_DIGITS)
    return keys.str.head(KEY_DIGITS) + "-" + digits


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shard:
    """Columns of one file of rows; all arrays are [n]."""

    domain: npt.NDArray[np.int16]
    """Domain of each row as a number; domains are numbered in order of first appearance."""
    tokens: npt.NDArray[np.int32]
    pairs: npt.NDArray[np.int64]
    index: npt.NDArray[np.int64]


def _read_shard(file: Path, key: str, names: dict[str, int]) -> _Shard:
    table = parquet.read_table(file, ["pack_id", "domain", "valid_token_count", "attention_pairs"])
    frame = pl.DataFrame(pl.from_arrow(table))
    for name in frame["domain"].unique(maintain_order=True):
        names.setdefault(name, len(names))
    prefix = f"{key[:KEY_DIGITS]}-"
    packs = frame["pack_id"]
    indices = packs.str.tail(INDEX_DIGITS).cast(pl.Int64, strict=False)
    right = packs.str.starts_with(prefix) & indices.is_not_null()
    if not right.all():
        at = int((~right).arg_max() or 0)
        raise SchemaError(
            f"row {at} of {file.name}",
            f"pack_id {packs[at]!r}",
            cause=f"the rows' pack_ids begin with {prefix}",
            cure="Build the rows again",
        )
    return _Shard(
        domain=frame["domain"].replace_strict(names, return_dtype=pl.Int16).to_numpy(),
        tokens=frame["valid_token_count"].cast(pl.Int32).to_numpy(),
        pairs=frame["attention_pairs"].cast(pl.Int64).to_numpy(),
        index=indices.to_numpy(),
    )
