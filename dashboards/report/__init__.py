"""The report of a specialist: reports/<specialist>[-branch].html, written anew after each phase.

facts.py         the workspace's facts about the specialist, from manifests and reports
phases.py        the phases in order; curves.py val_bpb over all steps, and what was forgotten
phase_sheets.py  a phase's mixture and rows, and what the documents were made of
timeline.py      attempts on one axis of time; costs.py time, machines and money
marks.py         bars, rings, dots and classes of colours
page.py          the whole page; write.py puts it into the workspace and lists the reports
"""
