"""The report of a specialist: reports/<specialist>[@branch].html, written anew after each phase.

facts.py   the workspace's facts about the specialist, from manifests and reports
phases.py  a phase's state, tokens, mixture and packed rows
curves.py  val_bpb over all steps, and what of it was learnt or forgotten
costs.py   attempts on one axis of time; time, machines and money
page.py    the whole page, and its file in the workspace
index.py   the page of all reports, with state and date of each
files.py   the file of a report, as servers may show it
"""
