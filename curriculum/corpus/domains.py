"""The rules of domains: read, checked, and as expressions over documents.

    features   name → regex                matches per 1,000 bytes of a document's code
    rules      domain, rule, when          in order; the first that holds decides, `general` the rest

What a rule says of a document depends on that document alone, so no domain moves when a corpus grows.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from schemas import regular_files
from schemas.corpus import CHAT_DOMAIN, COLUMNS, DomainRule, DomainsSpec
from schemas.errors import CorpusError
from schemas.text import LARGEST_TEXT, Location, line_of, nearest, parse

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
    return _checked(text_of(file), file)


@functools.lru_cache(maxsize=8)
def _checked(text: str, file: Path) -> DomainsSpec:
    """The rules in the text of a file; a plan and each of its selections ask for the same."""
    spec = parse(DomainsSpec, text, file=str(file), error=CorpusError)
    for fault in _faults(spec):
        line = line_of(text, fault.location, file=str(file), error=CorpusError)
        raise CorpusError(f"{file}:{line}", fault.value, cause=fault.cause, cure=fault.cure)
    return spec


def text_of(file: Path) -> str:
    """The text of a YAML file.

    Raises:
        CorpusError: for a file that can't be read, or isn't UTF-8.
    """
    try:
        return regular_files.read(file, most=4 * LARGEST_TEXT, follow_links=True).decode()
    except (OSError, ValueError) as broken:
        raise CorpusError(
            str(file), cause=f"the file can't be read ({broken})", cure="Give a YAML file in UTF-8"
        ) from None


def is_path(name: str) -> bool:
    """Return True if rules are named by their file, rather than by their name."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def ingredients(spec: DomainsSpec) -> dict[str, JsonValue]:
    """Return the part of the rules that decides a domain: everything but why."""
    return {
        "features": dict(spec.features),
        "rules": [[each.domain, each.rule, each.when] for each in spec.rules],
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
        return Path(name_or_path).expanduser()
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
