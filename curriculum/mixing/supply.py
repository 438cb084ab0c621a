"""Supply of a mixture, from the small columns of rows, and the demand of each stratum."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames, parquet
from curriculum.mixing.resolve import DietFault, ResolvedPhase, ResolvedServing
from schemas.errors import DietFieldError, MixtureError, SchemaError
from schemas.mistakes import nearest
from schemas.mixture import SourceRepetition, cut_to
from schemas.objectives import ANCHOR_SET

KEY_DIGITS = 12
INDEX_DIGITS = 10
"""pack_id is `<first 12 digits of the rows' key>-<index, 10 digits>`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """The rows of one serving, by their number over all shards; 22 bytes a row."""

    key: str
    domains: tuple[str, ...]
    """Sorted."""
    domain: npt.NDArray[np.int16]
    """[n], index into domains."""
    valid_tokens: npt.NDArray[np.int32]
    """[n]"""
    attention_pairs: npt.NDArray[np.int64]
    """[n]"""
    pack_index: npt.NDArray[np.int64]
    """[n], the digits after the dash of pack_id."""
    shard_starts: npt.NDArray[np.int64]
    """[shards + 1], the number of each shard's first row, and of all rows."""
    left_out: npt.NDArray[np.bool_] | None = None
    """[n], rows that no plan may take; None for none."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.valid_tokens)

    def rows_of(self, domain: str) -> npt.NDArray[np.int64]:
        """The numbers of the rows of one domain, ascending, those among them that are left out."""
        return np.flatnonzero(self.domain == self.domains.index(domain))

    def tokens_of(self, domain: str) -> int:
        """The valid tokens of one domain in rows that aren't left out."""
        rows = self.rows_of(domain)
        there = rows if self.left_out is None else rows[~self.left_out[rows]]
        return int(self.valid_tokens[there].sum(dtype=np.int64))


def read_supply(files: Sequence[Path], *, key: str, without: Collection[str] = ()) -> Supply:
    """The supply in the shards of a rows artefact, in shard order; `without` are pack_ids to leave out.

    Raises:
        SchemaError: for a pack_id that isn't of these rows.
    """
    names: dict[str, int] = {}
    shards = [_read_shard(file, key, names) for file in files]
    order = sorted(names)
    ranks = np.empty(len(order), dtype=np.int16)
    ranks[[names[name] for name in order]] = np.arange(len(order), dtype=np.int16)
    codes = np.concatenate([np.empty(0, np.int16), *(shard.domain for shard in shards)])
    indices = np.concatenate([np.empty(0, np.int64), *(each.index for each in shards)])
    return Supply(
        key=key,
        domains=tuple(order),
        domain=ranks[codes],
        valid_tokens=np.concatenate([np.empty(0, np.int32), *(each.tokens for each in shards)]),
        attention_pairs=np.concatenate([np.empty(0, np.int64), *(each.pairs for each in shards)]),
        pack_index=indices,
        shard_starts=np.cumsum([0, *(len(each.index) for each in shards)], dtype=np.int64),
        left_out=np.isin(indices, _indices(without, key)) if without else None,
    )


def pack_ids(keys: pl.Series, indices: npt.NDArray[np.int64]) -> pl.Series:
    """The pack_ids of rows, from the full key of each and its index.

    >>> pack_ids(pl.Series(["ab" * 32]), np.array([17])).to_list()
    ['abababababab-0000000017']
    """
    digits = pl.Series(indices).cast(pl.String).str.zfill(INDEX_DIGITS)
    return keys.str.head(KEY_DIGITS) + "-" + digits


