"""Tables and warnings about builds and mixtures, shared by the terminal and the pages of runs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, get_args

from curriculum.encode.encoded_documents import Outcome
from curriculum.inspection.conversation_tables import conversation_lines, conversation_warnings
from curriculum.inspection.copy_warnings import copy_warnings
from curriculum.inspection.formats import Line, count, family_title, number, percent
from curriculum.inspection.held_out_tables import held_out_lines, held_out_set_warnings
from curriculum.inspection.losses import lack_warnings
from curriculum.inspection.row_yields import OTHER_YIELDS, RowYields
from curriculum.mixing import mix
from curriculum.mixing.tree import Branch
from curriculum.stages import Built, RowSet
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from schemas.document import EDGE_LABELS
from schemas.families import ENRICHED_FAMILY, reads_commits
from schemas.reports import (
    DocumentsReport,
    DomainSize,
    IndexReport,
    LengthBucket,
    RowsReport,
    SelectionReport,
    TokenizerReport,
)

YIELD_NOTE = (
    "scored: tokens whose prediction is trained; distinct: those of them that no earlier row shows after the "
    "same 15 tokens; yield: share of positions that hold a token; lower bound: in the fewest rows that hold "
    "the tokens; first fit in order: each document in the first row with room; padded: one document a row; "
    "if mixed: had domains shared rows, which they never do"
)
MIN_LENGTH = 1 / 3
"""Minimum ratio of the mean lengths of held-out and training documents; below it, a build warns."""
MAX_REPOSITORIES = 12
"""Maximum number of repositories to show, the largest first. The report of the selection lists all."""

COUNTS = ("documents", "val", "bytes", "code_bytes", "comment_bytes")
Place = TypeVar("Place", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTable:
    """A table and the notes below it. Either may be empty."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


def build_tables(built: Built) -> Iterator[BuildTable]:
    """Yield the tables about the build of a phase: yields, context lengths, graphs, domains and comments."""
    notes = (YIELD_NOTE, *fullness_lines(built))
    yield BuildTable(lines=tuple(yield_lines(built)), notes=notes)
    for listed in (new_line_lines, held_out_lines, chop_lines, length_lines, context_lines):
        yield BuildTable(lines=tuple(listed(built)))
    yield BuildTable(lines=tuple(graph_lines(built)), notes=tuple(changed_lines(built)))
    for listed in (index_lines, conversation_lines, domain_lines, comment_lines):
        yield BuildTable(lines=tuple(listed(built)))


def build_warnings(built: Built) -> Iterator[str]:
    """Yield all warnings about the build of a phase."""
    yield from lack_warnings(built)
    yield from graph_warnings(built)
    yield from context_warnings(built)
    yield from held_out_warnings(built)
    yield from held_out_set_warnings(built)
    yield from conversation_warnings(built)
    yield from domain_warnings(built)
    yield from copy_warnings(built.selection.reported(SelectionReport))
    yield from tokenizer_warnings(built)


