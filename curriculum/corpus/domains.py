"""Domains of documents: loading and checking the rules, applying them to documents, counting by domain.

    features   name → regex                matches per 1,000 bytes of a document's code
    rules      domain, rule, when          in order; the first rule that matches decides, else `general`

A rule sees one document at a time, so a document doesn't change its domain when the corpus grows. Rules read
the document's code. The code of a file is the whole file after the commit, in every family. The code of a
context document is its target, and the code of a deleted file is the removed text. Texts are streamed: only
the deciding rule and some counts of each document are held in memory.
"""

import functools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
from pydantic import JsonValue

from curriculum import frames
from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.select import KEPT_NAME, KEY, SELECTION_NAME, SIDES_NAME
from curriculum.parquet import shards_of
from schemas.corpus import CHAT_DOMAIN, COLUMNS, GENERAL, DomainRule, DomainsSpec
from schemas.document import SELECTION_SCHEMA
from schemas.errors import CorpusError
from schemas.mistakes import Location, nearest
from schemas.regular_files import expanded
from schemas.reports import DomainSize, RuleCount, SelectionReport
from schemas.text import line_of, parse, text_of

PACKAGE = Path(__file__).parents[1]
CODE = "code"
"""Name of the column in which the matches of features are counted."""
_PER_BYTES = 1_000
_PATHS = ("a.cc", "b.h", "test/a_test.cc", "CMakeLists.txt", "src/c.c", "lib/d/d.cpp", "e", "f.hpp")
"""Paths of the made-up documents on which every rule is tried when it is loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _RuleFault:
    location: Location
    value: str
    cause: str
    cure: str


def load_domains(name_or_path: str = "domains") -> DomainsSpec:
    """Load the rules that are shipped under a name, or the rules in a YAML file.

    Raises:
        CorpusError: for an unknown name, an invalid regular expression, and a condition that can't be parsed,
            uses an unknown column, or depends on other documents. Except for a name, the error gives the line
            and a cure.
    """
    file = _file(name_or_path)
    return _checked(text_of(file, error=CorpusError), file)


@functools.lru_cache(maxsize=8)
def _checked(text: str, file: Path) -> DomainsSpec:
    """Parse and check the rules in `text`.

    The result is cached, because several selections load the same rules.
    """
    spec = parse(DomainsSpec, text, file=str(file), error=CorpusError)
    for fault in _faults(spec):
        line = line_of(text, fault.location, file=str(file), error=CorpusError)
        raise CorpusError(f"{file}:{line}", fault.value, cause=fault.cause, cure=fault.cure)
    return spec


def is_path(name: str) -> bool:
    """Return True if `name` is the path of a file with rules, rather than the name of shipped rules."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def ingredients(spec: DomainsSpec) -> dict[str, JsonValue]:
    """Return the part of the rules that decides domains, which is everything except `why`."""
    return {
        "features": dict(spec.features),
        "rules": [[rule.domain, rule.rule, rule.when] for rule in spec.rules],
    }


def feature_columns(spec: DomainsSpec) -> list[pl.Expr]:
    """Return expressions that compute the features from the columns `code` and `num_bytes`."""
    size = pl.max_horizontal("num_bytes", 1)
    return [
        (pl.col(CODE).str.count_matches(regex) * _PER_BYTES / size).alias(name)
        for name, regex in spec.features.items()
    ]


def condition(rule: DomainRule) -> pl.Expr:
    """Return a rule's condition as an expression; null results count as false."""
    return pl.sql_expr(rule.when).fill_null(value=False)


def _file(name_or_path: str) -> Path:
    if is_path(name_or_path):
        return expanded(name_or_path)
    known = sorted(file.stem for file in PACKAGE.glob("domains*.yaml"))
    if name_or_path in known:
        return PACKAGE / f"{name_or_path}.yaml"
    raise CorpusError(
        "domains",
        repr(name_or_path),
        cause="no rules of that name are shipped, and it is not a YAML file",
        cure=nearest(name_or_path, known),
    )


