"""Checks of a diet before anything is built: what it names exists and fits together."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from curriculum.corpus.domains import load_domains
from curriculum.mixing.diet_files import located, placed, require_no_fault
from curriculum.mixing.phase_faults import check_gates, domain_faults
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.model.backend_choice import AttentionNeeds, Capabilities, choose
from curriculum.model.presets import preset
from curriculum.pipeline.run_config import RunConfig
from curriculum.stages.fixed_sets import sets_of
from curriculum.train.metric_writers import parse_writers
from schemas.corpus import CHAT_DOMAIN, CorpusSpec
from schemas.cures import tokenizer_file
from schemas.diet import TRAINED_TOKENIZER, Diet
from schemas.errors import TokenizerError
from schemas.families import ENRICHED_FAMILY
from schemas.mistakes import nearest_or


def require_names(config: RunConfig, diet: Diet) -> None:
    """Raise unless model, tokenizer and destinations of metrics exist.

    Raises:
        DietError, TokenizerError: naming the value.
    """
    in_file = located(config.specialist, "model", diet.model, config.workspace)
    with contextlib.nullcontext() if config.mix.model else in_file:
        preset(diet.model)
    parse_writers(config.train.log)
    _require_tokenizer(config, diet)


def require_sound(
    config: RunConfig, diet: Diet, phases: Sequence[ResolvedPhase], corpus: CorpusSpec
) -> None:
    """Raise unless gates, backend and domains of a diet's phases can be what it says.

    Raises:
        DietError, JobError: naming the field.
    """
    with placed(config.specialist, config.workspace):
        check_gates(phases, sets_of(corpus))
    with located(config.specialist, "backend", diet.backend, config.workspace):
        require_backend(diet, phases, Capabilities.expected("cuda"))
    domains = *load_domains(corpus.domains).domains, CHAT_DOMAIN
    require_no_fault(config.specialist, domain_faults(phases, domains), config.workspace)


def _require_tokenizer(config: RunConfig, diet: Diet) -> None:
    """Refuse a tokenizer that is neither trained on the corpus nor a file; a file is read later."""
    if diet.tokenizer == TRAINED_TOKENIZER or Path(diet.tokenizer).is_file():
        return
    option = config.build.tokenizer is not None
    in_file = located(config.specialist, "tokenizer", diet.tokenizer, config.workspace)
    with contextlib.nullcontext() if option else in_file:
        raise TokenizerError(
            "--tokenizer" if option else "tokenizer",
            diet.tokenizer,
            cause="there is no such file",
            cure=nearest_or(
                diet.tokenizer,
                [TRAINED_TOKENIZER],
                f"{tokenizer_file(diet.tokenizer)}; or say {TRAINED_TOKENIZER} to train one",
            ),
        )


def require_backend(
    diet: Diet, phases: Sequence[ResolvedPhase], has: Capabilities, *, context: int = 1
) -> None:
    """Let a diet pass whose backend takes its model and its longest rows on a device.

    Raises:
        JobError: for a backend that refuses them, with the reason.
    """
    if diet.trainer is not None:
        return
    servings = [each for phase in phases for each in phase.servings]
    enriched = any(each.family == ENRICHED_FAMILY for each in servings)
    needs = AttentionNeeds(
        row_length=max(serving.row_length for serving in servings),
        softcap=diet.softcap,
        structure=diet.structure_inputs and enriched,
        context=context,
    )
    choose(diet.backend, has, needs)