def yield_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per training data set: the yield of its rows, and its documents by outcome.

    Columns for refused and overlong conversations appear only if there are any.
    """
    reports = [(rows.wanted, _train(rows)) for rows in built.rows]
    outcomes = [
        name
        for name in get_args(Outcome)
        if name not in ("refused", "too_long")
        or any(report.encode.documents.get(name) for _, report in reports)
    ]
    for wanted, report in reports:
        yields, documents = RowYields.of(report, wanted.row_length), report.encode.documents
        is_known = wanted.imported is None
        yield {
            "rows": wanted.title,
            "number": report.rows,
            "tokens": count(report.tokens),
            "scored": count(report.windows.scored),
            "distinct": count(report.windows.distinct),
            "yield": percent(yields.packed) if yields else "",
            **(yields.others if yields else dict.fromkeys(OTHER_YIELDS, "")),
            **{
                name.replace("_", " "): documents.get(name, 0) if is_known else ""
                for name in outcomes
            },
        }


def fullness_lines(built: Built) -> Iterator[str]:
    """Yield one sentence with the known causes for each training data set whose yield is low."""
    for rows in built.rows:
        yields = RowYields.of(_train(rows), rows.wanted.row_length)
        if yields and yields.causes:
            yield f"{rows.wanted.title}: {yields.causes}"


def new_line_lines(built: Built) -> Iterator[Line]:
    """Yield one table row for each data set that scores only new lines.

    It has the share of new lines, and the number of documents that have none.
    """
    for rows in built.rows:
        report = _train(rows)
        counts = report.encode.objective
        if "new_lines" in counts:
            yield {
                "rows that score new lines": rows.wanted.title,
                "lines": count(counts["lines"]),
                "new": percent(counts["new_lines"] / max(1, counts["lines"])),
                "documents without a new line": counts["without_new_lines"],
                "left out, nothing to score": report.unscored,
            }


def chop_lines(built: Built) -> Iterator[Line]:
    """Yield one table row for each training data set whose packer cuts documents.

    It has the number of documents that were cut, and of rows that have no target.
    """
    for rows in built.rows:
        if rows.wanted.packer == "chop":
            report = _train(rows)
            yield {
                "rows that were cut": rows.wanted.title,
                "number": report.rows,
                "begin inside a document": report.chop.begun_inside,
                "documents cut": report.chop.divided,
                "left out, without a target": report.chop.unscored_rows,
            }


def yield_words(built: Built) -> str:
    """Return one sentence with the yields of all data sets.

    yield_words(built) ->
    'v3_simple causal 512: 98.2%, v3_doxygen causal 512: 98.4% of all positions'
    """
    listed = ", ".join(f"{line['rows']}: {line['yield']}" for line in yield_lines(built))
    return f"{listed} of all positions"


def mixture_words(mixture: Artefact) -> str:
    """Return the summary of a mixture, followed by its warnings."""
    report = mix.report_of(mixture)
    largest = max(abs(stratum.tokens / report.tokens - stratum.share) for stratum in report.strata)
    held = (
        f"{count(report.budget)} tokens in {number(report.steps, 'step')}; "
        f"no share is off by more than {percent(largest)}"
    )
    return ". ".join((held, *report.warnings))


def mixture_lines(mixture: Artefact) -> Iterator[Line]:
    """Yield one table row per stratum: its planned share, its actual share, and its repetition."""
    report = mix.report_of(mixture)
    for stratum in report.strata:
        whose = f"{stratum.imported}: " if stratum.imported else ""
        yield {
            "serving": f"{whose}{stratum.title}",
            "domain": stratum.domain,
            "planned": percent(stratum.share),
            "realised": percent(stratum.tokens / report.tokens),
            "tokens": count(stratum.tokens),
            "rows": stratum.drawn,
            "repetition": f"{stratum.repetition:.2f}",
            "key": stratum.rows_key[:KEY_DIGITS],
        }


def branch_lines(branch: Branch, depth: int = 0) -> Iterator[Line]:
    """Yield one table row per branch of a mixture, indented by two spaces per level."""
    yield {
        "mixture": "  " * depth + branch.title,
        "tokens": count(branch.tokens),
        "planned": percent(branch.planned),
        "realised": percent(branch.realised) if branch.realised is not None else "",
        "repetition": f"{branch.repetition:.2f}" if branch.repetition is not None else "",
        "key": (branch.key or "")[:KEY_DIGITS],
        "note": branch.note,
    }
    for below in branch.branches:
        yield from branch_lines(below, depth + 1)


def document_lines(documents: Sequence[Artefact]) -> Iterator[Line]:
    """Yield one row per artefact of documents."""
    for artefact, report in _reported(documents):
        yield {
            "family": family_title(artefact.manifest.labels),
            "repository": artefact.manifest.labels["repository"],
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            "key": artefact.key[:KEY_DIGITS],
        }


def index_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per index: its translation units by outcome, and its functions."""
    for artefact in built.indexes:
        report = artefact.reported(IndexReport)
        yield {
            "index": artefact.manifest.labels["repository"],
            "entries": report.database.entries,
            "units": report.database.matched,
            "indexed": report.indexed,
            "in part": report.partial,
            "failed": report.failed,
            "hung": report.timed_out,
            "crashed": report.crashed,
            "functions": report.functions,
        }