def _faults(spec: DomainsSpec) -> Iterator[_RuleFault]:
    for name, regex in spec.features.items():
        yield from _faults_of_feature(name, regex)
    named: set[str] = set()
    for at, rule in enumerate(spec.rules):
        where = f"rules.{at}"
        if rule.rule in named:
            yield _RuleFault(
                location=("rules", at, "rule"),
                value=f"{where}.rule = {rule.rule!r}",
                cause="another rule has the same name",
                cure="Rename one of them",
            )
        named.add(rule.rule)
        if rule.domain == CHAT_DOMAIN:
            yield _RuleFault(
                location=("rules", at, "domain"),
                value=f"{where}.domain = {rule.domain!r}",
                cause="this domain is reserved for conversations",
                cure="Choose another name",
            )
        problem = _problem_of_condition(rule, spec.features)
        if problem:
            cause, cure = problem
            yield _RuleFault(
                location=("rules", at, "when"),
                value=f"{where}.when = {rule.when!r}",
                cause=cause,
                cure=cure,
            )


def _faults_of_feature(name: str, regex: str) -> Iterator[_RuleFault]:
    location: Location = ("features", name)
    if name in COLUMNS or not _names_a_column(name):
        yield _RuleFault(
            location=location,
            value=f"features.{name}",
            cause=f"a feature can't have the name of an SQL keyword or of {', '.join(COLUMNS)}",
            cure="Use lower-case letters and underscores, such as test_macros",
        )
    try:
        pl.Series([""]).str.count_matches(regex)
    except pl.exceptions.PolarsError as broken:
        yield _RuleFault(
            location=location,
            value=f"features.{name} = {regex!r}",
            cause=f"it is not a valid regular expression ({_reason(broken)})",
            cure="Correct it; the syntax is that of Rust's regex crate, which has no look-around",
        )


def _names_a_column(name: str) -> bool:
    """Return True if SQL reads `name` as the name of a column."""
    try:
        return name.isidentifier() and pl.sql_expr(name).meta.eq(pl.col(name))
    except pl.exceptions.PolarsError:
        return False


def _problem_of_condition(rule: DomainRule, features: Mapping[str, str]) -> tuple[str, str] | None:
    """Return cause and cure if a rule's condition is unusable, else None.

    The condition is computed for all probe documents together and for each of them alone. If the results
    differ, the condition depends on other documents.
    """
    known = [*COLUMNS, *features]
    try:
        held = pl.sql_expr(rule.when)
    except pl.exceptions.PolarsError as broken:
        return (
            f"it is not a valid SQL condition ({_reason(broken)})",
            "Correct it, for example: a > 1 AND path ~ 'x'",
        )
    strange = sorted(set(held.meta.root_names()) - set(known))
    if strange:
        return f"documents have no column {strange[0]!r}", nearest(strange[0], known)
    probes = _probes(features)
    try:
        together = probes.select(held.alias("held"))
        alone = [probes[at : at + 1].select(held.alias("held")) for at in range(probes.height)]
    except pl.exceptions.PolarsError as broken:
        return f"it can't be computed ({_reason(broken)})", "Correct it"
    if together.schema["held"] != pl.Boolean:
        return f"its result is {together.schema['held']}, not a boolean", "Compare it: a > 1"
    if together.height != probes.height or not pl.concat(alone).equals(together):
        return (
            "it depends on more than one document",
            "Remove max, avg, count, OVER and other aggregates",
        )
    return None


def _probes(features: Mapping[str, str]) -> pl.DataFrame:
    """Return probe documents: made-up documents on which a condition is tried.

    They differ in every column, and no two columns sort them in the same order.
    """
    number = len(_PATHS)
    sizes = [100 * (3 * at % number + 1) for at in range(number)]
    densities = {
        name: [float((5 * at + shift) % number) for at in range(number)]
        for shift, name in enumerate(features)
    }
    languages = ["cpp", "c", "cmake", "make", "bazel", "meson", "cpp", "c"]
    plain = {
        "path": list(_PATHS),
        "repository": [f"r{at % 3}" for at in range(number)],
        "language": languages,
        "num_bytes": sizes,
    }
    return pl.DataFrame(plain | densities, schema_overrides={"num_bytes": pl.Int64})


