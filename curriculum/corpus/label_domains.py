"""Domain labels of documents, and counts by domain.

A document is judged by its code: a file by the whole file as the commit left it, in every family alike;
a context document by its target; a deleted file by what was taken away. Texts stream through: what is
held of a document is its rule and some counts.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from curriculum import frames
from curriculum.corpus.domains import CODE, condition, feature_columns
from curriculum.corpus.select import KEPT_NAME, KEY, SELECTION_NAME, SIDES_NAME, DocumentsOf
from schemas.corpus import GENERAL, DomainsSpec
from schemas.document import SELECTION_SCHEMA
from schemas.reports import DomainSize, RuleCount, SelectionReport

REVISION = 2
"""Raised when the same documents and rules give other domains."""
NO_RULE = "no rule holds"
ROWS_PER_GROUP = 100_000
_COLUMNS = (
    "document_id",
    "family",
    "language",
    "timestamp",
    "lineage",
    "num_bytes",
    "parts",
    "provenance",
    "text",
)

_QUOTED = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'"""
_C_COMMENT = rf"{_QUOTED}|//[^\n]*|(?s:/\*.*?\*/)"
_HASH_COMMENT = rf"{_QUOTED}|#[^\n]*"
"""Pattern that matches quoted text too, so that no comment begins inside of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledDocuments:
    """Labels of kept documents, (repository, domain, …), counts, (rule, domain, …), and warnings."""

    sizes: pl.DataFrame
    """repository, domain, documents, val (documents of them), bytes, code_bytes, comment_bytes; sorted."""
    rules: pl.DataFrame
    """rule, domain, holds, decides; in the order of the rules."""

    def report(self) -> SelectionReport:
        """Values for a manifest."""
        domains = self.sizes.group_by("domain").agg(pl.col(pl.Int64).sum()).sort("domain")
        whole = max(1, int(domains["bytes"].sum()))
        return SelectionReport(
            domains={
                line["domain"]: _size(line, share=round(line["bytes"] / whole, 6))
                for line in domains.iter_rows(named=True)
            },
            repositories={
                name: {
                    line["domain"]: _size(line)
                    for line in self.sizes.filter(repository=name).iter_rows(named=True)
                }
                for name in self.sizes["repository"].unique().sort()
            },
            rules=tuple(RuleCount(**line) for line in self.rules.iter_rows(named=True)),
            warnings=tuple(self.warnings()),
        )

    def warnings(self) -> Iterator[str]:
        """Rules that tell no document from another, with counts; a sentence a kind."""
        documents = int(self.sizes["documents"].sum())
        holds = pl.col("holds")
        kinds = (
            (f"hold for none of {documents:,} documents", holds == 0),
            (f"hold for all {documents:,} documents", holds == documents),
            (
                "hold where rules before them decide",
                (holds > 0) & (holds < documents) & (pl.col("decides") == 0),
            ),
        )
        for problem, which in kinds if documents else ():
            found = self.rules.filter(which).iter_rows()
            listed = [f"{rule} ({domain}, {number:,})" for rule, domain, number, _ in found]
            if listed:
                yield f"rules of domains that {problem}: {', '.join(listed)}"


def label_domains(
    documents: Sequence[DocumentsOf], kept: Path, spec: DomainsSpec, folder: Path
) -> LabelledDocuments:
    """Write the selection, what `kept` says and each document's domain, into `folder`.

    `kept` is the folder that `select` filled with the same documents. Costs a pass over the texts, some
    200 MB/s a core, and 100 bytes of memory a document.
    """
    judged = pl.concat([_judged(each, spec) for each in documents]).collect(engine="streaming")
    first = judged.sort(*KEY, "timestamp", "lineage", "decided").unique(
        KEY, keep="first", maintain_order=True
    )
    chosen = frames.read(kept / KEPT_NAME).join(
        first.drop("lineage", "timestamp"),
        on=KEY,
        how="left",
        validate="1:1",
        maintain_order="left",
    )
    assert not chosen["decided"].has_nulls(), "documents that select() has not seen"
    domains = [*(each.domain for each in spec.rules), GENERAL]
    rules = [*(each.rule for each in spec.rules), NO_RULE]
    decided = chosen.with_columns(
        domain=_named(domains, pl.col("decided")), domain_rule=_named(rules, pl.col("decided"))
    )
    table = decided.select(SELECTION_SCHEMA.names).to_arrow().cast(SELECTION_SCHEMA)
    pq.write_table(
        table, folder / SELECTION_NAME, compression="zstd", row_group_size=ROWS_PER_GROUP
    )
    shutil.copyfile(kept / SIDES_NAME, folder / SIDES_NAME)
    return _counted(decided.filter("keep"), spec)


def _judged(documents: DocumentsOf, spec: DomainsSpec) -> pl.LazyFrame:
    """A row a document: its key, the number of the rule that decides, and its measures."""
    holds = [condition(rule).alias(_holds(at)) for at, rule in enumerate(spec.rules)]
    decided = [
        pl.when(_holds(at)).then(pl.lit(at, dtype=pl.Int16)) for at in range(len(spec.rules))
    ]
    return (
        _code(documents)
        .with_columns(feature_columns(spec))
        .with_columns(holds)
        .select(
            *KEY,
            "timestamp",
            "lineage",
            "bytes",
            *(_holds(at) for at in range(len(spec.rules))),
            code_bytes=pl.when("whole").then("num_bytes").otherwise(0),
            comment_bytes=pl.when("whole").then(_comment_bytes()).otherwise(0),
            decided=pl.coalesce(*decided, pl.lit(len(spec.rules), dtype=pl.Int16)),
        )
    )


def _code(documents: DocumentsOf) -> pl.LazyFrame:
    """Return the columns that rules may read, with the code; `whole` unless the file is deleted."""
    part = pl.element().struct
    is_code = part.field("kind").is_in(["code", "target"]) & (part.field("source") >= 0)
    code = _starts(is_code)
    start = pl.coalesce(code, _starts(part.field("kind") == "changes"), pl.lit(0))
    return (
        frames.stream(sorted(documents.path.glob("part-*.parquet")), _COLUMNS)
        .select(
            "document_id",
            "family",
            "language",
            "timestamp",
            "lineage",
            pl.col("num_bytes").cast(pl.Int64).alias("bytes"),
            _path(),
            pl.col("text").cast(pl.Binary).bin.slice(start).cast(pl.String).alias(CODE),
            pl.lit(documents.repository).alias("repository"),
            code.is_not_null().alias("whole"),
        )
        .with_columns(num_bytes=pl.col(CODE).str.len_bytes().cast(pl.Int64))
    )


def _starts(wanted: pl.Expr) -> pl.Expr:
    """Return the start of the first of the wanted parts; null where there is none."""
    starts = pl.element().filter(wanted).struct.field("start")
    return pl.col("parts").list.eval(starts).list.first()


def _path() -> pl.Expr:
    """The path of the document's lineage at its commit: of the first source that is of that lineage."""
    lineages = pl.col("provenance").list.eval(pl.element().struct.field("lineage"))
    own = pl.concat_list("lineage", lineages).list.eval(pl.element() == pl.element().first())
    source = pl.col("provenance").list.get(own.list.slice(1).list.arg_max())
    return source.struct.field("path").alias("path")