def graph_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per repository and graph family.

    It has the documents, the edges by label, and the share of functions that the index covers.
    """
    for artefact, report in _reported(built.documents):
        family, coverage = artefact.manifest.labels["family"], report.coverage
        if reads_commits(family):
            yield {
                "graphs": family,
                "repository": artefact.manifest.labels["repository"],
                "documents": report.documents,
                "bytes": count(report.num_bytes),
                **{label: count(report.edges.get(label, 0)) for label in EDGE_LABELS},
                "covered": percent(coverage.covered / coverage.functions)
                if coverage.functions
                else "",
            }


def changed_lines(built: Built) -> Iterator[str]:
    """Yield one line per repository with the share of changed lines that are outside of functions."""
    found = {
        artefact.manifest.labels["repository"]: report.changed_lines
        for artefact, report in _reported(built.documents)
        if report.changed_lines.lines
    }
    for repository, changed in found.items():
        outside = percent(changed.outside_functions / changed.lines)
        unknown = percent(changed.outside_symbols / changed.lines)
        yield (
            f"{repository}: changed lines outside any function: {outside}, in no known symbol: {unknown}; "
            f"curriculum inspect shows examples"
        )


def graph_warnings(built: Built) -> Iterator[str]:
    """Yield warnings about translation units that aren't indexed, and files without a syntax tree."""
    for artefact in built.indexes:
        index, name = artefact.reported(IndexReport), artefact.manifest.labels["repository"]
        if index.replaced:
            yield (
                f"compile_commands.json has several entries for "
                f"{number(len(index.replaced), 'file')} of {name} of which "
                f"the first has more errors than another, which counts: {index.replaced[0]} first"
            )
        if index.problems:
            first = index.problems[0]
            units = f"{len(index.problems):,} of {number(index.database.matched, 'unit')} of {name}"
            yield f"{units} are not indexed, or in part: {first.path} first, {first.reason}"
    for artefact, report in _reported(built.documents):
        labels, files = artefact.manifest.labels, report.without_syntax_tree
        if files and labels["family"] != ENRICHED_FAMILY:
            of = f"{number(len(files), 'file')} of {labels['repository']}"
            yield f"{of} without a syntax tree, {files[0]} first"


def length_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per data set: documents and tokens by length, before any are left out.

    Imported rows are skipped here and in the following tables, since their documents are unknown.
    """
    for rows in _own_rows(built):
        lengths = _train(rows).encode.lengths
        yield {
            "documents (tokens)": rows.wanted.title,
            **{name: _bucket(bucket) for name, bucket in lengths.items()},
        }


def context_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per data set, about the context of its scored tokens.

    The context of a token is the tokens of the same document before it. The column for contexts longer than
    64k appears only if there are any. Other columns count the parts that were left out. The last columns
    describe the held-out set: its tokens, and its mean context. In documents with context, only targets are
    scored.
    """
    reports = [
        (rows.wanted.title, _train(rows), rows.val.reported(RowsReport))
        for rows in _own_rows(built)
        if rows.val is not None
    ]
    is_far = any(report.context.past_64k for _, report, _ in reports)
    has_refused = any(report.encode.context_chunks.get("refused") for _, report, _ in reports)
    for title, report, held_out in reports:
        chunks = report.encode.context_chunks
        yield {
            "context": title,
            "mean": count(report.context.mean),
            "past 4k": percent(report.context.past_4k),
            "past 16k": percent(report.context.past_16k),
            **({"tokens past 64k": count(report.context.past_64k)} if is_far else {}),
            "elided bytes": count(report.encode.elided_bytes),
            "chunks kept": count(chunks["kept"]) if chunks else "",
            "elided": count(chunks["elided"]) if chunks else "",
            "other side": count(chunks["other_side"]) if chunks else "",
            **({"refused licence": count(chunks.get("refused", 0))} if has_refused else {}),
            "held out": count(held_out.encode.tokens),
            "its mean": count(held_out.context.mean),
        }


def context_warnings(built: Built) -> Iterator[str]:
    """Yield a warning for each data set of graph documents whose rows are longer than necessary.

    Rows are too long if they are at least twice as long as the 90th percentile of the document lengths.
    """
    for rows in _own_rows(built):
        wanted = rows.wanted
        if rows.train.planned or not reads_commits(wanted.flat_family):
            continue
        long = _train(rows).context.long_document
        if 0 < 2 * long <= wanted.row_length:
            yield (
                f"nine in ten documents of {wanted.flat_family} have at most {long:,} tokens, and rows of "
                f"half of {wanted.row_length:,} would hold them: take shorter rows, or context: filled in "
                "the corpus file"
            )