def _reason(broken: Exception) -> str:
    """Return the message of an engine's error as one line; of several lines, the one with the error."""
    lines = [line.strip() for line in str(broken).splitlines() if line.strip()]
    named = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (named or lines or [type(broken).__name__])[0]


REVISION = 2
"""Revision of the labelling; increase it when the same documents and rules give other domains."""
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
"""Pattern of comments in build files.

Like _C_COMMENT, it also matches quoted text, so that no match of a comment begins inside of a string.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledDocuments:
    """Result of applying rules to the kept documents: sizes by domain, and counts by rule."""

    sizes: pl.DataFrame
    """Table with the columns repository, domain, documents, val, bytes, code_bytes, comment_bytes; sorted.

    `documents` and `val` are numbers of documents: of all, and of those in val.
    """
    rules: pl.DataFrame
    """Table with the columns rule, domain, holds and decides, in the order of the rules.

    `holds` is the number of documents that match the rule, and `decides` the number whose domain it decided.
    """

    def report(self) -> SelectionReport:
        """Return the counts for the manifest of the selection."""
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
        """Yield a sentence for each way in which rules are useless, with the names of these rules.

        A rule is useless if it matches no document, matches every document, or never decides.
        """
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
    documents: Sequence[DocumentFolder], kept: Path, spec: DomainsSpec, folder: Path
) -> LabelledDocuments:
    """Write the selection into `folder`: the decisions in `kept`, with each document's domain.

    `kept` is the folder that `select` filled for the same documents. The texts are read once, at about
    200 MB/s per core. Needs 100 bytes of memory per document.
    """
    judged = pl.concat([_judged(folder, spec) for folder in documents]).collect(engine="streaming")
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
    domains = [*(rule.domain for rule in spec.rules), GENERAL]
    rules = [*(rule.rule for rule in spec.rules), NO_RULE]
    decided = chosen.with_columns(
        domain=_named(domains, pl.col("decided")), domain_rule=_named(rules, pl.col("decided"))
    )
    table = decided.select(SELECTION_SCHEMA.names).to_arrow().cast(SELECTION_SCHEMA)
    pq.write_table(
        table, folder / SELECTION_NAME, compression="zstd", row_group_size=ROWS_PER_GROUP
    )
    shutil.copyfile(kept / SIDES_NAME, folder / SIDES_NAME)
    return _counted(decided.filter("keep"), spec)


def _judged(documents: DocumentFolder, spec: DomainsSpec) -> pl.LazyFrame:
    """Return one row per document with its key, the number of the rule that decides, and its sizes."""
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


def _code(documents: DocumentFolder) -> pl.LazyFrame:
    """Return the columns that rules may read, and the column `code`.

    `whole` is False for deleted files.
    """
    part = pl.element().struct
    is_code = part.field("kind").is_in(["code", "target"]) & (part.field("source") >= 0)
    code = _starts(is_code)
    start = pl.coalesce(code, _starts(part.field("kind") == "changes"), pl.lit(0))
    return (
        frames.scan(shards_of(documents.path), _COLUMNS)
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
    """Return the start of the first part for which `wanted` is true, or null."""
    starts = pl.element().filter(wanted).struct.field("start")
    return pl.col("parts").list.eval(starts).list.first()


def _path() -> pl.Expr:
    """Return the path that the document's file had at the document's commit.

    It is that of the first source with the document's lineage.
    """
    lineages = pl.col("provenance").list.eval(pl.element().struct.field("lineage"))
    own = pl.concat_list("lineage", lineages).list.eval(pl.element() == pl.element().first())
    source = pl.col("provenance").list.get(own.list.slice(1).list.arg_max())
    return source.struct.field("path").alias("path")


def _comment_bytes() -> pl.Expr:
    """Return the number of bytes of comments in the code: `/* … */` and `// …`, or `# …` in build files."""
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
            "rule": [rule.rule for rule in spec.rules],
            "domain": [rule.domain for rule in spec.rules],
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