def _comment_bytes() -> pl.Expr:
    """Bytes of the comments in the code: `/* … */`, `// …`, or `# …` in build files."""
    of_code = pl.col("language").is_in(["cpp", "c"])
    return (
        pl.when(of_code).then(_bytes_of(_C_COMMENT, "/")).otherwise(_bytes_of(_HASH_COMMENT, "#"))
    )


def _bytes_of(regex: str, mark: str) -> pl.Expr:
    found = pl.element().filter(pl.element().str.starts_with(mark)).str.len_bytes()
    return pl.col(CODE).str.extract_all(regex).list.eval(found).list.sum().cast(pl.Int64)


def _holds(at: int) -> str:
    return f"holds {at}"


def _named(names: Sequence[str], number: pl.Expr) -> pl.Expr:
    return pl.lit(pl.Series(names, dtype=pl.String)).gather(number)


def _counted(kept: pl.DataFrame, spec: DomainsSpec) -> LabelledDocuments:
    sizes = (
        kept.group_by("repository", "domain")
        .agg(
            pl.len().cast(pl.Int64).alias("documents"),
            (pl.col("split") == "val").sum().cast(pl.Int64).alias("val"),
            pl.col("bytes", "code_bytes", "comment_bytes").sum(),
        )
        .sort("repository", "domain")
    )
    rules = pl.DataFrame(
        {
            "rule": [each.rule for each in spec.rules],
            "domain": [each.domain for each in spec.rules],
            "holds": [int(kept[_holds(at)].sum()) for at in range(len(spec.rules))],
            "decides": [int((kept["decided"] == at).sum()) for at in range(len(spec.rules))],
        }
    )
    return LabelledDocuments(sizes=sizes, rules=rules)


def _size(line: dict[str, int], **share: float) -> DomainSize:
    return DomainSize(
        documents=line["documents"],
        val=line["val"],
        bytes=line["bytes"],
        code_bytes=line["code_bytes"],
        comment_bytes=line["comment_bytes"],
        comment_share=round(line["comment_bytes"] / max(1, line["code_bytes"]), 6),
        **share,
    )