def _indices(packs: Collection[str], key: str) -> npt.NDArray[np.int64]:
    """The indices of those pack_ids that are of these rows."""
    mine = [each for each in packs if each.startswith(f"{key[:KEY_DIGITS]}-")]
    return np.array([int(each[KEY_DIGITS + 1 :]) for each in mine], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shard:
    """Columns that are read of one file of rows, [n] each."""

    domain: npt.NDArray[np.int16]
    """Numbers in the order in which domains were met."""
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


READ = ("domain", "document_ids", "doc_starts", "valid_token_count")
"""The columns of rows that are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtefactUse:
    """Rows that some plan took of one rows artefact in one domain."""

    key: str
    files: tuple[Path, ...]
    domain: str
    repetition: float
    """Times that a row is seen, on average."""


def source_repetition(
    draws: Sequence[ArtefactUse], documents: pl.LazyFrame, *, limit: float
) -> SourceRepetition:
    """Tokens seen of each lineage ÷ its distinct tokens, over all draws.

    `documents` has `document_id` and `lineage`. A lineage's distinct tokens are those of the rows
    artefact that holds most of it: inside one family every document is another text, while families
    say the same again. Rows of a domain count with their mean repetition. What breaks first at scale
    is the join's table of documents, some 100 bytes each.
    """
    # a text that stands in two repositories is one document, and counts for one of its lineages
    distinct = documents.group_by("document_id").agg(pl.col("lineage").min())
    seen = [_tokens_by_lineage(draw, distinct) for draw in draws]
    lineages = (
        pl.concat(seen)
        .group_by("lineage", "key", "domain")
        .agg(pl.col("tokens").first(), pl.col("seen").sum())
        .group_by("lineage", "key")
        .agg(pl.col("tokens").sum(), pl.col("seen").sum())
        .group_by("lineage")
        .agg(pl.col("tokens").max(), pl.col("seen").sum())
        .with_columns((pl.col("seen") / pl.col("tokens")).alias("repetition"))
        .sort(["repetition", "lineage"], descending=[True, False])
        .collect(engine="streaming")
    )
    top = lineages.head(10)
    return SourceRepetition(
        lineages=lineages.height,
        mean=_rounded(float(lineages["seen"].sum()) / max(1, int(lineages["tokens"].sum()))),
        limit=limit,
        above=int((lineages["repetition"] > limit).sum()),
        most=tuple(
            (lineage, _rounded(repetition))
            for lineage, repetition in zip(top["lineage"], top["repetition"], strict=True)
        ),
    )


def warning(found: SourceRepetition) -> str | None:
    """Return a warning where source files are seen too often; None where they aren't."""
    if not found.above:
        return None
    lineage, times = found.most[0]
    return (
        f"{found.above} of {found.lineages} source files are seen more than {found.limit:g} times over "
        f"all servings and phases ({lineage} {times:g} times). Lower token_budget, drop a serving that "
        "renders the same commits, or enlarge the corpus"
    )


def _tokens_by_lineage(draw: ArtefactUse, documents: pl.LazyFrame) -> pl.LazyFrame:
    """Tokens that a rows artefact's domain holds of each lineage, and how many of them are seen."""
    ends = pl.col("doc_starts").list.slice(1).list.concat(pl.col("valid_token_count"))
    return (
        frames.scan(list(draw.files), READ)
        .filter(pl.col("domain") == draw.domain)
        .select(
            pl.col("document_ids").alias("document_id"),
            pl.col("doc_starts").alias("start"),
            ends.alias("end"),
        )
        .explode("document_id", "start", "end")
        .select("document_id", (pl.col("end") - pl.col("start")).cast(pl.Int64).alias("tokens"))
        .join(documents, on="document_id", how="inner")
        .group_by("lineage")
        .agg(pl.col("tokens").sum())
        .with_columns(
            pl.lit(draw.key).alias("key"),
            pl.lit(draw.domain).alias("domain"),
            (pl.col("tokens") * draw.repetition).alias("seen"),
        )
    )


def _rounded(value: float) -> float:
    """Sums of floats may differ in their last digits from run to run."""
    return round(value, 6)


Taken = Mapping[tuple[str, str], int]
"""Rows that earlier plans took, by (rows key, domain)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """The rows of a stratum in one variant of its objective: what one pass over them reads."""

    number: int
    """Number of the supply, among those of the serving."""
    key: str
    """Key of the rows artefact."""
    rows: npt.NDArray[np.int64]
    """Numbers of its rows in that supply."""
    tokens: int
    """Valid tokens of those rows that may be taken."""
    drawn_before: int
    """Rows of it that came before, those that were passed over among them."""
    left_out: npt.NDArray[np.bool_] | None = None
    """Flags of `rows` that are never taken; never all."""

    @property
    def available(self) -> int:
        """Rows that may be taken."""
        return len(self.rows) - (0 if self.left_out is None else int(self.left_out.sum()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """One serving in one domain: what there is of it, and what is asked."""

    serving: ResolvedServing
    domain: str
    variants: tuple[Variant, ...]
    """One, but for an objective that has several; passes read them in turn."""
    share: float
    """Share of the phase's valid tokens in the diet."""
    served: float
    """The share after a shortage was renormalised; else the same."""

    @property
    def title(self) -> str:
        """Serving and domain in words."""
        return f"{self.serving.title}, domain {self.domain}"

    @property
    def rows(self) -> int:
        """Rows of one pass, on average over the variants."""
        return round(sum(each.available for each in self.variants) / len(self.variants))

    @property
    def tokens(self) -> int:
        """Valid tokens of one pass, on average over the variants."""
        return _mean_tokens(self.variants)

    def slots_per_token(self, slot_length: int) -> float:
        """Slots that hold one valid token of it: how often it must come for its share."""
        rows_per_slot = slot_length // self.serving.row_length
        rows = sum(each.available for each in self.variants)
        return rows / (rows_per_slot * sum(each.tokens for each in self.variants))


def demand(
    phase: ResolvedPhase, supplies: Sequence[Sequence[Supply]], taken: Taken | None = None
) -> tuple[Stratum, ...]:
    """The strata of a phase, by serving and domain; their `served` sum to 1.

    `supplies` hold the training rows of each serving, in the servings' order: one of each variant.
    A domain that has no rows has no stratum, whatever its factor.

    Raises:
        MixtureError: for a serving that has no rows, and for a stratum of which more is asked than
            max_repetition times what there is, unless the phase renormalises its shares.
    """
    assert len(supplies) == len(phase.servings)
    strata = [
        stratum
        for serving, variants in zip(phase.servings, supplies, strict=True)
        for stratum in _strata(serving, variants, taken or {})
    ]
    empty = [
        serving
        for serving in phase.servings
        if not any(stratum.serving.index == serving.index for stratum in strata)
    ]
    if empty and (phase.on_shortage == "stop" or not strata):
        raise MixtureError(
            f"phase {phase.name}",
            empty[0].title,
            cause="there is no row of it",
            cure="Take the serving out, or build it from a larger corpus",
            location=(*phase.location, "servings", empty[0].index),
        )
    return within_supply(phase, strata)


def without_rows(phase: ResolvedPhase, strata: Sequence[Stratum]) -> Iterator[str]:
    """Yield a sentence for each domain that a diet asks for and that has no row."""
    for serving in phase.servings:
        there = {each.domain for each in strata if each.serving.index == serving.index}
        for name, factor in serving.domains:
            if factor and name not in {"*", *there}:
                yield f"{serving.title}: no row is of domain {name}, so its factor {factor:g} is idle"


def domain_faults(phases: Sequence[ResolvedPhase], known: Collection[str]) -> Iterator[DietFault]:
    """Yield factors for domains that no rule of the corpus gives, or that imported rows don't have."""
    for at, phase in enumerate(phases):
        for serving in phase.servings:
            there = known if serving.imported is None else serving.imported.domains
            for name in sorted({name for name, _ in serving.domains} - {"*", *there}):
                yield DietFault(
                    location=("phases", at, "servings", serving.index, "domains", name),
                    value=f"{phase.name}: {serving.title}: domains.{name}",
                    cause="the corpus has no such domain"
                    if serving.imported is None
                    else "no imported row is of that domain",
                    cure=nearest(name, there),
                )


def unmeasured(phases: Sequence[ResolvedPhase]) -> Iterator[str]:
    """Imported rows that nothing held out measures, a sentence each."""
    listed = [each.imported for phase in phases for each in phase.servings]
    for name in dict.fromkeys(each.name for each in listed if each and each.measured_by is None):
        yield (
            f"{name}: no rows of split val were imported under this name, so val_bpb says nothing of it. "
            f"Import some: curriculum import PATH --split val --name {name}"
        )


def check_gates(phases: Sequence[ResolvedPhase]) -> None:
    """Refuse a gate that waits for val_bpb of a set that the phase hasn't, or where nothing is held out.

    Raises:
        DietError: naming the phase.
    """
    for at, phase in enumerate(phases):
        rule = phase.advance_when
        if rule is None or rule.val_bpb is None:
            continue
        asked, location = rule.val_bpb.set, ("phases", at, "advance_when", "val_bpb")
        if asked not in phase.sets:
            raise DietFieldError(
                f"phase {phase.name}",
                f"advance_when.val_bpb.set = {asked!r}",
                location=(*location, "set"),
                cause="it serves nothing of that objective",
                cure=f"Take {' or '.join(phase.sets)}",
            )
        rows = {each.imported for each in phase.servings}
        is_blind = all(each is not None and each.measured_by is None for each in rows)
        if is_blind and asked != ANCHOR_SET:
            raise DietFieldError(
                f"phase {phase.name}",
                "advance_when.val_bpb",
                location=location,
                cause="all that it serves was imported, and nothing of split val beside",
                cure="Import rows under the same name with --split val, or leave val_bpb out",
            )


def _strata(serving: ResolvedServing, supplies: Sequence[Supply], taken: Taken) -> list[Stratum]:
    """A serving's domains: tokens of each in proportion to what there is times its factor."""
    factors = dict(serving.domains)
    domains = sorted({domain for supply in supplies for domain in supply.domains})
    rest = factors.get("*", 1.0)
    found = {name: _variants(supplies, name, taken) for name in domains}
    variants = {name: each for name, each in found.items() if each}
    weights = {name: _mean_tokens(variants[name]) * factors.get(name, rest) for name in variants}
    whole = math.fsum(weights.values())
    return [
        Stratum(
            serving=serving,
            domain=name,
            variants=variants[name],
            share=serving.share * weight / whole,
            served=serving.share * weight / whole,
        )
        for name, weight in weights.items()
        if weight > 0
    ]


def _variants(supplies: Sequence[Supply], domain: str, taken: Taken) -> tuple[Variant, ...]:
    variants = (
        Variant(
            number=number,
            key=supply.key,
            rows=(rows := supply.rows_of(domain)),
            tokens=supply.tokens_of(domain),
            drawn_before=taken.get((supply.key, domain), 0),
            left_out=None if supply.left_out is None else supply.left_out[rows],
        )
        for number, supply in enumerate(supplies)
        if domain in supply.domains
    )
    return tuple(each for each in variants if each.available)


def _mean_tokens(variants: Sequence[Variant]) -> int:
    return round(sum(each.tokens for each in variants) / len(variants))


def within_supply(phase: ResolvedPhase, strata: Sequence[Stratum]) -> tuple[Stratum, ...]:
    """The strata of a phase with the shares that they are served.

    Raises:
        MixtureError: where more is asked than max_repetition times what there is, as `demand` does.
    """
    most = [phase.max_repetition * stratum.tokens / max(phase.tokens, 1) for stratum in strata]
    whole = math.fsum(stratum.share for stratum in strata)
    shares = [stratum.share / whole for stratum in strata]
    short = [at for at, share in enumerate(shares) if share > most[at]]
    if short and phase.on_shortage == "stop":
        raise _shortage(phase, strata, [strata[at] for at in short])
    if short:
        shares = _renormalised(phase, shares, most)
    return tuple(
        replace(stratum, served=share) for stratum, share in zip(strata, shares, strict=True)
    )


def _renormalised(phase: ResolvedPhase, shares: list[float], most: list[float]) -> list[float]:
    """Shares cut to what there is, the others raised alike in their place.

    _renormalised(phase, [0.5, 0.25, 0.25], [0.2, 1.0, 1.0]) -> [0.2, 0.4, 0.4]
    """
    if math.fsum(most) < 1:
        there = int(math.fsum(most) * phase.tokens)
        raise MixtureError(
            f"phase {phase.name}",
            f"{phase.tokens:,} tokens are asked",
            cause=f"all servings together have {there:,} at max_repetition {phase.max_repetition:g}",
            cure=f"Lower token_budget to {_budget(phase, there)}, raise max_repetition or enlarge "
            "the corpus",
            location=phase.location,
        )
    return cut_to(shares, most)


def _shortage(
    phase: ResolvedPhase, strata: Sequence[Stratum], short: Sequence[Stratum]
) -> MixtureError:
    worst = max(short, key=lambda stratum: stratum.share / stratum.tokens)
    asked = worst.share * phase.tokens
    times = math.ceil(100 * asked / worst.tokens) / 100
    fitting = int(phase.max_repetition * worst.tokens / worst.share)
    others = _grouped(stratum for stratum in short if stratum is not worst)
    lower = _lower_share(phase, strata, worst)
    return MixtureError(
        f"phase {phase.name}: {worst.title}",
        f"{asked:,.0f} tokens are asked and there are {worst.tokens:,}",
        cause=f"each row would be seen {times:g} times, and max_repetition is "
        f"{phase.max_repetition:g}{f'. Too few as well: {others}' if others else ''}",
        cure=f"Lower token_budget to {_budget(phase, fitting)}, raise max_repetition to "
        f"{math.ceil(times)}, {lower}{', ' * bool(lower)}enlarge the corpus, "
        "or set on_shortage: renormalise",
        location=(*phase.location, "servings", worst.serving.index),
    )


def _lower_share(phase: ResolvedPhase, strata: Sequence[Stratum], short: Stratum) -> str:
    """The cure that lowers a stratum's share: by the factor of its domain, else by the serving's share.

    Empty for a domain without a factor in the only serving of a phase, whose share is 1.
    """
    serving = short.serving
    whole = math.fsum(each.share for each in strata if each.serving.index == serving.index)
    rest, most = whole - short.share, phase.max_repetition * short.tokens / phase.tokens
    factor = dict(serving.domains).get(short.domain)
    if factor is not None and rest > 0 and most < whole:
        fitting = factor * (most / (whole - most)) * (rest / short.share)
        return f"lower its factor in domains from {factor:g} to {_rounded_down(fitting):g}"
    if len(phase.servings) == 1:
        return ""
    fitting = serving.share * most / short.share
    return f"lower the serving's share from {serving.share:g} to {_rounded_down(fitting):g}"


def _grouped(strata: Iterable[Stratum]) -> str:
    """List strata by serving: 'v2_simple causal at 512 (general, templates)'."""
    found: dict[str, list[str]] = {}
    for stratum in strata:
        found.setdefault(stratum.serving.title, []).append(stratum.domain)
    return "; ".join(f"{title} ({', '.join(domains)})" for title, domains in found.items())


def _rounded_down(value: float) -> float:
    """Return a positive number cut to three significant digits.

    >>> _rounded_down(0.034567), _rounded_down(2.0)
    (0.0345, 2.0)
    """
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


def _budget(phase: ResolvedPhase, tokens: int) -> str:
    """The diet's budget of which the phase's portion are so many tokens, as an option takes it."""
    return f"{int(tokens / phase.portion / 1000)}K" if tokens > 1000 else str(tokens)
