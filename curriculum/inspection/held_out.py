"""Held-out documents by domain: what val_bpb is measured on, what fills val, and domains that val lacks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from curriculum.inspection.formats import TOO_FEW, held_out_words, number, percent
from curriculum.stages import Built, RowSet
from curriculum.stages.file_sides import FileSide, file_sides
from curriculum.store import Artefact
from curriculum.supply import Estimate, Kind
from curriculum.train.evaluation_sets import order_of
from schemas.held_out import MIN_DOCUMENTS, MIN_LINEAGES, tells
from schemas.reports import RowsReport

FILLED = 0.5
"""Share of val's bytes from which on one file, or two, fill it."""
MOST_FILES = 2
FEW_FILES = 10
"""Files of a domain below which a larger val_fraction reaches none of them but by chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """Documents of split val that the servings of a phase are measured on."""

    served: tuple[str, ...]
    """Domains that are trained on, those with most tokens first."""
    documents: Mapping[str, int]
    """Held-out documents of all servings, by domain."""
    lineages: int | None
    """Lineages of these documents; None where it isn't known yet."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Their rows in all servings, by domain; empty where no row is built."""
    files: tuple[FileSide, ...] = ()
    """Files of the corpus on both sides, the largest first; of a sample where nothing is built."""
    is_whole: bool = True
    """False where the files are those of a sample: others may exist."""

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Domains that are served and have no held-out document."""
        return tuple(name for name in self.served if not self.documents.get(name))

    def warning(self) -> str | None:
        """Sentences on what is held out, where that is hardly anything, a file or two, or lacks a domain."""
        return ". ".join(self._sentences()) or None

    def _sentences(self) -> Iterator[str]:
        if not self.tells or self.unmeasured:
            rows = f" in {number(sum(self.rows.values()), 'row')}" if self.rows else ""
            domains = ", ".join(sorted(name for name, held in self.documents.items() if held))
            held = f"val holds {self._counted()}{rows}" + f", all of {domains}" * bool(domains)
            silent = f"val_bpb says nothing of {', '.join(self.unmeasured)}"
            yield f"{held}: {silent}" if self.unmeasured else held
        if not self.tells:
            yield (
                f"val_bpb reads {TOO_FEW} below {MIN_DOCUMENTS} documents of {MIN_LINEAGES} lineages, "
                "and a gate on it never ends the phase before its budget"
            )
        yield from self._filled()
        if not self.tells or self.unmeasured:
            yield self._advice()

    @property
    def tells(self) -> bool:
        """True where val_bpb is of documents and lineages enough."""
        lineages = MIN_LINEAGES if self.lineages is None else self.lineages
        return tells(sum(self.documents.values()), lineages)

    def _counted(self) -> str:
        count = sum(self.documents.values())
        if self.lineages is None:
            return number(count, "document")
        return held_out_words(count, self.lineages)

    def _filled(self) -> Iterator[str]:
        """Yield what fills val, and the line that leaves it out."""
        if found := filling(self.files):
            listed = ", ".join(f'"{each.path}"' for each, _ in found)
            whole = sum(each.num_bytes for each in self.files)
            shares = " and ".join(percent(each.num_bytes / whole) for each, _ in found)
            yield (
                f"{filling_words(self.files)}: a file is held out with all its versions, whatever "
                f"val_fraction is. Of the whole corpus it is {shares}. Where it isn't your code, give its "
                f"repository in the corpus file the line  exclude: [{listed}]"
            )

    def _advice(self) -> str:
        """Advice against few documents, or against a domain without any."""
        counted = {name: self._files_of(name) for name in self.unmeasured}
        rare = [name for name, files in counted.items() if self.is_whole and 0 < files < FEW_FILES]
        if not rare or len(rare) < len(counted):
            return "Add repositories, or raise the corpus's val_fraction"
        files = ", ".join(f"{number(counted[name], 'file')} of {name}" for name in rare)
        return (
            f"The corpus has {files}, and a file is held out whole or not at all: add repositories; "
            "a larger val_fraction helps by chance alone"
        )

    def _files_of(self, domain: str) -> int:
        return sum(each.domain == domain for each in self.files)


def filling(files: Sequence[FileSide]) -> tuple[tuple[FileSide, float], ...]:
    """Return the one or two files that val mostly consists of, with their shares of its bytes."""
    held = [each for each in files if each.is_val]
    whole = sum(each.num_bytes for each in held)
    shares = [(each, each.num_bytes / whole) for each in held[:MOST_FILES]] if whole else []
    if len(held) > MOST_FILES and sum(share for _, share in shares) >= FILLED:
        is_one = shares[0][1] >= FILLED
        return tuple(shares[: 1 if is_one else MOST_FILES])
    return ()


def filling_words(files: Sequence[FileSide]) -> str:
    """Name the files that val mostly consists of; empty where there are many."""
    named = " and ".join(f"{each.lineage} ({percent(share)})" for each, share in filling(files))
    return f"val is mostly {named}" if named else ""


def filling_of(built: Sequence[Artefact]) -> str:
    """Name the files that fill val by the artefacts of a build: its documents, and its selection of files."""
    selections = [each for each in built if each.manifest.stage == "selections"]
    of_files = [each for each in selections if not {"family", "step"} & each.manifest.labels.keys()]
    documents = [each for each in built if each.manifest.stage == "documents"]
    return filling_words(file_sides(documents, of_files[0])) if len(of_files) == 1 else ""


def held_out(rows: Iterable[RowSet], built: Built | None = None) -> HeldOut | None:
    """The held-out documents of some built rows; None where some aren't built or nothing is measured."""
    served: Counter[str] = Counter()
    documents: defaultdict[str, set[str]] = defaultdict(set)
    lineages: set[str] = set()
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
        for row in order_of(each.val).rows:
            documents[row.domain].update(row.documents)
            lineages.update(row.lineages)
        for name, size in each.val.reported(RowsReport).domains.items():
            held_rows[name] += size.rows
    if not is_measured:
        return None
    names = tuple(name for name, tokens in served.most_common() if tokens)
    files = () if built is None else _files_of(built)
    return HeldOut(
        served=names,
        documents={name: len(found) for name, found in documents.items()},
        lineages=len(lineages),
        rows=held_rows,
        files=files,
    )


