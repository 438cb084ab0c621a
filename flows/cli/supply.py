"""`curriculum supply`: what there is to train on, before anything is built."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from curriculum.corpus.load import corpus_names, corpus_of_repositories, load_corpus
from curriculum.corpus.sources import Sources
from curriculum.inspection.formats import Line, count, number, percent
from curriculum.inspection.held_out import ExpectedServing, expected_held_out
from curriculum.inspection.largest_files import share_lines
from curriculum.mixing.load import Phases, diet_names, load_phases
from curriculum.mixing.resolve import default_base
from curriculum.pipeline.checks import indexes_for, kind_of, plan_estimate
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.stages.tokens import Tokenizing, foreign_tokenizer
from curriculum.store import Store
from curriculum.supply import ALL, Estimate, EstimateTask, Kind, Sampling, estimate
from curriculum.tokens.codec import Roles
from flows.cli.console import MUTED, out, print_json, table, warn, watching
from flows.settings.trust import shadow_words, shadows
from schemas.corpus import CorpusSpec
from schemas.diet import TRAINED_TOKENIZER
from schemas.errors import CorpusError, DietError
from schemas.families import CHAT_FAMILY, ENRICHED_FAMILY
from schemas.progress import ProgressCallback
from schemas.text import read_yaml, text_of

CONFIGURATION = (".yaml", ".yml")
SHORTENED_NOTE = (
    "shortened: documents that leave out parts so that the rest fits a row: functions that the commit "
    "didn't touch (v3), or the farthest context (v4, v5); in longer rows fewer are. v3 has no documents of "
    "files that a commit adds"
)
SHARES_NOTE = "share of a family's tokens, over all versions of the file"
DOUBT = 2.0
"""Standard errors to either side: about 19 estimates of 20 are so near."""


def supply(
    home: Path,
    what: str,
    *,
    share: float,
    phases_file: str | None,
    tokenizer: str | None,
    unsandboxed: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Print what a corpus, a diet's corpus or a repository has, by family and row length.

    Raises:
        CurriculumError: for a mistake in what was named.
    """
    for line in shadow_words(home):
        warn(line)
    if _is_diet(home, what):
        config = RunConfig.of(
            specialist=what,
            workspace=home,
            phases_file=phases_file,
            tokenizer=tokenizer,
            unsandboxed=unsandboxed,
        )
        plan = resolve_plan(config, dry=True)
        servings = [serving for phase in plan.phases for serving in phase.servings]
        own = {kind_of(each) for each in servings if each.imported is None}
        if not own:
            raise DietError(
                f"diet {plan.diet.specialist}",
                cause="all its servings are imported rows, so there is no supply to estimate",
                cure=f"Compare it with the imported rows: curriculum diet check {what}",
            )
        corpus, kinds = plan.corpus, tuple(sorted(own))
        task = plan_estimate(plan, kinds, share)
    else:
        corpus = _corpus(home, what)
        kinds = _kinds(load_phases(phases_file or "phases", home), corpus)
        given, store, sources = None, Store(home), Sources.of(home)
        if tokenizer and tokenizer != TRAINED_TOKENIZER:
            given = foreign_tokenizer(store, Path(tokenizer), Roles(), unsandboxed=unsandboxed)
        task = EstimateTask.of(
            corpus,
            kinds,
            tokenizing=Tokenizing(given=given),
            share=share,
            sources=sources,
            indexes=indexes_for(store, corpus, kinds, sources),
        )
    with watching() as watch:
        found = counted(task, Store(home), workers, watch)
    if as_json:
        print_json({**_as_json(corpus.name, found), "shadows": [*shadows(home)]})
    else:
        _show(found, kinds)


def counted(
    task: EstimateTask, store: Store, workers: int | None, watch: ProgressCallback
) -> Estimate:
    """The estimate; the workspace keeps it for the next time."""
    processes = workers or len(os.sched_getaffinity(0))
    return estimate(task, store=store, workers=processes, watch=watch)


def left_out_words(read: Sampling) -> str | None:
    """Say how many commits of a repository's log are read, and what limits them; None where all are.

    >>> why = "341 beyond versions_per_path 8, 48 merges"
    >>> left_out_words(
    ...     Sampling(repository="own", units=54, read=54, walked=0, num_bytes=9, in_log=443, unread=why)
    ... )
    'own: 54 of 443 commits are read: 341 beyond versions_per_path 8, 48 merges'
    """
    if read.in_log <= read.units:
        return None
    commits = f"{read.units:,} of {number(read.in_log, 'commit')}"
    return f"{read.repository}: {commits} are read: {read.unread}"


def doubtful(tokens: float, error: float) -> str:
    """Return the possible error of an estimate, as a share; empty where there is none.

    >>> doubtful(1000.0, 50.0), doubtful(1000.0, 0.0)
    ('± 10%', '')
    """
    return f"± {DOUBT * error / tokens:.0%}" if tokens and error else ""


def _is_diet(home: Path, what: str) -> bool:
    """Return True if a name or a file is a diet's, rather than a corpus' or a repository's."""
    if what in diet_names(home):
        return True
    path = Path(what).expanduser()
    if path.suffix not in CONFIGURATION or not path.is_file():
        return False
    try:
        content = read_yaml(
            text_of(path, error=CorpusError), file=str(path), error=CorpusError
        ).content
    except CorpusError:
        return False  # The corpus' reader names what is wrong with it.
    return bool({"specialist", "phases", "extends"} & content.keys())


