"""Domains: their rules, read, checked and as expressions; the labels of documents, and counts by domain.

    features   name → regex                matches per 1,000 bytes of a document's code
    rules      domain, rule, when          in order; the first that holds decides, `general` the rest

What a rule says of a document depends on that document alone, so no domain moves when a corpus grows.
A document is judged by its code: a file by the whole file as the commit left it, in every family alike;
a context document by its target; a deleted file by what was taken away. Texts stream through: what is
held of a document is its rule and some counts.
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
from curriculum.corpus.document_folders import DocumentsOf
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
"""The column that features are counted in."""
_PER_BYTES = 1_000
_PATHS = ("a.cc", "b.h", "test/a_test.cc", "CMakeLists.txt", "src/c.c", "lib/d/d.cpp", "e", "f.hpp")
"""Paths of probes: documents on which each rule is tried when it is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _RuleFault:
    location: Location
    value: str
    cause: str
    cure: str


def load_domains(name_or_path: str = "domains") -> DomainsSpec:
    """The rules of that name, or of that YAML file.

    Raises:
        CorpusError: for an unknown name; with line and cure for a regular expression that isn't one, for
            a condition that can't be read, asks for what there isn't, or looks beyond its document.
    """
    file = _file(name_or_path)
    return _checked(text_of(file, error=CorpusError), file)


@functools.lru_cache(maxsize=8)
def _checked(text: str, file: Path) -> DomainsSpec:
    """The rules in the text of a file; a plan and each of its selections ask for the same."""
    spec = parse(DomainsSpec, text, file=str(file), error=CorpusError)
    for fault in _faults(spec):
        line = line_of(text, fault.location, file=str(file), error=CorpusError)
        raise CorpusError(f"{file}:{line}", fault.value, cause=fault.cause, cure=fault.cure)
    return spec


def is_path(name: str) -> bool:
    """Return True if rules are named by their file, rather than by their name."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def ingredients(spec: DomainsSpec) -> dict[str, JsonValue]:
    """Return the part of the rules that decides a domain: everything but why."""
    return {
        "features": dict(spec.features),
        "rules": [[rule.domain, rule.rule, rule.when] for rule in spec.rules],
    }


def feature_columns(spec: DomainsSpec) -> list[pl.Expr]:
    """The features, from the columns `code` and `num_bytes`."""
    size = pl.max_horizontal("num_bytes", 1)
    return [
        (pl.col(CODE).str.count_matches(regex) * _PER_BYTES / size).alias(name)
        for name, regex in spec.features.items()
    ]


def condition(rule: DomainRule) -> pl.Expr:
    """Compile a rule into an expression over the columns that it asks for; false where that is unknown."""
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
        cause="there are no such rules, and it is no YAML file",
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
                cause="another rule has that name",
                cure="Rename one of them",
            )
        named.add(rule.rule)
        if rule.domain == CHAT_DOMAIN:
            yield _RuleFault(
                location=("rules", at, "domain"),
                value=f"{where}.domain = {rule.domain!r}",
                cause="that is the domain of conversations",
                cure="Name another",
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
            cause=f"a word of SQL or one of {', '.join(COLUMNS)} can't name a feature",
            cure="Use small letters and underscores, such as test_macros",
        )
    try:
        pl.Series([""]).str.count_matches(regex)
    except pl.exceptions.PolarsError as broken:
        yield _RuleFault(
            location=location,
            value=f"features.{name} = {regex!r}",
            cause=f"it is no regular expression ({_reason(broken)})",
            cure="Mend it; the syntax is that of Rust's regex crate, which has no look-around",
        )


def _names_a_column(name: str) -> bool:
    """Return True if SQL reads a name as just that."""
    try:
        return name.isidentifier() and pl.sql_expr(name).meta.eq(pl.col(name))
    except pl.exceptions.PolarsError:
        return False


def _problem_of_condition(rule: DomainRule, features: Mapping[str, str]) -> tuple[str, str] | None:
    """Cause and cure, if a condition can't be used; it is tried on probes, together and one by one."""
    known = [*COLUMNS, *features]
    try:
        held = pl.sql_expr(rule.when)
    except pl.exceptions.PolarsError as broken:
        return f"it is no condition in SQL ({_reason(broken)})", "Mend it: a > 1 AND path ~ 'x'"
    strange = sorted(set(held.meta.root_names()) - set(known))
    if strange:
        return f"a document has no column {strange[0]!r}", nearest(strange[0], known)
    probes = _probes(features)
    try:
        together = probes.select(held.alias("held"))
        alone = [probes[at : at + 1].select(held.alias("held")) for at in range(probes.height)]
    except pl.exceptions.PolarsError as broken:
        return f"it can't be computed ({_reason(broken)})", "Mend it"
    if together.schema["held"] != pl.Boolean:
        return f"it is {together.schema['held']}, not true or false", "Compare it: a > 1"
    if together.height != probes.height or not pl.concat(alone).equals(together):
        return "it looks at more than one document", "Leave out max, avg, count, OVER and the like"
    return None


def _probes(features: Mapping[str, str]) -> pl.DataFrame:
    """Documents that differ in every column, in the order of no other."""
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
    """Return an engine's message in one line: of a report of several lines the one that names the error."""
    lines = [line.strip() for line in str(broken).splitlines() if line.strip()]
    named = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (named or lines or [type(broken).__name__])[0]


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
    domains = [*(each.domain for each in spec.rules), GENERAL]
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
