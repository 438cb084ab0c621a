"""The report of a specialist: reports/<specialist>[-branch].html, written anew after each phase.

facts.py      what the workspace knows of the specialist, from manifests and reports
words.py      times, figures and rules in words; marks.py bars, rings and dots; colours.py
way.py        the phases on their way; curves.py val_bpb over all steps; kept.py what was forgotten
sheets.py     a phase's mixture and rows; build.py what the documents lost; spent.py time and cost
page.py       all of it as one page; server.py hands pages out, to this machine only
"""

from pathlib import Path

from curriculum.train.disk import replace_whole
from flows.course import Course
from flows.page.facts import place, read
from flows.page.page import page

__all__ = ["place", "write"]


def write(plan: Course) -> Path:
    """The report of a course as its workspace stands now; a reader never sees half of one.

    Raises:
        CurriculumError: for an artefact that isn't what its manifest says.
        OSError: where the file can't be written.
    """
    text = page(read(plan))
    file = place(plan.store.root, plan.diet.specialist, plan.diet.branch)
    file.parent.mkdir(exist_ok=True)
    replace_whole(file, lambda draft: draft.write_text(text, encoding="utf-8"))
    return file
