"""Errors of several sources of a corpus as one."""

from collections.abc import Mapping, Sequence

from schemas.errors import CorpusError


def as_one(failed: Sequence[CorpusError]) -> CorpusError:
    """Return the error of one source of a corpus, or one error that names several."""
    if len(failed) == 1:
        return failed[0]
    listed = (
        f"{each.name}: " + "; ".join(filter(None, (str(each.value or ""), each.cause)))
        for each in failed
    )
    return CorpusError(
        f"{len(failed)} sources of the corpus",
        cause=". ".join(listed),
        cure=". ".join(dict.fromkeys(each.cure for each in failed)),
    )


def raise_as_one(failed: Mapping[int, CorpusError]) -> None:
    """Raise the errors of tasks as one, in the order of the tasks' numbers, if there are any."""
    if failed:
        raise as_one([failed[number] for number in sorted(failed)])
