"""Checks of a diet before a build: everything that it names exists, and its settings fit together."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from curriculum.corpus.domains import load_domains
from curriculum.mixing.diet_files import name_diet_line, name_field_line, require_no_fault
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
    """Raise unless the model, the tokenizer and the outputs of metrics exist.

    Raises:
        DietError: for an unknown model or output.
        TokenizerError: for an unknown tokenizer.
    """
    in_file = name_field_line(config.specialist, "model", diet.model, config.workspace)
    with contextlib.nullcontext() if config.mix.model else in_file:
        preset(diet.model)
    parse_writers(config.train.log)
    _require_tokenizer(config, diet)


def require_sound(
    config: RunConfig, diet: Diet, phases: Sequence[ResolvedPhase], corpus: CorpusSpec
) -> None:
    """Raise unless the gates, the backend and the domains of a diet can be used.

    Raises:
        DietError: for an unusable gate or domain, naming the field.
        JobError: for an unusable backend.
    """
    with name_diet_line(config.specialist, config.workspace):
        check_gates(phases, sets_of(corpus))
    with name_field_line(config.specialist, "backend", diet.backend, config.workspace):
        require_backend(diet, phases, Capabilities.expected("cuda"))
    domains = *load_domains(corpus.domains).domains, CHAT_DOMAIN
    require_no_fault(config.specialist, domain_faults(phases, domains), config.workspace)


def _require_tokenizer(config: RunConfig, diet: Diet) -> None:
    """Raise unless the tokenizer is trained on the corpus or is an existing file, which is read later."""
    if diet.tokenizer == TRAINED_TOKENIZER or Path(diet.tokenizer).is_file():
        return
    option = config.build.tokenizer is not None
    in_file = name_field_line(config.specialist, "tokenizer", diet.tokenizer, config.workspace)
    with contextlib.nullcontext() if option else in_file:
        raise TokenizerError(
            "--tokenizer" if option else "tokenizer",
            diet.tokenizer,
            cause="the file doesn't exist",
            cure=nearest_or(
                diet.tokenizer,
                [TRAINED_TOKENIZER],
                f"{tokenizer_file(diet.tokenizer)}; or write {TRAINED_TOKENIZER} to train one",
            ),
        )


def require_backend(
    diet: Diet, phases: Sequence[ResolvedPhase], has: Capabilities, *, context: int = 1
) -> None:
    """Raise unless the backend of a diet supports its model and its longest rows on a device.

    Raises:
        JobError: if the backend doesn't support them, with the reason.
    """
    if diet.trainer is not None:
        return
    servings = [serving for phase in phases for serving in phase.servings]
    enriched = any(serving.family == ENRICHED_FAMILY for serving in servings)
    needs = AttentionNeeds(
        row_length=max(serving.row_length for serving in servings),
        softcap=diet.softcap,
        structure=diet.structure_inputs and enriched,
        context=context,
    )
    choose(diet.backend, has, needs)
