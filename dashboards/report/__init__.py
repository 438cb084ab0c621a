"""The report of a specialist: reports/<specialist>[-branch].html, written anew after each phase.

facts.py   what the workspace knows of the specialist, from manifests and reports
words.py   times, figures and rules in words; marks.py bars, rings and dots; colours.py
way.py     the phases on their way; curves.py val_bpb over all steps; kept.py what was forgotten
sheets.py  a phase's mixture and rows; build.py what the documents lost; when.py and spent.py time and cost
page.py    all of it as one page; write.py puts it into the workspace
rows/      the pages of packed rows that it leads to
server.py  hands pages out, to this machine only
"""