def held_out_warnings(built: Built) -> Iterator[str]:
    """Yield a warning if held-out documents are much shorter than training documents."""
    seen: set[tuple[str, int]] = set()
    for rows in _own_rows(built):
        wanted = rows.wanted
        name = f"{wanted.family} of {wanted.base}" if wanted.base else wanted.family
        if rows.val is None or (name, wanted.row_length) in seen:
            continue
        seen.add((name, wanted.row_length))
        train, val = (
            side.reported(RowsReport).encode.mean_tokens for side in (rows.train, rows.val)
        )
        if 0 < val < train * MIN_LENGTH:
            yield (
                f"held-out documents of {name} at {wanted.row_length:,} have {val:,.0f} tokens on "
                f"average, and those that are trained on have {train:,.0f}: val_bpb says little of long "
                "documents. Add repositories, or raise the corpus's val_fraction"
            )


def domain_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per domain, with sums over all families, the largest domain first."""
    sizes = _sizes(built, lambda _, domain: domain)
    whole = sum(size.bytes for size in sizes.values())
    for name, size in sorted(sizes.items(), key=lambda pair: (-pair[1].bytes, pair[0])):
        yield {
            "domain": name,
            "documents": size.documents,
            "in val": size.val,
            "bytes": count(size.bytes),
            "share": percent(size.bytes / whole),
            "comments": _comments(size),
        }


def comment_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per repository: the share of comments in its code, overall and by domain."""
    sizes = _sizes(built, lambda repository, domain: (repository, domain))
    whole = _sizes(built, lambda repository, _: repository)
    names = sorted({domain for _, domain in sizes})
    largest = sorted(whole, key=lambda name: -whole[name].bytes)[:MAX_REPOSITORIES]
    for repository in sorted(largest):
        yield {
            "comments in": repository,
            "all": _comments(whole[repository]),
            **{name: _comments(sizes.get((repository, name), DomainSize())) for name in names},
        }


def tokenizer_warnings(built: Built) -> Iterator[str]:
    """Yield the reason why the tokenizer encodes slowly, if it does."""
    reason = built.tokenizer.reported(TokenizerReport).engine_reason
    if reason:
        yield f"tokenizer {built.tokenizer.key[:KEY_DIGITS]} doesn't encode at full speed: {reason}"


def domain_warnings(built: Built) -> Iterator[str]:
    """Yield warnings about domain rules that don't separate documents."""
    yield from built.selection.reported(SelectionReport).warnings


def _train(rows: RowSet) -> RowsReport:
    return rows.train.reported(RowsReport)


def _own_rows(built: Built) -> Iterator[RowSet]:
    """Yield the training data sets that aren't imported."""
    yield from (rows for rows in built.rows if rows.wanted.imported is None)


def _reported(documents: Iterable[Artefact]) -> Iterator[tuple[Artefact, DocumentsReport]]:
    for artefact in documents:
        yield artefact, artefact.reported(DocumentsReport)


def _bucket(bucket: LengthBucket) -> str:
    return f"{bucket.documents:,} ({count(bucket.tokens)})" if bucket.documents else "0"


def _sizes(built: Built, by: Callable[[str, str], Place]) -> dict[Place, DomainSize]:
    """Return the sums of the sizes of selected documents, grouped by the key that `by` returns.

    `by` is called with a repository and a domain. Shares aren't summed.
    """
    found: defaultdict[Place, Counter[str]] = defaultdict(Counter)
    for selection in (built.selection, *built.selections.values()):
        for repository, domains in selection.reported(SelectionReport).repositories.items():
            for domain, size in domains.items():
                counts = {name: getattr(size, name) for name in COUNTS}
                found[by(repository, domain)].update(counts)
    return {place: DomainSize(**counts) for place, counts in found.items()}


def _comments(size: DomainSize) -> str:
    """Return the share of comments in the bytes of code as text; empty if there is no code."""
    return percent(size.comment_bytes / size.code_bytes) if size.code_bytes else ""
