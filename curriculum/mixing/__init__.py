"""Mixtures: from the YAML diets of specialists to rows in training order.

diet_files.py    diets by name or path, `extends`, and overrides of the command line
resolve.py       diet + phases: servings with their row length, repositories and tokens
phase_faults.py  unknown domains, gates without a measurement
row_supply.py    the small columns of the rows
strata.py        demand and supply of each serving in each domain
repetition.py    how often source text is repeated
imported.py      imported rows that a diet serves by name
diet_check.py    check of a diet against its supply before mixing
schedule.py      slots and rows in training order, from quotas and a seed; excluded rows
row_plan.py      the plan, streamed until the budget is used up
mix.py           a phase and its rows become a mixture artefact
differences.py   differences between two diets, in tokens
tree.py          a mixture as a tree for display
"""
