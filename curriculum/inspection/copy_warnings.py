"""Warnings about large clusters of near-duplicates, which one wrong pair of files may have joined."""

from collections.abc import Iterator

from schemas.reports import SelectionReport


def copy_warnings(report: SelectionReport) -> Iterator[str]:
    """Yield a sentence for each large cluster of a selection.

    The sentence names the pair of files that joins most of the cluster.
    """
    for cluster in report.copy_clusters:
        yield (
            f"{cluster.lineages} files with {cluster.share:.1%} of the bytes are near copies of one "
            f"another, of which one is kept. {cluster.first} and {cluster.second} join most of "
            f"them ({cluster.similarity:.0%} alike): if these two don't belong together, exclude one of "
            "them in the corpus file"
        )
