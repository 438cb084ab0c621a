"""Held-out documents by domain: what val_bpb is measured on, and the served domains that it is silent on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from curriculum.inspection.formats import number
from curriculum.stages import RowSet
from curriculum.supply import Estimate, Kind
from schemas.reports import RowsReport

FEW = 20
"""Documents below which an interval over documents says little."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """Documents of split val that the servings of a phase are measured on."""

    served: tuple[str, ...]
    """Domains that are trained on, those with most tokens first."""
    documents: Mapping[str, int]
    """Held-out documents by domain, of the serving that has most."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Their rows in all servings, by domain; empty where no row is built."""

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Domains that are served and have no held-out document."""
        return tuple(name for name in self.served if not self.documents.get(name))

    def warning(self) -> str | None:
        """A sentence on what is held out, where that is hardly anything or not of each served domain."""
        count = sum(self.documents.values())
        if count >= FEW and not self.unmeasured:
            return None
        rows = f" in {number(sum(self.rows.values()), 'row')}" if self.rows else ""
        domains = ", ".join(sorted(name for name, held in self.documents.items() if held))
        held = f"val holds {number(count, 'document')}{rows}" + (
            f", all of {domains}" * bool(domains)
        )
        silent = f"val_bpb says nothing of {', '.join(self.unmeasured)}"
        few = "too few for val_bpb to say much"
        says = silent if self.unmeasured else few
        return f"{held}: {says}. Add repositories, or raise the corpus's val_fraction"


def held_out(rows: Iterable[RowSet]) -> HeldOut | None:
    """The held-out documents of some built rows; None where some aren't built or nothing is measured.

    Every family renders the same files, so the largest count stands for their documents.
    """
    served: Counter[str] = Counter()
    documents: dict[str, int] = {}
    held_rows: Counter[str] = Counter()
    is_measured = False
    for each in rows:
        if each.wanted.variant:
            continue
        if each.train.planned or (each.val is not None and each.val.planned):
            return None
        if each.val is None:
            continue
        is_measured = True
        for name, size in each.train.reported(RowsReport).domains.items():
            served[name] += size.tokens
        for name, size in each.val.reported(RowsReport).domains.items():
            documents[name] = max(documents.get(name, 0), size.documents)
            held_rows[name] += size.rows
    if not is_measured:
        return None
    names = tuple(name for name, tokens in served.most_common() if tokens)
    return HeldOut(served=names, documents=documents, rows=held_rows)


def expected_held_out(found: Estimate, kinds: Iterable[Kind]) -> HeldOut:
    """About the documents that a build would hold out for some kinds of rows, by an estimate."""
    wanted = frozenset(kinds)
    listed = [each for each in found.lines if each.kind in wanted]
    tokens, documents = Counter[str](), Counter[tuple[Kind, str]]()
    for each in (each for each in listed if not each.is_total):
        tokens[each.domain] += round(each.tokens)
        documents[each.kind, each.domain] += round(each.held_out)
    held = {
        name: max(count for (_, domain), count in documents.items() if domain == name)
        for name in {domain for _, domain in documents}
    }
    return HeldOut(
        served=tuple(name for name, count in tokens.most_common() if count), documents=held
    )
