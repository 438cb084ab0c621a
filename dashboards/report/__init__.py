"""Report of a specialist: reports/<specialist>[@branch].html, updated after each phase.

facts.py          facts about the specialist, from manifests, jobs and reports
report_tables.py  facts from the Parquet files of artefacts
phases.py         state, tokens, mixture and packed rows of a phase
curves.py         val_bpb over all steps and after each phase
step_curves.py    training loss and learning rate, and the x-axes that the reader chooses
costs.py          timeline of attempts; time, devices and cost
attention.py      phases and warnings that need attention
page.py           the report as HTML
report_file.py    writing the report into the workspace, unless it is up to date
index.py          list of all reports
files.py          reading reports for servers
"""
