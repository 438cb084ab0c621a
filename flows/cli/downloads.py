"""Downloads that a command needs before it reads a corpus."""

from curriculum.corpus.sources import Sources
from curriculum.inspection.formats import first_names, number
from flows.cli.console import warn
from schemas.corpus import CorpusSpec


def print_downloads(corpus: CorpusSpec, sources: Sources) -> None:
    """Print the size of the repositories that must be cloned before a corpus can be read."""
    if not (coming := sources.uncloned(corpus.repositories)):
        return
    sizes = [spec.download_megabytes for spec in coming if spec.download_megabytes]
    unknown = len(coming) - len(sizes)
    known = f"about {sum(sizes):,} MB" if sizes else ""
    rest = f"{number(unknown, 'repository')} of unknown size" if unknown else ""
    parts = " and ".join(filter(None, (known, rest)))
    warn(f"Cloning {first_names([spec.name for spec in coming])}: {parts}")
