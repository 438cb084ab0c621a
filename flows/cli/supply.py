"""`curriculum supply`: estimate the available tokens before anything is built."""

import os
from pathlib import Path
from typing import get_args

from curriculum.corpus.load import corpus_names, corpus_of_repositories, load_corpus
from curriculum.corpus.sources import Sources
from curriculum.mixing.diet_files import Phases, diet_names, load_phases
from curriculum.mixing.resolve import default_base
from curriculum.pipeline.checks import kind_of, plan_estimate
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.stages.indexes import indexes_for
from curriculum.stages.tokens import Tokenizing, foreign_tokenizer
from curriculum.store import Store
from curriculum.supply import DocumentKind, Estimate, EstimateTask, estimate
from curriculum.tokens.codec import Roles
from flows.cli.console import print_json, warn
from flows.cli.downloads import print_downloads
from flows.cli.progress_bars import watching
from flows.cli.supply_tables import print_tables
from flows.settings.trust import shadow_words, shadows
from schemas.corpus import CorpusSpec
from schemas.diet import TRAINED_TOKENIZER
from schemas.errors import CorpusError, DietError
from schemas.families import CHAT_FAMILY, ENRICHED_FAMILY
from schemas.objectives import Score
from schemas.progress import ProgressCallback
from schemas.regular_files import expanded
from schemas.text import read_yaml, text_of

CONFIGURATION = (".yaml", ".yml")


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
    """Print the estimated tokens of a corpus by family and row length.

    `what` is a corpus, a diet, whose corpus is used, or a repository.

    Raises:
        CurriculumError: if the corpus, diet or repository is invalid.
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
        own = {kind_of(serving) for serving in servings if serving.imported is None}
        if not own:
            raise DietError(
                f"diet {plan.diet.specialist}",
                cause="all servings are imported rows, so there is nothing to estimate",
                cure=f"Compare the diet with its imported rows: curriculum diet check {what}",
            )
        corpus, kinds = plan.corpus, tuple(sorted(own))
        print_downloads(corpus, plan.sources)
        task = plan_estimate(plan, kinds, share)
    else:
        corpus = _corpus(home, what)
        kinds = _kinds(load_phases(phases_file or "phases", home), corpus)
        given, store, sources = None, Store(home), Sources.from_workspace(home)
        print_downloads(corpus, sources)
        if tokenizer and tokenizer != TRAINED_TOKENIZER:
            given = foreign_tokenizer(store, Path(tokenizer), Roles(), unsandboxed=unsandboxed)
        task = EstimateTask.from_corpus(
            corpus,
            kinds,
            tokenizing=Tokenizing(given=given),
            share=share,
            sources=sources,
            indexes=indexes_for(store, corpus, {kind.family for kind in kinds}, sources),
        )
    with watching() as watch:
        found = counted(task, Store(home), workers, watch)
    if as_json:
        print_json(
            {
                "corpus": corpus.name,
                "sampled": found.samplings,
                "notes": found.notes,
                "largest_files": found.shares,
                "supply": found.lines,
                "shadows": shadows(home),
            }
        )
    else:
        print_tables(found, kinds)


def counted(
    task: EstimateTask, store: Store, workers: int | None, watch: ProgressCallback
) -> Estimate:
    """Return the estimate, which is cached in the workspace."""
    processes = workers or len(os.sched_getaffinity(0))
    return estimate(task, store=store, workers=processes, watch=watch)


def _is_diet(home: Path, what: str) -> bool:
    """Return True if `what` is the name or file of a diet, rather than a corpus or a repository."""
    if what in diet_names(home):
        return True
    path = expanded(what)
    if path.suffix not in CONFIGURATION or not path.is_file():
        return False
    try:
        content = read_yaml(
            text_of(path, error=CorpusError), file=str(path), error=CorpusError
        ).content
    except CorpusError:
        return False  # The reader of corpora reports the mistake.
    return bool({"specialist", "phases", "extends"} & content.keys())


def _corpus(home: Path, what: str) -> CorpusSpec:
    path = expanded(what)
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
            cause="no corpus, diet or repository has this name",
            cure=f"{unknown.cure}. Diets: {', '.join(diet_names(home))}. Or give a path",
        ) from None


def _kinds(specs: Phases, corpus: CorpusSpec) -> tuple[DocumentKind, ...]:
    """Return the kinds of rows that the phases use, with each of the two ways to score.

    Conversations are counted in the shortest rows.
    """
    lengths = [length for spec in specs.values() for length in spec.row_lengths]
    chat = DocumentKind(family=CHAT_FAMILY, row_length=min(lengths), score="all")
    wanted = {
        DocumentKind(
            family=default_base(length) if family == ENRICHED_FAMILY else family,
            row_length=length,
            score=score,
        )
        for spec in specs.values()
        for family in spec.families
        for length in spec.row_lengths
        for score in get_args(Score)
    }
    return tuple(sorted({*wanted, chat} if corpus.conversations else wanted))
