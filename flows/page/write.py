"""A specialist's report as a file of the workspace."""

from pathlib import Path

from curriculum.store import Artefact
from curriculum.train.disk import replace_whole
from flows.course import Course
from flows.notify import Say
from flows.page.facts import place, read
from flows.page.page import page
from flows.show import warn
from schemas.errors import CurriculumError
from schemas.manifest import MANIFEST_NAME


def write(plan: Course) -> Path:
    """The report of a course as its workspace stands now; a reader never sees half of one.

    Raises:
        CurriculumError: for a corpus that can't be looked at, or an artefact that isn't what its manifest
            says.
        OSError: where the file can't be written.
    """
    text = page(read(plan))
    file = place(plan.store.root, plan.diet.specialist, plan.diet.branch)
    file.parent.mkdir(exist_ok=True)
    replace_whole(file, lambda draft: draft.write_text(text, encoding="utf-8"))
    return file


def rewritten(plan: Course, say: Say = warn) -> Path | None:
    """The report, written anew; None where that fails, which `say` is told and no run is stopped by."""
    try:
        return write(plan)
    except (CurriculumError, OSError) as failed:
        say(f"the report of {plan.diet.specialist} isn't written: {failed}")
        return None


def is_newer(plan: Course, run: Artefact) -> bool:
    """Whether the report was written after a run ended, and so tells of it."""
    file = place(plan.store.root, plan.diet.specialist, plan.diet.branch)
    ended = run.path / MANIFEST_NAME
    if not (file.is_file() and ended.is_file()):
        return False
    return file.stat().st_mtime_ns > ended.stat().st_mtime_ns
