"""Diets as data: the YAML files of the specialists, and what they ask of the rows.

load.py      YAML by name or path, with what the command line changed
extends.py   a diet over another one
resolve.py   diet + phases: each serving with its row length and its tokens
supply.py    what there is: the small columns of the rows
demand.py    what is asked of each stratum, held against what there is
schedule.py  slots and rows in training order, from quotas and a seed
plan.py      the plan, streamed until the budget is covered
sources.py   how often the same source file is seen, over all servings
tree.py      the mixture as a tree to look at
"""
