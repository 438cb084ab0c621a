"""Results of stages as lines of words and numbers, the same in the terminal and on a run's page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

from curriculum.encode.documents import Outcome
from curriculum.inspection.formats import (
    Line,
    count,
    duration,
    interval,
    number,
    paired,
    percent,
)
from curriculum.inspection.row_yields import OTHER_YIELDS, RowYields
from curriculum.inspection.runs import change, measured_on
from curriculum.mixing import mix
from curriculum.mixing.tree import Branch
from curriculum.stages import Built
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from schemas.document import EDGE_LABELS
from schemas.families import ENRICHED_FAMILY, reads_commits
from schemas.job import Figure, MaskingCost, Report
from schemas.reports import (
    DocumentsReport,
    DomainSize,
    IndexReport,
    LengthBucket,
    RowsReport,
    SelectionReport,
    TokenizerReport,
)
from schemas.study import study_words

if TYPE_CHECKING:
    from curriculum.train.document_sums import PairedChange

NO_CHANGES: Mapping[tuple[str, str, str, str], "PairedChange"] = MappingProxyType({})
"""Changes of a run that left no documents."""
REPORT_NAME = "report.json"

YIELD_NOTE = (
    "yield: share of positions that hold a token; lower bound: with the fewest rows that hold the tokens; "
    "first fit in order: each document in the first row with room; padded: one document a row; if mixed: "
    "had domains shared rows, which they never do"
)


def yield_lines(built: Built) -> Iterator[Line]:
    """A line a data set of training rows: how full the rows are, and what became of the documents.

    Conversations that are refused or too long are counted where there are any.
    """
    reports = [each.train.reported(RowsReport) for each in built.rows]
    outcomes = [
        name
        for name in get_args(Outcome)
        if name not in ("refused", "too_long")
        or any(report.encode.documents.get(name) for report in reports)
    ]
    for each, report in zip(built.rows, reports, strict=True):
        rows = sum(domain.rows for domain in report.domains.values())
        tokens = sum(domain.tokens for domain in report.domains.values())
        yields = RowYields.of(report, each.wanted.row_length)
        yield {
            "rows": each.wanted.title,
            "number": rows,
            "tokens": count(tokens),
            "yield": percent(yields.packed) if yields else "",
            **(yields.others if yields else dict.fromkeys(OTHER_YIELDS, "")),
            **{
                outcome.replace("_", " "): report.encode.documents.get(outcome, 0)
                if each.wanted.imported is None
                else ""
                for outcome in outcomes
            },
        }


def fullness_lines(built: Built) -> Iterator[str]:
    """Yield a sentence a data set of training rows that aren't full: the reasons that are known."""
    for each in built.rows:
        yields = RowYields.of(each.train.reported(RowsReport), each.wanted.row_length)
        if yields and yields.causes:
            yield f"{each.wanted.title}: {yields.causes}"


def chop_lines(built: Built) -> Iterator[Line]:
    """A line a data set of training rows that were cut: what was cut, and rows that teach nothing."""
    for each in built.rows:
        if each.wanted.packer != "chop":
            continue
        report = each.train.reported(RowsReport)
        yield {
            "rows that were cut": each.wanted.title,
            "number": sum(domain.rows for domain in report.domains.values()),
            "begin inside a document": report.chop.begun_inside,
            "documents cut": report.chop.divided,
            "left out, without a target": report.chop.unscored_rows,
        }


def yield_words(built: Built) -> str:
    """Sum up the yield of each data set, in a sentence.

    yield_words(built) ->
    'v3_simple causal 512: 98.2%, v3_doxygen causal 512: 98.4% of all positions'
    """
    listed = ", ".join(f"{line['rows']}: {line['yield']}" for line in yield_lines(built))
    return f"{listed} of all positions"


def mixture_words(mixture: Artefact) -> str:
    """Sum up a plan in a sentence, with the warnings of the mix."""
    report = mix.report_of(mixture)
    largest = max(abs(each.tokens / report.tokens - each.share) for each in report.strata)
    held = (
        f"{count(report.budget)} tokens in {number(report.steps, 'step')}; "
        f"no share is off by more than {percent(largest)}"
    )
    return ". ".join((held, *report.warnings))


def mixture_lines(mixture: Artefact) -> Iterator[Line]:
    """A line a stratum: its share as the diet plans it and as the plan realises it, and its repetition."""
    report = mix.report_of(mixture)
    for stratum in report.strata:
        whose = f"{stratum.imported}: " if stratum.imported else ""
        yield {
            "serving": f"{whose}{stratum.family} {stratum.objective} {stratum.row_length}",
            "domain": stratum.domain,
            "planned": percent(stratum.share),
            "realised": percent(stratum.tokens / report.tokens),
            "tokens": count(stratum.tokens),
            "rows": stratum.drawn,
            "repetition": f"{stratum.repetition:.2f}",
            "key": stratum.rows_key[:12],
        }


