"""Tables of documents: graphs and their indexes, contexts, conversations, domains, and their warnings."""

from collections.abc import Iterable, Iterator, Sequence

from curriculum.inspection.formats import Line, count, number, percent
from curriculum.stages import Built
from curriculum.store import Artefact
from schemas.document import EDGE_LABELS
from schemas.families import CHAT_FAMILY, ENRICHED_FAMILY, reads_commits
from schemas.reports import (
    DocumentsReport,
    DomainSize,
    IndexReport,
    LengthBucket,
    RowsReport,
    SelectionReport,
)


def document_lines(documents: Sequence[Artefact]) -> Iterator[Line]:
    """A line an artefact of documents."""
    for each in documents:
        report = each.reported(DocumentsReport)
        base = each.manifest.labels.get("base")
        yield {
            "family": each.manifest.labels["family"] + (f" of {base}" if base else ""),
            "repository": each.manifest.labels["repository"],
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            "key": each.key[:12],
        }


def index_lines(built: Built) -> Iterator[Line]:
    """A line an index: what became of its database's units, and the functions that it knows."""
    for each in built.indexes:
        report = each.reported(IndexReport)
        yield {
            "index": each.manifest.labels["repository"],
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
    """A line a repository and family of graphs: documents, edges by label, what an index covers."""
    for each in built.documents:
        family = each.manifest.labels["family"]
        if not reads_commits(family):
            continue
        report = each.reported(DocumentsReport)
        functions = report.coverage.functions
        covered = report.coverage.covered
        yield {
            "graphs": family,
            "repository": each.manifest.labels["repository"],
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            **{label: count(report.edges.get(label, 0)) for label in EDGE_LABELS},
            "covered": percent(covered / functions) if functions else "",
        }


def graph_warnings(built: Built) -> Iterator[str]:
    """Yield warnings: missing indexes, units that aren't indexed, files without a syntax tree."""
    for each in built.indexes:
        index = each.reported(IndexReport)
        if index.problems:
            first, name = index.problems[0], each.manifest.labels["repository"]
            units = f"{len(index.problems):,} of {number(index.database.matched, 'unit')} of {name}"
            yield f"{units} are not indexed, or in part: {first.path} first, {first.reason}"
    for each in built.documents:
        report = each.reported(DocumentsReport)
        name = each.manifest.labels["repository"]
        if each.manifest.labels["family"] == ENRICHED_FAMILY:
            continue
        if report.lacks:
            yield f"{each.manifest.labels['family']} has nothing of {name}: {report.lacks}"
        if report.without_syntax_tree:
            files, first_file = len(report.without_syntax_tree), report.without_syntax_tree[0]
            yield f"{number(files, 'file')} of {name} without a syntax tree, {first_file} first"


FAR = 16_384
"""Tokens of context past which a row of 65,536 has to earn its length."""
LEAST_FAR = 0.2
"""Least share of the scored tokens of such rows; with less, long context is theatre."""


def length_lines(built: Built) -> Iterator[Line]:
    """A line a data set: documents and their tokens by length, before anything is left out.

    Of what imported rows were fitted from nothing is known, here and below.
    """
    for each in built.rows:
        if each.wanted.imported is not None:
            continue
        report = each.train.reported(RowsReport)
        yield {
            "documents (tokens)": each.wanted.title,
            **{name: _bucket(bucket) for name, bucket in report.encode.lengths.items()},
        }


def context_lines(built: Built) -> Iterator[Line]:
    """A line a data set: tokens of its own document before each scored token, and what was left out.

    Last what is held out, in tokens: beside few files stands little that is on their side of the split.
    """
    for each in built.rows:
        if each.wanted.imported is not None or each.val is None:
            continue
        report = each.train.reported(RowsReport)
        held_out = each.val.reported(RowsReport)
        chunks = report.encode.context_chunks
        yield {
            "context": each.wanted.title,
            "mean": count(report.context.mean),
            "past 16k": percent(report.context.past_16k),
            "elided bytes": count(report.encode.elided_bytes),
            "chunks kept": count(chunks["kept"]) if chunks else "",
            "elided": count(chunks["elided"]) if chunks else "",
            "other side": count(chunks["other_side"]) if chunks else "",
            "held out": count(held_out.encode.tokens),
            "its mean": count(held_out.context.mean),
        }


def context_warnings(built: Built) -> Iterator[str]:
    """Long rows that don't use their length."""
    for rows in built.rows:
        if rows.wanted.row_length <= FAR or rows.wanted.imported is not None:
            continue
        context = rows.train.reported(RowsReport).context
        if context.mean and context.past_16k < LEAST_FAR:
            yield (
                f"only {percent(context.past_16k)} of the scored tokens of {rows.wanted.family} at "
                f"{rows.wanted.row_length:,} have more than {FAR:,} tokens of context: rows of {FAR:,} "
                "would teach the same for less"
            )


def _bucket(bucket: LengthBucket) -> str:
    return f"{bucket.documents:,} ({count(bucket.tokens)})" if bucket.documents else "0"


def conversation_lines(built: Built) -> Iterator[Line]:
    """A line a source of conversations."""
    for name, report in _sources(built):
        yield {
            "conversations": name,
            "documents": report.documents,
            "bytes": count(report.num_bytes),
            "lines skipped": sum(report.lines.skipped.values()),
        }


def conversation_warnings(built: Built) -> Iterator[str]:
    """Lines that gave no conversation, with a place of each reason; turns that no control token marks."""
    for name, report in _sources(built):
        lines = report.lines
        reasons = ", ".join(
            f"{reason} {skipped}, such as {lines.examples[reason][0]}"
            for reason, skipped in lines.skipped.items()
        )
        if reasons:
            skipped = sum(lines.skipped.values())
            yield f"{number(skipped, 'line')} of {name} skipped: {reasons}"
    for rows in built.rows:
        counts = rows.train.reported(RowsReport).encode.objective
        where = f"{rows.wanted.family} at {rows.wanted.row_length}"
        if counts.get("turns_with_role_lines"):
            yield f"{where}: the tokenizer has no tokens for roles; lines of text name them"
        if counts.get("turns_ended_by_eos"):
            yield f"{where}: the tokenizer has no token for a turn's end; EOS ends each"


def _sources(built: Built) -> Iterator[tuple[str, DocumentsReport]]:
    for each in built.documents:
        if each.manifest.labels["family"] == CHAT_FAMILY:
            name = each.manifest.labels["repository"]
            yield name, each.reported(DocumentsReport)


MOST_REPOSITORIES = 12
"""Number of repositories shown, those with most bytes; the selection's report has all."""


def domain_lines(built: Built) -> Iterator[Line]:
    """A line a domain over all families that were selected, the largest first."""
    sizes = _by_domain(_reports(built))
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
    """A line a repository: the share of comments by bytes, in all its code and in each domain."""
    reports = _reports(built)
    sizes: dict[str, dict[str, DomainSize]] = {}
    for report in reports:
        for repository, domains in report.repositories.items():
            held = sizes.setdefault(repository, {})
            for name, size in domains.items():
                held[name] = _sum((held.get(name, DomainSize()), size))
    names = sorted(_by_domain(reports))
    whole = {name: _sum(domains.values()) for name, domains in sizes.items()}
    largest = sorted(whole, key=lambda name: -whole[name].bytes)[:MOST_REPOSITORIES]
    for repository in sorted(largest):
        own = sizes[repository]
        yield {
            "comments in": repository,
            "all": _comments(whole[repository]),
            **{name: _comments(own.get(name, DomainSize())) for name in names},
        }


def domain_warnings(built: Built) -> Iterator[str]:
    """Rules that tell no document from another, of the selection of files."""
    yield from built.selection.reported(SelectionReport).warnings


def _reports(built: Built) -> list[SelectionReport]:
    selected = (built.selection, *built.selections.values())
    return [each.reported(SelectionReport) for each in selected]


def _by_domain(reports: Sequence[SelectionReport]) -> dict[str, DomainSize]:
    sizes: dict[str, DomainSize] = {}
    for report in reports:
        for domains in report.repositories.values():
            for name, size in domains.items():
                sizes[name] = _sum((sizes.get(name, DomainSize()), size))
    return sizes


def _sum(sizes: Iterable[DomainSize]) -> DomainSize:
    """Add up the counts; shares are no part of the sum."""
    each = tuple(sizes)
    return DomainSize(
        documents=sum(size.documents for size in each),
        val=sum(size.val for size in each),
        bytes=sum(size.bytes for size in each),
        code_bytes=sum(size.code_bytes for size in each),
        comment_bytes=sum(size.comment_bytes for size in each),
    )


def _comments(size: DomainSize) -> str:
    """The share of comments in the bytes of code; empty where there is no code."""
    return percent(size.comment_bytes / size.code_bytes) if size.code_bytes else ""
