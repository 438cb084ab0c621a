"""A build past one machine: over a Ray cluster, in shards, and merged from other workspaces."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.pipeline.config import RunConfig
from curriculum.store import Artefact, Store, merge
from flows.cli.console import ACCENT, MUTED, out
from schemas.errors import StoreError


def shard_lines(config: RunConfig, missing: Iterable[Artefact]) -> Iterator[Text]:
    """Yield what a shard leaves to others, and the next command."""
    distinct = {each.path: each for each in missing}.values()
    others = Counter(each.manifest.stage for each in distinct if not each.waits)
    later = Counter(each.manifest.stage for each in distinct if each.waits)
    for stage in dict.fromkeys([*others, *later]):
        told = [(others[stage], "for other shards"), (later[stage], "made of what is missing")]
        words = ", ".join(f"{count} {what}" for count, what in told if count)
        yield Text.assemble((f"{stage:<12}", "bold"), (f" {words}", MUTED))
    yield Text(
        f"Shard {config.shard} has made what it can. Once the others have too, run all of them again, "
        "or finish with the same command without --shard.",
        ACCENT,
    )


def merge_into(home: Path, sources: Sequence[Path]) -> None:
    """Publish in a workspace what others made, and say how much of it was new.

    Raises:
        StoreError: for the first artefact that isn't what its manifest says; what came before it stays.
    """
    store = Store(home)
    for source in sources:
        if source.absolute() == store.root:
            raise StoreError(str(source), cause="it is this workspace", cure="Name other ones")
    with store.leased():
        taken = [each for source in sources for each in merge(store, source)]
    for stage in dict.fromkeys(each.manifest.stage for each in taken):
        ours = [each for each in taken if each.manifest.stage == stage]
        fresh = {each.path for each in ours if each.made}
        there = {each.path for each in ours} - fresh
        out.print(
            Text(f"{stage:<12}", "bold"),
            Text(f"{len(fresh):>4} merged", ACCENT),
            Text(f"{len(there):>4} there", MUTED),
        )
    if not taken:
        out.print("Nothing to merge: nothing is published there.")