def branch_lines(branch: Branch, depth: int = 0) -> Iterator[Line]:
    """A line a branch of a mixture, indented two spaces a level."""
    yield {
        "mixture": "  " * depth + branch.title,
        "tokens": count(branch.tokens),
        "planned": percent(branch.planned),
        "realised": percent(branch.realised) if branch.realised is not None else "",
        "repetition": f"{branch.repetition:.2f}" if branch.repetition is not None else "",
        "key": (branch.key or "")[:KEY_DIGITS],
        "note": branch.note,
    }
    for each in branch.branches:
        yield from branch_lines(each, depth + 1)


def run_line(report: Report) -> Line:
    """A run in a line: val_bpb before and after, what it consumed, why it stopped."""
    return {
        "phase": report.phase,
        "attempt": report.attempt,
        "val_bpb": change(report, "phase"),
        "held out": measured_on(report),
        "anchor": change(report, "anchor"),
        "tokens": count(report.tokens.valid),
        "steps": report.steps,
        "context": "" if report.mean_context is None else f"{report.mean_context:,.0f}",
        "tokens/s": f"{report.tokens_per_second:,.0f}",
        "time": duration(report.seconds),
        "evaluating": ""
        if report.evaluation_seconds is None
        else duration(report.evaluation_seconds),
        "stopped": report.stopped,
    }


def run_lines(reports: Sequence[Report]) -> list[Line]:
    """A line a run, with a column for studies where any is one."""
    lines = [run_line(each) for each in reports]
    if not any(each.study for each in reports):
        return lines
    return [
        {**line, "study": study_words(each.study)}
        for line, each in zip(lines, reports, strict=True)
    ]


def machine_line(report: Report) -> Line:
    """Return time, throughput and cost of a run on its machine; empty where they aren't known."""
    density, context, mfu = report.attention_density, report.mean_context, report.masked_mfu
    return {
        "device": f"{report.device}, {report.backend}",
        "GPU hours": f"{report.gpu_seconds / 3600:,.2f}" if report.gpu_seconds else "",
        "cost": "" if report.cost is None else f"{report.cost:,.2f}",
        "mean context": "" if context is None else f"{context:,.0f} tokens",
        "attention density": "" if density is None else percent(density),
        "masked MFU": "" if mfu is None else percent(mfu),
        "MFU unmasked": "" if report.causal_mfu is None else percent(report.causal_mfu),
        "without packing": _saved(report),
        "masked ÷ unmasked": _masking(report.masking_cost),
    }


def _saved(report: Report) -> str:
    """Positions, further time and further price that rows of one document each would have taken.

    _saved(report) ->
    '2.1 × the positions, 3 min more, 0.42 more'
    """
    positions, padded = report.tokens.positions, report.padded_positions
    if not padded or not positions:
        return ""
    times = padded / positions
    saved = f"{times:,.1f} × the positions, {duration((times - 1) * report.seconds)} more"
    return saved if report.cost is None else f"{saved}, {(times - 1) * report.cost:,.2f} more"


def _masking(cost: MaskingCost | None) -> str:
    """A masking cost with what it was measured on.

    _masking(cost) ->
    '1.31 over 328k positions, rows of 16,384'
    """
    if cost is None:
        return ""
    return f"{cost.ratio:.2f} over {count(cost.positions)} positions, rows of {cost.row_length:,}"


def figure_lines(
    report: Report, changes: Mapping[tuple[str, str, str, str], "PairedChange"] = NO_CHANGES
) -> Iterator[Line]:
    """A line an evaluation of the run: its figure before and after, and what documents changed by."""
    for after in report.after:
        before = next((each for each in report.before if _place(each) == _place(after)), None)
        yield {
            "set": after.set,
            "phase": after.phase,
            "family": after.family,
            "domain": after.domain,
            "before": f"{before.val_bpb:.3f}" if before else "",
            "after": f"{after.val_bpb:.3f}",
            "interval": interval(after.low, after.high, is_sure=after.is_sure),
            "documents": after.documents,
            "lineages": after.lineages,
            "change": paired(changes[place]) if (place := _place(after)) in changes else "",
        }


def set_lines(
    report: Report, changes: Mapping[tuple[str, str, str, str], "PairedChange"], phase: str
) -> list[Line]:
    """A line a set of a phase, where there is one apart from all that it serves."""
    means: list[Line] = [
        {name: value for name, value in line.items() if name not in ("phase", "family", "domain")}
        for line in figure_lines(report, changes)
        if (line["phase"], line["family"]) == (phase, "*")
    ]
    return means if len(means) > 1 else []