def _files_of(built: Built) -> tuple[FileSide, ...]:
    made = [built.selection, *built.documents]
    return (
        () if any(each.planned for each in made) else file_sides(built.documents, built.selection)
    )


def expected_held_out(found: Estimate, kinds: Iterable[Kind]) -> HeldOut:
    """About the documents that a build would hold out for some kinds of rows, by an estimate."""
    wanted = frozenset(kinds)
    listed = [each for each in found.lines if each.kind in wanted]
    tokens, documents = Counter[str](), Counter[tuple[Kind, str]]()
    for each in (each for each in listed if not each.is_total):
        tokens[each.domain] += round(each.tokens)
        documents[each.kind, each.domain] += round(each.held_out)
    held = Counter[str]()
    for (_, domain), count in documents.items():
        held[domain] += count
    files = [each for each in found.files if each.is_val and each.domain in tokens]
    return HeldOut(
        served=tuple(name for name, count in tokens.most_common() if count),
        documents=held,
        lineages=len(files) if found.files and found.is_whole else None,
        files=found.files,
        is_whole=found.is_whole,
    )


def alike(held: Iterable[tuple[str, HeldOut]]) -> list[str]:
    """A warning a line, each with the names of the phases that it holds for; phases without one have none."""
    named: dict[str, list[str]] = {}
    for phase, each in held:
        if (words := each.warning()) is not None:
            named.setdefault(words, []).append(phase)
    return [f"{', '.join(phases)}: {words}" for words, phases in named.items()]