def _corpus(home: Path, what: str) -> CorpusSpec:
    path = Path(what).expanduser()
    is_file = path.is_file() and path.suffix not in CONFIGURATION
    if what not in corpus_names(home) and (path.is_dir() or is_file):
        return corpus_of_repositories([path])
    try:
        return load_corpus(what, home)
    except CorpusError as unknown:
        if path.exists() or what in corpus_names(home):
            raise
        raise CorpusError(
            "supply",
            repr(what),
            cause="it is no corpus, no diet and no repository",
            cure=f"{unknown.cure}. Diets: {', '.join(diet_names(home))}. Or give a path",
        ) from None


def _kinds(specs: Phases, corpus: CorpusSpec) -> tuple[Kind, ...]:
    """Return the kinds that the phases are meant for; conversations in the shortest rows."""
    lengths = [length for spec in specs.values() for length in spec.row_lengths]
    chats = {Kind(family=CHAT_FAMILY, row_length=min(lengths))} if corpus.conversations else set()
    wanted = {
        Kind(
            family=default_base(length) if family == ENRICHED_FAMILY else family,
            row_length=length,
        )
        for spec in specs.values()
        for family in spec.families
        for length in spec.row_lengths
    }
    return tuple(sorted(wanted | chats))


def _show(found: Estimate, kinds: Sequence[Kind]) -> None:
    out.print(table(_kind_lines(found, kinds)))
    if any(each.shortened for each in found.lines):
        out.print(Text(SHORTENED_NOTE, MUTED), soft_wrap=True)
    out.print()
    out.print(table(_domain_lines(found, kinds)))
    out.print()
    out.print(table(_repository_lines(found, kinds)))
    out.print()
    if found.shares:
        out.print(table(share_lines(found.shares)))
        out.print(Text(SHARES_NOTE, MUTED))
        out.print()
    sampled = any(each.read < each.units for each in found.samplings)
    how = (
        "estimated from a sample of commits; ± is a 95% interval"
        if sampled
        else "all commits with a change that the corpus reads were read"
    )
    for each in found.samplings:
        if (line := left_out_words(each)) is not None:
            out.print(Text(line, MUTED), soft_wrap=True)
    shares = [ExpectedServing(kind=kind, share=found.total(kind)[0]) for kind in kinds]
    held = expected_held_out(found, shares)
    domains = ", ".join(
        f"{name} {count:,}" for name, count in sorted(held.documents.items()) if count
    )
    out.print(Text(f"documents held out in val: {domains or 'none'}", MUTED), soft_wrap=True)
    if (words := held.warning()) is not None:
        warn(words)
    for line in (how, f"{ENRICHED_FAMILY} has what its base has", *found.notes):
        out.print(Text(line, MUTED), soft_wrap=True)


def _kind_lines(found: Estimate, kinds: Sequence[Kind]) -> Iterator[Line]:
    """A line a family and row length."""
    for kind in kinds:
        tokens, error = found.total(kind)
        own = [each for each in found.lines if each.kind == kind and each.is_total]
        documents = sum(each.documents for each in own)
        shortened, routed = (
            sum(each.shortened for each in own),
            sum(each.routed for each in own),
        )
        yield {
            "family": kind.family,
            "row length": kind.row_length,
            "tokens": count(tokens),
            "about": doubtful(tokens, error),
            "documents": count(documents),
            "shortened": percent(shortened / documents) if shortened else "",
            "too long": count(routed) if routed else "",
        }


def _domain_lines(found: Estimate, kinds: Sequence[Kind]) -> Iterator[Line]:
    """A line a family, in its longest rows: tokens of each domain."""
    longest = {each.family: each for each in sorted(kinds)}
    for family, kind in longest.items():
        yield {
            "tokens of": family,
            "row length": kind.row_length,
            **{name: _with_doubt(found, kind, name) for name in found.domains},
        }


def _with_doubt(found: Estimate, kind: Kind, domain: str, repositories: Sequence[str] = ()) -> str:
    tokens, error = found.total(kind, domain, repositories)
    return f"{count(tokens)} {doubtful(tokens, error)}".strip() if tokens else ""


def _repository_lines(found: Estimate, kinds: Sequence[Kind]) -> Iterator[Line]:
    """A line a repository: what was read of it, and its tokens in each family's longest rows."""
    longest = {each.family: each for each in sorted(kinds)}
    for each in found.samplings:
        yield {
            "read of": each.repository,
            "commits": f"{each.read:,} of {each.units:,}",
            "graphs": f"{each.walked:,}" if each.walked else "",
            "bytes": f"{count(each.num_bytes)}B",
            **{
                family: _with_doubt(found, kind, ALL, [each.repository])
                for family, kind in longest.items()
            },
        }


def _as_json(corpus: str, found: Estimate) -> dict[str, object]:
    return {
        "corpus": corpus,
        "sampled": [asdict(each) for each in found.samplings],
        "notes": list(found.notes),
        "largest_files": [asdict(each) for each in found.shares],
        "supply": [
            {
                name: round(value) if isinstance(value, float) else value
                for name, value in asdict(each).items()
            }
            for each in found.lines
        ],
    }
