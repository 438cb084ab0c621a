"""Ablations: arms that differ in one thing, trained with the same seeds, and verdicts on claims about them.

arms.py                diets of the arms
planned_arms.py        plans of the arms, checked for equal steps, and trained
ablation_views.py      held-out rows in several formats, for all arms alike
measurements.py        last checkpoints measured on these rows, once
evidence.py            trained arms: figures of each view at the end, counts over all runs
verdicts.py            paired differences over seeds, tests, verdicts
document_intervals.py  intervals of the same differences over documents
equal_tokens.py        differences at equally many distinct tokens
ablate.py              all arms trained, claims judged, published as one artefact
outcome_tables.py      the outcome as lines of tables
"""
