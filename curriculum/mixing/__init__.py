"""Mixtures: from the YAML diets of specialists to rows in training order.

diet_files.py   YAML by name or path, what it extends, what the command line changed
resolve.py      diet + phases: each serving with its row length, repositories and tokens
phase_faults.py domains that the corpus hasn't, gates that nothing measures
row_supply.py   the small columns of the rows
strata.py       each serving in each domain: what is asked of it and what there is
repetition.py   how often source files are seen
imported.py     imported rows that a diet serves by name
diet_check.py   a diet against supply, before anything is mixed
schedule.py     slots and rows in training order, from quotas and a seed; excluded rows
row_plan.py     the plan, streamed until the budget is covered
mix.py          a phase and its rows become a mixture artefact
differences.py  what differs between two diets, in tokens
tree.py         the mixture as a tree to look at
"""
