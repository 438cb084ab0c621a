"""What there is to choose from in a form: names of the workspace and of the package."""

import contextlib
import importlib.util
from collections.abc import Iterable
from typing import get_args

from flows import settings
from schemas.errors import CurriculumError

ALL_PHASES = "all"


def specialists() -> tuple[str, ...]:
    """The diets of the workspace, then those of the package."""
    from curriculum.mixing.load import diet_names

    return _own_first(diet_names(settings.home()), diet_names())


def phases() -> tuple[str, ...]:
    """All, then every phase of every phases file, in the order of the curriculum, and the tail job."""
    from curriculum.mixing.load import phase_names
    from curriculum.mixing.resolve import ANNEAL

    names = [ALL_PHASES]
    for file in phases_files():
        # A file with a fault must not take the others' names away; who uses it is told.
        with contextlib.suppress(CurriculumError):
            names += phase_names(file, settings.home())
    return _distinct([*names, ANNEAL])


def phases_files() -> tuple[str, ...]:
    """The phases files of the workspace, then those of the package."""
    from curriculum.mixing.load import phases_files as files

    return _own_first(files(settings.home()), files())


def corpora() -> tuple[str, ...]:
    """The corpora of the workspace, then those of the package."""
    from curriculum.corpus.load import corpus_names

    return _own_first(corpus_names(settings.home()), corpus_names())


def models() -> tuple[str, ...]:
    """The presets of models, from the smallest."""
    from curriculum.model.presets import PRESETS

    return tuple(PRESETS)


def writers() -> tuple[str, ...]:
    """Where metrics can go beside the run's own, of what is installed: each, and all together."""
    from schemas.job import WriterName

    names = [str(name) for name in get_args(WriterName) if importlib.util.find_spec(name)]
    return _distinct([*names, ",".join(names)] if names else [])


def branches() -> tuple[str, ...]:
    """The branches under which the workspace holds mixtures or runs."""
    found = settings.home().glob("*/specialist=*/branch=*")
    return _distinct(sorted(each.name.partition("=")[2] for each in found))


def _own_first(names: Iterable[str], shipped: Iterable[str]) -> tuple[str, ...]:
    known = {*shipped}
    return tuple(sorted(names, key=lambda name: (name in known, name)))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
