"""Notice of the downloads that a command needs before it can read a corpus."""

from curriculum.corpus.sources import Sources
from curriculum.inspection.formats import first_names, number
from flows.cli.console import warn
from schemas.corpus import CorpusSpec


def print_downloads(corpus: CorpusSpec, sources: Sources) -> None:
    """Print the size of the repositories of a corpus that must be cloned; nothing if all are cloned."""
    if not (coming := sources.uncloned(corpus.repositories)):
        return
    sizes = [spec.download_megabytes for spec in coming if spec.download_megabytes]
    unknown = len(coming) - len(sizes)
    known = f"about {sum(sizes):,} MB" if sizes else ""
    rest = f"{number(unknown, 'repository')} of unknown size" if unknown else ""
    parts = " and ".join(filter(None, (known, rest)))
    warn(f"Cloning {first_names([spec.name for spec in coming])}: {parts}")
