"""A workspace whose specialist `templates` has a branch, `wide`, made by hand in a second.

templates        syntax: a 3, c 4, b 8     anneal: a 3, c 4     file_graph: mixed, not trained
templates/wide   syntax: b 5, d 6          anneal: b 5
fmt              syntax and file_graph: mixed, not trained
"""

from collections.abc import Sequence
from pathlib import Path

from curriculum.store import Artefact
from schemas.job import CheckpointRef
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, mixture, run

Taken = list[tuple[Artefact, int, int, int]]


def write_branched(home: Path, branches: Sequence[str | None] = (None, "wide")) -> TinyWorkspace:
    """Write the workspace into `home`, with some of the branches only if so asked."""
    larder = TinyWorkspace(home)
    one, two = larder.one, larder.two
    if None in branches:
        _train(home, None, [(one, 0, 0, 7), (one, 0, 1, 8)], [(one, 0, 0, 7)])
    if "wide" in branches:
        _train(home, "wide", [(one, 1, 0, 5), (two, 0, 0, 6)], [(one, 1, 0, 5)])
    mixture(home, "file_graph", [(two, 0, 0, 6)], specialist="templates")
    return larder


def _train(home: Path, branch: str | None, first: Taken, last: Taken) -> None:
    """Train syntax, and anneal from its checkpoint."""
    digits = "01" if branch is None else "23"
    plan = mixture(home, "syntax", first, specialist="templates", branch=branch)
    ordered = job(plan, home, specialist="templates", branch=branch, run_key=digits[0] * 64)
    syntax = run(home, ordered, [figure(1.0, 0.1)])
    start = CheckpointRef(
        run_key=syntax.parent.name,
        run_content="",
        path=f"{syntax.relative_to(home).as_posix()}/checkpoints/step=1",
    )
    plan = mixture(home, "anneal", last, specialist="templates", branch=branch)
    ordered = job(
        plan, home, specialist="templates", branch=branch, run_key=digits[1] * 64, start_from=start
    )
    run(home, ordered, [figure(0.9, 0.1)])
