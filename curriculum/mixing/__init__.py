"""Mixtures: from the YAML diets of specialists to rows in training order.

diet_files.py    diets by name or path, `extends`, and overrides of the command line
resolve.py       diet + phases: servings with their row length, repositories and tokens
phase_faults.py  faults of a diet: unknown domains, gates that wait for a set that isn't measured
row_supply.py    the columns of the rows that planning needs, without the tokens
strata.py        demand and supply of each serving in each domain
repetition.py    average number of times that source text is repeated
imported.py      imported rows that a diet serves by name
diet_check.py    check of a diet against its supply before mixing
token_budgets.py tokens that a diet reads at several token budgets
schedule.py      slots and rows in training order, from quotas and a seed; excluded rows
row_plan.py      the plan of a phase, streamed until the budget is used up
mix.py           the mixture artefact of a phase, from its rows
differences.py   differences between two diets, in tokens
tree.py          a mixture as a tree for display
"""