def _place(figure: Figure) -> tuple[str, str, str, str]:
    return figure.set, figure.phase, figure.family, figure.domain


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
    """A line an index: what became of its database's units, and its functions."""
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


def changed_lines(built: Built) -> Iterator[str]:
    """Yield a line a repository: the share of its changed lines that stands in no function."""
    found = {
        each.manifest.labels["repository"]: report.changed_lines
        for each in built.documents
        if (report := each.reported(DocumentsReport)).changed_lines.lines
    }
    for repository, changed in found.items():
        outside = percent(changed.outside_functions / changed.lines)
        unknown = percent(changed.outside_symbols / changed.lines)
        yield (
            f"{repository}: changed lines outside any function: {outside}, in no known symbol: {unknown}; "
            f"curriculum inspect shows examples"
        )


def graph_warnings(built: Built) -> Iterator[str]:
    """Yield warnings: units that aren't indexed, files without a syntax tree."""
    for each in built.indexes:
        index = each.reported(IndexReport)
        if index.replaced:
            yield (
                f"compile_commands.json has several entries for "
                f"{number(len(index.replaced), 'file')} of {each.manifest.labels['repository']} of which "
                f"the first has more errors than another, which counts: {index.replaced[0]} first"
            )
        if index.problems:
            first, name = index.problems[0], each.manifest.labels["repository"]
            units = f"{len(index.problems):,} of {number(index.database.matched, 'unit')} of {name}"
            yield f"{units} are not indexed, or in part: {first.path} first, {first.reason}"
    for each in built.documents:
        report = each.reported(DocumentsReport)
        name = each.manifest.labels["repository"]
        if each.manifest.labels["family"] == ENRICHED_FAMILY:
            continue
        if report.without_syntax_tree:
            files, first_file = len(report.without_syntax_tree), report.without_syntax_tree[0]
            yield f"{number(files, 'file')} of {name} without a syntax tree, {first_file} first"


FAR = 16_384
"""Tokens of context past which a row of 65,536 has to earn its length."""
LEAST_FAR = 0.2
"""Least share of the scored tokens of such rows; with less, long context is theatre."""


MIN_LENGTH = 1 / 3
"""Mean length of held-out documents, as a share of that of trained ones, below which a build warns."""


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

    Those past 64k are counted where there are any. Last what is held out: its tokens, and those before each
    of its scored tokens, which are targets alone in documents with context.
    """
    reports = [
        (each.wanted.title, each.train.reported(RowsReport), each.val.reported(RowsReport))
        for each in built.rows
        if each.wanted.imported is None and each.val is not None
    ]
    is_far = any(report.context.past_64k for _, report, _ in reports)
    for title, report, held_out in reports:
        chunks = report.encode.context_chunks
        yield {
            "context": title,
            "mean": count(report.context.mean),
            "past 16k": percent(report.context.past_16k),
            **({"tokens past 64k": count(report.context.past_64k)} if is_far else {}),
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


def held_out_warnings(built: Built) -> Iterator[str]:
    """Yield warnings of held-out documents that are much shorter than those that are trained on."""
    seen: set[tuple[str, int]] = set()
    for rows in built.rows:
        name = f"{rows.wanted.family}{f' of {rows.wanted.base}' * bool(rows.wanted.base)}"
        place = name, rows.wanted.row_length
        if rows.wanted.imported is not None or rows.val is None or place in seen:
            continue
        seen.add(place)
        train, val = (
            side.reported(RowsReport).encode.mean_tokens for side in (rows.train, rows.val)
        )
        if 0 < val < train * MIN_LENGTH:
            yield (
                f"held-out documents of {name} at {rows.wanted.row_length:,} have {val:,.0f} tokens on "
                f"average, and those that are trained on have {train:,.0f}: val_bpb says little of long "
                "documents. Add repositories, or raise the corpus's val_fraction"
            )


def _bucket(bucket: LengthBucket) -> str:
    return f"{bucket.documents:,} ({count(bucket.tokens)})" if bucket.documents else "0"


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


def tokenizer_warnings(built: Built) -> Iterator[str]:
    """Yield why the tokenizer doesn't encode at full speed, if it doesn't."""
    reason = built.tokenizer.reported(TokenizerReport).engine_reason
    if reason:
        yield f"tokenizer {built.tokenizer.key[:KEY_DIGITS]} doesn't encode at full speed: {reason}"


def domain_warnings(built: Built) -> Iterator[str]:
    """Domain rules that separate no documents, of the selection of files."""
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
